"""The scheduler of refreshes ahead of readers: a heap with one instant per feed, and a lane (queue) for each site.

At the instant of a feed, the policy (policy/refresh_ahead.py) decides again whether the feed is due. A due refresh
waits in the lane of its site, so that a slow site does not delay others. The number of concurrent refreshes is adapted,
so that the due refreshes finish within DRAIN_TIME seconds.
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

from feedproxy.background_work import cancel
from feedproxy.clock import Clock, Instant, Seconds, is_set_back
from feedproxy.cooperative_iteration import THROTTLED_BLOCKING_TIME, iterate_cooperatively, iterate_in_background
from feedproxy.http.target_uri.url_redaction import redact_target
from feedproxy.refresh.policy.refresh_ahead import Later, Plan, Refresh, Rest

logger = logging.getLogger(__name__)

CONCURRENT_MIN = 8
"""The scheduler may always run this many refreshes concurrently."""

CONCURRENT_MAX = 160
"""Maximum number of concurrent scheduled refreshes. The limit of connections to origins
(upstream/origin_connection_limits.py) is higher by 40, for refreshes that readers wait for."""

LANE_WIDTH = 2
"""At most this many scheduled refreshes of one site run concurrently, as in RFC 2616, section 8.1.4."""

DRAIN_TIME: Seconds = 10
"""All due refreshes should be finished within this many seconds."""

SLOW_AFTER: Seconds = 5
"""A refresh that has run for this many seconds no longer counts as concurrent, so that another may start."""

SMOOTHING = 0.1
"""Weight of the last refresh in the exponentially smoothed mean duration of refreshes."""

SLEEP_MAX: Seconds = 60
"""The scheduler sleeps for at most this many seconds. After a suspension of the machine, the schedule is late by at
most this time."""


class RefreshScheduler:
    """The schedule of refreshes ahead of readers.

    * `plan_for` returns the plan for one feed.
    * `plan_due` returns the plan just before a refresh of the feed would start.
    * `refresh` fetches a feed.
    * `load_due` reads the feed for `plan_due`.
    * `lane_of` returns the lane of a feed, usually its site.
    * `surprises` returns the feeds that readers polled at unexpected times. These feeds are planned again, unless their
      plan is already the earliest possible one.
    """

    def __init__(
        self,
        clock: Clock,
        plan_for: Callable[[str], Plan],
        refresh: Callable[[str], Awaitable[object]],
        *,
        plan_due: Callable[[str], Plan],
        load_due: Callable[[str], Awaitable[None]],
        lane_of: Callable[[str], str],
        surprises: Callable[[], list[str]],
    ) -> None:
        self._clock = clock
        self._plan_for = plan_for
        self._plan_due = plan_due
        self._load_due = load_due
        self._refresh = refresh
        self._lane_of = lane_of
        self._surprises = surprises
        self._due: dict[str, Instant] = {}
        self._heap: list[tuple[Instant, str]] = []
        self._earliest: set[str] = set()
        """The feeds in `_due` that no poll can make due earlier."""
        self._lanes: dict[str, deque[tuple[str, Instant]]] = {}
        """The waiting feeds of each lane (site), with the instant from which each is due."""
        self._free: deque[str] = deque()
        """Lanes that may start the refresh of a waiting feed, each once, in the order in which they are served."""
        self._busy: dict[str, int] = {}
        """Number of refreshes in progress by lane."""
        self._waiting: set[str] = set()
        self._mean_duration: Seconds = 1.0
        self._runner: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._in_progress: dict[asyncio.Task[None], Seconds] = {}
        """For each refresh in progress: its start on the monotonic clock. The refreshes are in the order of their
        starts."""
        self._timer: asyncio.Task[None] | None = None
        self._timer_at: Instant = 0.0
        self._wake_event: asyncio.Event | None = None
        self._closed = False
        self._latest: Instant = 0.0

    def __len__(self) -> int:
        return len(self._due) + len(self._waiting)

    def __contains__(self, target: str) -> bool:
        return target in self._due or target in self._waiting

    @property
    def limit(self) -> int:
        """Return the maximum number of refreshes in progress now, including slow refreshes. The maximum suffices to
        finish the due refreshes within DRAIN_TIME seconds, up to CONCURRENT_MAX."""
        needed = math.ceil((len(self._waiting) + len(self._in_progress)) * self._mean_duration / DRAIN_TIME)
        begin = time.monotonic() - SLOW_AFTER
        slow = sum(1 for _ in takewhile(lambda began: began < begin, self._in_progress.values()))
        return min(max(CONCURRENT_MIN, needed) + slow, CONCURRENT_MAX)

    @property
    def next_at(self) -> Instant | None:
        """Return an instant before which no feed is due, or None if no feed is planned."""
        return self._heap[0][0] if self._heap else None

    @property
    def has_due(self) -> bool:
        """Return whether a refresh is due or in progress."""
        is_due = self.next_at is not None and self.next_at <= self._clock.now()
        return is_due or bool(self._waiting or self._in_progress)

    def start(self, targets: Iterable[str], earliest: Callable[[str], Instant | None]) -> None:
        """Plan these feeds, a few at a time.

        `earliest` returns an instant before which a feed is certainly not due, or None if it is unknown. A feed with
        such an instant is planned when the instant comes. The other feeds are planned in the background, in their
        order.
        """
        self._starting = asyncio.ensure_future(self._start(targets, earliest))
        self._ensure_running()

    def reschedule(self, target: str) -> None:
        """Plan a feed again after a change of its stored resource, its readers or its settings."""
        if self._closed:
            return
        match self._plan_for(target):
            case Refresh():
                self._put(target, self._clock.now())
            case Later(at, _, is_earliest):
                self._put(target, at, is_earliest=is_earliest)
            case Rest():
                self._due.pop(target, None)
                self._earliest.discard(target)
            case never:
                assert_never(never)

    async def close(self) -> None:
        """Start no further refreshes, and cancel the tasks that wait for refreshes in progress."""
        self._closed = True
        await cancel(self._runner, self._starting, self._timer, *self._in_progress)

    async def _start(self, targets: Iterable[str], earliest: Callable[[str], Instant | None]) -> None:
        others: list[str] = []
        async for target in iterate_cooperatively(targets, THROTTLED_BLOCKING_TIME):
            if target in self:
                continue
            at = earliest(target)
            if at is None:
                others.append(target)
            else:
                self._put(target, at)
        async for target in iterate_in_background(others):
            if target not in self:
                self.reschedule(target)

    def _put(self, target: str, at: Instant, *, is_earliest: bool = False) -> None:
        if target in self._waiting:
            return  # the feed is planned again before its refresh starts
        (self._earliest.add if is_earliest else self._earliest.discard)(target)
        planned = self._due.get(target)
        self._due[target] = at
        # For a later instant, the earlier entry of the heap suffices: `_collect` replaces it.
        if planned is None or at < planned:
            heapq.heappush(self._heap, (at, target))
            if len(self._heap) > 64 + 2 * len(self._due):  # most instants in the heap are superseded
                self._heap = [(at, target) for target, at in self._due.items()]
                heapq.heapify(self._heap)
        self._ensure_running()
        if self._wake_event is not None and self._heap[0] == (at, target):
            self._wake_event.set()

    def _ensure_running(self) -> None:
        if self._runner is None:
            self._wake_event = asyncio.Event()
            self._runner = asyncio.ensure_future(self._run(self._wake_event))

    async def _run(self, wake_event: asyncio.Event) -> None:
        while True:
            wake_event.clear()
            now = self._clock.now()
            if is_set_back(self._latest, now):
                # The clock was set back: all planned instants were computed before that, and are too late now.
                async for target in iterate_in_background(list(self._due)):
                    self.reschedule(target)
            self._latest = now
            async for target in iterate_cooperatively(self._surprises(), THROTTLED_BLOCKING_TIME):
                if target not in self._earliest:
                    self.reschedule(target)
            until = time.monotonic() + THROTTLED_BLOCKING_TIME
            while (has_collected := self._collect()) or (self._free and len(self._in_progress) < self.limit):
                if not has_collected:
                    # Hits are served while the feed is read, which takes as long as several collections.
                    await self._load_due(self._lanes[self._free[0]][0][0])
                    self._launch()
                if not has_collected or time.monotonic() >= until:
                    await asyncio.sleep(0)
                    until = time.monotonic() + THROTTLED_BLOCKING_TIME
            await self._wait(wake_event)

    def _collect(self) -> bool:
        """Move one due feed into its lane. Return False if no feed is due."""
        while self._heap and self._heap[0][0] <= self._clock.now():
            at, target = heapq.heappop(self._heap)
            due = self._due.get(target)
            if due is not None and due > at:
                heapq.heappush(self._heap, (due, target))
            elif due is not None:
                del self._due[target]
                self._earliest.discard(target)
                lane = self._lane_of(target)
                self._lanes.setdefault(lane, deque()).append((target, at))
                self._waiting.add(target)
                if len(self._lanes[lane]) == 1 and self._has_room(lane):
                    self._free.append(lane)
                return True
        return False

    def _launch(self) -> None:
        """Start the refresh of one waiting feed, taking the lanes in turn."""
        lane = self._free.popleft()
        target, due = self._lanes[lane].popleft()
        self._waiting.discard(target)
        self._start_refresh(target, lane, due)
        if not self._lanes[lane]:
            del self._lanes[lane]
        elif self._has_room(lane):
            self._free.append(lane)

    def _has_room(self, lane: str) -> bool:
        return self._busy.get(lane, 0) < LANE_WIDTH

    async def _wait(self, wake_event: asyncio.Event) -> None:
        """Wait until a feed is due, a refresh becomes slow while others wait, or `wake_event` is set."""
        now = self._clock.now()
        at = min(self._heap[0][0], now + SLEEP_MAX) if self._heap else now + SLEEP_MAX
        if self._waiting:
            slow_from = (began + SLOW_AFTER - time.monotonic() for began in self._in_progress.values())
            at = min(at, now + next((seconds + 0.001 for seconds in slow_from if seconds > 0), SLEEP_MAX))
        # Each refresh that ends wakes the loop. The timer is replaced only for an earlier instant.
        if self._timer is None or self._timer.done() or at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer, self._timer_at = asyncio.ensure_future(self._wake_after(at - now, wake_event)), at
        await wake_event.wait()

    async def _wake_after(self, seconds: Seconds, wake_event: asyncio.Event) -> None:
        await self._clock.sleep(seconds)
        wake_event.set()

    def _start_refresh(self, target: str, lane: str, due: Instant) -> None:
        match self._plan_due(target):
            case Refresh():
                self._busy[lane] = self._busy.get(lane, 0) + 1
                task = asyncio.ensure_future(self._run_refresh(target, lane))
                self._in_progress[task] = time.monotonic()
            case Later(at, _, is_earliest):
                self._put(target, at, is_earliest=is_earliest)
            case Rest():
                pass
            case never:
                assert_never(never)

    async def _run_refresh(self, target: str, lane: str) -> None:
        try:
            await asyncio.sleep(0)  # planning takes long, too: hits are served before the refresh starts
            await self._refresh(target)
        except Exception:
            logger.exception(
                "scheduler: refresh of %s failed by a defect of feedproxy; the copy is kept; please report the"
                " traceback",
                redact_target(target),
            )
        finally:
            task = asyncio.current_task()
            assert task is not None
            began = self._in_progress.pop(task)
            self._mean_duration += SMOOTHING * (time.monotonic() - began - self._mean_duration)
            self._end_refresh(lane)

    def _end_refresh(self, lane: str) -> None:
        had_room = self._has_room(lane)
        self._busy[lane] -= 1
        if not self._busy[lane]:
            del self._busy[lane]
        if lane in self._lanes and not had_room:
            self._free.append(lane)
        if self._waiting and self._wake_event is not None:
            self._wake_event.set()
