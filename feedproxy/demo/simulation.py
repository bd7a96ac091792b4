"""The demo's two runs of the same polls: directly to the origins, and through a feedproxy. Sockets and answers are
real. The clock is simulated and jumps from poll to poll."""

import asyncio
import gzip
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import batched, groupby
from logging.handlers import BufferingHandler
from tempfile import TemporaryDirectory

from msgspec import Struct

from feedproxy.app import App
from feedproxy.clock import Instant, ManualClock, Seconds
from feedproxy.demo.counted_http import CONNECTIONS, CountedResponse, CountingConnection, make_connections
from feedproxy.demo.demo_origin import Origin, Tally
from feedproxy.demo.publishers import START, DemoFeed, create_feeds
from feedproxy.demo.simulated_readers import SimulatedPoll, plan_polls
from feedproxy.errors import FeedproxyError
from feedproxy.process.mitmproxy_master import build_master
from feedproxy.process.option_sources import ServePlan

POLLS_MAX = 15_000
"""A run has at most this many polls. If more are planned, polls are left out at regular intervals."""

ITERATIONS = 8
"""After each change of the clock, the event loop runs this many iterations, in which the tasks that the clock has woken
can start."""

ANSWER_TIMEOUT: Seconds = 30
"""Maximum seconds of real time to wait for the answers to all polls of one simulated instant, and for the refreshes
that are scheduled up to that instant."""

ERRORS_MAX = 1_000_000
"""At this number of logged errors, the earlier errors are forgotten."""

type Progress = Callable[[str, int, int], None]
"""Function that gets the name of the run, the number of finished polls, and the number of all polls."""


@dataclass
class ReaderTally:
    """Counts of the answers that readers received."""

    statuses: Counter[int] = field(default_factory=Counter)
    received: int = 0
    """Size of all answers including their heads, in bytes."""
    durations: list[Seconds] = field(default_factory=list)
    """Seconds of real time that each answer took."""
    delays: list[Seconds] = field(default_factory=list)
    """For each answer that lacked a published item: the age of the oldest missing item, in seconds."""
    delays_by_hint: int = 0
    """Number of the answers in `delays` that the feed's hints explain: by ttl, sy:* or skipHours."""
    unpublished: int = 0
    """Number of answers with content that was never published."""


class Result(Struct, frozen=True):
    """The counts of one run."""

    reader_tally: ReaderTally
    tallies: dict[str, Tally]


class Demo(Struct, frozen=True):
    """The results of both runs, and their parameters."""

    seed: int
    readers: int
    days: int
    polls: int
    planned: int
    direct: Result
    with_feedproxy: Result
    duration: Seconds
    errors: tuple[str, ...]
    """Errors that were logged during the runs."""


async def play(*, seed: int, readers: int, days: int, progress: Progress) -> Demo:
    """Perform both runs and return their results. Raises FeedproxyError if an answer is missing."""
    began = time.perf_counter()
    feeds = create_feeds(seed, days=days)
    planned = plan_polls(feeds, readers=readers, seed=seed, days=days)
    polls = thin_out(planned)
    with _collect_errors() as errors:
        direct = await _play_run(feeds, polls, progress, direct=True)
        with_feedproxy = await _play_run(feeds, polls, progress, direct=False)
    messages = tuple(f"{record.name}: {record.getMessage()}" for record in errors)
    duration = time.perf_counter() - began
    return Demo(seed, readers, days, len(polls), len(planned), direct, with_feedproxy, duration, messages)


