"""The roll of what is held: every feed without its bodies, so that a page about ten thousand feeds reads none of them.

The first look walks through the whole store, in slices that let readers' requests pass between them. Later ones
read what is new and what was updated since, as the metrics tell (`watch`). What is reckoned from it is good for
a moment, the longer the more it cost: looking at the page again and again must not cost readers anything.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace

from feedproxy.admin.serializers import is_feed, row_view, view_resource
from feedproxy.aio import yielding
from feedproxy.clock import Instant
from feedproxy.proxy.service import Service
from feedproxy.request.upstream_request import feed_id
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource
from feedproxy.telemetry.redacted import View

FEEDS_MAX = 20_000
"""Feeds on the roll: some 4 KB each."""
TARGETS_MAX = 200_000
"""Targets looked at to find them: a proxy that browsers use holds many other things."""
REUSE_TIME = 10
"""Times its own cost for which a result is used again: looking takes a tenth of one core at most."""


type SettingsFor = Callable[[str], Settings]


@dataclass(frozen=True, slots=True)
class FeedTable:
    """The table of feeds as it was at one moment; `others` counts what is held and no feed."""

    at: Instant
    rows: tuple[View, ...]
    others: int
    complete: bool


class FeedTableCache:
    """Keeps the roll of one service."""

    def __init__(self) -> None:
        self._rows_by_target: dict[str, Resource | None] = {}  # None: no feed
        self._ids: dict[str, str] = {}
        self._touched: set[str] = set()
        self._roll: FeedTable | None = None
        self._good_until = 0.0
        self._count = 0
        self._count_until = 0.0
        self._lock = asyncio.Lock()

    def touch(self, target: str) -> None:
        """Something has happened to this target."""
        if target in self._rows_by_target:
            self._touched.add(target)

    def forget(self, targets: Iterable[str]) -> None:
        """The operator has done something to these: what is shown next is reckoned anew."""
        for target in targets:
            self.touch(target)
        self._good_until = 0.0

    def target_of(self, identifier: str) -> str | None:
        """The target with this id, as far as it is on the roll."""
        return self._ids.get(identifier)

    async def roll(self, service: Service, settings_for: SettingsFor, now: Instant) -> FeedTable:
        """The roll now, or as it was a moment ago."""
        async with self._lock:
            if self._roll is not None and time.monotonic() < self._good_until:
                return self._roll
            began = time.process_time()
            await self._update_rows(service)
            rows = [each async for each in self._rows(service, settings_for, now)]
            others = sum(1 for each in self._rows_by_target.values() if each is None)
            complete = len(rows) < FEEDS_MAX and len(self._rows_by_target) < TARGETS_MAX
            self._roll = FeedTable(now, tuple(rows), others, complete)
            cost = time.process_time() - began
            self._good_until = time.monotonic() + min(60.0, max(0.5, REUSE_TIME * cost))
            return self._roll

    async def count(self, service: Service) -> int:
        """How many targets are held, feeds or not, now or a moment ago."""
        if time.monotonic() >= self._count_until:
            began = time.monotonic()
            self._count = sum([1 async for _ in yielding(service.store.targets())])
            self._count_until = time.monotonic() + max(1.0, REUSE_TIME * (time.monotonic() - began))
        return self._count

    async def _update_rows(self, service: Service) -> None:
        touched, self._touched = self._touched, set()
        before, held, ids = self._rows_by_target, dict[str, Resource | None](), dict[str, str]()
        async for target in yielding(service.store.targets()):
            if len(held) >= TARGETS_MAX or len(ids) >= FEEDS_MAX:
                break
            known = target in before and target not in touched
            resource = held[target] = before[target] if known else _row_resource(service.store.peek(target))
            if resource is not None:
                ids[feed_id(target)] = target
        self._rows_by_target, self._ids = held, ids

    async def _rows(self, service: Service, settings_for: SettingsFor, now: Instant) -> AsyncIterator[View]:
        async for resource in yielding(list(self._rows_by_target.values())):
            if resource is not None:
                seen = view_resource(
                    resource,
                    service.admin.freshness_of,
                    settings_for(resource.target),
                    now,
                    service.admin.prefetch_plan,
                )
                yield row_view(seen, service.counts.total(resource.target, now))


def _row_resource(resource: Resource | None) -> Resource | None:
    """The resource with nothing but what a row is made of; None for what is no feed."""
    if resource is None or not is_feed(resource):
        return None
    newest = (replace(each, content=replace(each.content, bodies={})) for each in resource.variants[-1:])
    return replace(resource, variants=tuple(newest), parts=())
