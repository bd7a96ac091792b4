"""Writer of a table of items: CSV (RFC 4180) and TSV (text/tab-separated-values).

Spreadsheets treat a cell that begins with `=`, `+`, `-` or `@` as a formula. An apostrophe before the sign prevents
this (docs/reference/formats.md), also after semicolons, tabs and line ends, at which some spreadsheets split cells.
"""

import csv
import io
import re
from collections.abc import Iterator

from feedproxy.feed.convert import markup
from feedproxy.feed.convert.model import Feed, Item, Person
from feedproxy.feed.convert.write import pictures_and_files
from feedproxy.http.date import format_rfc3339

FORMULA_SIGNS = (
    "=+-@\u2212\u207a\u207b\u207c\u208a\u208b\u208c\u2a75\u2a76\ufb29\ufe62\ufe63\ufe66\ufe6b\uff0b\uff0d\uff1d\uff20"
)
"""Characters that begin a formula: `=`, `+`, `-`, `@`, and their variants in Unicode."""

_UNSEEN = r"\s\x00-\x20\x7f-\xa0\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb"
"""Characters that spreadsheets drop before a formula (blanks, control characters, joiners), as a part of a pattern."""


def _beginnings(separators: str) -> re.Pattern[str]:
    """Return a pattern of the places at which a cell begins in a spreadsheet that splits cells at `separators`.

    The first group contains the separators and dropped characters. The second group is the sign of a formula, or None.
    """
    return re.compile(rf"((?:\A|[{separators}])[{separators}{_UNSEEN}\"]*+)('*+[{re.escape(FORMULA_SIGNS)}])?")


_LINE_ENDS = r"\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_CSV_BEGINNINGS = _beginnings(rf";\t{_LINE_ENDS}")
_TSV_BEGINNINGS = _beginnings(rf";,\t{_LINE_ENDS}")
"""Pattern of the places in a TSV cell at which a formula could begin, such as after a semicolon."""


def csv_of(feed: Feed) -> bytes:
    """Return the table in UTF-8, with quotation marks around every cell, and lines that end in CRLF."""
    output = io.StringIO(newline="")
    writer = csv.writer(output, quoting=csv.QUOTE_ALL)
    writer.writerow(COLUMNS)
    writer.writerows([_harmless(cell, _CSV_BEGINNINGS) for cell in row.values()] for row in _rows(feed))
    return output.getvalue().encode()


def tsv_of(feed: Feed) -> bytes:
    """Return the table in UTF-8, with tabs between cells, and lines that end in LF."""
    rows = [list(COLUMNS)]
    rows += [[_in_a_line(_harmless(cell, _TSV_BEGINNINGS)) for cell in row.values()] for row in _rows(feed)]
    return "".join("\t".join(row) + "\n" for row in rows).encode()


def _rows(feed: Feed) -> Iterator[dict[str, str]]:
    title = markup.to_line(feed.title)
    for item in feed.items:
        yield _row(title, feed.link, item)


def _row(feed_title: str, feed_link: str, item: Item) -> dict[str, str]:
    return {
        "feed_title": feed_title,
        "feed_link": feed_link,
        "id": item.id,
        "link": item.link,
        "title": markup.to_line(item.title),
        "published": "" if item.published is None else format_rfc3339(item.published),
        "updated": "" if item.updated is None else format_rfc3339(item.updated),
        "authors": "\n".join(_person(person) for person in item.authors),
        "categories": "\n".join(category.label or category.term for category in item.categories),
        "summary": item.summary.value if item.summary else "",
        "content": item.content.value or item.content.src if item.content else "",
        "image": pictures_and_files.picture(item),
        "enclosures": "\n".join(file.url for file in pictures_and_files.files(item)),
        "comments": item.comments,
        "language": item.language,
        "rights": markup.to_plain(item.rights),
    }


COLUMNS = tuple(_row("", "", Item()))


def _person(person: Person) -> str:
    address = person.email or person.uri
    return f"{person.name} <{address}>" if person.name and address else person.name or address


def _harmless(cell: str, beginnings: re.Pattern[str]) -> str:
    """Return the cell with an apostrophe before each possible formula, and before a leading tab or line end."""
    cell = beginnings.sub(lambda match: f"{match[1]}'{match[2]}" if match[2] else match[1], cell)
    return f"'{cell}" if cell.lstrip("'").startswith(("\t", "\r", "\n")) else cell


def _in_a_line(cell: str) -> str:
    for sign, escaped in (("\\", "\\\\"), ("\t", "\\t"), ("\r\n", "\\n"), ("\n", "\\n"), ("\r", "\\n")):
        cell = cell.replace(sign, escaped)
    return cell
