"""Codings are made once, on request. A coded body from the origin is kept unchanged if possible."""

import gzip
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from feedproxy.cache.cache_status import CacheStatus
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.http.coding import bounded_decompression
from feedproxy.http.message import Fields, Request, Response
from feedproxy.proxy.representations.coding_variants import CodingVariants
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.refresh.ingest.ingest import IngestedContent, KnownFeed, ingest
from feedproxy.request.context import ProxyResponse
from feedproxy.settings import Settings
from feedproxy.store.lru_memory_store import MemoryStore
from feedproxy.store.resource import Resource
from tests.proxy.busy import refuse_first_job

NOW = 1_800_000_000.0
TARGET = "http://example.com/feed"
FEED = (
    b"<rss version='2.0' xmlns:atom='http://www.w3.org/2005/Atom'><channel><title>t</title>"
    b"<atom:link rel='self' href='http://example.com/feed'/>"
    + b"".join(b"<item><guid>%d</guid></item>" % number for number in range(40))
    + b"</channel></rss>"
)
TYPE = Fields([("Content-Type", "application/rss+xml")])


def prepared(
    body: bytes = FEED, label: str = "", wanted: Sequence[str] = (), accept: str | None = None, **settings: Any
) -> IngestedContent:
    fields = TYPE.with_field("Content-Encoding", label) if label else TYPE
    return ingest(
        Response(200, fields, body),
        Settings(**settings),
        self_href=TARGET,
        now=NOW,
        known=KnownFeed(codings=tuple(wanted)),
        accept_encoding=accept,
    )


def test_gzip_body_from_the_origin_is_kept_unchanged() -> None:
    sent = gzip.compress(FEED)

    bodies = prepared(sent, "gzip").content.bodies

    assert dict(bodies) == {"identity": FEED, "gzip": sent}


@pytest.mark.parametrize(
    "sent", [gzip.compress(FEED) + b"something more", gzip.compress(FEED[:700]) + gzip.compress(FEED[700:])]
)
def test_body_that_decoders_interpret_differently_is_not_kept(sent: bytes) -> None:
    assert dict(prepared(sent, "gzip").content.bodies) == {"identity": FEED}


def test_coded_body_whose_content_was_changed_is_not_kept() -> None:
    sent = gzip.compress(FEED.replace(b"<atom:link rel='self' href='http://example.com/feed'/>", b""))

    assert list(prepared(sent, "gzip").content.bodies) == ["identity"]


def test_disabled_coding_is_not_kept() -> None:
    assert list(prepared(gzip.compress(FEED), "gzip", codings=("br", "zstd")).content.bodies) == ["identity"]


def test_requested_coding_and_those_of_the_last_version_are_made_at_once() -> None:
    assert list(prepared(accept="gzip").content.bodies) == ["identity", "gzip"]
    assert list(prepared(wanted=("identity", "br")).content.bodies) == ["identity", "br"]
    # The reader accepts the coding of the origin.
    assert list(prepared(gzip.compress(FEED), "gzip", accept="br, gzip").content.bodies) == ["identity", "gzip"]


class Counting(ThreadPoolExecutor):
    """A pool that counts its jobs."""

    def __init__(self) -> None:
        super().__init__(1)
        self.jobs = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.jobs += 1
        return super().submit(fn, *args, **kwargs)


class Desk:
    """A stored feed and its readers."""

    def __init__(self, pool: ThreadPoolExecutor, body: bytes = FEED, label: str = "") -> None:
        self.store = MemoryStore(1_000_000)
        self.codings = CodingVariants(self.store, HelperPool(pool))
        self.stored = StoredResponse(TARGET, 200, TYPE, prepared(body, label).content, NOW, NOW)

    async def keep(self) -> "Desk":
        await self.store.put(Resource(TARGET, (self.stored,)))
        return self

    def held(self) -> dict[str, bytes]:
        resource = self.store.get(TARGET)
        return dict(resource.variants[0].content.bodies) if resource is not None else {}

    async def ask(self, accept_encoding: str, name: str = "") -> Response:
        fields = TYPE.with_field("Content-Encoding", name) if name else TYPE
        whole = Response(200, fields, self.stored.content.bodies[name or "identity"])
        answer = ProxyResponse(whole, CacheStatus(hit=True), stored=self.stored)
        request = Request("GET", TARGET, Fields([("Accept-Encoding", accept_encoding)]))
        return (await self.codings.apply(answer, request, Settings())).response


@pytest.fixture
async def pool() -> AsyncIterator[Counting]:
    pool = Counting()
    yield pool
    pool.shutdown()


async def test_requested_coding_is_made_and_kept(pool: Counting) -> None:
    desk = await Desk(pool).keep()

    got = await desk.ask("zstd;q=0.5, br")

    assert bounded_decompression.decode(got.body, "br", limit=10_000) == FEED
    assert got.fields.get("content-encoding") == "br"
    assert got.fields.get("content-length") == str(len(got.body))
    assert (got.fields.get("etag") or "").endswith('-br"')
    assert desk.held() == {"identity": FEED, "br": got.body}


async def test_reader_served_with_an_acceptable_coding_does_not_wait_for_a_better_one(pool: Counting) -> None:
    desk = await Desk(pool, gzip.compress(FEED), "gzip").keep()

    got = await desk.ask("gzip, br", "gzip")
    await desk.codings.in_progress.drain(10)

    assert got.fields.get("content-encoding") == "gzip"
    assert list(desk.held()) == ["identity", "gzip", "br"]


async def test_reader_that_refuses_every_coding_gets_identity(pool: Counting) -> None:
    desk = await Desk(pool).keep()

    assert (await desk.ask("identity, *;q=0")).body == FEED
    assert pool.jobs == 0


async def test_body_that_no_coding_shortens_is_tried_once(pool: Counting) -> None:
    small = b"<rss version='2.0'><channel/></rss>"
    desk = await Desk(pool, small).keep()

    assert [(await desk.ask("zstd")).fields.get("content-encoding") for _ in range(3)] == [None] * 3
    assert pool.jobs == 1


async def test_coding_of_a_purged_feed_is_not_stored(pool: Counting) -> None:
    desk = Desk(pool)

    got = await desk.ask("gzip")

    assert gzip.decompress(got.body) == FEED
    assert desk.store.get(TARGET) is None


async def test_coding_refused_by_a_busy_pool_is_made_for_the_next_request(
    pool: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_first_job(monkeypatch)
    desk = await Desk(pool).keep()

    assert [(await desk.ask("br")).fields.get("content-encoding") for _ in range(2)] == [None, "br"]
