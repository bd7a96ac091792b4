"""The model as a table of items: CSV (RFC 4180) and TSV (text/tab-separated-values).

Spreadsheets take a cell for a formula that begins with `=`, `+`, `-`, `@`, a tab or a line's end, and a formula of a
stranger can send what else is in the sheet to him. So such a cell begins with an apostrophe, which spreadsheets do not
show; a program that reads the table takes it off (docs/reference/formats.md).

Several values in a cell are separated by line feeds. A line feed, a tab or a backslash in TSV, which knows no
quotation marks, is written as \\n, \\t or \\\\.
"""

import csv
import io
from collections.abc import Iterator

from feedproxy.feed.convert import dates, markup, views
from feedproxy.feed.convert.model import Feed, Item, Person

COLUMNS = (
    "feed_title",
    "feed_link",
    "id",
    "link",
    "title",
    "published",
    "updated",
    "authors",
    "categories",
    "summary",
    "content",
    "image",
    "enclosures",
    "comments",
    "language",
    "rights",
)

_DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_of(feed: Feed) -> bytes:
    """The table with quotation marks where they are needed, lines ending in CRLF, UTF-8."""
    written = io.StringIO(newline="")
    writer = csv.writer(written)
    writer.writerow(COLUMNS)
    writer.writerows([_harmless(cell) for cell in row] for row in _rows(feed))
    return written.getvalue().encode()


def tsv_of(feed: Feed) -> bytes:
    """The table with a tab between cells, lines ending in LF, UTF-8."""
    rows = ["\t".join(COLUMNS), *("\t".join(_in_a_line(_harmless(cell)) for cell in row) for row in _rows(feed))]
    return "".join(f"{row}\n" for row in rows).encode()


def _rows(feed: Feed) -> Iterator[list[str]]:
    title = markup.line(feed.title)
    for item in feed.items:
        yield [title, feed.link, *_cells(item)]


def _cells(item: Item) -> list[str]:
    return [
        item.id,
        item.link,
        markup.line(item.title),
        "" if item.published is None else dates.rfc3339(item.published),
        "" if item.updated is None else dates.rfc3339(item.updated),
        "\n".join(_person(each) for each in item.authors),
        "\n".join(each.label or each.term for each in item.categories),
        item.summary.value if item.summary else "",
        item.content.value or item.content.src if item.content else "",
        views.picture(item),
        "\n".join(each.url for each in views.files(item)),
        item.comments,
        item.language,
        markup.plain(item.rights),
    ]


def _person(person: Person) -> str:
    address = person.email or person.uri
    return f"{person.name} <{address}>" if person.name and address else person.name or address


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_DANGEROUS) else cell


def _in_a_line(cell: str) -> str:
    for sign, written in (("\\", "\\\\"), ("\t", "\\t"), ("\r\n", "\\n"), ("\n", "\\n"), ("\r", "\\n")):
        cell = cell.replace(sign, written)
    return cell
