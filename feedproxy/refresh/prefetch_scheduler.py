"""Scheduled refreshes: a heap of instants, one per feed, and lanes that keep a slow site from holding up others.

The policy (policy/prefetch.py) is asked again when a feed's instant has come: a feed that another request or process
has refreshed meanwhile gets its next instant. Nothing is stored for a restart: the store and the readers' polls
determine all instants.

A refresh that is due waits in the lane of its site. A lane runs LANE_WIDTH refreshes at a time. All lanes together run
as many as it takes to finish what is due within DRAIN, by the recent duration of refreshes. So many feeds that are due
at the same second are fetched in parallel, and a start after a long stop does not fetch all at once. Refreshes that
take longer than SLOW give their places to others, so that a few sites that do not answer hold up no other.
"""

import asyncio
import heapq
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from itertools import takewhile
from typing import assert_never

from feedproxy.aio import THROTTLED_BLOCKING_TIME, throttled, yielding
from feedproxy.clock import Clock, Instant, Seconds, is_set_back
from feedproxy.refresh.policy.prefetch import Later, Plan, Refresh, Rest

logger = logging.getLogger(__name__)

AT_ONCE = 8
"""Scheduled refreshes under way that are always admitted: readers' own come first."""

AT_ONCE_MAX = 160
"""Scheduled refreshes under way at most. The connections to origins (upstream/client.py) have room for 40 more, which
readers wait for."""

LANE_WIDTH = 2
"""Scheduled refreshes of one site under way at a time, as browsers had connections to a server (RFC 2616, 8.1.4)."""

DRAIN: Seconds = 10
"""Seconds within which what is due shall be under way: well within the lead that a refresh has (policy/polling.py)."""

SLOW: Seconds = 5
"""Seconds after which a refresh does not count as under way any more, up to AT_ONCE_MAX."""

SMOOTHING = 0.1
"""Weight of the last refresh in the mean time that refreshes take."""

NAP: Seconds = 60
"""Longest sleep in seconds, after which a suspended machine or a clock that was set is noticed."""


def _no_surprises() -> list[str]:
    return []


def _unknown(_: str) -> Instant | None:
    return None


