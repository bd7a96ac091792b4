"""Prometheus metrics, in the words of Cache-Status. They carry no URLs and no readers.

One registry per Runtime: several can live in one process, as in tests. Counters move as things happen; gauges
are set when somebody looks (`observe`).
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import Metric

from feedproxy import __version__
from feedproxy.cache.cache_status import CacheStatus, Detail, Fwd
from feedproxy.clock import Seconds
from feedproxy.refresh.result import RefreshFinished
from feedproxy.telemetry.aggregation import FamilyCollector
from feedproxy.telemetry.histogram import LabelledHistogram
from feedproxy.telemetry.history import TrafficCounts

logger = logging.getLogger(__name__)

# When each counter was made is a third of the lines, and nobody asks for it.
disable_created_metrics()  # the library leaves it so

SECONDS = (0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30)

NO_FAILURE = frozenset({"", Detail.MOVED, Detail.GONE, Detail.OVERSIZED})
"""Details of an update that came to a good end all the same."""

PASSED_OUTCOMES = frozenset({f"fwd={Fwd.METHOD}", f"fwd={Fwd.BYPASS}"})
PASSED_DETAILS = frozenset({Detail.PASS_THROUGH, Detail.OVERSIZED})
"""Outcomes and details of requests that went to the origin on their own, whatever is stored."""

CODES = frozenset(str(int(each)) for each in HTTPStatus) | {"0"}
"""Values of the label `status`: an origin may send any three digits, and each would be kept for ever."""

ERROR = 400
"""Statuses from here on are errors (RFC 9110, section 15)."""

COUNTERS_MAX = 1024
"""Counters of one metric that are at hand by their labels: more than there are sets of labels, which are closed."""

STORE_ERROR_LOG_INTERVAL: Seconds = 60
"""Time after which a failure of the store in the same words is logged again."""
REASON_LENGTH_MAX = 64
"""Failures of the store that are known by their words; they name parts of it, not feeds."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Totals:
    """What has happened since the start.

    Answers of our own, such as refusals, are among `answered` only, and so is CONNECT. `passed` are those of
    `forwarded` that streamed through, which no cache could have spared the origin.
    """

    answered: int
    hits: int
    forwarded: int
    passed: int
    origin_requests: int
    origin_failures: int
    bytes_sent: int

    @property
    def hit_share(self) -> float | None:
        """Of the requests for targets, the part that the store answered; None before the first."""
        asked = self.hits + self.forwarded
        return self.hits / asked if asked else None

    @property
    def saved(self) -> int:
        """Requests that origins did not get: those of readers, less those that went out for whatever reason."""
        return max(0, self.hits + self.forwarded - self.passed - self.origin_requests)


