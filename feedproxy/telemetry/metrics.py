"""Prometheus metrics, with the terms of Cache-Status as labels, and without URLs and readers. Each App has its own
registry. Gauges are set at each scrape (admin/probes.py)."""

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from http import HTTPStatus
from itertools import accumulate

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import HistogramMetricFamily, Metric

from feedproxy import __version__
from feedproxy.cache.cache_status import CacheStatus, Detail, Fwd
from feedproxy.clock import Seconds
from feedproxy.event_signal import Signal
from feedproxy.refresh.refresh_events import RefreshEnded
from feedproxy.repeated_log_messages import RepeatedMessages
from feedproxy.telemetry.log_stream import dropped_line_count
from feedproxy.telemetry.traffic_history import TrafficCounts

logger = logging.getLogger(__name__)

# The creation times of counters would be a third of all lines.
disable_created_metrics()

NO_FAILURE = frozenset({"", Detail.MOVED, Detail.GONE, Detail.OVERSIZED})
"""Values of a refresh's `detail` that are no failure."""

PASSED_OUTCOMES = frozenset({f"fwd={Fwd.METHOD}", f"fwd={Fwd.BYPASS}"})
"""Outcomes in Cache-Status of requests that mitmproxy streamed."""
PASSED_DETAILS = frozenset({Detail.PASS_THROUGH, Detail.OVERSIZED})
"""Details in Cache-Status of requests that mitmproxy streamed although their outcome is not in PASSED_OUTCOMES."""

CODES = frozenset(map(str, (0, *map(int, HTTPStatus), *range(400, 500))))
"""Permitted values of the label `status`. All other statuses share the label UNREGISTERED.

An origin can send every number of three digits, and each value of a label takes memory. All client errors have their
own labels, because some unregistered ones (430, 499) are usual, and are no server errors.
"""
UNREGISTERED = "other"

ERROR = 400
"""Lowest status code that is an error (RFC 9110, section 15)."""

COUNTERS_MAX = 1024

FLEET_GAUGES = frozenset({"feedproxy_fleet_up", "feedproxy_fleet_waiting"})
"""Gauges that are left out if there is no fleet. The value 0 would set off the alert for a fleet without Redis."""

SUBSCRIBER_GAUGES = frozenset({"feedproxy_subscribers", "feedproxy_feeds_read"})
"""Gauges that are left out until the stored feeds have been read after a start."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


DURATION_BOUNDS: tuple[Seconds, ...] = (0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30)
"""Upper bounds of the buckets for responses to clients and requests to origins, in seconds."""


class RequestSeconds:
    """The histogram of the duration of requests by outcome, in place of prometheus_client's own, which takes a
    microsecond for each request: a fifth of the time of a hit."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, Seconds] = {}

    def observe(self, outcome: str, seconds: Seconds, times: int = 1) -> None:
        """Count `times` requests of the same duration."""
        counts = self._counts.get(outcome)
        if counts is None:
            counts = self._counts[outcome] = [0] * (len(DURATION_BOUNDS) + 1)
            self._sums[outcome] = 0.0
        counts[bisect_left(DURATION_BOUNDS, seconds)] += times
        self._sums[outcome] += seconds * times

    def collect(self) -> Iterable[Metric]:
        """Return the current samples."""
        text = "Seconds from the head of a request to its response."
        family = HistogramMetricFamily("feedproxy_request_seconds", text, labels=["outcome"])
        bounds = (*(str(float(bound)) for bound in DURATION_BOUNDS), "+Inf")
        for outcome, counts in self._counts.items():
            family.add_metric([outcome], list(zip(bounds, accumulate(counts), strict=True)), self._sums[outcome])
        return [family]


