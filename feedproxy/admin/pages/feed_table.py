"""The table of stored feeds without their contents.

The first use reads the whole store, each later use only the new and the updated feeds (`touch`). The longer a table
took to make, the longer it is reused, so that reloading the page does not slow down clients.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.admin.pages.resource_views import is_feed, row_view, view_resource
from feedproxy.cache.stored_response import Bodies
from feedproxy.clock import Instant, Seconds
from feedproxy.cooperative_iteration import iterate_cooperatively
from feedproxy.proxy.service import Service
from feedproxy.request.feed_id import feed_id
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource
from feedproxy.telemetry.page_redaction import View

FEEDS_MAX = 20_000
"""Maximum number of feeds in the table. A feed takes about 4 KB of memory."""
TARGETS_MAX = 200_000
"""At most this many targets in the store are searched for feeds. A proxy for browsers stores many other responses."""
REUSE_FACTOR = 10
"""A table is reused for this many times the CPU time that it took to make. Making tables therefore takes at most a
tenth of the time of one CPU core."""


type SettingsFor = Callable[[str], Settings]


class FeedTable(Struct, frozen=True):
    """The table of feeds at one instant. `others` is the number of stored targets that are not feeds. `complete` is
    False if a limit has left feeds out."""

    at: Instant
    rows: tuple[View, ...]
    others: int
    complete: bool


class FeedTableCache:
    """Cache of the feed table of one service."""

    def __init__(self) -> None:
        self._rows_by_target: dict[str, Resource | None] = {}  # None for a target that is not a feed
        self._ids: dict[str, str] = {}
        self._touched: set[str] = set()
        self._table: FeedTable | None = None
        self._read_at = -inf
        self._cost: Seconds = 0.0  # CPU time of the rows and the table
        self._count = 0
        self._count_until = 0.0
        self._lock = asyncio.Lock()

    def touch(self, target: str) -> None:
        if target in self._rows_by_target:
            self._touched.add(target)

    def forget(self, targets: Iterable[str]) -> None:
        """Discard the table. The next table reads these targets again."""
        for target in targets:
            self.touch(target)
        self._read_at = -inf

    def target_of(self, identifier: str) -> str | None:
        """Return the target with this id in the last table, or None if the table has no such target."""
        return self._ids.get(identifier)

    async def table(self, service: Service, settings_for: SettingsFor, now: Instant) -> FeedTable:
        """Return the table, which is at most one minute old."""
        async with self._lock:
            await self._update_rows(service)
            if self._table is None:
                start = time.process_time()
                rows = [row async for row in self._rows(service, settings_for, now)]
                others = sum(1 for row in self._rows_by_target.values() if row is None)
                complete = len(rows) < FEEDS_MAX and len(self._rows_by_target) < TARGETS_MAX
                self._table = FeedTable(now, tuple(rows), others, complete)
                self._cost += time.process_time() - start
            return self._table

    async def feeds(self, service: Service) -> list[str]:
        """Return the targets of the stored feeds, as they were at most one minute ago. This takes less time than the
        table, except at the first use."""
        async with self._lock:
            await self._update_rows(service)
            return [
                target for target, row in self._rows_by_target.items() if row is not None and row.channel is not None
            ]

    async def count(self, service: Service) -> int:
        """Return the number of stored targets. The targets are counted at most once a second, and less often if
        counting takes long."""
        if time.monotonic() >= self._count_until:
            start = time.monotonic()
            self._count = sum([1 async for _ in iterate_cooperatively(service.store.targets())])
            self._count_until = time.monotonic() + max(1.0, REUSE_FACTOR * (time.monotonic() - start))
        return self._count

    async def _update_rows(self, service: Service) -> None:
        if time.monotonic() < self._read_at + min(60.0, max(0.5, REUSE_FACTOR * self._cost)):
            return
        start, self._table = time.process_time(), None
        touched, self._touched = self._touched, set()
        before, resources, ids = self._rows_by_target, dict[str, Resource | None](), dict[str, str]()
        async for target in iterate_cooperatively(service.store.targets()):
            if len(resources) >= TARGETS_MAX or len(ids) >= FEEDS_MAX:
                break
            is_known = target in before and target not in touched
            if not is_known:
                await service.store.load(target)
            resource = resources[target] = before[target] if is_known else _row_resource(service.store.peek(target))
            if resource is not None:
                ids[feed_id(target)] = target
        self._rows_by_target, self._ids = resources, ids
        self._read_at, self._cost = time.monotonic(), time.process_time() - start

    async def _rows(self, service: Service, settings_for: SettingsFor, now: Instant) -> AsyncIterator[View]:
        async for resource in iterate_cooperatively(list(self._rows_by_target.values())):
            if resource is not None:
                view = view_resource(resource, service, settings_for(resource.target), now)
                yield row_view(view, service.counts.total(resource.target, now))


def _row_resource(resource: Resource | None) -> Resource | None:
    if resource is None or not is_feed(resource):
        return None
    newest = (
        replace(variant, content=replace(variant.content, bodies=Bodies({}))) for variant in resource.variants[-1:]
    )
    return replace(resource, variants=tuple(newest), parts=())
