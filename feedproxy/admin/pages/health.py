"""Health of the proxy: findings about its listener, store, disk, workers and network, each with advice. Many failing
feeds at once are a finding, a single one is not."""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from feedproxy.admin.pages.store_usage import UNKNOWN_USAGE, StoreUsage
from feedproxy.telemetry.traffic_history import NO_TRAFFIC, TrafficCounts
from feedproxy.web.display_formats import plural, size

CONNECTIONS_HIGH_SHARE = 0.9
"""If clients use at least this fraction of `max_connections`, feedproxy will probably close or refuse connections
soon."""

FAILURES_MIN = 10
"""Minimum number of failed fetches, in this hour and the hour before, for a finding about failures (FAILING_SHARE)."""
FAILING_SHARE = 0.5
"""If more than this fraction of fetches failed, this machine's network is the likely cause."""

DISK_LOW_SHARE = 0.05
"""Fraction of the disk that should stay free."""
DISK_LOW_BYTES = 500_000_000
"""Bytes that should stay free on a disk of up to 10 GB."""
DISK_FULL_BYTES = 50_000_000
"""Free bytes below which writing will soon fail."""


class Health(StrEnum):
    """Levels of the proxy's health, the worst first."""

    BAD = "bad"  # readers get errors, or data may be lost
    DEGRADED = "degraded"  # readers are served, but a limit is near or a part of the proxy fails
    GOOD = "good"


class HealthFinding(Struct, frozen=True):
    """A problem of the proxy: its level of health, a sentence, and advice for the operator."""

    level: Health
    message: str
    advice: str


class HealthFacts(Struct, frozen=True):
    """The facts from which `examine` derives findings. `workers` is the number of workers that answer, and `silent`
    that of those that do not. `recent` is the traffic of this hour and the hour before."""

    ready: bool = True
    draining: bool = False
    usage: StoreUsage = UNKNOWN_USAGE
    connections: int = 0
    connections_max: int = 0
    workers: int = 1
    silent: int = 0
    unwritten: int = 0
    """Number of values that could not be written to the disk, and wait for another attempt."""
    recent: TrafficCounts = NO_TRAFFIC
    problems: Sequence[str] = ()
    """Sentences about problems that other parts of the proxy report."""


def examine(facts: HealthFacts) -> list[HealthFinding]:
    """Return the findings, the worst first."""
    findings = [*_listener_findings(facts), *_store(facts), *_fetch_findings(facts)]
    findings += [HealthFinding(Health.DEGRADED, problem, "See the log for details.") for problem in facts.problems]
    return sorted(findings, key=lambda finding: list(Health).index(finding.level))


def verdict(findings: Sequence[HealthFinding]) -> Health:
    """Return the level of the worst finding, which is the first one. If there are no findings, return GOOD."""
    return findings[0].level if findings else Health.GOOD


def headline(findings: Sequence[HealthFinding], feeds: int, troubled: int, failed: int = 0) -> str:
    """Return the headline of the dashboard: `troubled` feeds need attention, and `failed` addresses never returned a
    feed."""
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


def _listener_findings(facts: HealthFacts) -> list[HealthFinding]:
    if facts.draining:
        message = "The proxy is shutting down: it finishes open requests and refuses new ones."
        return [HealthFinding(Health.DEGRADED, message, "No action is needed if you have stopped it.")]
    if not facts.ready:
        message = "The listener for readers is not open: this proxy serves no feed."
        advice = "The log says why. Usually another program uses the port (option listen)."
        return [HealthFinding(Health.BAD, message, advice)]
    findings = []
    if facts.silent:
        message = f"{plural(facts.silent, 'worker does', 'workers do')} not answer, of {facts.workers + facts.silent}."
        advice = "A worker that has exited is started again within seconds. If this persists, see the log."
        findings.append(HealthFinding(Health.DEGRADED, message, advice))
    if facts.connections_max and facts.connections >= CONNECTIONS_HIGH_SHARE * facts.connections_max:
        message = f"{facts.connections:,} of at most {facts.connections_max:,} connections are in use."
        advice = "At the limit, unused connections are closed or new ones refused. Raise max_connections or workers."
        findings.append(HealthFinding(Health.DEGRADED, message, advice))
    return findings


def _store(facts: HealthFacts) -> list[HealthFinding]:
    findings, usage = [], facts.usage
    if failures := facts.recent.store_failures:
        message = f"The store has failed {plural(failures, 'time', 'times')} in the last hour or two."
        advice = (
            "Readers are served, but copies may be lost at a restart, and notifications may be late. Look at the disk "
            "and at the log."
        )
        findings.append(HealthFinding(Health.BAD, message, advice))
    if facts.unwritten:
        verb = "waits" if facts.unwritten == 1 else "wait"
        message = f"{plural(facts.unwritten, 'value', 'values')} {verb} to be written to the disk of the store."
        advice = "feedproxy tries again every minute. A restart loses these values while the disk cannot be written."
        findings.append(HealthFinding(Health.DEGRADED, message, advice))
    if usage.free is None or usage.total is None:
        return findings
    message = f"The disk of the store has {size(usage.free)} left of {size(usage.total)}."
    advice = f"Make room on the disk of {usage.folder}, or lower store_max."
    if usage.free < DISK_FULL_BYTES:
        findings.append(HealthFinding(Health.BAD, message, advice))
    elif usage.free < min(usage.growth, max(DISK_LOW_BYTES, DISK_LOW_SHARE * usage.total)):
        future = f" The store may grow by another {size(usage.growth)}."
        findings.append(HealthFinding(Health.DEGRADED, message + future, advice))
    return findings


def _fetch_findings(facts: HealthFacts) -> list[HealthFinding]:
    findings, recent = [], facts.recent
    if recent.errors:
        message = f"feedproxy itself failed at {plural(recent.errors, 'request', 'requests')} in the last hour or two."
        findings.append(
            HealthFinding(Health.BAD, message, "This is a bug in feedproxy. Please report it with the log.")
        )
    if recent.failures >= FAILURES_MIN and recent.failures > FAILING_SHARE * recent.fetches:
        message = f"{recent.failures:,} of {recent.fetches:,} requests to origins failed in the last hour or two."
        advice = "The likely cause is this machine's network or name service, not the publishers."
        findings.append(HealthFinding(Health.DEGRADED, message, advice))
    return findings
