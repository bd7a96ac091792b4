"""Is the proxy well? Pure: from what is so now to findings in sentences, each with what to do.

A finding is about feedproxy itself and what it stands on: its listener, store, disk, workers, network. A feed that
fails is its publisher's matter, and has its place in the table of feeds; many at once are ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from feedproxy.telemetry.history import NO_TRAFFIC, TrafficCounts
from feedproxy.web.templates import plural, size

DISK_LOW_SHARE = 0.05
DISK_LOW_BYTES = 500_000_000
"""Bytes free below which it is worth a word, however small the disk."""
DISK_FULL_BYTES = 50_000_000
"""Bytes free below which writing fails soon."""

CONNECTIONS_HIGH_SHARE = 0.9
"""Of max_connections: then readers are about to be refused."""

FAILURES_MIN = 10
FAILING_SHARE = 0.5
"""Where more than half of all requests to origins come to nothing, it is hardly the origins."""


class Health(StrEnum):
    """How the proxy is, the worst first."""

    BAD = "bad"  # readers or data suffer
    DEGRADED = "degraded"  # it does its work, less well than it should, or not for much longer
    GOOD = "good"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is not as it should be, and what to do about it."""

    level: Health
    words: str
    advice: str


@dataclass(frozen=True, slots=True)
class StorePlace:
    """Where things are kept. Bytes; `folder` is empty for memory."""

    folder: str = ""
    free: int | None = None
    total: int | None = None
    used: int | None = None
    """By the store."""
    most: int | None = None
    """That the store may use (store_max)."""


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """What is so now. `lately` is the current hour and the one before."""

    ready: bool = True
    draining: bool = False
    place: StorePlace = StorePlace()
    connections: int = 0
    connections_max: int = 0
    workers: int = 1
    silent: int = 0
    lately: TrafficCounts = NO_TRAFFIC
    told: Sequence[str] = ()
    """What other parts say that is wrong with them."""


def examine(facts: HealthFacts) -> list[Finding]:
    """What is not as it should be, the worst first."""
    found = [*_listening(facts), *_store(facts), *_fetch_findings(facts)]
    found += [Finding(Health.DEGRADED, each, "The log says more.") for each in facts.told]
    return sorted(found, key=lambda each: list(Health).index(each.level))


def verdict(findings: Sequence[Finding]) -> Health:
    """The worst of them."""
    return findings[0].level if findings else Health.GOOD


def headline(findings: Sequence[Finding], feeds: int, troubled: int, failed: int = 0) -> str:
    """The page's first words. `failed` counts the addresses that never gave a feed."""
    match verdict(findings):
        case Health.BAD:
            return "Something is wrong"
        case Health.DEGRADED:
            return "Works, but not as well as it should"
    if not feeds and failed:
        return f"No feed yet; {plural(failed, 'address has', 'addresses have')} never worked"
    if not feeds:
        return "Ready for the first feed"
    if troubled:
        return f"Running normally; {plural(troubled, 'feed needs', 'feeds need')} attention"
    if failed:
        return f"Running normally; {plural(failed, 'address has', 'addresses have')} never worked"
    return "Running normally"


def _listening(facts: HealthFacts) -> list[Finding]:
    if facts.draining:
        words = "The proxy is shutting down: what is under way is answered, nothing new is let in."
        return [Finding(Health.DEGRADED, words, "Nothing, if you stopped it.")]
    if not facts.ready:
        words = "The listener for readers is not up: nobody can read through this proxy."
        return [Finding(Health.BAD, words, "The log says why; mostly another program has the port (option listen).")]
    found = []
    if facts.silent:
        words = f"{plural(facts.silent, 'worker does', 'workers do')} not answer, of {facts.workers + facts.silent}."
        advice = "A worker that has died is started again within seconds. If this stays, the log says why."
        found.append(Finding(Health.DEGRADED, words, advice))
    if facts.connections_max and facts.connections >= CONNECTIONS_HIGH_SHARE * facts.connections_max:
        words = f"{facts.connections:,} of at most {facts.connections_max:,} connections are in use."
        found.append(Finding(Health.DEGRADED, words, "More are refused. Raise max_connections, or workers."))
    return found


def _store(facts: HealthFacts) -> list[Finding]:
    found, place = [], facts.place
    if failures := facts.lately.store_failures:
        words = f"The store has failed {plural(failures, 'time', 'times')} in the last hour or two."
        advice = "Readers are served, but copies may be lost at a restart. Look at the disk and at the log."
        found.append(Finding(Health.BAD, words, advice))
    if place.free is None or place.total is None:
        return found
    words = f"The disk of the store has {size(place.free)} left of {size(place.total)}."
    advice = f"Make room on the disk of {place.folder}, or lower store_max."
    to_come = max(0, (place.most or 0) - (place.used or 0))
    if place.free < DISK_FULL_BYTES:
        found.append(Finding(Health.BAD, words, advice))
    elif place.free < min(to_come, max(DISK_LOW_BYTES, DISK_LOW_SHARE * place.total)):
        more = f" The store may grow by another {size(to_come)}."
        found.append(Finding(Health.DEGRADED, words + more, advice))
    return found


def _fetch_findings(facts: HealthFacts) -> list[Finding]:
    found, lately = [], facts.lately
    if lately.errors:
        words = f"feedproxy itself failed at {plural(lately.errors, 'request', 'requests')} in the last hour or two."
        found.append(Finding(Health.BAD, words, "That is a fault of ours. The log has it; please report it."))
    if lately.failures >= FAILURES_MIN and lately.failures > FAILING_SHARE * lately.fetches:
        words = f"{lately.failures:,} of {lately.fetches:,} requests to origins failed in the last hour or two."
        advice = "When so many fail at once it is mostly this machine's network or name service, not the publishers."
        found.append(Finding(Health.DEGRADED, words, advice))
    return found
