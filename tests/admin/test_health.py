"""Is it well? Each finding in words, with what to do."""

import pytest

from feedproxy.admin.health import Facts, Health, Place, examine, headline, verdict
from feedproxy.telemetry.history import Tally

GIGA = 1_000_000_000
ROOMY = Place("/var/cache/feedproxy", 50 * GIGA, 100 * GIGA, GIGA, 10 * GIGA)


def test_where_all_is_well_there_is_nothing_to_say() -> None:
    findings = examine(Facts(place=ROOMY, connections=10, connections_max=1000, workers=4))

    assert findings == []
    assert headline(findings, 12, 0) == "Running normally"
    assert headline(findings, 12, 1) == "Running normally; 1 feed needs attention"
    assert headline(findings, 0, 0) == "Ready for the first feed"


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        (Facts(ready=False), Health.BAD, "listener for readers is not up"),
        (Facts(draining=True, ready=False), Health.DEGRADED, "shutting down"),
        (Facts(workers=3, silent=1), Health.DEGRADED, "1 worker does not answer, of 4"),
        (Facts(connections=950, connections_max=1000), Health.DEGRADED, "950 of at most 1,000 connections"),
        (Facts(lately=Tally(store_failures=2)), Health.BAD, "The store has failed 2 times"),
        (Facts(lately=Tally(errors=1)), Health.BAD, "failed at 1 request"),
        (Facts(lately=Tally(fetches=20, failures=15)), Health.DEGRADED, "15 of 20 requests to origins"),
        (Facts(place=Place("/x", 20_000_000, 100 * GIGA, GIGA, 10 * GIGA)), Health.BAD, "20.0 MB left"),
        (Facts(place=Place("/x", 3 * GIGA, 100 * GIGA, GIGA, 10 * GIGA)), Health.DEGRADED, "another 9.0 GB"),
        (Facts(told=["Redis cannot be reached."]), Health.DEGRADED, "Redis cannot be reached."),
    ],
)
def test_what_is_wrong_is_said_in_words_with_what_to_do(facts: Facts, level: Health, words: str) -> None:
    (finding,) = examine(facts)

    assert finding.level is level
    assert words in finding.words
    assert finding.advice


@pytest.mark.parametrize(
    "facts",
    [
        Facts(lately=Tally(fetches=9, failures=9)),  # a few feeds, all down: theirs
        Facts(lately=Tally(fetches=100, failures=40)),
        Facts(place=Place("/x", 3 * GIGA, 100 * GIGA, 10 * GIGA, 10 * GIGA)),  # it grows no more
        Facts(place=Place()),
    ],
)
def test_what_is_no_fault_of_ours_is_none(facts: Facts) -> None:
    assert examine(facts) == []


def test_the_worst_comes_first() -> None:
    findings = examine(Facts(silent=1, lately=Tally(errors=1)))

    assert verdict(findings) is Health.BAD
    assert [each.level for each in findings] == [Health.BAD, Health.DEGRADED]
    assert headline(findings, 3, 0) == "Something is wrong"