class Metrics:
    """Counters and gauges of one App."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.collected: Signal[list[Metric]] = Signal()
        """Emits the metric families at each scrape. A worker that replaces this worker continues these counters
        (workers/worker_messages.py)."""
        self._store_errors = RepeatedMessages()
        self._flush_hooks: list[Callable[[], None]] = []
        # Memory, processor time and open files of this process, under Prometheus's standard names.
        ProcessCollector(registry=self.registry)
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        info = gauge("feedproxy_info", "Always 1; the label is the version.", ("version",))
        info.labels(__version__).set(1)
        self._requests = counter(
            "feedproxy_requests",
            "Responses, by entrance, outcome, detail and status. Outcomes are those of RFC 9211. For CONNECT "
            "they are tunnel, intercept or refused. A status that is not registered is counted as other.",
            ("entrance", "outcome", "detail", "status"),
        )
        self._seconds = RequestSeconds()
        self.registry.register(self._seconds)
        self._bytes = counter(
            "feedproxy_response_bytes",
            "Bytes of content sent to readers, by entrance and source: store, origin, stream, or own (made by feedproxy"
            " itself).",
            ("entrance", "source"),
        )
        self._origin = counter(
            "feedproxy_origin_requests",
            "Requests to origins, by status (0: no response; other: an unregistered code except 4xx) and detail.",
            ("status", "detail"),
        )
        # The library looks a counter up by its labels under a lock in 2 µs, which is longer than counting takes.
        self._request_of = lru_cache(COUNTERS_MAX)(self._requests.labels)
        self._bytes_of = lru_cache(COUNTERS_MAX)(self._bytes.labels)
        self._origin_of = lru_cache(COUNTERS_MAX)(self._origin.labels)
        self._origin_bytes = counter(
            "feedproxy_origin_stored_bytes",
            "Bytes of stored content, in all codings, that feedproxy made from the responses of origins.",
        )
        self._received = counter(
            "feedproxy_origin_received_bytes", "Bytes of content received from origins, without streams."
        )
        self._origin_seconds = Histogram(
            "feedproxy_origin_seconds",
            "Seconds per request to an origin.",
            buckets=DURATION_BOUNDS,
            registry=self.registry,
        )
        self._scheduled = counter("feedproxy_scheduled_refreshes", "Refreshes started by the schedule.")
        self._store_failures = counter(
            "feedproxy_store_failures",
            "Failed reads and writes of the store, and failed transactions of the notification database.",
        )
        self.unwritten = gauge(
            "feedproxy_store_unwritten",
            "Values that could not be written to the disk yet. They are in memory, and feedproxy tries again.",
        )
        self._dropped_log_lines = counter(
            "feedproxy_log_lines_dropped", "Log lines that were dropped because the log was not read."
        )
        self._dropped_before = dropped_line_count()
        self.stored = gauge("feedproxy_stored_resources", "Targets in the store.")
        self.under_way = gauge("feedproxy_updates_under_way", "Refreshes in progress.")
        self.connections = gauge("feedproxy_connections", "Open connections of clients.")
        self._subscribers = gauge(
            "feedproxy_subscribers",
            "Subscribers of all feeds, including the numbers that feed services state. No value after a start until "
            "the stored feeds have been read.",
        )
        self._feeds_read = gauge(
            "feedproxy_feeds_read",
            "Feeds that were requested within subscriber_window. No value after a start until the stored feeds have "
            "been read.",
        )
        self._has_subscribers = False
        self._fleet_up = gauge(
            "feedproxy_fleet_up", "1 while the fleet's Redis answers, else 0. No value without a fleet."
        )
        self._fleet_waiting = gauge("feedproxy_fleet_waiting", "Changes that wait to be sent to the fleet's Redis.")
        self._fleet_events = counter(
            "feedproxy_fleet_events",
            "Events of the fleet: sent (this machine sent a copy to Redis), taken-in (it received a copy of another "
            "machine), refused (Redis refused a command, or has a newer copy), lease-lost (another machine acquired a "
            "lease before the fetch ended), gap (messages of Redis were missed), compared (all copies were compared "
            "with Redis), away (Redis did not answer).",
            ("event",),
        )
        self._fleet_seen: dict[str, int] = {}
        self.draining = gauge("feedproxy_draining", "1 while the proxy is shutting down.")

    def count_response(self, entrance: str, status: int, cache: CacheStatus, size: int, seconds: Seconds) -> None:
        """Count a response to a client."""
        outcome = "hit" if cache.hit else f"fwd={cache.fwd}" if cache.fwd else "own"
        # An error page of feedproxy saves no request to an origin.
        own = status >= ERROR and not cache.hit and cache.fwd_status != status
        self._count(entrance, outcome, cache.detail or "", status, size, seconds, own=own)

    def count_hits(self, entrance: str, status: int, detail: str, size: int, count: int) -> None:
        """Count `count` equal hits. `size` is the sum of their sizes in bytes."""
        self._request_of(entrance, "hit", detail, _status_label(status)).inc(count)
        self._seconds.observe("hit", 0.0, count)
        self._bytes_of(entrance, "store").inc(size)

    def add_flush_hook(self, flush: Callable[[], None]) -> None:
        """Call `flush` whenever the metrics are read, so that it can update counters and gauges first."""
        self._flush_hooks.append(flush)

    def _flush(self) -> None:
        dropped, before = dropped_line_count(), self._dropped_before
        self._dropped_log_lines.inc(max(0, dropped - before))
        self._dropped_before = dropped
        for flush in self._flush_hooks:
            flush()

    def count_connect(self, outcome: str, status: int, detail: str, size: int, seconds: Seconds) -> None:
        """Count a CONNECT with its outcome: `tunnel`, `intercept` or `refused`."""
        self._count("connect", outcome, detail, status, size, seconds)

    def _count(
        self, entrance: str, outcome: str, detail: str, status: int, size: int, seconds: Seconds, *, own: bool = False
    ) -> None:
        self._request_of(entrance, outcome, detail, _status_label(status)).inc()
        self._seconds.observe(outcome, max(0.0, seconds))
        source = _source(outcome, detail)
        self._bytes_of(entrance, "own" if own and source == "origin" else source).inc(size)

    def on_refresh_ended(self, event: RefreshEnded) -> None:
        """Count the fetch of a refresh that has ended. A refresh with pushed content has made no fetch."""
        if (record := event.record) is not None and record.occasion != "push":
            self.count_fetch(record.status, record.detail, record.content_size, record.seconds, record.received_size)

    def count_fetch(self, status: int | None, detail: str, sent: int, seconds: Seconds, received: int = 0) -> None:
        """Count a fetch, unless it was refused because of its address. `status` is None if there was no response.
        `received` is the number of bytes from the origin, `sent` the size of the resulting content for clients."""
        if status is not None or detail != Detail.FORBIDDEN_ADDRESS:  # no request was sent to a refused address
            self._origin_of(_status_label(status or 0), detail).inc()
            if sent or received:  # a 304 has no content
                self._origin_bytes.inc(sent)
                self._received.inc(received)
            self._origin_seconds.observe(max(0.0, seconds))

    def on_scheduled_refresh_started(self, target: str) -> None:
        self._scheduled.inc()

    def observe_subscribers(self, counts: Sequence[int]) -> None:
        """Set the metrics of subscribers. `counts` has the subscriber count of each feed with subscribers."""
        self._subscribers.set(sum(counts))
        self._feeds_read.set(len(counts))
        self._has_subscribers = True

    def observe_fleet(self, *, up: bool, waiting: int, events: Mapping[str, int]) -> None:
        """Set the metrics of the fleet. `up` is true if Redis answers, `waiting` is the number of changes that still
        have to be sent to Redis, and `events` contains counts since the start."""
        self._fleet_up.set(up)
        self._fleet_waiting.set(waiting)
        for event, count in events.items():
            self._fleet_events.labels(event).inc(count - self._fleet_seen.get(event, 0))
            self._fleet_seen[event] = count

    def families(self) -> list[Metric]:
        """Return the metric families of this process with their current values."""
        self._flush()
        families = list(self.registry.collect())
        unknown = set[str]() if self._fleet_seen else FLEET_GAUGES
        if not self._has_subscribers:
            unknown |= SUBSCRIBER_GAUGES
        for family in families:
            if family.name in unknown:
                family.samples = []
        self.collected.emit(families)
        return families

    def tally(self, families: Iterable[Metric] | None = None) -> TrafficCounts:
        """Return the counts since the start in `families` or, if `families` is None, in the families of this
        process."""
        by_name = {family.name: family for family in (self.families() if families is None else families)}
        hits = forwarded = passed = errors = 0
        for labels, count in _samples(by_name["feedproxy_requests"]):
            outcome, detail = labels["outcome"], labels["detail"]
            hits += count if outcome == "hit" else 0
            forwarded += count if outcome.startswith("fwd=") else 0
            passed += count if _source(outcome, detail) == "stream" else 0
            errors += count if detail == Detail.INTERNAL_ERROR else 0
        fetches = _samples(by_name["feedproxy_origin_requests"])
        contents = _samples(by_name["feedproxy_response_bytes"])
        return TrafficCounts(
            requests=hits + forwarded - passed,
            hits=hits,
            passed=passed,
            fetches=sum(count for _, count in fetches),
            failures=sum(count for labels, count in fetches if _is_failure(labels["status"], labels["detail"])),
            sent=sum(count for labels, count in contents if labels["source"] in ("store", "origin")),
            received=_total(by_name["feedproxy_origin_received_bytes"]),
            store_failures=_total(by_name["feedproxy_store_failures"]),
            errors=errors,
        )

    def on_store_failure(self, error: Exception) -> None:
        """Count a failure of the store. The same failure is logged at most once a minute."""
        self._store_failures.inc()
        message = str(error).removeprefix("store: ")
        if self._store_errors.may_log(message, time.monotonic()):
            logger.warning("store: %s", message)


def answered_count(families: Iterable[Metric]) -> int:
    """Return the number of all responses to clients in `families`, including those to CONNECT and feedproxy's own
    responses."""
    return sum(_total(family) for family in families if family.name == "feedproxy_requests")


def _source(outcome: str, detail: str) -> str:
    """Return the source of a response's content as a label: `store`, `origin`, `stream`, or `own`."""
    if outcome == "hit":
        return "store"
    if not outcome.startswith("fwd="):
        return "own"
    return "stream" if outcome in PASSED_OUTCOMES or detail in PASSED_DETAILS else "origin"


def _is_failure(status: str, detail: str) -> bool:
    """Return True if requests to origins with these labels failed: if `detail` is that of a failure, or if `detail` is
    "" and `status` is a server error.

    A server error for a target without a stored copy has no detail. Unregistered codes, such as 520, count as server
    errors, except 4xx.
    """
    return detail not in NO_FAILURE or (not detail and (status == UNREGISTERED or status.startswith("5")))


def _status_label(status: int) -> str:
    code = str(status)
    return code if code in CODES else UNREGISTERED


def _samples(family: Metric) -> list[tuple[dict[str, str], int]]:
    return [(sample.labels, int(sample.value)) for sample in family.samples if sample.name.endswith("_total")]


def _total(family: Metric) -> int:
    return sum(count for _, count in _samples(family))
