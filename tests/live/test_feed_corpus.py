"""Every real feed of the corpus, through each entrance of the whole product, arrives unchanged except for documented
edits. One proxy for each entrance serves all feeds. Several tests then examine the responses.
"""

import asyncio
import calendar
import functools
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from msgspec import structs

from feedproxy.clock import ManualClock
from feedproxy.feed.channel import Channel, Schedule
from feedproxy.feed.edit import self_link
from feedproxy.feed.parse.channel_parser import read
from feedproxy.http.field_values import parse_parameters
from feedproxy.request.context import Entrance
from tests.feed.test_corpus import DEVIATIONS, NO_FEEDS, meant
from tests.live.hostile import decoded, unlinked
from tests.live.servers import Line, Seen, whole_proxy

NOON = calendar.timegm((2026, 11, 20, 12, 0, 0))
ORIGIN = "http://origin.test"
PUBLIC = "https://feeds.example"
CODINGS = ("gzip", "br", "zstd")
_LINK_TAG = re.compile(r"<(?:[\w-]+:)?link\b[^<>]*>")


@dataclass(frozen=True)
class Feed:
    """A file of the corpus, as the origin publishes it."""

    name: str
    path: str
    record: dict[str, Any]
    body: bytes
    declared: str

    @property
    def is_feed(self) -> bool:
        return not self.record["format"].startswith(NO_FEEDS) and DEVIATIONS.get(self.name) != "feed"

    @property
    def encoding(self) -> str:
        """Encoding for searching markup: ISO-8859-1 except for encodings of more bytes."""
        for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
            if self.body.startswith(mark):
                return encoding
        return {b"<\0": "utf-16-le", b"\0<": "utf-16-be"}.get(self.body[:2], "latin-1")


@functools.cache
def channel_of(body: bytes, declared: str) -> Channel | None:
    """Return what is read from the publisher's bytes, which are the same for all entrances."""
    return read(body, declared)


@dataclass(frozen=True)
class Observed:
    """The response of one feed, and the proxy's knowledge about it."""

    feed: Feed
    entrance: Entrance
    seen: Seen
    coded: dict[str, tuple[Seen, bool]]
    """By requested coding: the response without its body, and True if it encodes the same content."""
    again: list[Seen]
    """Responses to conditional requests with each received tag."""
    asked: int
    channel: Channel | None

    @property
    def href(self) -> str:
        """The address to which a user subscribes."""
        return (PUBLIC if self.entrance is Entrance.REVERSE else ORIGIN) + self.feed.path


@functools.cache
def published(corpus: Path) -> list[Feed]:
    """Return all files. Every second one has its declared charset in the media type, as on some servers."""
    feeds = []
    for number, record in enumerate(json.loads((corpus / "feeds.json").read_text("utf-8"))):
        path = corpus / record["file"]
        essence = "application/json" if path.suffix == ".json" else ("text/xml", "application/xml")[number % 2]
        charset = record["declared_encoding"] if number % 3 == 0 and essence != "application/json" else None
        declared = f"{essence}; charset={charset}" if charset else essence
        feeds.append(Feed(path.name, f"/feeds/{number}", record, path.read_bytes(), declared))
    return feeds


