"""feedproxy as `feedproxy serve` runs it, in a process of its own that uses the play's clock."""

import asyncio
import contextlib
import heapq
import itertools
import logging
import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.week.model import Feed
from benchmarks.week.origin import is_skipped
from benchmarks.week.page import NEVER, Page
from feedproxy.app import App
from feedproxy.clock import Instant, Seconds
from feedproxy.process.mitmproxy_master import build_master
from feedproxy.process.option_sources import ServePlan

PATIENCE = 240.0
"""Seconds of real time within which the process must answer."""


class PlayClock:
    """A clock that shows the time in the shared page (page.py). `step` wakes the tasks that sleep.

    The page contains the instant of the next wake.
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        self._sleepers: list[tuple[Instant, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> Instant:
        return self._page.now

    def monotonic(self) -> Seconds:
        return self._page.now

    async def sleep(self, seconds: Seconds) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waiter = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now() + seconds, next(self._order), waiter))
        self._tell()
        await waiter

    def step(self, until: Instant) -> bool:
        """Advance to the instant of the next wake, and wake the tasks that are due.

        If no task wakes up to the instant `until`, advance to `until` and return False.
        """
        at = self._tell()
        # The page counts nanoseconds. The added microsecond ensures that no task wakes too early.
        self._page.now = min(at + 1e-6, until) if at <= until else until
        if at > until:
            return False
        while self._sleepers and self._sleepers[0][0] <= self._page.now:
            _, _, waiter = heapq.heappop(self._sleepers)
            if not waiter.done():
                waiter.set_result(None)
        return True

    def _tell(self) -> Instant:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        self._page.wakes = at = self._sleepers[0][0] if self._sleepers else NEVER
        return at


@dataclass
class Asked:
    """The number of scheduled refreshes: in total, in skipped hours, and by feed."""

    ahead: int = 0
    in_skipped_hours: int = 0
    by_feed: dict[int, int] = field(default_factory=dict)


class ScheduledRefreshCount:
    """Count of the scheduled refreshes, and of those in hours and on days that the publisher skips."""

    def __init__(self, feeds: Sequence[Feed], clock: PlayClock, start: float) -> None:
        self._feeds, self._clock, self._start = feeds, clock, start
        self.asked = Asked()

    def on_scheduled_refresh_started(self, target: str) -> None:
        feed = self._feeds[int(target.rsplit("/", 1)[1].removesuffix(".xml"))]
        self.asked.ahead += 1
        self.asked.by_feed[feed.number] = self.asked.by_feed.get(feed.number, 0) + 1
        self.asked.in_skipped_hours += is_skipped(feed, self._clock.now() - self._start)


class Host:
    """Handle for feedproxy's process. Raises RuntimeError if the process does not start or does not answer."""

    def __init__(self, feeds: Sequence[Feed], start: float, page: Page, options: dict[str, Any]) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=_run, args=(feeds, start, page.path, options, theirs)
        )
        self._process.start()
        theirs.close()
        self.port: int = self._said()

    def _said(self) -> Any:
        with contextlib.suppress(EOFError):
            if self._pipe.poll(PATIENCE):
                return self._pipe.recv()
        raise RuntimeError("feedproxy does not answer")

    def settle(self, until: float) -> None:
        """Advance the clock to this instant (Unix seconds) in steps, so that all work that is due before it is done at
        its own time.
        """
        self._pipe.send(until)
        self._said()

    def asked(self) -> Asked:
        """Return the counts of scheduled refreshes."""
        self._pipe.send(None)
        found = self._said()
        assert isinstance(found, Asked)
        return found

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(20)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _run(feeds: Sequence[Feed], start: float, page: Path, options: dict[str, Any], pipe: Connection) -> None:
    logging.getLogger().setLevel(logging.ERROR)
    asyncio.run(_live(feeds, start, Page(page), options, pipe))


async def _live(feeds: Sequence[Feed], start: float, page: Page, options: dict[str, Any], pipe: Connection) -> None:
    clock = PlayClock(page)
    made, here, _ = build_master(ServePlan(options=options), App(clock))
    count = ScheduledRefreshCount(feeds, clock, start)
    running = asyncio.ensure_future(made.run())
    words: asyncio.Queue[float | str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def hear() -> None:
        try:
            words.put_nowait(pipe.recv())
        except EOFError:
            loop.remove_reader(pipe.fileno())
            words.put_nowait("end")

    loop.add_reader(pipe.fileno(), hear)
    try:
        server = made.addons.get("proxyserver")
        while not server.listen_addrs():
            if running.done():
                return
            await asyncio.sleep(0.01)
        here.events.scheduled_refresh_started.subscribe(count.on_scheduled_refresh_started)
        pipe.send(server.listen_addrs()[0][1])
        while not isinstance(word := await words.get(), str):
            if word is None:
                pipe.send(count.asked)
                continue
            await _quiet(here.service)
            while clock.step(word):
                await _quiet(here.service)
            pipe.send(True)
    finally:
        made.shutdown()
        page.wakes = NEVER
        # A task that still sleeps on this clock would never wake.
        await asyncio.wait([running], timeout=5)
        running.cancel()


async def _quiet(service: Any) -> None:
    """Return when no refresh is in progress."""
    for _ in range(8):
        await asyncio.sleep(0)
    while service.admin.active_refreshes:  # noqa: ASYNC110 -- nobody tells when; its threads need the time
        await asyncio.sleep(0.0005)
