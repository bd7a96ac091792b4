"""Conversions are made once for each version, within size limits, and identified by the version's tag."""

import asyncio
import hashlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.errors import NotAFeed, Overload
from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.convert.model import Feed
from feedproxy.feed.convert.read import from_document
from feedproxy.http.message import Fields
from feedproxy.lru_map import LRU
from feedproxy.memory_max_shares import MemoryLimits
from feedproxy.proxy.representations import conversion_cache
from feedproxy.proxy.representations.conversion_cache import ConversionCache
from feedproxy.refresh.ingest.helper_pool import HelperPool, HelpersExited
from feedproxy.settings import Settings
from tests.proxy.busy import refuse_first_job

FEED = (
    b"<rss version='2.0'><channel><title>t</title>"
    b"<item><title>%d</title><description>%s</description></item></channel></rss>"
)


def _stored(body: bytes, number: int = 0) -> StoredResponse:
    return StoredResponse(f"https://a.example/{number}", 200, Fields(), Content(Bodies({"identity": body})), 1.0, 2.0)


def test_version_is_computed_from_the_tag_without_hashing_the_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(hashlib, "blake2b")
    stored = StoredResponse(
        "https://a.example/", 200, Fields([("ETag", '"1"')]), Content(Bodies({"identity": b"x"})), 1.0, 2.0
    )
    name = conversion_cache._version(stored)

    assert conversion_cache._version(replace(stored)) == name
    assert conversion_cache._version(replace(stored, response_time=3.0)) != name
    assert conversion_cache._version(replace(stored, fields=Fields([("ETag", '"2"')]))) != name


async def test_conversions_keep_their_size_limit() -> None:
    settings, limits = Settings(), MemoryLimits.of(4 * 100_000)
    with ThreadPoolExecutor(1) as pool:
        cache = ConversionCache(HelperPool(pool), limits)
        feeds = [_stored(FEED % (number, b"word " * 2000), number) for number in range(30)]
        for stored in feeds:
            latest = await cache.get(stored, FORMATS["atom"], "identity", settings)

        assert 80_000 < cache._conversions.size <= limits.conversions
        assert await cache.get(feeds[-1], FORMATS["atom"], "identity", settings) is latest


async def test_feed_is_parsed_once_for_all_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []

    def read(body: bytes, content_type: str | None, *, address: str) -> Feed | None:
        parsed.append(address)
        return from_document.read(body, content_type, address=address)

    monkeypatch.setattr(conversion_cache, "read", read)
    stored = _stored(FEED % (77, b"word"), 77)
    with ThreadPoolExecutor(1) as pool:
        cache = ConversionCache(HelperPool(pool), MemoryLimits.of(4 * 100_000))
        for output_format in FORMATS.values():
            await cache.get(stored, output_format, "identity", Settings())

    assert parsed == [stored.target]


async def test_headlines_keep_their_size_limit() -> None:
    settings, limits = Settings(), MemoryLimits.of(32 * 100_000)
    with ThreadPoolExecutor(1) as pool:
        cache = ConversionCache(HelperPool(pool), limits)
        for number in range(30):
            await cache.headlines(_stored(FEED % (number, b"word " * 2000), number), settings)

    assert 80_000 < cache._headlines.size <= limits.headlines


async def test_failed_conversion_uses_the_same_memory_after_each_request() -> None:
    page = _stored(b"<html><title>a page</title></html>")
    with ThreadPoolExecutor(1) as pool:
        cache = ConversionCache(HelperPool(pool), MemoryLimits.of(2**24))
        for _ in range(5):
            with pytest.raises(NotAFeed) as failed:
                await cache.get(page, FORMATS["atom"], "identity", Settings())
            kept = [error for error, _ in cache._failed._entries.values()]

            assert failed.value not in kept
            assert [each.__traceback__ for each in kept] == [None]


def test_limit_of_document_models_follows_memory_max(monkeypatch: pytest.MonkeyPatch) -> None:
    held = LRU[tuple[str, str], object](0, conversion_cache.MODELS_MAX)
    monkeypatch.setattr(conversion_cache, "_MODELS", held)
    settings = Settings(memory_max=64 * 40_000)

    for number in range(10):
        document = conversion_cache._document(_stored(FEED % (number, b"word " * 2000), number), settings)
        conversion_cache._parse_model(document)

    assert 20_000 < held.size <= 40_000


async def test_conversion_refused_by_a_busy_pool_is_made_for_the_next_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse_first_job(monkeypatch)
    feed = _stored(b"<rss version='2.0'><channel><title>t</title><item><guid>1</guid></item></channel></rss>")
    with ThreadPoolExecutor(1) as pool:
        cache = ConversionCache(HelperPool(pool), MemoryLimits.of(2**24))
        with pytest.raises(Overload):
            await cache.get(feed, FORMATS["atom"], "identity", Settings())

        assert b"<feed" in (await cache.get(feed, FORMATS["atom"], "identity", Settings())).body


async def test_conversion_that_ended_its_helpers_is_tried_again_after_retry_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = []

    async def fail(self: HelperPool, work: object) -> None:
        jobs.append(work)
        raise HelpersExited("the helper processes exited")

    async def convert() -> None:
        with pytest.raises(HelpersExited) as failed:
            await cache.get(_stored(FEED % (1, b"word")), FORMATS["atom"], "identity", Settings())
        assert dict(failed.value.fields) == {"Retry-After": "60"}

    monkeypatch.setattr(HelperPool, "submit", fail)
    timers = []
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda *timer: timers.append(timer))
    cache = ConversionCache(HelperPool(), MemoryLimits.of(2**24))
    await convert()
    await convert()
    assert len(jobs) == 1

    [(seconds, drop, key)] = timers
    drop(key)
    await convert()

    assert seconds == 60
    assert len(jobs) == 2
