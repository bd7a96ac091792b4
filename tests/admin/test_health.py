"""Is it well? Each finding in words, with what to do."""

import pytest

from feedproxy.admin.health import Health, HealthFacts, StorePlace, examine, headline, verdict
from feedproxy.telemetry.history import TrafficCounts

GIGA = 1_000_000_000
ROOMY = StorePlace("/var/cache/feedproxy", 50 * GIGA, 100 * GIGA, GIGA, 10 * GIGA)


def test_where_all_is_well_there_is_nothing_to_say() -> None:
    findings = examine(HealthFacts(place=ROOMY, connections=10, connections_max=1000, workers=4))

    assert findings == []
    assert headline(findings, 12, 0) == "Running normally"
    assert headline(findings, 12, 1) == "Running normally; 1 feed needs attention"
    assert headline(findings, 0, 0) == "Ready for the first feed"


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        (HealthFacts(ready=False), Health.BAD, "listener for readers is not up"),
        (HealthFacts(draining=True, ready=False), Health.DEGRADED, "shutting down"),
        (HealthFacts(workers=3, silent=1), Health.DEGRADED, "1 worker does not answer, of 4"),
        (HealthFacts(connections=950, connections_max=1000), Health.DEGRADED, "950 of at most 1,000 connections"),
        (HealthFacts(lately=TrafficCounts(store_failures=2)), Health.BAD, "The store has failed 2 times"),
        (HealthFacts(lately=TrafficCounts(errors=1)), Health.BAD, "failed at 1 request"),
        (HealthFacts(lately=TrafficCounts(fetches=20, failures=15)), Health.DEGRADED, "15 of 20 requests to origins"),
        (HealthFacts(place=StorePlace("/x", 20_000_000, 100 * GIGA, GIGA, 10 * GIGA)), Health.BAD, "20.0 MB left"),
        (HealthFacts(place=StorePlace("/x", 3 * GIGA, 100 * GIGA, GIGA, 10 * GIGA)), Health.DEGRADED, "another 9.0 GB"),
        (HealthFacts(told=["Redis cannot be reached."]), Health.DEGRADED, "Redis cannot be reached."),
    ],
)
def test_what_is_wrong_is_said_in_words_with_what_to_do(facts: HealthFacts, level: Health, words: str) -> None:
    (finding,) = examine(facts)

    assert finding.level is level
    assert words in finding.words
    assert finding.advice


@pytest.mark.parametrize(
    "facts",
    [
        HealthFacts(lately=TrafficCounts(fetches=9, failures=9)),  # a few feeds, all down: theirs
        HealthFacts(lately=TrafficCounts(fetches=100, failures=40)),
        HealthFacts(place=StorePlace("/x", 3 * GIGA, 100 * GIGA, 10 * GIGA, 10 * GIGA)),  # it grows no more
        HealthFacts(place=StorePlace()),
    ],
)
def test_what_is_no_fault_of_ours_is_none(facts: HealthFacts) -> None:
    assert examine(facts) == []


def test_the_worst_comes_first() -> None:
    findings = examine(HealthFacts(silent=1, lately=TrafficCounts(errors=1)))

    assert verdict(findings) is Health.BAD
    assert [each.level for each in findings] == [Health.BAD, Health.DEGRADED]
    assert headline(findings, 3, 0) == "Something is wrong"
