"""The play: the same polls twice, straight to the origins and through a real feedproxy.

Real sockets and real answers both times; only the clock is the play's own, and jumps from poll to poll. Readers
share a few kept connections, as they would behind a load balancer, which says by X-Forwarded-For whose each
request is; polls of the same instant are sent at the same time.
"""

import asyncio
import gzip
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from tempfile import TemporaryDirectory

from feedproxy.clock import Instant, ManualClock, Seconds
from feedproxy.demo.counted_http import Received, Wire
from feedproxy.demo.demo_origin import Origin, Tally
from feedproxy.demo.publishers import START, Feed, feeds
from feedproxy.demo.simulated_readers import Poll, Screenplay, Subscription, screenplay
from feedproxy.errors import FeedproxyError
from feedproxy.serve import ServePlan, make_master

LANES = 6
"""Connections that readers share."""

ITERATIONS = 8
"""Iterations of the event loop in which those that wake begin what they do."""

SETTLE_MAX: Seconds = 0.5
"""Of the machine's own time: the longest wait for scheduled refreshes to end."""

PATIENCE: Seconds = 30
"""Of the machine's own time, for the answers of one instant."""

type Progress = Callable[[str, int, int], None]
"""Is told what is being played, how many polls are done, and of how many."""

type Ask = Callable[[Subscription, int], Awaitable[Received]]
"""Sends one poll over the lane of this number."""


@dataclass
class Seen:
    """What came of the polls, as the readers saw it."""

    statuses: Counter[int] = field(default_factory=Counter)
    received: int = 0
    """Bytes of all answers, heads included."""
    took: list[Seconds] = field(default_factory=list)
    """Every answer, of the machine's own time."""
    behind: list[Seconds] = field(default_factory=list)
    """For every answer after which the reader missed an item: since when it had been published."""
    behind_by_hint: int = 0
    """How many of these came while the feed's own ttl, sy:* or skipHours let the copy answer."""
    foreign: int = 0
    """Answers with bytes that were never published."""


@dataclass(frozen=True, slots=True)
class Result:
    """One of the two performances."""

    seen: Seen
    tallies: dict[str, Tally]


@dataclass(frozen=True, slots=True)
class Demo:
    """Both performances, and what was played."""

    seed: int
    readers: int
    days: int
    polls: int
    planned: int
    without: Result
    with_feedproxy: Result
    took: Seconds
    errors: tuple[str, ...]
    """What was logged as an error meanwhile; nothing, as a rule."""


async def play(*, seed: int, readers: int, days: int, progress: Progress) -> Demo:
    """Play both. Raises FeedproxyError where an answer does not come."""
    began = time.perf_counter()
    history = feeds(seed, days=days)
    script = screenplay(history, readers=readers, seed=seed, days=days)
    with _quiet() as errors:
        without = await _straight(history, script, progress)
        with_feedproxy = await _through_feedproxy(history, script, progress)
    took = time.perf_counter() - began
    return Demo(seed, readers, days, len(script.polls), script.planned, without, with_feedproxy, took, tuple(errors))


async def _straight(history: Sequence[Feed], script: Screenplay, progress: Progress) -> Result:
    async with AsyncExitStack() as stack:
        clock = ManualClock(START)
        origins = await _origins(stack, history, clock)
        wires = {
            name: [await stack.enter_async_context(Wire(each.host, each.port)) for _ in range(LANES)]
            for name, each in origins.items()
        }

        async def ask(subscription: Subscription, lane: int) -> Received:
            origin = origins[subscription.feed.name]
            fields = subscription.fields(f"{origin.host}:{origin.port}")
            return await wires[subscription.feed.name][lane].get(subscription.feed.path, fields)

        seen = await _perform(
            script.polls,
            origins,
            clock,
            _no_refreshes,
            ask,
            lambda done: progress("straight to the origins", done, len(script.polls)),
        )
    return Result(seen, {name: each.tally for name, each in origins.items()})


async def _through_feedproxy(history: Sequence[Feed], script: Screenplay, progress: Progress) -> Result:
    async with AsyncExitStack() as stack:
        clock = ManualClock(START)
        origins = await _origins(stack, history, clock)
        host, port, count = await stack.enter_async_context(_feedproxy(clock))
        wires = [await stack.enter_async_context(Wire(host, port)) for _ in range(LANES)]

        async def ask(subscription: Subscription, lane: int) -> Received:
            fields = subscription.fields(f"{host}:{port}").with_added("X-Forwarded-For", subscription.address)
            return await wires[lane].get(f"/{origins[subscription.feed.name].url}", fields)

        seen = await _perform(
            script.polls,
            origins,
            clock,
            count,
            ask,
            lambda done: progress("through feedproxy", done, len(script.polls)),
        )
    return Result(seen, {name: each.tally for name, each in origins.items()})


