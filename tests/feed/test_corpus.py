"""Corpus of real feeds and hostile bodies: the parser returns what the index of the corpus states."""

import contextlib
import json
import math
import zlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec.structs
import pytest

from feedproxy.feed import xml_parser
from feedproxy.feed.channel import Channel, Period, Schedule
from feedproxy.feed.document_syntax import detect_syntax
from feedproxy.feed.parse.channel_parser import read
from tests.waiting import PATIENCE

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
NONSENSE = (
    "skipDays_german",
    "skipHours_minus1",
    "skipHours_names",
    "sy_bad_period",
    "sy_freq0",
    "ttl_0",
    "ttl_twice",
)
NO_FEEDS = ("OPML", "RDF other", "Atom entry document")

DEVIATIONS = {
    # Lists of friends and projects in RDF that mention channels of others somewhere inside: no feeds.
    "InfosecFeedsorg_InfosecFeedsorg.github.io__foafroll.xml": "feed",
    "postgresqlfr_planete.postgresql.fr__foafroll.xml": "feed",
    "seebi_planet-fsw.lod2.eu__desirejeanette.rdf": "feed",
    "seebi_planet-fsw.lod2.eu__johndoe.rdf": "feed",
    # The inner form of some program: its title is an object, and it has no items.
    "feed-rs_feed-rs__jsonfeed_spec_1.serde.json": "feed",
    # Empty items stand within the items; they are parts of them.
    "danmactough_node-feedparser__illegally-nested.xml": "items",
    # GBK under the name of GB2312: the index's parser gave up, the larger encoding reads it.
    "derived__enc_gb2312_gbk_0.xml": "items",
}
"""Files for which the parser correctly returns something else than the index states (a feed, or the number of
items).
"""


type Feeds = list[tuple[str, dict[str, Any], Channel]]
"""Name, record in the index, and channel of each feed."""


