"""Deltas are made once for many readers, within limits. An error in making them costs no reader the feed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.http.etag import own_tag
from feedproxy.http.message import Fields, Request, Response
from feedproxy.memory_max_shares import MemoryLimits
from feedproxy.proxy.representations.delta_responses import Deltas
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.refresh.ingest.ingest import IngestedContent, KnownFeed, ingest, make_delta_base
from feedproxy.refresh.policy.versions_for_deltas import VERSIONS_BYTES, VERSIONS_MAX, with_versions
from feedproxy.settings import Settings
from feedproxy.store.resource import DeltaBase, Resource
from tests.proxy.busy import refuse_first_job

NOW = 1_800_000_000.0
TARGET = "http://example.com/feed"
TYPE = Fields([("Content-Type", "application/rss+xml")])
ALL = ("br", "zstd", "gzip")


def feed(first: int, last: int = 40) -> bytes:
    items = "".join(f"<item><guid>{number}</guid></item>" for number in range(first, last))
    return f"<rss version='2.0'><channel><title>t</title>{items}</channel></rss>".encode()


def version(first: int) -> IngestedContent:
    prepared = ingest(
        Response(200, TYPE, feed(first)), Settings(), self_href=TARGET, now=NOW, known=KnownFeed(codings=ALL)
    )
    assert prepared.channel is not None
    return prepared


def left(prepared: IngestedContent) -> DeltaBase:
    found = make_delta_base(StoredResponse(TARGET, 200, TYPE, prepared.content, NOW, NOW))
    assert found is not None
    return found


class Counting(ThreadPoolExecutor):
    """A pool that counts its jobs."""

    def __init__(self) -> None:
        super().__init__(1)
        self.jobs = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.jobs += 1
        return super().submit(fn, *args, **kwargs)


PLENTY = MemoryLimits.of(2**24)


class Desk:
    """A feed that was fetched in versions that begin with these numbers, and its readers."""

    def __init__(self, pool: ThreadPoolExecutor, *firsts: int, limits: MemoryLimits = PLENTY) -> None:
        self.deltas = Deltas(HelperPool(pool), limits)
        self.bodies = [version(first) for first in firsts]
        self.resource = Resource(TARGET)
        for each in self.bodies:
            self.resource = with_versions(self.resource, [left(each)])
        self.stored = StoredResponse(TARGET, 200, TYPE, self.bodies[-1].content, NOW, NOW)
        self.resource = Resource(TARGET, (self.stored,), delta_bases=self.resource.delta_bases)

    async def ask(self, number: int, coding: str = "identity") -> Response:
        tag = own_tag(self.bodies[number].content.tag or "", "identity")
        content = self.stored.content
        fields = TYPE.with_field("ETag", own_tag(content.tag or "", coding).text)
        if coding != "identity":
            fields = fields.with_field("Content-Encoding", coding)
        whole = Response(200, fields, content.bodies[coding])
        request = Request("GET", TARGET, Fields([("A-IM", "feed"), ("If-None-Match", tag.text)]))
        return await self.deltas.apply(whole, self.stored, request, self.resource, Settings())


@pytest.fixture
async def pool() -> AsyncIterator[Counting]:
    pool = Counting()
    yield pool
    pool.shutdown()


async def test_readers_with_the_same_base_share_one_delta(pool: Counting) -> None:
    desk = Desk(pool, 2, 1, 0)

    answers = await asyncio.gather(*(desk.ask(1) for _ in range(50)), *(desk.ask(0) for _ in range(50)))
    answers += [await desk.ask(1), await desk.ask(0)]

    assert {answer.status for answer in answers} == {226}
    assert len({answer.body for answer in answers}) == 2
    assert pool.jobs == 2


async def test_each_coding_of_a_delta_is_made_once(pool: Counting) -> None:
    desk = Desk(pool, 1, 0)

    made = [await desk.ask(0, coding) for coding in ("identity", "gzip", "identity", "gzip")]

    assert pool.jobs == 2
    assert {answer.fields.get("content-encoding") for answer in made} == {None, "gzip"}


async def test_delta_that_is_not_smaller_is_computed_once(pool: Counting) -> None:
    desk = Desk(pool, 40, 0)

    assert [(await desk.ask(0)).status for _ in range(3)] == [200, 200, 200]
    assert pool.jobs == 1


async def test_deltas_keep_their_size_limit(pool: Counting) -> None:
    desk = Desk(pool, 3, 2, 1, 0, limits=MemoryLimits.of(32 * 1900))  # room for two

    for number in (0, 1, 2, 2, 1, 0):
        assert (await desk.ask(number)).status == 226

    assert pool.jobs == 4


async def test_delta_larger_than_the_limit_is_not_kept(pool: Counting) -> None:
    desk = Desk(pool, 1, 0, limits=MemoryLimits.of(16))

    assert [(await desk.ask(0)).status for _ in range(2)] == [226, 226]
    assert pool.jobs == 2


async def test_unusable_delta_base_gives_the_full_response(pool: Counting) -> None:
    desk = Desk(pool, 1, 0)
    damaged = DeltaBase(desk.resource.delta_bases[0].tag, None, b"no whole number of entries")
    desk.resource = Resource(TARGET, desk.resource.variants, delta_bases=(damaged,))

    assert (await desk.ask(0)).status == 200


async def test_cancelled_request_does_not_affect_others_with_the_same_delta(pool: Counting) -> None:
    desk = Desk(pool, 1, 0)
    leaving, staying = asyncio.ensure_future(desk.ask(0)), asyncio.ensure_future(desk.ask(0))
    await asyncio.sleep(0)
    leaving.cancel()

    assert (await staying).status == 226
    assert pool.jobs == 1


def test_kept_versions_are_limited_in_number_and_bytes() -> None:
    resource = Resource(TARGET)
    for number in range(3 * VERSIONS_MAX):
        resource = with_versions(resource, [DeltaBase(f"tag-{number}", NOW + number, bytes(16))])
    assert [each.tag for each in resource.delta_bases] == [f"tag-{VERSIONS_MAX * 2 + at}" for at in range(VERSIONS_MAX)]

    resource = with_versions(resource, [DeltaBase("large", NOW, bytes(VERSIONS_BYTES - 16))])
    assert len(resource.delta_bases) == 2
    assert with_versions(resource, [DeltaBase("larger", NOW, bytes(VERSIONS_BYTES + 16))]).delta_bases == ()


def test_version_with_the_same_date_is_kept_once() -> None:
    one = left(version(0))
    resource = with_versions(with_versions(Resource(TARGET), [one]), [one])

    assert len(resource.delta_bases) == 1


async def test_delta_refused_by_a_busy_pool_is_made_for_the_next_request(
    pool: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_first_job(monkeypatch)
    desk = Desk(pool, 1, 0)

    assert [(await desk.ask(0)).status for _ in range(2)] == [200, 226]
