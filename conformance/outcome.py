"""The meaning of the suite's results, and how they are counted.

A test states what is *required* of a cache, what an *optimal* cache does, or only *checks* what it does, without a
right answer. A test may depend on others. If one of these did not pass, the test may pass without having *shown*
anything: a cache that never reuses a response easily passes "must not be reused". Two numbers are counted: the tests
that passed, and those of them that have shown something.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

KINDS = ("required", "optimal", "check")


class Verdict(StrEnum):
    PASSED = "passed"  # a check: yes
    FAILED = "failed"  # a check: no
    SETUP = "setup"  # the precondition of the test was not met
    NO_ANSWER = "no-answer"  # the exchange itself failed


@dataclass(frozen=True, slots=True)
class Test:
    """A test, with the suite's names for it and for its chapter."""

    id: str
    chapter: str
    kind: str
    depends: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a run: the tests, their verdicts, and the tests that passed together with all tests that they
    depend on."""

    tests: tuple[Test, ...]
    verdicts: Mapping[str, Verdict]
    shown: frozenset[str]
    messages: Mapping[str, str]

    def passed(self) -> frozenset[str]:
        """Return the tests that passed, without the checks, which have no right answer."""
        return frozenset(
            each.id for each in self.tests if each.kind != "check" and self.verdicts[each.id] is Verdict.PASSED
        )


def read(made: Mapping[str, Any]) -> Results:
    """Return the results that client.mjs wrote, without the tests for browsers only."""
    raw = made["results"]
    tests = tuple(
        Test(each["id"], each["suite"], each["kind"], tuple(each["depends"]))
        for each in made["tests"]
        if each["id"] in raw and not each["browser"]
    )
    verdicts = {each.id: _verdict(raw[each.id]) for each in tests}
    by_id = {each.id: each for each in tests}

    def stands(name: str) -> bool:
        return verdicts.get(name) is Verdict.PASSED and all(stands(other) for other in by_id[name].depends)

    messages = {name: " ".join(result) for name, result in raw.items() if result is not True}
    return Results(tests, verdicts, frozenset(filter(stands, verdicts)), messages)


def _verdict(result: bool | Sequence[str]) -> Verdict:
    if result is True:
        return Verdict.PASSED
    match result[0] if isinstance(result, Sequence) else "":
        case "Assertion":
            return Verdict.FAILED
        case "Setup":
            return Verdict.SETUP
        case _:
            return Verdict.NO_ANSWER
