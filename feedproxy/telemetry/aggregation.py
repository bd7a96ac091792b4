"""Metrics of several processes as if they were one's: what counts is added up, what is so is taken from the first.

prometheus_client has a multiprocess mode, which keeps every number in a file of its own for each process. It has to
be chosen before the library is imported, knows no memory and no processor time, and its files outlive the processes.
Here each process tells its families as plain values, and they are added when somebody looks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from feedproxy.scoring.aggregate import ReaderAccount
from feedproxy.telemetry.history import History
from feedproxy.telemetry.recent_activity import FetchActivity

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
"""Gauges that add up; of all others the first process's is right for all."""

type Plain = list[list[Any]]
"""Families as JSON has them: name, text, type, and samples of name, labels and value."""


class PeerMetrics(Protocol):
    """The processes that work beside this one."""

    async def families(self) -> Sequence[Plain]:
        """What each has counted. What they know of readers and feeds is known here, too, when it returns."""
        ...

    async def readers(self) -> Sequence[ReaderAccount]:
        """What each knows of the readers that it follows; one that several know is there several times."""
        ...

    async def fetches(self, target: str) -> Sequence[FetchActivity]:
        """The last fetches of a target that each has made."""
        ...

    @property
    def journals(self) -> Sequence[Mapping[str, Any]]:
        """What happened lately in each, as it told with its families (recent_activity.py)."""
        ...

    @property
    def books(self) -> Sequence[History]:
        """What each has written down of its history, as it told with its families."""
        ...

    @property
    def silent(self) -> int:
        """How many did not answer when they were last asked."""
        ...


class NoPeers:
    """There are no others."""

    async def families(self) -> Sequence[Plain]:
        return ()

    async def readers(self) -> Sequence[ReaderAccount]:
        return ()

    async def fetches(self, target: str) -> Sequence[FetchActivity]:
        return ()

    @property
    def journals(self) -> Sequence[Mapping[str, Any]]:
        return ()

    @property
    def books(self) -> Sequence[History]:
        return ()

    @property
    def silent(self) -> int:
        return 0


def plain_families(families: Iterable[Metric]) -> Plain:
    """Families as plain values."""
    return [
        [each.name, each.documentation, each.type, [[one.name, one.labels, one.value] for one in each.samples]]
        for each in families
    ]


def counters(told: Plain) -> Plain:
    """Of what a process has told only what stays true when it is no more."""
    return [each for each in told if each[2] in ("counter", "histogram")]


def merge_families(first: Iterable[Metric], others: Iterable[Plain]) -> list[Metric]:
    """The families of all. Raises ValueError, LookupError or TypeError for what is none."""
    merged: dict[str, tuple[Metric, dict[tuple[str, tuple[tuple[str, str], ...]], float]]] = {}
    for is_first, told in [(True, plain_families(first)), *((False, each) for each in others)]:
        for name, text, kind, samples in told:
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
    """The one value of a gauge; None where it is missing."""
    return next((one.value for family in families if family.name == name for one in family.samples), None)


class FamilyCollector:
    """Families in the form of a registry, for the library's exposition."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """The families."""
        return iter(self._families)
