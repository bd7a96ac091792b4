"""Slow names and silent origins use their share of the network only."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import pytest

from feedproxy.errors import FeedproxyError, Overload
from feedproxy.upstream.fetch_result import Fetched
from feedproxy.upstream.origin_client import Fetcher, FetchLimits
from feedproxy.upstream.origin_connection_limits import PROXY, FairLimits, Limit, Requester, requesting
from feedproxy.upstream.resolver import Resolver
from tests.upstream.raw import OK, a_fetcher, a_get, a_policy, origin, play, until
from tests.waiting import NEVER, PATIENCE

LIMITS = FetchLimits(connect=NEVER, first_byte=NEVER, total=NEVER)
"""A request that waited for one that hangs would exceed PATIENCE."""


async def _loopback(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


@asynccontextmanager
async def hanging(
    fetcher: Fetcher, asker: Requester, targets: Iterable[str]
) -> AsyncIterator[list[asyncio.Task[object]]]:
    """Start these fetches, which hang during the block."""
    tasks: list[asyncio.Task[object]] = []
    with requesting(asker):
        tasks += [asyncio.ensure_future(fetcher.fetch(a_get(target))) for target in targets]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _get(fetcher: Fetcher, asker: Requester, target: str) -> None:
    """Fetch a target, which must not wait for fetches that hang."""
    async with asyncio.timeout(PATIENCE):
        with requesting(asker):
            assert isinstance(await fetcher.fetch(a_get(target)), Fetched)


def one_origin(port: int) -> list[str]:
    return [f"http://silent.example:{port}/{number}" for number in range(205)]


def hosts_of_one_site(port: int) -> list[str]:
    return [f"http://h{number}.silent.example:{port}/" for number in range(205)]


def thirty_six_sites(port: int) -> list[str]:
    return [f"http://s{number % 36}.example{number % 36}.org:{port}/{number}" for number in range(216)]


def a_site_each(port: int) -> list[str]:
    return [f"http://example{number}.org:{port}/" for number in range(205)]


SILENT = [one_origin, hosts_of_one_site, thirty_six_sites, a_site_each]


@pytest.mark.parametrize("reader", [Requester("192.0.2.2", is_known=False), PROXY], ids=["other client", "known feed"])
@pytest.mark.parametrize("targets", SILENT)
async def test_silent_origins_leave_capacity_for_others(targets: Callable[[int], list[str]], reader: Requester) -> None:
    policy = a_policy(lookup=_loopback)
    async with (
        origin(play(then="hold")) as silent,
        origin(OK) as good,
        a_fetcher(LIMITS, policy=policy) as fetcher,
        hanging(fetcher, Requester("192.0.2.1", is_known=False), targets(silent.port)),
    ):
        await until(lambda: bool(silent.heads))
        await _get(fetcher, reader, good.url(host="good.example"))


@pytest.mark.parametrize("piece", [b"", b"x"], ids=["silent", "trickling"])
async def test_silent_fetches_of_many_clients_are_ended_for_a_waiting_one(piece: bytes) -> None:
    """The clients stand for those behind one address: all slots for unknown targets are taken."""
    stop = asyncio.Event()

    async def trickle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" if piece else b"")
        while not stop.is_set():
            writer.write(piece)
            await asyncio.sleep(0.2)
        writer.close()

    server = await asyncio.start_server(trickle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    policy = a_policy(lookup=_loopback)
    async with origin(OK) as good, a_fetcher(LIMITS, policy=policy) as fetcher:
        async with (
            hanging(fetcher, Requester("192.0.2.1", is_known=False), [f"http://a{n}.org:{port}/" for n in range(80)]),
            hanging(
                fetcher, Requester("192.0.2.3", is_known=False), [f"http://b{n}.org:{port}/" for n in range(80)]
            ) as bs,
        ):
            await until(lambda: len(fetcher._open) >= 160)
            await asyncio.sleep(0.5)
            for reader in (Requester("192.0.2.2", is_known=False), Requester("192.0.2.1", is_known=False)):
                await _get(fetcher, reader, good.url(host="good.example"))
            ended = [task.exception() for task in bs if task.done()]
        stop.set()
    server.close()
    assert all(isinstance(error, Overload) for error in ended), "what is ended for others is no failure of the origin"


async def test_silent_site_keeps_slots_for_its_known_feeds() -> None:
    async with (
        origin(*[play(then="hold")] * 6, OK) as site,
        a_fetcher(LIMITS) as fetcher,
        hanging(fetcher, Requester("192.0.2.1", is_known=False), [site.url(f"/{number}") for number in range(20)]),
    ):
        await until(lambda: len(site.heads) == 6)
        await _get(fetcher, PROXY, site.url("/feed"))


async def test_joined_refresh_counts_against_the_share_of_the_joining_client() -> None:
    shares = FairLimits(Limit(10), client=2)
    greedy, shared = Requester("greedy", is_known=False), Requester("greedy", is_known=False)
    with requesting(greedy):
        for _ in range(2):
            await shares.acquire(timeout=1)
    with requesting(shared):
        waiting = asyncio.ensure_future(shares.acquire(timeout=60))
    await asyncio.sleep(0)
    assert not waiting.done()

    shared.charge("another")

    await asyncio.wait_for(waiting, 1)


async def test_request_that_stops_waiting_takes_no_slot() -> None:
    shares = FairLimits(Limit(1))
    place = await shares.acquire(timeout=1)
    with pytest.raises(Overload):
        await shares.acquire(timeout=0.01)
    waiting = asyncio.ensure_future(shares.acquire(timeout=60))
    await asyncio.sleep(0)
    shares.release(place)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert (len(shares), len(shares._waiting)) == (0, 0)


async def test_known_feeds_have_reserved_slots() -> None:
    shares = FairLimits(Limit(10, reserve=4))
    for number in range(6):
        with requesting(Requester(str(number), is_known=False)):
            await shares.acquire(timeout=1)
    with requesting(Requester("7", is_known=False)), pytest.raises(Overload):
        await shares.acquire(timeout=0.01)
    for _ in range(4):
        await shares.acquire(timeout=1)


# -- names


class Names:
    """A resolver that answers names under `slow` when `release` is called."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.at_once = self.most = 0
        self._lock = threading.Lock()
        self._gate = threading.Event()
        self.lookups = Resolver(self._resolve)

    def _resolve(self, host: str) -> list[str]:
        with self._lock:
            self.asked.append(host)
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        if "slow" in host:
            self._gate.wait(NEVER)
        with self._lock:
            self.at_once -= 1
        return ["192.0.2.80"]

    def release(self) -> None:
        self._gate.set()