class Metrics:
    """Counts what happens; also the service's Observer."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._watchers: list[Callable[[str], None]] = []
        self._store_words: dict[str, Seconds] = {}
        self.keep: Callable[[list[Metric]], None] | None = None
        """Is given what somebody looks at: what has been shown must not fall when this process dies."""
        self._flush_hooks: list[Callable[[], None]] = []
        # Memory, processor time and open files of this process, by Prometheus's own names.
        ProcessCollector(registry=self.registry)
        info = Gauge("feedproxy_info", "Always 1; which version this is.", ("version",), registry=self.registry)
        info.labels(__version__).set(1)
        self._requests = Counter(
            "feedproxy_requests",
            "Requests answered, by entrance (connect: CONNECT), what became of them (RFC 9211; tunnel, intercept, "
            "refused: of CONNECT), detail, and status (other: a code that nobody has registered).",
            ("entrance", "outcome", "detail", "status"),
            registry=self.registry,
        )
        self._seconds = LabelledHistogram(
            "feedproxy_request_seconds",
            "Seconds from a request's head to its answer.",
            "outcome",
            SECONDS,
            registry=self.registry,
        )
        self._bytes = Counter(
            "feedproxy_response_bytes",
            "Bytes of content sent to readers, by entrance and source: store, origin, stream (passed through), own.",
            ("entrance", "source"),
            registry=self.registry,
        )
        self._origin = Counter(
            "feedproxy_origin_requests",
            "Updates asked of origins, by the status that came back (0: none; other: an unregistered one) and detail.",
            ("status", "detail"),
            registry=self.registry,
        )
        # The library looks for a counter by its labels under a lock, for two microseconds: more than counting takes.
        self._request_of = lru_cache(COUNTERS_MAX)(self._requests.labels)
        self._bytes_of = lru_cache(COUNTERS_MAX)(self._bytes.labels)
        self._origin_of = lru_cache(COUNTERS_MAX)(self._origin.labels)
        self._origin_bytes = Counter(
            "feedproxy_origin_stored_bytes", "Bytes made ready from what origins sent.", registry=self.registry
        )
        self._received = Counter(
            "feedproxy_origin_received_bytes",
            "Bytes of content that origins sent, as they came; what streams through is not among them.",
            registry=self.registry,
        )
        self._origin_seconds = Histogram(
            "feedproxy_origin_seconds", "Seconds an update took.", buckets=SECONDS, registry=self.registry
        )
        self._scheduled = Counter(
            "feedproxy_scheduled_refreshes",
            "Updates that the schedule asked for, ahead of readers.",
            registry=self.registry,
        )
        self._store_failures = Counter(
            "feedproxy_store_failures", "Reads and writes of the store that failed.", registry=self.registry
        )
        self.stored = Gauge("feedproxy_stored_resources", "Targets held in the store.", registry=self.registry)
        self.under_way = Gauge("feedproxy_updates_under_way", "Updates under way.", registry=self.registry)
        self.connections = Gauge("feedproxy_connections", "Connections from readers.", registry=self.registry)
        self.subscribers = Gauge(
            "feedproxy_subscribers", "Subscribers of all feeds together, claims included.", registry=self.registry
        )
        self.feeds_read = Gauge(
            "feedproxy_feeds_read", "Feeds somebody asked for within subscriber_window.", registry=self.registry
        )
        self._fleet_up = Gauge(
            "feedproxy_fleet_up", "1 while the fleet's Redis answers; 0 while it is away.", registry=self.registry
        )
        self._fleet_waiting = Gauge(
            "feedproxy_fleet_waiting", "What the fleet's Redis is still to be told.", registry=self.registry
        )
        self._fleet_events = Counter(
            "feedproxy_fleet_events",
            "What happened with the fleet: copies sent, taken-in (another machine had fetched them) and refused (there "
            "was a later one, or Redis would not), lease-lost, gap (news missed), compared (all that is held), away.",
            ("event",),
            registry=self.registry,
        )
        self._fleet_seen: dict[str, int] = {}
        self.draining = Gauge("feedproxy_draining", "1 while the proxy is shutting down.", registry=self.registry)

    def answered(self, entrance: str, status: int, cache: CacheStatus, size: int, seconds: Seconds) -> None:
        """A reader was answered."""
        outcome = "hit" if cache.hit else f"fwd={cache.fwd}" if cache.fwd else "own"
        # An error page of ours, for what an origin did not answer or answered otherwise, was spared to no origin.
        own = status >= ERROR and not cache.hit and cache.fwd_status != status
        self._count(entrance, outcome, cache.detail or "", status, size, seconds, own=own)

    def count_hits(self, entrance: str, status: int, detail: str, size: int, count: int) -> None:
        """So many readers were answered with the same hit, at once and alike; `size` is that of all together."""
        self._request_of(entrance, "hit", detail, _code(status)).inc(count)
        self._seconds.observe("hit", 0.0, count)
        self._bytes_of(entrance, "store").inc(size)

    def add_flush_hook(self, settle: Callable[[], None]) -> None:
        """Whoever adds up by himself is asked to bring it before anybody looks."""
        self._flush_hooks.append(settle)

    def _flush(self) -> None:
        for settle in self._flush_hooks:
            settle()

    def connected(self, outcome: str, status: int, detail: str, size: int, seconds: Seconds) -> None:
        """A CONNECT was answered: `tunnel`, `intercept` or `refused`. What a tunnel carries is not counted."""
        self._count("connect", outcome, detail, status, size, seconds)

    def _count(
        self, entrance: str, outcome: str, detail: str, status: int, size: int, seconds: Seconds, *, own: bool = False
    ) -> None:
        self._request_of(entrance, outcome, detail, _code(status)).inc()
        self._seconds.observe(outcome, max(0.0, seconds))
        source = _source(outcome, detail)
        self._bytes_of(entrance, "own" if own and source == "origin" else source).inc(size)

    def updated(self, update: RefreshFinished) -> None:
        """An update of a target is over."""
        self.fetched(
            update.target, update.status, update.detail, update.content_size, update.seconds, update.received_size
        )

    def fetched(
        self, target: str, status: int | None, detail: str, sent: int, seconds: Seconds, received: int = 0
    ) -> None:
        """An update of a target is over: `sent` bytes were made ready of the `received` ones."""
        if status is not None or detail != Detail.FORBIDDEN_ADDRESS:  # by our own veto nothing was asked
            self._origin_of(_code(status or 0), detail).inc()
            self._origin_bytes.inc(sent)
            self._received.inc(received)
            self._origin_seconds.observe(max(0.0, seconds))
        for watcher in self._watchers:
            watcher(target)

    def scheduled(self, target: str) -> None:
        """The schedule asks for an update of a target."""
        self._scheduled.inc()

    def watch(self, watcher: Callable[[str], None]) -> None:
        """Let somebody know the target of every update that is over. He must be quick."""
        self._watchers.append(watcher)

    def observe_process(self, *, under_way: int, connections: int) -> None:
        """Set the gauges that are each process's own."""
        self.under_way.set(under_way)
        self.connections.set(connections)

    def observe(
        self, *, stored: int, under_way: int, connections: int, subscribers: int, feeds_read: int, draining: bool
    ) -> None:
        """Set the gauges to what is so now."""
        self.observe_process(under_way=under_way, connections=connections)
        self.stored.set(stored)
        self.subscribers.set(subscribers)
        self.feeds_read.set(feeds_read)
        self.draining.set(draining)

    def observe_fleet(self, *, up: bool, waiting: int, events: Mapping[str, int]) -> None:
        """How it stands with the other machines; `events` are counted from the start."""
        self._fleet_up.set(up)
        self._fleet_waiting.set(waiting)
        for event, count in events.items():
            self._fleet_events.labels(event).inc(count - self._fleet_seen.get(event, 0))
            self._fleet_seen[event] = count

    def families(self) -> list[Metric]:
        """Everything, as it is now."""
        self._flush()
        families = list(self.registry.collect())
        if self.keep is not None:
            self.keep(families)
        return families

    def touched(self, target: str) -> None:
        """Another process has updated a target."""
        for watcher in self._watchers:
            watcher(target)

    def totals(self, families: Iterable[Metric] | None = None) -> Totals:
        """The counters, summed up for people: these families', or our own."""
        told = {family.name: family for family in (self.families() if families is None else families)}
        answered = hits = forwarded = passed = 0
        for labels, count in _samples(told["feedproxy_requests"]):
            answered += count
            hits += count if labels["outcome"] == "hit" else 0
            is_forwarded = labels["outcome"].startswith("fwd=")
            forwarded += count if is_forwarded else 0
            passed += count if _source(labels["outcome"], labels["detail"]) == "stream" else 0
        updates = _samples(told["feedproxy_origin_requests"])
        return Totals(
            answered,
            hits,
            forwarded,
            passed,
            sum(count for _, count in updates),
            sum(count for labels, count in updates if labels["detail"] not in NO_FAILURE),
            sum(count for _, count in _samples(told["feedproxy_response_bytes"])),
        )

    def tally(self) -> TrafficCounts:
        """What this process has counted since its start, for the history."""
        told = {family.name: family for family in self.families()}
        totals = self.totals(told.values())
        sent = sum(
            count
            for labels, count in _samples(told["feedproxy_response_bytes"])
            if labels["source"] in ("store", "origin")
        )
        requests = _samples(told["feedproxy_requests"])
        return TrafficCounts(
            requests=totals.hits + totals.forwarded - totals.passed,
            hits=totals.hits,
            passed=totals.passed,
            fetches=totals.origin_requests,
            failures=totals.origin_failures,
            sent=sent,
            received=sum(count for _, count in _samples(told["feedproxy_origin_received_bytes"])),
            store_failures=sum(count for _, count in _samples(told["feedproxy_store_failures"])),
            errors=sum(count for labels, count in requests if labels["detail"] == Detail.INTERNAL_ERROR),
        )

    def store_failed(self, error: Exception) -> None:
        """The store failed: a miss to the reader, a count to the operator, and the same line once a minute."""
        self._store_failures.inc()
        words, now = str(error), time.monotonic()
        if now - self._store_words.get(words, -STORE_ERROR_LOG_INTERVAL) < STORE_ERROR_LOG_INTERVAL:
            return
        if len(self._store_words) >= REASON_LENGTH_MAX:
            self._store_words.clear()
        self._store_words[words] = now
        logger.warning("store: %s", words)

    def exposition(self, families: Iterable[Metric] | None = None) -> bytes:
        """Everything, as Prometheus reads it: these families, or our own."""
        return generate_latest(FamilyCollector(self.families() if families is None else list(families)))


def _source(outcome: str, detail: str) -> str:
    """Where the content of an answer came from, as a label."""
    if outcome == "hit":
        return "store"
    if not outcome.startswith("fwd="):
        return "own"
    return "stream" if outcome in PASSED_OUTCOMES or detail in PASSED_DETAILS else "origin"


def _code(status: int) -> str:
    """A status as a label."""
    code = str(status)
    return code if code in CODES else "other"


def _samples(family: Metric) -> list[tuple[dict[str, str], int]]:
    """Labels and count of each child, without the instants of creation."""
    return [(sample.labels, int(sample.value)) for sample in family.samples if sample.name.endswith("_total")]
