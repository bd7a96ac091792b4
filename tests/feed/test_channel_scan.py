"""`scan_channel` returns what the parser returns, or leaves the document to the parser."""

from pathlib import Path

import msgspec.structs
import pytest

from feedproxy.feed.parse.channel_parser import read
from feedproxy.feed.parse.channel_scan import scan_channel
from tests.feed.test_corpus import feeds

ITEM = b"<item><title>A</title></item>"
HEAD = b'<?xml version="1.0"?><rss version="2.0"><channel><title>T</title>'
TAIL = b"</channel></rss>"


def test_scan_channel_equals_read_for_every_feed_of_the_corpus(corpus: Path) -> None:
    scanned = 0
    for name, record, channel in feeds(corpus):
        seen = scan_channel((corpus / record["file"]).read_bytes(), None)
        if seen is None:
            continue
        scanned += 1
        read_so = msgspec.structs.replace(channel, content_digest="", well_formed=True)
        assert msgspec.structs.replace(seen, items=0) == msgspec.structs.replace(read_so, items=0), name
        if channel.well_formed:
            assert seen.items == channel.items, name
    assert scanned > 100


def test_scan_channel_reads_elements_after_the_items() -> None:
    seen = scan_channel(HEAD + 3 * ITEM + b"<ttl>90</ttl>" + TAIL, None)

    assert seen is not None
    assert (seen.title, seen.items, seen.schedule.ttl) == ("T", 3, 90)


@pytest.mark.parametrize(
    "document",
    [
        HEAD + ITEM + b"<ttl>90</ttl>" + ITEM + TAIL,
        HEAD + ITEM + b"<!-- " + ITEM + b" -->" + TAIL,
        HEAD + b"<!-- " + ITEM + b" -->" + ITEM + TAIL,
        HEAD + b"<!-- " + 2 * ITEM + b" -->" + TAIL,
        HEAD + b"<description><![CDATA[" + ITEM + b"]]></description>" + TAIL,
        HEAD + b"<?php " + ITEM + b" ?>" + TAIL,
        HEAD + b"<description><![CDATA[ <item>" + b"]]></description>" + ITEM + TAIL,
        HEAD + b"<item><item>a</item></item>" + TAIL,
        HEAD + b"<item><title><![CDATA[</item> <item>]]></title></item>" + ITEM + TAIL,
        HEAD + ITEM + b"<item><!-- </item> <item> --></item>" + TAIL,
        HEAD + ITEM + b"<item>",
        HEAD + ITEM + b"</channel>",
        HEAD + ITEM + TAIL + ITEM,
        HEAD + TAIL,
        b'<!DOCTYPE rss [<!ENTITY a "b">]>' + HEAD[21:] + ITEM + TAIL,
        b'<?xml version="1.0"?><!DOCTYPE rss>' + HEAD[21:] + ITEM + TAIL,
        b'<?xml version="1.0" encoding="iso-8859-1"?>' + HEAD[21:] + b"<link>\xe9</link>" + ITEM + TAIL,
        HEAD + b"<item>\xff</item>" + TAIL,
        b"<html><body><item>a</item></body></html>",
        b"<rss><channel><entry>a</entry></channel></rss>",
        b"",
    ],
)
def test_scan_channel_leaves_uncommon_documents_to_the_parser(document: bytes) -> None:
    assert scan_channel(document, None) is None


def test_scan_channel_ignores_faults_within_items() -> None:
    document = HEAD + b"<item><title>a & b</title></item>" + ITEM + TAIL
    seen, whole = scan_channel(document, None), read(document, None)

    assert seen is not None
    assert whole is not None
    assert (seen.well_formed, whole.well_formed) == (True, False)
    assert seen.title == whole.title
