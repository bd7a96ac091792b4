"""CSV and TSV files of unknown feeds contain no formula, whatever separator the spreadsheet uses."""

import csv
import io
import unicodedata
from itertools import product
from typing import Literal

import pytest

from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.convert.model import Category, Feed, Item, Link, Person, Text
from feedproxy.feed.convert.write.to_table import _CSV_BEGINNINGS, _TSV_BEGINNINGS, FORMULA_SIGNS

SIGNS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\u2212", "\ufe66")
FORMULA = "HYPERLINK(1)|' /C calc'!A0"
BEFORE = (
    *("", " ", "\t", "\r", "\n", "\r\n", "\x0b", "\x00", "\ufeff", "\u200b", "\xa0", "\u2028", '"', '""', "'\n"),
    *(
        "foo;",
        "foo; ",
        "foo;;",
        'foo";"',
        'foo;"',
        "foo\n",
        "foo\r",
        "foo\t",
        "foo\n\n ",
        "foo;\ufeff",
        "foo;\t",
        '";',
        ";",
    ),
    *("foo,", 'foo,"', "foo, ", "foo,;", "foo\u2028", "foo\x85", "foo\n;,\t"),
)


def a_feed(word: str) -> Feed:
    """Return a feed with this text in every cell."""
    item = Item(
        id=word,
        title=Text(word, "text"),
        summary=Text(word, "text"),
        content=Text(word, "text"),
        links=(Link(word),),
        authors=(Person(word), Person("x"), Person(word)),
        categories=(Category(word), Category(word)),
        language=word,
        image=word,
        comments=word,
        rights=Text(word, "text"),
    )
    return Feed(title=Text(word, "text"), links=(Link(word),), items=(item, item))


def is_formula(cell: str) -> bool:
    """Return True if the text begins a formula, after characters that spreadsheets remove."""
    for sign in cell:
        if sign in FORMULA_SIGNS:
            return True
        if not (sign.isspace() or unicodedata.category(sign) in ("Cc", "Cf", "Zs", "Zl", "Zp")):
            return False
    return False


def plain_cell(cell: str, *, tsv: bool) -> str:
    """Return the text of a cell without the apostrophes that the table inserts.

    `tsv` means a TSV cell with decoded escapes (docs/reference/formats.md).
    """
    beginnings = _TSV_BEGINNINGS if tsv else _CSV_BEGINNINGS
    if cell.lstrip("'").startswith(("\t", "\r", "\n")):
        cell = cell.removeprefix("'")
    return beginnings.sub(lambda match: match[1] + (match[2] or "").removeprefix("'"), cell)


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize(
    ("name", "separators"), [("csv", ","), ("csv", ";"), ("csv", "\t"), ("tsv", "\t"), ("tsv", ";"), ("tsv", ",;\t")]
)
def test_table_contains_no_formula(name: str, separators: str, before: str) -> None:
    for sign in SIGNS:
        word = f"{before}{sign}{FORMULA}"
        table = FORMATS[name].render(a_feed(word)).decode()
        # A parser that splits at commas and ignores quotation marks cannot read this CSV.
        readings: tuple[Literal[0, 3], ...] = (csv.QUOTE_MINIMAL, csv.QUOTE_NONE)
        if (name, separators) == ("csv", ","):
            readings = (csv.QUOTE_MINIMAL,)
        found = [
            cell
            for quoting in readings
            for row in csv.reader(
                io.StringIO(table.translate({ord(each): separators[0] for each in separators}), newline=""),
                delimiter=separators[0],
                quoting=quoting,
            )
            for cell in row
        ]
        assert [cell for cell in found if is_formula(cell)] == []


def test_every_csv_cell_is_quoted() -> None:
    table = FORMATS["csv"].render(a_feed("x")).decode()

    lines = table.split("\r\n")
    assert lines.pop() == ""
    assert all(line.startswith('"') and line.endswith('"') for line in lines)
    assert all(cell.startswith('"') and cell.endswith('"') for line in lines for cell in line.split(","))


def test_list_of_signs_is_complete_for_all_unicode_forms() -> None:
    folding = {
        sign for sign in map(chr, range(0x110000)) if unicodedata.normalize("NFKC", sign)[:1] in set("=+-@\u2212")
    }

    assert set(FORMULA_SIGNS) >= folding


@pytest.mark.parametrize("tsv", [False, True])
def test_plain_cell_removes_the_apostrophes_of_escaped_cells(tsv: bool) -> None:
    kinds = ("", "'", "=", ";", "\n", "\t", '"', "a")
    pieces = (*kinds, "''", "-", ",", " ", "\ufeff")
    words = ["".join(each) for each in (*product(kinds, repeat=4), *product(pieces, repeat=3))]
    table = FORMATS["tsv" if tsv else "csv"].render(Feed(items=tuple(Item(id=word) for word in words))).decode()
    if tsv:
        rows = [line.replace("\\n", "\n").split("\t") for line in table.split("\n")[1:-1]]
        cells = [row[2].replace("\\t", "\t") for row in rows]
    else:
        (_, *rows) = csv.reader(io.StringIO(table, newline=""))
        cells = [row[2] for row in rows]
    for word, cell in zip(words, cells, strict=True):
        assert plain_cell(cell, tsv=tsv) == word


@pytest.mark.parametrize("piece", ["\n", "; ", "=", ";=", "'", ";'", '"', "\t\u200b", ";'\n", ",\ufeff'"])
@pytest.mark.parametrize("name", ["csv", "tsv"])
@pytest.mark.timeout(30)
def test_cell_of_great_length_is_escaped_in_linear_time(name: str, piece: str) -> None:
    # With quadratic time, minutes.
    feed = Feed(items=(Item(id=piece * (500_000 // len(piece))),))

    assert len(FORMATS[name].render(feed)) >= 500_000
