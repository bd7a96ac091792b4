"""What happened lately, in memory: the last requests of readers, the last fetches of a feed, and what never worked.

The journal is the service's Observer: it tells the metrics of every fetch, keeps it, and logs those that no reader
waited for. Targets are kept as they are, and shown without their secrets (`shown`).
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.http import uri
from feedproxy.refresh.result import RefreshFinished, RefreshObserver
from feedproxy.settings import Settings
from feedproxy.telemetry.redacted import View, redact_text

logger = logging.getLogger("feedproxy.fetch")

REQUESTS_MAX = 50
"""Requests kept: what fits on a page."""

FETCHES_MAX = 50
"""Fetches kept of each feed."""

FETCH_SIZE = 320
"""Bytes of a fetch in memory. All fetches together take `MemoryLimits.fetches` at most; the feeds fetched longest ago
lose theirs first."""

FAILED_MAX = 100
"""Addresses kept that never gave a feed."""

REASON_LENGTH_MAX = 300


@dataclass(frozen=True, slots=True)
class RequestActivity:
    """A reader's request; `agent` is the User-Agent."""

    at: Instant
    entrance: str
    method: str
    target: str
    status: int
    size: int
    cache: str
    agent: str


@dataclass(frozen=True, slots=True)
class FetchActivity:
    """A fetch from an origin. `occasion` is why it was asked: `reader`, `background` or `push`."""

    at: Instant
    occasion: str
    status: int | None
    size: int
    seconds: Seconds
    outcome: str
    detail: str
    words: str


@dataclass(frozen=True, slots=True)
class FailedAddress:
    """An address that never gave a feed: the last try, and how many there were."""

    target: str
    first: Instant
    count: int
    last: FetchActivity


class RecentActivity:
    """Keeps what happened lately in this process."""

    def __init__(
        self,
        metrics: RefreshObserver,
        clock: Clock,
        settings: Callable[[], Settings],
        name_in_log: Callable[[str], str],
    ) -> None:
        """`name_in_log` gives a target as the log names it."""
        self._metrics = metrics
        self._clock = clock
        self._settings = settings
        self._name_in_log = name_in_log
        self._requests: deque[RequestActivity] = deque(maxlen=REQUESTS_MAX)
        self._fetches: OrderedDict[str, deque[FetchActivity]] = OrderedDict()
        self._count = 0
        self._failed: OrderedDict[str, FailedAddress] = OrderedDict()

    # -- the service's Observer

    def updated(self, update: RefreshFinished) -> None:
        """An update of a target is over."""
        self._metrics.updated(update)
        told = FetchActivity(
            self._clock.now(),
            update.occasion,
            update.status,
            update.received_size,
            update.seconds,
            update.outcome,
            update.detail,
            update.reason[:REASON_LENGTH_MAX],
        )
        self._keep(update.target, told)
        if update.is_feed:
            self._failed.pop(update.target, None)
        elif update.is_missing_feed:
            self._keep_failed(update.target, told)
        if update.occasion != "reader" and self._settings().log_format != "off":
            log_fetch(self._name_in_log(uri.without_fragment(update.target)), told)

    def scheduled(self, target: str) -> None:
        """The schedule asks for an update of a target."""
        self._metrics.scheduled(target)

    # -- readers

    def asked(self, asked: RequestActivity) -> None:
        """A reader was answered."""
        self._requests.append(asked)

    # -- who looks

    def requests(self) -> list[RequestActivity]:
        """The last requests of readers, the newest last."""
        return list(self._requests)

    def fetches(self, target: str) -> list[FetchActivity]:
        """The last fetches of a target, the newest last."""
        return list(self._fetches.get(target, ()))

    def failed(self) -> list[FailedAddress]:
        """The addresses that never gave a feed, the latest try last."""
        return list(self._failed.values())

    def plain(self) -> dict[str, Any]:
        """Requests and failures, for another process."""
        failed = [[each.target, each.first, each.count, list(astuple(each.last))] for each in self._failed.values()]
        return {"requests": [list(astuple(each)) for each in self._requests], "failed": failed}

    def _keep(self, target: str, told: FetchActivity) -> None:
        kept = self._fetches.setdefault(target, deque(maxlen=FETCHES_MAX))
        self._count += len(kept) < FETCHES_MAX
        kept.append(told)
        self._fetches.move_to_end(target)
        while self._count * FETCH_SIZE > self._settings().memory.fetches:
            self._count -= len(self._fetches.popitem(last=False)[1])

    def _keep_failed(self, target: str, told: FetchActivity) -> None:
        before = self._failed.pop(target, None)
        first, count = (before.first, before.count) if before is not None else (told.at, 0)
        self._failed[target] = FailedAddress(target, first, count + 1, told)
        while len(self._failed) > FAILED_MAX:
            self._failed.popitem(last=False)


def log_fetch(name: str, told: FetchActivity) -> None:
    """Write the line of a fetch that no reader waited for; `name` is its target without secrets."""
    reason = redact_text(told.words)
    fields = {"event": "fetch", "target": name, **fetch_summary(told), "reason": reason}
    status = told.status if told.status is not None else 0
    level = logging.WARNING if told.outcome == "failed" else logging.INFO
    words = f"{told.occasion} fetch {name} {status} {told.size} {told.seconds * 1000:.1f}ms [{told.outcome}] {reason}"
    logger.log(level, "%s", words.rstrip(), extra={"fields": fields})


# -- several processes


def merge_requests(plain: Iterable[Mapping[str, Any]], own: Iterable[RequestActivity]) -> list[RequestActivity]:
    """The last requests of all processes, the newest first. Raises ValueError, LookupError or TypeError."""
    told = [*own, *(RequestActivity(*each) for journal in plain for each in journal["requests"])]
    return sorted(told, key=lambda each: -each.at)[:REQUESTS_MAX]


def merge_failures(plain: Iterable[Mapping[str, Any]], own: Iterable[FailedAddress]) -> list[FailedAddress]:
    """The failures of all processes, the latest first; an address that several have tried is there once."""
    found: dict[str, FailedAddress] = {}
    theirs = (
        FailedAddress(target, first, count, FetchActivity(*last))
        for journal in plain
        for target, first, count, last in journal["failed"]
    )
    for each in (*own, *theirs):
        other = found.get(each.target)
        found[each.target] = each if other is None else _merge_failed(each, other)
    return sorted(found.values(), key=lambda each: -each.last.at)[:FAILED_MAX]


def _merge_failed(one: FailedAddress, other: FailedAddress) -> FailedAddress:
    latest = max(one, other, key=lambda each: each.last.at)
    return FailedAddress(one.target, min(one.first, other.first), one.count + other.count, latest.last)


def merge_fetches(told: Iterable[FetchActivity]) -> list[FetchActivity]:
    """The last fetches of a feed, the newest first."""
    return sorted(told, key=lambda each: -each.at)[:FETCHES_MAX]


def fetch_summary(told: FetchActivity) -> View:
    """Return a fetch as plain values, without the reason."""
    return {
        "occasion": told.occasion,
        "status": told.status,
        "bytes": told.size,
        "seconds": round(told.seconds, 3),
        "outcome": told.outcome,
        "detail": told.detail,
    }