@pytest.fixture
async def names() -> AsyncIterator[Names]:
    names = Names()
    yield names
    names.release()
    await until(lambda: not len(names.lookups))


@asynccontextmanager
async def looking_up(names: Names, asker: Requester, hosts: Iterable[str]) -> AsyncIterator[None]:
    with requesting(asker):
        tasks = [asyncio.ensure_future(names.lookups.resolve(host)) for host in hosts]
    await asyncio.sleep(0.05)
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


ATTACKER = Requester("192.0.2.1", is_known=False)


@pytest.mark.parametrize(
    ("hosts", "most"),
    [
        ([f"h{number}.slow.example" for number in range(70)], 8),
        ([f"slow{number}.example" for number in range(70)], 70),
        ([f"slow{number}.example" for number in range(300)], 96),
    ],
    ids=["one domain", "domains", "more domains"],
)
@pytest.mark.parametrize("reader", [Requester("192.0.2.2", is_known=False), PROXY], ids=["other client", "known feed"])
async def test_slow_name_lookups_leave_capacity_for_other_clients(
    names: Names, hosts: list[str], most: int, reader: Requester
) -> None:
    async with looking_up(names, ATTACKER, hosts):
        async with asyncio.timeout(PATIENCE):
            with requesting(reader):
                assert await names.lookups.resolve("good.example.org") == ["192.0.2.80"]
    assert most <= names.most <= most + 1


async def test_name_lookups_of_the_same_host_are_combined(names: Names) -> None:
    async with looking_up(names, ATTACKER, ["slow.example"] * 50):
        pass
    async with looking_up(names, ATTACKER, ["slow.example"] * 50):
        assert names.asked == ["slow.example"]


async def test_abandoned_queued_lookup_is_never_made(names: Names) -> None:
    async with looking_up(names, ATTACKER, [f"h{number}.slow.example" for number in range(20)]):
        pass
    names.release()
    await until(lambda: not len(names.lookups))
    assert len(names.asked) == 8


async def test_slow_names_of_a_site_leave_capacity_for_its_known_feeds(names: Names) -> None:
    async with looking_up(names, ATTACKER, [f"h{number}.slow.example" for number in range(20)]):
        assert await asyncio.wait_for(names.lookups.resolve("feeds.slow.example".replace("slow.", "")), PATIENCE)


# -- readers that disconnect


async def test_large_response_without_a_waiting_reader_is_ended() -> None:
    sent = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 16384)
                sent += 16384
                await writer.drain()
        except ConnectionError:
            writer.close()

    server = await asyncio.start_server(endless, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader = Requester("192.0.2.1", is_known=False)
    async with a_fetcher(LIMITS) as fetcher:
        with requesting(reader):
            fetching = asyncio.ensure_future(fetcher.fetch(a_get(f"http://127.0.0.1:{port}/")))
        await until(lambda: sent > 0)
        reader.abandon()
        with pytest.raises(FeedproxyError):
            await fetching
    server.close()