@asynccontextmanager
async def an_origin(feeds: list[Feed], log: Counter[str]) -> AsyncIterator[int]:
    """Serve the feeds without freshness information and yield the port."""
    pages = {feed.path: feed for feed in feeds}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            path = head.split(b" ", 2)[1].decode()
            log[path] += 1
            page = pages[path]
            lines = (
                "HTTP/1.1 200 OK",
                "Date: Fri, 20 Nov 2026 12:00:00 GMT",
                f"Content-Type: {page.declared}",
                f"Content-Length: {len(page.body)}",
            )
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + page.body)

    async def until_it_closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(until_it_closes, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def observe(feeds: list[Feed], entrance: Entrance) -> list[Observed]:
    """Request all feeds through one entrance.

    The entrances share the code that compresses, which takes most of the time. Therefore each feed is requested in
    another coding at each entrance, and every fifth feed in all codings.
    """
    log: Counter[str] = Counter()
    options: dict[str, Any] = {"site_interval": 0}
    if entrance is Entrance.REVERSE:
        options |= {"upstream": ORIGIN, "public_url": PUBLIC}
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(an_origin(feeds, log))
        whole = await stack.enter_async_context(whole_proxy(ManualClock(NOON), port, **options))
        host = "origin.test" if entrance is Entrance.PROXY else "feeds.example"
        line = await stack.enter_async_context(Line(whole.port, host))
        observed = []
        shift = list(Entrance).index(entrance)
        for number, feed in enumerate(feeds):
            target = ORIGIN + feed.path
            asked_for = {Entrance.GATEWAY: f"/{target}", Entrance.PROXY: target, Entrance.REVERSE: feed.path}[entrance]
            seen = await line.get(asked_for)
            coded: dict[str, tuple[Seen, bool]] = {}
            for coding in CODINGS if number % 5 == 0 else (CODINGS[(number + shift) % len(CODINGS)],):
                answer = await line.get(asked_for, accept_encoding=coding)
                same = decoded(answer.body, answer.coding) == seen.body
                coded[coding] = replace(answer, body=b""), same
            tags = [each.tag for each in (seen, *(answer for answer, _ in coded.values())) if each.tag]
            again = [await line.get(asked_for, if_none_match=tag) for tag in tags[:: len(tags) - 1 or 1]]
            kept = whole.app.service.store.get(target)
            observed.append(
                Observed(feed, entrance, seen, coded, again, log[feed.path], kept.channel if kept else None)
            )
        return observed


@pytest.fixture(scope="module", params=list(Entrance), ids=str)
def observed(request: pytest.FixtureRequest, corpus: Path) -> list[Observed]:
    """Return the observations of one entrance."""
    return asyncio.run(observe(published(corpus), request.param))


def test_every_document_gets_200_and_feeds_are_recognized(observed: list[Observed]) -> None:
    assert len(observed) > 400
    for each in observed:
        assert each.seen.status == 200, (each.feed.name, each.seen)
        assert (each.channel is not None) == each.feed.is_feed, each.feed.name


def test_feeds_of_the_publisher_are_changed_only_in_their_self_link(observed: list[Observed]) -> None:
    linked = 0
    for each in observed:
        original, body = each.feed.body, each.seen.body
        if each.entrance is Entrance.REVERSE:
            assert only_self_links_differ(original, body, each.feed.encoding), each.feed.name
        else:
            link = unlinked(body, original, each.feed.encoding)
            if link is None:  # A relative self link is useless in a saved file, so it is made absolute.
                own = read(original, None)
                assert own is not None
                assert not any(urlsplit(link.href).scheme for link in own.self_links), each.feed.name
                assert only_self_links_differ(original, body, each.feed.encoding), each.feed.name
                continue
            assert not link or not each.feed.record["has_self"], (each.feed.name, "has one of its own")
        assert body == original or each.feed.is_feed, each.feed.name
        linked += body != original
    assert linked > 150


def test_self_link_is_that_of_the_usm_rules(observed: list[Observed]) -> None:
    mode = "correct" if observed[0].entrance is Entrance.REVERSE else "add"
    for each in observed:
        feed = each.feed
        channel = channel_of(feed.body, feed.declared)
        expected = feed.body
        if channel is not None:
            charset = parse_parameters(feed.declared)[1].get("charset")
            expected = self_link.apply_self_link(feed.body, channel, href=each.href, mode=mode, charset=charset)
        assert each.seen.body == expected, feed.name


def test_well_formed_extensible_feed_has_its_subscription_address(observed: list[Observed]) -> None:
    for each in observed:
        record = each.feed.record
        text = each.seen.body.decode(each.feed.encoding, "replace")
        if each.seen.body != each.feed.body:
            assert f'href="{each.href}"' in text or f"href='{each.href}'" in text, each.feed.name
        elif record["format"] in ("RSS 2.0", "Atom 1.0") and record["well_formed"] and not record["doctype"]:
            # In RSS the older `start` counts as well. An empty channel has no place for a link.
            assert record["has_self"] or record["has_start"] or not record["items"], each.feed.name


def test_media_type_is_that_of_the_format_and_charset_the_publishers(observed: list[Observed]) -> None:
    types = {"RSS": "application/rss+xml", "RDF": "application/rss+xml", "Atom": "application/atom+xml"}
    for each in observed:
        declared, parameters = parse_parameters(each.feed.declared)
        family = each.feed.record["format"].partition(" ")[0]
        expected = {**types, "JSON": "application/feed+json"}.get(family, declared) if each.feed.is_feed else declared
        found, found_parameters = parse_parameters(each.seen.fields.get("content-type") or "")
        assert found == expected, (each.feed.name, found)
        refuted = each.feed.record["bom"] or each.feed.encoding != "latin-1"
        assert found_parameters == parameters or (refuted and not found_parameters), each.feed.name


def test_every_coding_decodes_to_the_same_content(observed: list[Observed]) -> None:
    packed: Counter[str] = Counter()
    for each in observed:
        for coding, (answer, same) in each.coded.items():
            assert (answer.status, same) == (200, True), (each.feed.name, coding)
            assert answer.coding in (coding, None), (each.feed.name, coding)
            packed[coding] += answer.coding == coding and each.feed.is_feed
    assert min(packed[coding] for coding in CODINGS) > 150


def test_every_feed_has_a_strong_tag_for_each_coding(observed: list[Observed]) -> None:
    given: dict[str, bytes] = {}
    for each in observed:
        if not each.feed.is_feed:
            continue
        answers = [each.seen, *(answer for answer, _ in each.coded.values())]
        by_coding = {answer.coding: answer.tag for answer in answers}
        assert all(re.fullmatch(r'"[\w~-]+"', tag) for tag in by_coding.values()), (each.feed.name, by_coding)
        assert len(set(by_coding.values())) == len(by_coding), (each.feed.name, by_coding)
        assert all("accept-encoding" in (answer.fields.get("vary") or "").lower() for answer in answers)
        # Two files with equal bytes may share a tag if no self link distinguishes them.
        assert given.setdefault(each.seen.tag, each.seen.body) == each.seen.body, each.feed.name


def test_each_tag_of_a_feed_gets_304(observed: list[Observed]) -> None:
    for each in observed:
        if each.feed.is_feed:
            assert [answer.status for answer in each.again] == [304, 304], each.feed.name


def test_origin_is_contacted_once_for_each_feed(observed: list[Observed]) -> None:
    for each in observed:
        if each.feed.is_feed:
            assert each.asked == 1, each.feed.name
            assert all(answer.hit for answer in each.again), each.feed.name


def test_hints_of_corpus_feeds_are_those_of_the_index(observed: list[Observed]) -> None:
    compared = 0
    for each in observed:
        if each.channel is None:
            continue
        expected = meant(each.feed.record)
        said = structs.replace(each.channel.schedule, notes=(), finished=False)  # the index lacks the end of a feed
        assert said == expected, each.feed.name
        if expected == Schedule(ttl=expected.ttl):
            lifetime = 1800 if expected.ttl is None else min(60 * expected.ttl, 86_400)
            if not each.channel.well_formed:
                lifetime = min(60, lifetime)  # it may be well-formed later
            assert each.seen.ttl == lifetime, each.feed.name
            compared += expected.ttl is not None
    assert compared > 40


def only_self_links_differ(original: bytes, body: bytes, encoding: str) -> bool:
    """Return True if a link was inserted, or existing links were corrected, and nothing else changed."""
    if unlinked(body, original, encoding) is not None:
        return True
    before, after = original.decode(encoding, "replace"), body.decode(encoding, "replace")
    while before != after:
        same = next((n for n, (one, two) in enumerate(zip(before, after, strict=False)) if one != two), None)
        start = before.rfind("<", 0, same + 1) if same is not None else -1
        tag, corrected = (_LINK_TAG.match(before, start), _LINK_TAG.match(after, start)) if start >= 0 else (None, None)
        if tag is None or corrected is None:
            return False
        before, after = before[tag.end() :], after[corrected.end() :]
    return True
