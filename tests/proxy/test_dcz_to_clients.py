"""A dcz body is made once for all clients with one version, within limits. An error costs no client the feed."""

import asyncio
import base64
import hashlib
import itertools
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from feedproxy.cache.cache_status import CacheStatus
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.errors import FeedproxyError
from feedproxy.http.coding.compression_dictionary import decode
from feedproxy.http.message import Fields, Request, Response
from feedproxy.memory_max_shares import DIVISORS, MemoryLimits
from feedproxy.proxy.representations.dcz_to_clients import Dictionaries
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.request.context import ClientContext, Entrance, ProxyResponse
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource
from feedproxy.store.versions_for_dictionaries import NO_CONTENTS
from tests.proxy.busy import refuse_first_job
from tests.proxy.test_delta_responses import Counting

TARGET = "https://example.com/feed"
TYPE = Fields([("Content-Type", "application/rss+xml")])
ITEMS = [random.Random(number).randbytes(60).hex().encode() for number in range(50)]
CONTENTS = [b"\n".join(ITEMS[number : number + 40]) for number in range(4)]
CLIENT = ClientContext(Entrance.GATEWAY, "http://127.0.0.1:8080", "127.0.0.1")


@pytest.fixture
def pool() -> Iterator[Counting]:
    with Counting() as made:
        yield made


class Feed:
    """A feed whose current content is the last of CONTENTS, and clients that have an earlier one."""

    def __init__(self, pool: ThreadPoolExecutor, *, memory_max: int = 2**24) -> None:
        self.dictionaries = Dictionaries(HelperPool(pool), MemoryLimits.of(memory_max))
        previous = NO_CONTENTS
        for old, new in itertools.pairwise(CONTENTS):
            previous = previous.with_content(old, new, size_max=100_000)
        stem = hashlib.sha256(CONTENTS[-1]).hexdigest()[:20]
        content = Content(Bodies({"identity": CONTENTS[-1]}), tag=stem, feed=True)
        self.stored = StoredResponse(TARGET, 200, TYPE, content, 1.0, 1.0)
        self.resource = Resource(TARGET, (self.stored,), previous=previous)

    async def request(self, number: int) -> Response:
        digest = base64.b64encode(hashlib.sha256(CONTENTS[number]).digest()).decode()
        fields = Fields([("Accept-Encoding", "gzip, dcz"), ("Available-Dictionary", f":{digest}:")])
        whole = ProxyResponse(Response(200, TYPE, CONTENTS[-1]), CacheStatus(), stored=self.stored)
        request = Request("GET", TARGET, fields)
        return (await self.dictionaries.encode(whole, request, self.resource, CLIENT, Settings())).response


def content_of(response: Response, number: int) -> bytes:
    assert response.fields.get("content-encoding") == "dcz"
    return decode(response.body, CONTENTS[number], limit=100_000)


async def test_each_pair_of_versions_is_compressed_once(pool: Counting) -> None:
    feed = Feed(pool)

    together = await asyncio.gather(*(feed.request(0) for _ in range(20)))
    later = [await feed.request(number) for number in (0, 1, 2, 3, 0)]

    assert {content_of(response, 0) for response in together} == {CONTENTS[-1]}
    assert all(
        content_of(response, number) == CONTENTS[-1] for response, number in zip(later, (0, 1, 2, 3, 0), strict=True)
    )
    assert pool.jobs == 4


async def test_bodies_not_requested_lately_are_dropped(pool: Counting) -> None:
    feed = Feed(pool, memory_max=DIVISORS["dictionaries"] * 600)

    for number in (2, 1, 0, 2, 1, 0):
        assert content_of(await feed.request(number), number) == CONTENTS[-1]

    assert pool.jobs > 3


async def test_disconnecting_client_does_not_affect_others(pool: Counting) -> None:
    feed = Feed(pool)
    one, other = asyncio.ensure_future(feed.request(0)), asyncio.ensure_future(feed.request(0))
    await asyncio.sleep(0)
    one.cancel()

    assert content_of(await other, 0) == CONTENTS[-1]
    assert pool.jobs == 1


@pytest.mark.parametrize("error", [FeedproxyError("no process"), RuntimeError("a fault")])
async def test_failed_compression_gives_the_response_in_another_coding(
    pool: Counting, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(HelperPool, "submit", fail)

    response = await Feed(pool).request(0)

    assert response.body == CONTENTS[-1]
    assert "content-encoding" not in response.fields


async def test_authenticated_user_gets_no_dcz(pool: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tests.proxy.test_dcz_to_clients.CLIENT",
        ClientContext(Entrance.GATEWAY, "https://a.example", "192.0.2.1", "ann"),
    )

    assert (await Feed(pool).request(0)).body == CONTENTS[-1]
    assert pool.jobs == 0


async def test_dcz_refused_by_a_busy_pool_is_made_for_the_next_request(
    pool: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_first_job(monkeypatch)
    feed = Feed(pool)

    assert [(await feed.request(0)).fields.get("content-encoding") for _ in range(2)] == [None, "dcz"]