def thin_out(polls: Sequence[SimulatedPoll]) -> Sequence[SimulatedPoll]:
    """Return at most POLLS_MAX of the polls, evenly distributed."""
    if len(polls) <= POLLS_MAX:
        return polls
    return [polls[index * len(polls) // POLLS_MAX] for index in range(POLLS_MAX)]


async def _play_run(
    feeds: Sequence[DemoFeed], polls: Sequence[SimulatedPoll], progress: Progress, *, direct: bool
) -> Result:
    async with AsyncExitStack() as stack:
        clock = ManualClock(START)
        origins = await _start_origins(stack, feeds, clock)
        if direct:
            connections = {name: make_connections(stack, origin.host, origin.port) for name, origin in origins.items()}
            run = _Run(clock, origins, connections)
        else:
            host, port, has_refreshes = await stack.enter_async_context(_start_feedproxy(clock))
            shared = make_connections(stack, host, port)
            run = _Run(clock, origins, dict.fromkeys(origins, shared), direct=False, has_refreshes=has_refreshes)
        name = "directly to the origins" if direct else "through feedproxy"
        await run.send_polls(polls, lambda done: progress(name, done, len(polls)))
    return Result(run.tally, {name: origin.tally for name, origin in origins.items()})


async def _start_origins(stack: AsyncExitStack, feeds: Sequence[DemoFeed], clock: ManualClock) -> dict[str, Origin]:
    origins = {}
    for feed in feeds:
        origin = origins[feed.profile.name] = Origin(feed, clock)
        await origin.start()
        stack.push_async_callback(origin.close)
    return origins


@asynccontextmanager
async def _start_feedproxy(clock: ManualClock) -> AsyncIterator[tuple[str, int, Callable[[], bool]]]:
    """Run a feedproxy on a free loopback port. Yield its host and port, and a function that returns True while a
    refresh is due or in progress."""
    # mitmproxy writes its CA into this folder.
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
        master, app, _ = build_master(ServePlan(options=options), App(clock))
        task = asyncio.ensure_future(master.run())
        try:
            server = master.addons.get("proxyserver")
            while not server.listen_addrs():
                if task.done():
                    raise FeedproxyError("feedproxy did not start")
                await asyncio.sleep(0.01)
            host, port, *_ = server.listen_addrs()[0]
            service = app.service
            yield (
                host,
                port,
                lambda: app.is_open and bool(service.schedule.scheduler.has_due or service.admin.active_refreshes),
            )
        finally:
            master.shutdown()
            await task


@dataclass
class _Run:
    """One run. `has_refreshes` returns True while a refresh is due or in progress."""

    clock: ManualClock
    origins: Mapping[str, Origin]
    connections: Mapping[str, Sequence[CountingConnection]]
    """The connections over which the polls of each feed are sent."""
    direct: bool = True
    has_refreshes: Callable[[], bool] = lambda: False
    tally: ReaderTally = field(default_factory=ReaderTally)

    async def send_polls(self, polls: Sequence[SimulatedPoll], progress: Callable[[int], None]) -> None:
        for poll in polls:
            poll.subscription.forget()
        done = 0
        for at, simultaneous in groupby(polls, key=lambda poll: poll.at):
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT):
                    await self._advance(at)
                    for group in batched(simultaneous, CONNECTIONS):
                        await asyncio.gather(*map(self._send, group, range(CONNECTIONS)))
                        # Otherwise the speed of the machine would decide which of the later polls get the new version.
                        await self._wait_for_refreshes()
                        done += len(group)
            except (TimeoutError, OSError, EOFError, ValueError) as error:
                raise FeedproxyError(f"the demo was interrupted: {error or type(error).__name__}") from error
            progress(done)

    async def _advance(self, until: Instant) -> None:
        """Advance the clock in steps, and wait for the refreshes that are scheduled up to the instant `until`."""
        while (wake := self.clock.next_wake) <= until:
            self.clock.advance(wake - self.clock.now())
            for _ in range(ITERATIONS):
                await asyncio.sleep(0)
            # No refresh waits for this clock: each site has one feed, and feed_min_interval is above site_interval.
            await self._wait_for_refreshes()
        self.clock.advance(until - self.clock.now())

    async def _wait_for_refreshes(self) -> None:
        while self.has_refreshes():  # noqa: ASYNC110 -- several of the proxy's tasks end it
            await asyncio.sleep(0.0005)

    async def _send(self, poll: SimulatedPoll, number: int) -> None:
        subscription, tally = poll.subscription, self.tally
        name = subscription.feed.profile.name
        connection = self.connections[name][number]
        path, fields = f"/{name}", subscription.fields(connection.authority)
        if not self.direct:
            path = f"/{self.origins[name].url}"
            fields = fields.with_added("X-Forwarded-For", subscription.address)
        began = time.perf_counter()
        response = await connection.get(path, fields)
        tally.durations.append(time.perf_counter() - began)
        tally.statuses[response.status] += 1
        tally.received += response.size
        subscription.remember(response)
        self._compare_with_published(poll, response)

    def _compare_with_published(self, poll: SimulatedPoll, response: CountedResponse) -> None:
        """Count content that was never published, and items that the reader lacks."""
        subscription, feed, tally = poll.subscription, poll.subscription.feed, self.tally
        if response.status == 200:
            body = _decompress(response.body) if response.fields.get("content-encoding") else response.body
            subscription.version_number = feed.find_version_number(body)
            tally.unpublished += subscription.version_number is None
        if subscription.version_number is not None and subscription.version_number < feed.at(poll.at).number:
            tally.delays.append(poll.at - feed.version(subscription.version_number + 1).since)
            tally.delays_by_hint += feed.allows_copy(self.origins[feed.profile.name].tally.last_at, poll.at)


@lru_cache(maxsize=64)
def _decompress(body: bytes) -> bytes:
    return gzip.decompress(body)


@contextmanager
def _collect_errors() -> Iterator[list[logging.LogRecord]]:
    """Collect the errors that are logged, so that they do not interrupt the table."""
    handler, root = BufferingHandler(ERRORS_MAX), logging.getLogger()
    handler.setLevel(logging.ERROR)
    root.addHandler(handler)
    try:
        yield handler.buffer
    finally:
        root.removeHandler(handler)
