"""Hostile XML: time and memory are bounded, and no exception is raised."""

import time
import tracemalloc

import pytest

from feedproxy.feed.parse.channel_parser import read

MB = 1024 * 1024
MANY = MB // 4
HEAD = b"<rss><channel><ttl>5</ttl>"
ATTACKS = {
    "elements": HEAD + b"<x/>" * MANY,
    "items within an item": HEAD + b"<item>" + b"<item/>" * (MANY // 2),
    "hours": HEAD + b"<skipHours>" + b"<hour>x</hour>" * (MANY // 4),
    "depth": HEAD + b"<a>" * MANY,
    "one attribute": HEAD + b'<a b="' + b"x" * (8 * MANY) + b'"/>',
    "attributes": HEAD + b"<a " + b" ".join(b'a%d=""' % number for number in range(MANY // 4)) + b"/>",
    "tags without end": HEAD + b"<date " * MANY,
    "comments without end": HEAD + b"&" + b"<!--" * MANY,
    "ampersands": HEAD + b"& " * MANY,
    "references": HEAD + b"&x;" * MANY,
    "instructions": HEAD + b"<?a?>" * MANY,
    "CDATA without end": HEAD + b"<![CDATA[" * (MANY // 4),
    "prolog": b"<?a?>" * MANY,
    "document type": b"<!DOCTYPE x [" + b"] " * MANY,
    "declaration": b"<?xml version='1.0' " + b"encoding " * MANY,
    "space": b" " * (4 * MANY),
    "entities": b"<!DOCTYPE r ["
    + b"".join(b'<!ENTITY e%d "x">' % number for number in range(MANY // 8))
    + b"]>"
    + HEAD,
    "entities in an attribute": b'<!DOCTYPE r [<!ENTITY e "'
    + b"x" * 50_000
    + b'">]><rss a="'
    + b"&e;" * 2_000
    + b'"/>',
    "JSON": b'{"title":"t","items":' + b"[" * MANY,
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_attack_takes_bounded_time_and_memory(attack: str) -> None:
    body = ATTACKS[attack]
    began = time.process_time()
    read(body, "application/rss+xml")
    spent = time.process_time() - began

    tracemalloc.start()  # which takes five times as long
    read(body, "application/rss+xml")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert spent < 1  # 2 s for four times as much is the bound, on a machine that has nothing else to do
    assert peak < 3 * len(body) + 16 * MB


@pytest.mark.parametrize("attack", ["elements", "hours", "depth", "one attribute", "tags without end", "ampersands"])
def test_hint_before_an_attack_is_read(attack: str) -> None:
    channel = read(ATTACKS[attack], None)

    assert channel is not None
    assert channel.schedule.ttl == 5
    assert not channel.well_formed


def test_attribute_of_2_mb_is_accepted() -> None:
    picture = b"A" * (2 * MB)
    channel = read(HEAD + b'<item><a b="data:' + picture + b'"/></item></channel></rss>', None)

    assert channel is not None
    assert channel.well_formed


def test_channel_with_20000_items_is_read_completely() -> None:
    body = b"<rss><channel>" + b"<item><title>t</title></item>\n" * 20_000 + b"<ttl>7</ttl></channel></rss>"
    channel = read(body, None)

    assert channel is not None
    assert (channel.items, channel.schedule.ttl, channel.well_formed) == (20_000, 7, True)


def test_chunk_boundaries_do_not_affect_the_result() -> None:
    item = "<item><title>é</title>\n<x:y xmlns:x='u'>&amp;</x:y></item>"
    digests = set()
    for spaces in range(0, 70_000, 6_997):
        body = f"<rss>{' ' * spaces}<channel>{item * 2_000}<ttl>7</ttl></channel></rss>"
        channel = read(body.encode(), None)
        assert channel is not None
        assert (channel.items, channel.schedule.ttl, channel.well_formed) == (2_000, 7, True)
        digests.add(channel.content_digest)
    assert len(digests) == 1
