"""Every feed of the corpus in every format: it converts, it is valid, and it can be read back as the same."""

import ast
import csv
import dataclasses
import functools
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import feedparser
import pytest
from lxml import etree

from feedproxy.feed.channel import Kind
from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.convert.model import Feed, Item
from feedproxy.feed.convert.model_as_dict import from_data, to_data
from feedproxy.feed.convert.read.from_document import read
from feedproxy.feed.convert.write.to_table import COLUMNS
from tests.conftest import CORPUS

READABLE = 395
"""Number of feeds in the corpus. Its other files are lists, broken JSON, and RDF documents of other kinds."""

ITEMS = 50
"""Number of items for which each feed is converted. Each item is converted alone. Half of the bytes of the largest
feeds would be further items."""

XML = ("rss", "rdf", "atom")

LIKE_PYTHON = ("ruby", "perl")
"""Formats that the function for Python's literals writes too, with another table of signs."""

ONLY_IN_JSON = {"members", "banner"}
"""Members that no XML format can represent."""


@functools.cache
def written(feed: Feed, name: str) -> bytes:
    """Return the feed in this format; each combination is rendered once for all tests."""
    return FORMATS[name].render(feed)


@functools.cache
def read_again(feed: Feed, name: str) -> Feed | None:
    """Return what is read from the feed in this format; each combination is read once for all tests."""
    return read(written(feed, name))


@pytest.fixture(scope="module")
def feeds() -> list[tuple[str, Feed]]:
    if not (CORPUS / "feeds.json").is_file():
        pytest.skip("no corpus: ../shared/corpus is not there")
    found = []
    for path in sorted((CORPUS / "feeds").iterdir()):
        feed = read(path.read_bytes(), address=f"https://feeds.example/{path.name}")
        if feed is not None:
            found.append((path.name, dataclasses.replace(feed, items=feed.items[:ITEMS])))
    return found


def of_all_kinds(feeds: list[tuple[str, Feed]], nth: int) -> list[tuple[str, Feed]]:
    """Return every nth feed, and each feed with an element or a format that no earlier one has."""
    seen = set[Any]()
    found = []
    for index, (file, feed) in enumerate(feeds):
        said: set[object] = {feed.kind, *(each.name for each in dataclasses.fields(feed) if getattr(feed, each.name))}
        said |= {
            ("item", each.name) for item in feed.items for each in dataclasses.fields(item) if getattr(item, each.name)
        }
        if not said <= seen or index % nth == 0:
            found.append((file, feed))
        seen |= said
    return found


def test_corpus_feeds_read_match_the_expected_number_and_kinds(feeds):
    assert len(feeds) == READABLE
    assert {feed.kind for _, feed in feeds} == set(Kind)


@pytest.mark.parametrize("name", FORMATS)
def test_corpus_feeds_are_written_in_every_format(feeds, name):
    for _, feed in of_all_kinds(feeds, 4) if name in LIKE_PYTHON else feeds:
        assert written(feed, name)


@pytest.mark.parametrize("name", [*XML, "json"])
def test_corpus_feeds_written_and_read_equal_the_model(feeds, name):
    wrong = []
    for file, feed in of_all_kinds(feeds, 4):
        again = read_again(feed, name)
        assert again is not None, file
        wrong += [f"{file}: {told}" for told in differences(feed, again, name)]
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize("name", [*XML, "json"])
def test_corpus_feeds_written_again_are_byte_identical(feeds, name):
    for file, feed in of_all_kinds(feeds, 8):
        again = read_again(feed, name)
        assert again is not None
        assert FORMATS[name].render(again) == written(feed, name), file


@pytest.mark.parametrize("name", [*XML, "opml"])
def test_xml_formats_are_well_formed(feeds, name):
    for _, feed in feeds:
        etree.fromstring(written(feed, name))


@pytest.mark.parametrize("name", XML)
def test_feedparser_reads_every_item_without_error(feeds, name):
    for file, feed in of_all_kinds(feeds, 8):
        parsed = feedparser.parse(written(feed, name), resolve_relative_uris=False, sanitize_html=False)
        assert not parsed.bozo, (file, parsed.get("bozo_exception"))
        assert len(parsed.entries) == len(feed.items), file
        for entry, item in zip(parsed.entries, feed.items, strict=True):
            pages = {link.href for link in item.links if not link.type}
            assert not pages or entry.link in pages, file


def test_csv_and_tsv_have_one_row_for_each_item(feeds):
    csv.field_size_limit(10_000_000)
    for _, feed in feeds:
        rows = list(csv.reader(io.StringIO(written(feed, "csv").decode(), newline="")))
        assert [len(row) for row in rows] == [len(COLUMNS)] * (len(feed.items) + 1)
        lines = written(feed, "tsv").decode().split("\n")
        assert lines.pop() == ""
        assert [line.count("\t") for line in lines] == [len(COLUMNS) - 1] * (len(feed.items) + 1)


def test_data_formats_contain_the_whole_model(feeds):
    for _, feed in feeds:
        assert from_data(Feed, to_data(feed)) == feed
        assert json.loads(written(feed, "js"))["items"] == [to_data(item) for item in feed.items]
    for _, feed in feeds[::10]:
        assert from_data(Feed, ast.literal_eval(written(feed, "python").decode())) == feed


def differences(meant: Feed, got: Feed, name: str) -> Iterator[str]:
    """Yield the members that differ although the format could have represented them."""
    assert len(meant.items) == len(got.items)
    yield from _differing(meant, got, name)
    for item, other in zip(meant.items, got.items, strict=True):
        yield from _differing(item, other, name)


def _differing(meant: Any, got: Any, name: str) -> Iterator[str]:
    for each in dataclasses.fields(meant):
        one, other = getattr(meant, each.name), getattr(got, each.name)
        if not each.compare or each.name == "items" or one == other:
            continue
        if name != "json" and each.name in ONLY_IN_JSON:
            continue
        if not _demanded(each.name, meant, one, name):
            yield f"{each.name}: {str(one)[:300]} became {str(other)[:300]}"


def _demanded(field: str, meant: Feed | Item, one: object, name: str) -> bool:
    """Return True if the format requires a value that the model lacks. The renderer then writes a substitute."""
    if field == "is_permalink":
        # Of an id or link that was put in, nobody has said whether they are one.
        return not meant.id or not meant.links
    if one or name == "json":
        return False
    demanded = {
        "rss": {"id", "title"},
        "rdf": {"id", "title", "links"},
        "atom": {"id", "title", "updated", "authors"},
    }
    return field in demanded[name]


def test_documentation_lists_every_field_and_format() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "formats.md").read_text("utf-8")
    for kind in (Feed, Item):
        for each in dataclasses.fields(kind):
            assert f"| `{each.name}`" in page or not each.compare, each.name
    for form in FORMATS.values():
        bare = form.media_type.partition(";")[0]
        assert f"| `{form.name}` | {bare} |" in page
    assert all(f"`{column}`" in page for column in COLUMNS)
