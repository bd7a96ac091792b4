"""Decoding, parsing and encoding of content before it is stored."""

import gzip
from pathlib import Path

import pytest

from feedproxy.cache.stored_response import Bodies, StoredResponse
from feedproxy.errors import TooLarge
from feedproxy.feed.channel import Channel
from feedproxy.feed.parse import channel_parser
from feedproxy.http.message import Fields, Response
from feedproxy.refresh.ingest.ingest import FAST_PATH_DECODED_MAX, IngestedContent, KnownFeed, ingest, ingest_fast_path
from feedproxy.settings import Settings

NOW = 1_800_000_000.0


def sent(body: bytes, **fields: str) -> Response:
    lines = {"Content-Type": "application/rss+xml", **{name.replace("_", "-"): value for name, value in fields.items()}}
    return Response(200, Fields(lines.items()), body)


def test_decompression_of_a_small_body_is_limited_more_strictly_than_decoded_max() -> None:
    bomb = gzip.compress(b"<rss><channel>" + b" " * 17 * 1024 * 1024)

    prepared = ingest(sent(bomb, Content_Encoding="gzip"), Settings(), self_href="http://example.com/", now=NOW)

    assert isinstance(prepared.error, TooLarge)
    assert prepared.content.bodies == {"gzip": bomb}


def test_feed_with_ten_thousand_equal_items_is_a_feed() -> None:
    feed = b"<rss version='2.0'><channel><title>t</title>" + b"<item/>" * 10_000 + b"</channel></rss>"

    prepared = ingest(
        sent(gzip.compress(feed), Content_Encoding="gzip"), Settings(), self_href="http://example.com/", now=NOW
    )

    assert prepared.channel is not None
    assert prepared.channel.items == 10_000


@pytest.mark.parametrize("label", ["utf-8", "none", "aws-chunked, gzip", "gzip, aws-chunked"])
def test_feed_labelled_with_a_name_that_is_no_coding_is_read_and_loses_the_label(label: str) -> None:
    body = LINKED % b"now"
    response = sent(gzip.compress(body) if "gzip" in label else body, Content_Encoding=label)

    prepared = ingest(response, Settings(), self_href=ADDRESS, now=NOW)

    assert prepared.channel is not None
    assert prepared.content.bodies == {"identity": body}


def test_page_labelled_with_a_name_that_is_no_coding_keeps_the_label() -> None:
    page = b"<html><p>not a feed"

    prepared = ingest(sent(page, Content_Encoding="none"), Settings(), self_href=ADDRESS, now=NOW)

    assert prepared.content.bodies == {"none": page}


# -- first fetch of a feed

LINKED = (
    b'<?xml version="1.0"?>\n<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>t</title>'
    b'<atom:link rel="self" type="application/rss+xml" href="http://example.com/"/><lastBuildDate>%s</lastBuildDate>'
    b"<item><title>one</title></item></channel></rss>"
)
ADDRESS = "http://example.com/"


def ingest_at_once(
    response: Response, settings: Settings | None = None, accept_encoding: str | None = None
) -> IngestedContent | None:
    settings = settings or Settings()
    return ingest_fast_path(response, settings, self_href=ADDRESS, now=NOW, accept_encoding=accept_encoding)


def test_fast_ingest_gives_the_same_result_as_full_ingest(corpus: Path) -> None:
    seen = 0
    for path in sorted((corpus / "feeds").rglob("*")):
        if not path.is_file():
            continue
        for body, fields in ((path.read_bytes(), {}), (gzip.compress(path.read_bytes()), {"Content_Encoding": "gzip"})):
            response = sent(body, **fields)
            found = ingest_at_once(response)
            if found is not None:
                seen += 1
                assert found == ingest(response, Settings(), self_href=ADDRESS, now=NOW), path.name
    assert seen > 50


def test_decoded_feed_is_left_out_of_memory_unless_the_client_needs_it() -> None:
    plain = LINKED % b"now"
    response = sent(gzip.compress(plain), Content_Encoding="gzip")

    for accept_encoding, is_left_out in (("gzip", True), ("br, gzip;q=0.5", True), ("identity", False), (None, False)):
        found = ingest_at_once(response, accept_encoding=accept_encoding)
        assert found is not None
        bodies = found.content.bodies
        assert isinstance(bodies, Bodies)
        assert isinstance(dict(bodies.stored)["identity"], int) is is_left_out
        assert bodies.length("identity") == len(plain)
        assert bodies == {"identity": plain, "gzip": response.body}


