"""What a result of the suite means, and how results are counted.

A test says what is *required* of a cache, what an *optimal* cache does, or merely *checks* what it does; the suite
has no opinion on the answer to a check. A test may build on others: where one of those has not passed, it has passed
without having *shown* anything ("must not be reused" is easily passed by what never reuses). Both are counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

KINDS = ("required", "optimal", "check")


class Verdict(StrEnum):
    PASSED = "passed"  # of a check: yes
    FAILED = "failed"  # of a check: no
    SETUP = "setup"  # what the test wanted to begin with did not come about
    NO_ANSWER = "no-answer"  # the exchange itself failed


@dataclass(frozen=True, slots=True)
class Test:
    """One test, by the suite's names for it and for the chapter that it stands in."""

    id: str
    chapter: str
    kind: str
    depends: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Results:
    """What came of a run: the tests, each one's verdict, and which stand on others that have passed as well."""

    tests: tuple[Test, ...]
    verdicts: Mapping[str, Verdict]
    shown: frozenset[str]
    messages: Mapping[str, str]

    def passed(self) -> frozenset[str]:
        """The tests passed that say something of right and wrong, so without the checks."""
        return frozenset(
            each.id for each in self.tests if each.kind != "check" and self.verdicts[each.id] is Verdict.PASSED
        )


def read(made: Mapping[str, Any]) -> Results:
    """Results from what client.mjs wrote; tests that are for browsers alone are left out."""
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
