"""Prometheus metrics, in the words of Cache-Status. They carry no URLs and no readers.

One registry per Runtime: several can live in one process, as in tests.
"""

import logging

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from feedproxy.cache.status import CacheStatus
from feedproxy.clock import Seconds

logger = logging.getLogger(__name__)

SECONDS = (0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counts what happens; also the service's Observer."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "feedproxy_requests",
            "Requests answered, by entrance, what became of them (RFC 9211), and status.",
            ("entrance", "outcome", "detail", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "feedproxy_request_seconds",
            "Seconds from a request's head to its answer.",
            ("outcome",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._bytes = Counter(
            "feedproxy_response_bytes", "Bytes of content sent to readers.", ("entrance",), registry=self.registry
        )
        self._origin = Counter(
            "feedproxy_origin_requests",
            "Updates asked of origins, by the status that came back (0: none) and detail.",
            ("status", "detail"),
            registry=self.registry,
        )
        self._origin_bytes = Counter(
            "feedproxy_origin_stored_bytes", "Bytes made ready from what origins sent.", registry=self.registry
        )
        self._origin_seconds = Histogram(
            "feedproxy_origin_seconds", "Seconds an update took.", buckets=SECONDS, registry=self.registry
        )
        self._store_failures = Counter(
            "feedproxy_store_failures", "Reads and writes of the store that failed.", registry=self.registry
        )
        self.stored = Gauge("feedproxy_stored_resources", "Targets held in the store.", registry=self.registry)
        self.under_way = Gauge("feedproxy_updates_under_way", "Updates under way.", registry=self.registry)
        self.connections = Gauge("feedproxy_connections", "Connections from readers.", registry=self.registry)

    def answered(self, entrance: str, status: int, cache: CacheStatus, size: int, seconds: Seconds) -> None:
        """A reader was answered."""
        outcome = "hit" if cache.hit else f"fwd={cache.fwd}" if cache.fwd else "own"
        self._requests.labels(entrance, outcome, cache.detail or "", str(status)).inc()
        self._seconds.labels(outcome).observe(max(0.0, seconds))
        self._bytes.labels(entrance).inc(size)

    def fetched(self, target: str, status: int | None, detail: str, sent: int, seconds: Seconds) -> None:
        """An update of a target is over."""
        self._origin.labels(str(status or 0), detail).inc()
        self._origin_bytes.inc(sent)
        self._origin_seconds.observe(max(0.0, seconds))

    def store_failed(self, error: Exception) -> None:
        """The store failed: a miss to the reader, a line and a count to the operator."""
        self._store_failures.inc()
        logger.warning("store: %s", error)

    def exposition(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)