class Agenda:
    """Owns the scheduled refreshes.

    `look` decides about one feed, `refresh` fetches it and returns when that is over. `lane_of` gives the lane of a
    feed, its site usually. `surprises` returns the feeds with readers that have polled at other times than the last
    plan expected. These feeds are planned again within MAX_SLEEP.
    """

    def __init__(
        self,
        clock: Clock,
        look: Callable[[str], Plan],
        refresh: Callable[[str], Awaitable[object]],
        *,
        lane_of: Callable[[str], str] | None = None,
        surprises: Callable[[], list[str]] = _no_surprises,
    ) -> None:
        self._clock = clock
        self._look = look
        self._refresh = refresh
        self._lane_of = lane_of
        self._surprises = surprises
        self._due: dict[str, Instant] = {}
        self._heap: list[tuple[Instant, str]] = []
        self._lanes: dict[str, deque[tuple[str, Instant]]] = {}
        """The feeds that wait, and since when each is due."""
        self._free: deque[str] = deque()
        """Lanes in which something waits and may begin, each once; first in, first served."""
        self._busy: dict[str, int] = {}
        """Refreshes under way by lane."""
        self._waiting: set[str] = set()
        self._took: Seconds = 1.0
        self._runner: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._under_way: dict[asyncio.Task[None], Seconds] = {}
        """Refreshes in the order in which they began, and when, on the monotonic clock."""
        self._alarm: asyncio.Task[None] | None = None
        self._alarm_at: Instant = 0.0
        self._wakes: asyncio.Event | None = None
        self._closed = False
        self._latest: Instant = 0.0

    def __len__(self) -> int:
        return len(self._due) + len(self._waiting)

    def __contains__(self, target: str) -> bool:
        return target in self._due or target in self._waiting

    @property
    def limit(self) -> int:
        """Refreshes that may be under way now: what is due, times what each takes, by the time there is for all.

        Slow ones come in addition.
        """
        wanted = math.ceil((len(self._waiting) + len(self._under_way)) * self._took / DRAIN)
        begin = time.monotonic() - SLOW
        slow = sum(1 for _ in takewhile(lambda began: began < begin, self._under_way.values()))
        return min(max(AT_ONCE, wanted) + slow, AT_ONCE_MAX)

    @property
    def next_at(self) -> Instant | None:
        """Return the instant at which the next feed is due; None if none is planned."""
        return self._heap[0][0] if self._heap else None

    def start(self, targets: Iterable[str], earliest: Callable[[str], Instant | None] = _unknown) -> None:
        """Plan these feeds, a few at a time, in their order.

        A plan takes a read from the disk. `earliest` returns an instant before which a feed is certainly not due; the
        feed is planned then, and at once where that instant is not known.
        """
        self._starting = asyncio.ensure_future(self._start(targets, earliest))
        self._run_on()

    def note(self, target: str) -> None:
        """Plan a feed of which something new is known."""
        if self._closed:
            return
        match self._look(target):
            case Refresh():
                self._put(target, self._clock.now())
            case Later(at):
                self._put(target, at)
            case Rest():
                self._due.pop(target, None)
            case never:
                assert_never(never)

    async def close(self) -> None:
        """Start no further refreshes; the coordinator ends the current ones."""
        self._closed = True
        tasks = [task for task in (self._runner, self._starting, self._alarm, *self._under_way) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _start(self, targets: Iterable[str], earliest: Callable[[str], Instant | None]) -> None:
        async for target in throttled(targets):
            if target in self:
                continue
            at = earliest(target)
            if at is None:
                self.note(target)
            else:
                self._put(target, at)

    def _put(self, target: str, at: Instant) -> None:
        if target in self._waiting:
            return  # it is looked at when its turn comes
        if self._due.get(target) != at:
            self._due[target] = at
            heapq.heappush(self._heap, (at, target))
            self._tidy()
        self._run_on()
        if self._wakes is not None and self._heap[0] == (at, target):
            self._wakes.set()

    def _run_on(self) -> None:
        if self._runner is None:
            self._wakes = asyncio.Event()
            self._runner = asyncio.ensure_future(self._run(self._wakes))

    def _tidy(self) -> None:
        """Instants that were put off stay in the heap until their time; not when they are most of it."""
        if len(self._heap) > 64 + 2 * len(self._due):
            self._heap = [(at, target) for target, at in self._due.items()]
            heapq.heapify(self._heap)

    async def _run(self, wakes: asyncio.Event) -> None:
        while True:
            wakes.clear()
            now = self._clock.now()
            if is_set_back(self._latest, now):
                # The clock was set back: what is due was reckoned with another.
                async for target in throttled(list(self._due)):
                    self.note(target)
            self._latest = now
            async for target in yielding(self._surprises()):
                self.note(target)
            until = time.monotonic() + THROTTLED_BLOCKING_TIME
            while self._collect() or self._launch():
                if time.monotonic() >= until:
                    await asyncio.sleep(0)
                    until = time.monotonic() + THROTTLED_BLOCKING_TIME
            await self._wait(wakes)

    def _collect(self) -> bool:
        """Move one feed that is due into its lane; return whether there was one."""
        while self._heap and self._heap[0][0] <= self._clock.now():
            at, target = heapq.heappop(self._heap)
            if self._due.get(target) == at:
                del self._due[target]
                lane = self._lane(target)
                self._lanes.setdefault(lane, deque()).append((target, at))
                self._waiting.add(target)
                if len(self._lanes[lane]) == 1 and self._has_room(lane):
                    self._free.append(lane)
                return True
        return False

    def _launch(self) -> bool:
        """Give one feed its turn, the lanes one after the other; return whether there was one that may begin."""
        if not self._free or len(self._under_way) >= self.limit:
            return False
        lane = self._free.popleft()
        target, due = self._lanes[lane].popleft()
        self._waiting.discard(target)
        self._turn(target, lane, due)
        if not self._lanes[lane]:
            del self._lanes[lane]
        elif self._has_room(lane):
            self._free.append(lane)
        return True

    def _lane(self, target: str) -> str:
        return target if self._lane_of is None else self._lane_of(target)

    def _has_room(self, lane: str) -> bool:
        return self._busy.get(lane, 0) < LANE_WIDTH

    async def _wait(self, wakes: asyncio.Event) -> None:
        """Wait until a feed is due or something has changed; NAP at most."""
        now = self._clock.now()
        at = min(self._heap[0][0], now + NAP) if self._heap else now + NAP
        # Each refresh that ends wakes the loop: the alarm is set anew only for an earlier instant.
        if self._alarm is None or self._alarm.done() or at < self._alarm_at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm, self._alarm_at = asyncio.ensure_future(self._ring(at - now, wakes)), at
        await wakes.wait()

    async def _ring(self, seconds: Seconds, wakes: asyncio.Event) -> None:
        await self._clock.sleep(seconds)
        wakes.set()

    def _turn(self, target: str, lane: str, due: Instant) -> None:
        match self._look(target):
            case Refresh():
                self._busy[lane] = self._busy.get(lane, 0) + 1
                task = asyncio.ensure_future(self._refreshed(target, lane, due))
                self._under_way[task] = time.monotonic()
            case Later(at):
                self._put(target, at)
            case Rest():
                pass
            case never:
                assert_never(never)

    async def _refreshed(self, target: str, lane: str, due: Instant) -> None:
        """Refresh a feed that is due since that instant."""
        try:
            await self._refresh(target)
        except Exception:
            logger.exception("scheduler: refresh failed")
        finally:
            task = asyncio.current_task()
            assert task is not None
            began = self._under_way.pop(task)
            self._took += SMOOTHING * (time.monotonic() - began - self._took)
            self._leave(lane)

    def _leave(self, lane: str) -> None:
        had_room = self._has_room(lane)
        self._busy[lane] -= 1
        if not self._busy[lane]:
            del self._busy[lane]
        if lane in self._lanes and not had_room:
            self._free.append(lane)
        if self._waiting and self._wakes is not None:
            self._wakes.set()
