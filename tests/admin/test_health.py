"""Health findings, each with advice."""

import pytest

from feedproxy.admin.pages.health import Health, HealthFacts, examine, headline, verdict
from feedproxy.admin.pages.store_usage import StoreUsage
from feedproxy.telemetry.traffic_history import TrafficCounts

GIGA = 1_000_000_000
ROOMY = StoreUsage("/var/cache/feedproxy", 50 * GIGA, 100 * GIGA, GIGA, 10 * GIGA)


def test_health_without_problems_has_no_findings() -> None:
    findings = examine(HealthFacts(usage=ROOMY, connections=10, connections_max=1000, workers=4))

    assert findings == []
    assert headline(findings, 12, 0) == "Running normally"
    assert headline(findings, 12, 1) == "Running normally; 1 feed needs attention"
    assert headline(findings, 0, 0) == "Ready for the first feed"


@pytest.mark.parametrize(
    ("facts", "level", "text"),
    [
        (HealthFacts(ready=False), Health.BAD, "listener for readers is not open"),
        (HealthFacts(draining=True, ready=False), Health.DEGRADED, "shutting down"),
        (HealthFacts(workers=3, silent=1), Health.DEGRADED, "1 worker does not answer, of 4"),
        (HealthFacts(connections=950, connections_max=1000), Health.DEGRADED, "950 of at most 1,000 connections"),
        (HealthFacts(recent=TrafficCounts(store_failures=2)), Health.BAD, "The store has failed 2 times"),
        (HealthFacts(unwritten=1), Health.DEGRADED, "1 value waits to be written"),
        (HealthFacts(unwritten=20), Health.DEGRADED, "20 values wait to be written"),
        (HealthFacts(recent=TrafficCounts(errors=1)), Health.BAD, "failed at 1 request"),
        (HealthFacts(recent=TrafficCounts(fetches=20, failures=15)), Health.DEGRADED, "15 of 20 requests to origins"),
        (HealthFacts(usage=StoreUsage("/x", 20_000_000, 100 * GIGA, GIGA, 10 * GIGA)), Health.BAD, "20.0 MB left"),
        (HealthFacts(usage=StoreUsage("/x", 3 * GIGA, 100 * GIGA, GIGA, 10 * GIGA)), Health.DEGRADED, "another 9.0 GB"),
        (HealthFacts(problems=["Redis cannot be reached."]), Health.DEGRADED, "Redis cannot be reached."),
    ],
)
def test_health_finding_has_level_message_and_advice(facts: HealthFacts, level: Health, text: str) -> None:
    (finding,) = examine(facts)

    assert finding.level is level
    assert text in finding.message
    assert finding.advice


@pytest.mark.parametrize(
    "facts",
    [
        HealthFacts(recent=TrafficCounts(fetches=9, failures=9)),  # too few fetches to infer a network failure
        HealthFacts(recent=TrafficCounts(fetches=100, failures=40)),
        HealthFacts(usage=StoreUsage("/x", 3 * GIGA, 100 * GIGA, 10 * GIGA, 10 * GIGA)),  # the store cannot grow
        HealthFacts(usage=StoreUsage()),
    ],
)
def test_health_ignores_failures_of_publishers_and_full_stores(facts: HealthFacts) -> None:
    assert examine(facts) == []


def test_health_findings_begin_with_the_worst() -> None:
    findings = examine(HealthFacts(silent=1, recent=TrafficCounts(errors=1)))

    assert verdict(findings) is Health.BAD
    assert [finding.level for finding in findings] == [Health.BAD, Health.DEGRADED]
    assert headline(findings, 3, 0) == "Something is wrong"
