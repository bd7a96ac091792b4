"""Incomplete responses of origins take a limited amount of memory."""

import asyncio

from feedproxy.errors import Overload
from feedproxy.upstream.fetch_result import Fetched
from feedproxy.upstream.origin_client import Fetcher, FetchLimits
from feedproxy.upstream.origin_connection_limits import PROXY, Requester, requesting
from tests.upstream.raw import a_fetcher, a_get, a_policy, origin, play, until
from tests.waiting import NEVER

SIZE = 100_000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
LIMITS = FetchLimits(connect=NEVER, first_byte=NEVER, total=NEVER, receiving_max=4 * (SIZE + len(HEAD) + 10))
HOSTILE = Requester("192.0.2.1", is_known=False)


async def _loopback(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


def start(fetcher: Fetcher, requester: Requester, url: str) -> asyncio.Task[object]:
    with requesting(requester):
        return asyncio.ensure_future(fetcher.fetch(a_get(url)))


async def test_client_with_the_most_incomplete_content_loses_its_largest_exchanges() -> None:
    stalled = play(HEAD % SIZE + bytes(SIZE - 1), then="hold")
    policy = a_policy(lookup=_loopback)
    async with origin(stalled) as hostile, a_fetcher(LIMITS, policy=policy) as fetcher:
        honest = start(fetcher, Requester("192.0.2.2", is_known=False), hostile.url(host="honest.example"))
        own = start(fetcher, PROXY, hostile.url(host="own.example"))
        await until(lambda: len(fetcher._receiving._sizes) == 2)

        fetches = [start(fetcher, HOSTILE, hostile.url(host=f"h{number}.example")) for number in range(6)]
        await until(lambda: hostile.connections == 8 and sum(fetch.done() for fetch in fetches) == 4)

        assert not honest.done()
        assert not own.done()
        assert fetcher._receiving._total <= LIMITS.receiving_max
        assert {type(fetch.exception()) for fetch in fetches if fetch.done()} == {Overload}
        for fetch in (honest, own, *fetches):
            fetch.cancel()
        await asyncio.gather(honest, own, *fetches, return_exceptions=True)
        assert (fetcher._receiving._total, fetcher._receiving._sizes) == (0, {})


async def test_complete_responses_release_their_memory() -> None:
    piece = SIZE // 2
    async with origin(play(HEAD % SIZE + bytes(piece), bytes(piece))) as raw, a_fetcher(LIMITS) as fetcher:
        for number in range(10):
            assert isinstance(await fetcher.fetch(a_get(raw.url(f"/{number}"))), Fetched)

        assert (fetcher._receiving._total, fetcher._receiving._sizes) == (0, {})