async def _origins(stack: AsyncExitStack, history: Sequence[Feed], clock: ManualClock) -> dict[str, Origin]:
    found = {}
    for feed in history:
        origin = found[feed.name] = Origin(feed, clock)
        await origin.start()
        stack.push_async_callback(origin.close)
    return found


@asynccontextmanager
async def _feedproxy(clock: ManualClock) -> AsyncIterator[tuple[str, int, Callable[[], int]]]:
    """A whole feedproxy on a free port of loopback, which leaves nothing behind."""
    # mitmproxy writes the CA it makes into this folder.
    with TemporaryDirectory(prefix="feedproxy-demo-") as folder:
        options = {
            "listen_host": "127.0.0.1",
            "listen_port": 0,
            "admin": "",
            "store": "memory:",
            "confdir": folder,
            "log_format": "off",
            "allow_private": True,
            "trusted_proxies": ["127.0.0.1"],
        }
        made, app = make_master(ServePlan(options=options), clock)
        running = asyncio.ensure_future(made.run())
        try:
            server = made.addons.get("proxyserver")
            while not server.listen_addrs():
                if running.done():
                    raise FeedproxyError("feedproxy did not start")
                await asyncio.sleep(0.01)
            host, port, *_ = server.listen_addrs()[0]
            yield host, port, lambda: app.service.admin.active_refreshes if app.opened else 0
        finally:
            made.shutdown()
            await running


def _no_refreshes() -> int:
    return 0


async def _advance(clock: ManualClock, until: Instant, refresh_count: Callable[[], int]) -> None:
    """Move the clock on, and let the scheduled refreshes on the way end."""
    while (wake := clock.next_wake) <= until:
        clock.advance(wake - clock.now())
        # A refresh that waits for its site's slot waits for this very clock.
        latest = time.monotonic() + SETTLE_MAX
        for _ in range(ITERATIONS):
            await asyncio.sleep(0)
        while refresh_count() and time.monotonic() < latest:  # noqa: ASYNC110 -- several of the proxy's tasks end it
            await asyncio.sleep(0.0005)
    clock.advance(until - clock.now())


async def _perform(
    polls: Sequence[Poll],
    origins: Mapping[str, Origin],
    clock: ManualClock,
    refresh_count: Callable[[], int],
    ask: Ask,
    progress: Callable[[int], None],
) -> Seen:
    for poll in polls:
        poll.subscription.forget()
    seen = Seen()
    done = 0
    for at, together in groupby(polls, key=lambda poll: poll.at):
        await _advance(clock, at, refresh_count)
        subscriptions = [poll.subscription for poll in together]
        try:
            async with asyncio.timeout(PATIENCE):
                if len(subscriptions) == 1:
                    await _lane(subscriptions, done % LANES, at, ask, seen, origins)
                else:
                    lanes = [subscriptions[lane::LANES] for lane in range(LANES)]
                    await asyncio.gather(
                        *(_lane(each, lane, at, ask, seen, origins) for lane, each in enumerate(lanes))
                    )
        except (TimeoutError, OSError, EOFError, ValueError) as error:
            raise FeedproxyError(f"the play was interrupted: {error or type(error).__name__}") from error
        done += len(subscriptions)
        progress(done)
    return seen


async def _lane(
    subscriptions: Sequence[Subscription], lane: int, at: Instant, ask: Ask, seen: Seen, origins: Mapping[str, Origin]
) -> None:
    for each in subscriptions:
        began = time.perf_counter()
        received = await ask(each, lane)
        seen.took.append(time.perf_counter() - began)
        seen.statuses[received.status] += 1
        seen.received += received.size
        each.remember(received)
        _compare(each, received, at, seen, origins)


def _compare(
    subscription: Subscription, received: Received, at: Instant, seen: Seen, origins: Mapping[str, Origin]
) -> None:
    """Has the reader what was published, and how much later?"""
    feed = subscription.feed
    if received.status == 200:
        body = _plain(received.body) if received.fields.get("content-encoding") else received.body
        subscription.held = feed.number_of(body)
        seen.foreign += subscription.held is None
    if subscription.held is not None and subscription.held < feed.at(at).number:
        seen.behind.append(at - feed.version(subscription.held + 1).since)
        seen.behind_by_hint += feed.grants(origins[feed.name].tally.last_at, at)


@lru_cache(maxsize=64)
def _plain(body: bytes) -> bytes:
    return gzip.decompress(body)


class _Errors(logging.Handler):
    """Keeps errors for the end; everything else would only disturb the table."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(f"{record.name}: {record.getMessage()}")


@contextmanager
def _quiet() -> Iterator[list[str]]:
    handler, root = _Errors(), logging.getLogger()
    root.addHandler(handler)
    try:
        yield handler.messages
    finally:
        root.removeHandler(handler)
