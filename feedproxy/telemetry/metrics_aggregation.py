"""Aggregation of the metrics of several workers: counters are added, and most gauges are those of the first worker.

Each worker sends its metric families as plain values. prometheus_client's multiprocess mode lacks metrics of memory and
CPU, and leaves files behind.
"""

from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

from msgspec import Struct
from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from feedproxy.telemetry.recent_activity import Journal
from feedproxy.telemetry.traffic_history import History

SUMMED_GAUGES = frozenset(
    {
        "feedproxy_connections",
        "feedproxy_fleet_waiting",
        "feedproxy_updates_under_way",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
    }
)
"""Gauges that are added over all workers."""

type Plain = list[list[Any]]
"""Metric families as JSON values: name, help text, type, and samples with name, labels and value."""


class PeerReports(Struct, frozen=True):
    """The reports of the other workers. If there are none, all parts are empty."""

    families: Sequence[Plain] = ()
    """The metric families of each other worker, and of exited workers."""
    journals: Sequence[Journal] = ()
    """The recent activity of each other worker (recent_activity.py)."""
    histories: Sequence[History] = ()
    """The traffic history of each other worker."""
    silent: int = 0
    """Number of workers that did not answer."""


def plain_families(families: Iterable[Metric]) -> Plain:
    return [
        [
            family.name,
            family.documentation,
            family.type,
            [[sample.name, sample.labels, sample.value] for sample in family.samples],
        ]
        for family in families
    ]


def counters(families: Plain) -> Plain:
    """Return the counters and histograms, which stay valid after the end of their process."""
    return [family for family in families if family[2] in ("counter", "histogram")]


def merge_families(first: Iterable[Metric], others: Iterable[Plain]) -> list[Metric]:
    """Return the families of all processes as one set. Most gauges are those in `first`. Raises ValueError, LookupError
    or TypeError if a family in `others` is malformed."""
    merged: dict[str, tuple[Metric, dict[tuple[str, tuple[tuple[str, str], ...]], float]]] = {}
    for is_first, plain in [(True, plain_families(first)), *((False, plain) for plain in others)]:
        for name, text, kind, samples in plain:
            if not is_first and kind not in ("counter", "histogram") and name not in SUMMED_GAUGES:
                continue
            _, values = merged.setdefault(name, (Metric(name, text, kind), {}))
            for sample, labels, value in samples:
                key = (sample, tuple(labels.items()))
                values[key] = values.get(key, 0.0) + value
    families = []
    for family, values in merged.values():
        family.samples = [Sample(name, dict(labels), value) for (name, labels), value in values.items()]
        families.append(family)
    return families


def gauge_value(families: Iterable[Metric], name: str) -> float | None:
    """Return the value of a gauge without labels, or None if it is missing."""
    return next((sample.value for family in families if family.name == name for sample in family.samples), None)


def exposition(families: Sequence[Metric]) -> bytes:
    """Return metric families in Prometheus's exposition format."""
    return generate_latest(SimpleNamespace(collect=lambda: families))