def index(corpus: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads((corpus / "feeds.json").read_text("utf-8"))
    return records


def feeds(corpus: Path) -> Iterator[tuple[str, dict[str, Any], Channel]]:
    """Yield name, record and channel of every file that is a feed."""
    for record in index(corpus):
        path = corpus / record["file"]
        channel = read(path.read_bytes(), None)
        if channel is not None:
            yield path.name, record, channel


@pytest.fixture(scope="module")
def corpus_feeds(corpus: Path) -> Feeds:
    """Return these feeds, which are read once for all tests."""
    return list(feeds(corpus))


def meant(record: dict[str, Any]) -> Schedule:
    """Return the schedule that the raw values of the index mean, by a second implementation of the rules."""
    minutes = [int(value) for value in record.get("ttl") or () if value.isdecimal() and int(value) > 0]
    numbers = [int(value) for value in record.get("skipHours") or () if value.isdecimal()]
    hours = {number % 24 for number in numbers if number <= 24}
    words = [value.lower() for value in record.get("skipDays") or ()]
    days = {number for word in words for number, day in enumerate(DAYS) if word in (day, day[:3])}
    update = record.get("sy") or {}
    period = update.get("updatePeriod", "daily" if "updateFrequency" in update else "").lower()
    known = period in list(Period)
    moment = datetime.fromisoformat(update["updateBase"]) if known and "updateBase" in update else None
    return Schedule(
        ttl=minutes[0] if minutes else None,
        skip_hours=frozenset(hours if len(hours) < 24 else ()),
        skip_days=frozenset(days if len(days) < 7 else ()),
        period=Period(period) if known else None,
        frequency=max(1, int(update.get("updateFrequency", 1))) if known else 1,
        base=moment.timestamp() if moment else None,
    )


def test_corpus_feeds_are_exactly_the_documents_read_as_feeds(corpus: Path, corpus_feeds: Feeds) -> None:
    found = {name for name, _, _ in corpus_feeds}

    for record in index(corpus):
        name = Path(record["file"]).name
        is_feed = not record["format"].startswith(NO_FEEDS) and DEVIATIONS.get(name) != "feed"
        assert (name in found) == is_feed, name


def test_corpus_feeds_have_the_indexed_format_and_version(corpus_feeds: Feeds) -> None:
    for name, record, channel in corpus_feeds:
        family, _, version = record["format"].partition(" ")
        if record["format"] in ("RSS 0.90", "RSS 1.0"):
            family = "RDF"
        elif family == "JSON":
            version = version.removeprefix("Feed ")
        assert channel.kind == family.lower(), name
        if version != "(broken)":
            assert channel.version == (version if version[:1].isdecimal() else ""), name


def test_corpus_feeds_have_the_indexed_hints(corpus_feeds: Feeds) -> None:
    compared = 0
    for name, record, channel in corpus_feeds:
        said = msgspec.structs.replace(channel.schedule, notes=(), finished=False)  # the index lacks the end of a feed
        assert said == meant(record), name
        compared += bool(record.get("has_ttl") or record.get("has_skipHours") or record.get("has_sy"))
    assert compared > 100


def test_corpus_feeds_with_invalid_hints_have_notes(corpus_feeds: Feeds) -> None:
    noted = {name for name, _, channel in corpus_feeds if channel.schedule.notes}

    assert {f"derived__hint_{name}_0.xml" for name in NONSENSE} <= noted
    assert "w3c_feedvalidator__skipHours_24_hours.xml" in noted
    assert "w3c_feedvalidator__skipDays_7_days.xml" in noted


def test_documents_parsed_at_once_and_as_a_stream_are_equal(
    corpus: Path, corpus_feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = {name: channel for name, _, channel in corpus_feeds}
    undigested = {
        name: read((corpus / record["file"]).read_bytes(), None, digest=False) for name, record, _ in corpus_feeds
    }
    monkeypatch.setattr(xml_parser, "SMALL_DOCUMENT_MAX", 0)

    for name, _, channel in feeds(corpus):
        assert at_once[name] == channel, name
        assert undigested[name] in (channel, msgspec.structs.replace(channel, content_digest="")), name


def test_corpus_feeds_have_the_indexed_links_cloud_items_and_well_formedness(corpus_feeds: Feeds) -> None:
    for name, record, channel in corpus_feeds:
        assert channel.well_formed == record["well_formed"], name
        if record["format"] == "JSON Feed (broken)":
            continue
        relations = {link.rel for link in channel.self_links}
        assert ("self" in relations) == bool(record.get("has_self")), name
        assert ("start" in relations) == bool(record.get("has_start")), name
        assert bool(channel.hubs) == bool(record.get("has_hub")), name
        assert bool(channel.cloud) == bool(record.get("has_cloud")), name
        if DEVIATIONS.get(name) != "items":
            assert channel.items == record["items"], name


def bodies(corpus: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and body of every hostile case. Bodies in gzip follow once more, decoded, if they can be decoded."""
    for path in sorted((corpus / "hostile" / "bodies").iterdir()):
        yield path.name, path.read_bytes()
    for path in sorted((corpus / "hostile" / "raw").iterdir()):
        body = path.read_bytes().partition(b"\r\n\r\n")[2]
        yield path.name, body
        # test_hints_after_200000_items_are_read reads the feed in many-items.http.
        if body.startswith(b"\x1f\x8b") and path.name != "many-items.http":
            with contextlib.suppress(zlib.error):
                yield path.name, zlib.decompressobj(31).decompress(body, 16 * 1024 * 1024)


@pytest.mark.timeout(PATIENCE)
def test_hostile_bodies_never_raise(corpus: Path) -> None:
    for _, body in bodies(corpus):
        read(body, "application/rss+xml")
        detect_syntax(body)


@pytest.mark.parametrize("half", [0.3, 0.6, 0.9])
def test_truncated_feeds_never_raise(corpus: Path, half: float) -> None:
    for record in index(corpus)[::5]:
        body = (corpus / record["file"]).read_bytes()
        read(body[: math.floor(len(body) * half)], None)


def test_hints_after_200000_items_are_read(corpus: Path) -> None:
    raw = (corpus / "hostile" / "raw" / "many-items.http").read_bytes().partition(b"\r\n\r\n")[2]

    channel = read(zlib.decompress(raw, 31), None)

    assert channel is not None
    assert (channel.items, channel.schedule.ttl) == (200_000, 60)


def test_external_entities_are_never_expanded(corpus: Path) -> None:
    for name in ("xxe-file", "xxe-http", "xxe-parameter", "billion-laughs", "quadratic-blowup"):
        body = (corpus / "hostile" / "raw" / f"{name}.http").read_bytes().partition(b"\r\n\r\n")[2]
        channel = read(body, None)
        assert channel is not None
        assert channel.title == "Hostile 0"