def test_fast_ingest_declines_slow_or_unusual_content() -> None:
    plain = LINKED % b"now"

    assert ingest_at_once(sent(plain)) is not None
    assert ingest_at_once(sent(plain), accept_encoding="gzip") is None, "it is to be coded"
    assert ingest_at_once(sent(plain.replace(b"rel=", b"rev="))) is None, "it has no self link"
    assert ingest_at_once(sent(plain.replace(b"<rss", b"<!DOCTYPE rss><rss"))) is None
    assert ingest_at_once(sent(plain.replace(b"</channel>", b"</chanel>"))) is None, "the document is ill-formed"
    assert ingest_at_once(sent(b" " + plain)) is None
    assert ingest_at_once(sent(plain, Cache_Control="no-transform")) is None
    assert ingest_at_once(sent(plain.replace(b"one", b"one" * FAST_PATH_DECODED_MAX))) is None
    assert ingest_at_once(sent(gzip.compress(plain + b" " * FAST_PATH_DECODED_MAX), Content_Encoding="gzip")) is None
    assert ingest_at_once(sent(plain, Content_Encoding="gzip")) is None, "the label is untrue"
    assert ingest_at_once(sent(b'{"version": "https://jsonfeed.org/version/1.1", "title": "t", "items": []}')) is None


def ingested_first_version(body: bytes) -> tuple[IngestedContent, StoredResponse]:
    first = ingest_at_once(sent(body))
    assert first is not None
    fields = Fields([("Content-Type", "application/rss+xml")])
    return first, StoredResponse(ADDRESS, 200, fields, first.content, NOW, NOW)


@pytest.mark.parametrize(
    ("second", "changed"),
    [
        (LINKED % b"then", False),
        (LINKED % b"later", False),
        ((LINKED % b"then").replace(b"one", b"two"), True),
    ],
)
def test_change_of_the_second_version_is_determined_on_arrival(second: bytes, changed: bool) -> None:
    first, held = ingested_first_version(LINKED % b"then")

    prepared = ingest(
        sent(second),
        Settings(),
        self_href=ADDRESS,
        now=NOW,
        known=KnownFeed(held.content, first.channel, superseded=(held,), first_seen=NOW),
    )

    assert prepared.is_change(first.channel) is changed
    assert (prepared.content is held.content) is not changed
    assert prepared.publication_dates is not None, "now somebody looks at the dates of its entries"


def test_second_version_without_a_stored_first_counts_as_a_change() -> None:
    first, _ = ingested_first_version(LINKED % b"then")

    prepared = ingest(
        sent(LINKED % b"later"), Settings(), self_href=ADDRESS, now=NOW, known=KnownFeed(channel=first.channel)
    )

    assert prepared.is_change(first.channel)


def test_first_fetch_reads_no_dates_of_items_because_no_earlier_copy_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = LINKED.replace(b"<title>one</title>", b"<pubDate>Mon, 05 Jan 2026 00:00:00 GMT</pubDate>") % b"x"
    monkeypatch.delattr("feedproxy.feed.publication_history.find_publications")

    assert ingest(sent(feed), Settings(), self_href=ADDRESS, now=NOW).new_publications == ()


def test_update_of_an_edited_feed_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = b'<rss version="2.0"><channel><title>t</title><item><title>one</title></item></channel></rss>'
    first = ingest(sent(feed), Settings(), self_href=ADDRESS, now=NOW)
    documents, read = [], channel_parser.read

    def count(body: bytes, content_type: str | None, *, digest: bool = True) -> Channel | None:
        documents.append(body)
        return read(body, content_type, digest=digest)

    monkeypatch.setattr(channel_parser, "read", count)
    update = feed.replace(b"one", b"two")
    prepared = ingest(sent(update), Settings(), self_href=ADDRESS, now=NOW, known=KnownFeed(channel=first.channel))

    assert prepared.is_change(first.channel)
    assert documents == [update]
