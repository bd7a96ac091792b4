"""The results of several caches in one run: as JSON, and as a table for a terminal or a page."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from conformance.outcome import KINDS, Results, Test, Verdict


@dataclass(frozen=True, slots=True)
class Report:
    """The result of each test with each cache. The caches are named with their version and the day of the run (UTC)."""

    suite: str
    entrance: str
    caches: Mapping[str, tuple[str, str]]
    tests: tuple[Test, ...]
    verdicts: Mapping[str, Mapping[str, Verdict]]
    shown: Mapping[str, frozenset[str]]

    def count(self, cache: str, kinds: Sequence[str], chapter: str | None = None) -> tuple[int, int, int]:
        """Return three numbers for the tests of these kinds, or of these kinds in a chapter: how many passed, how many
        have shown something (outcome.py), and how many there are."""
        tests = [each.id for each in self.tests if each.kind in kinds and chapter in (None, each.chapter)]
        passed = sum(self.verdicts[cache][each] is Verdict.PASSED for each in tests)
        return passed, sum(each in self.shown[cache] for each in tests), len(tests)

    def by_kind(self) -> list[list[str]]:
        """Return a row for each cache: for each kind, how many tests passed, and in brackets how many of them have
        shown something (outcome.py)."""
        total = {kind: sum(each.kind == kind for each in self.tests) for kind in KINDS}
        rows = [["cache", "version", "day", *(f"{kind} of {total[kind]}" for kind in KINDS)]]
        for name, (version, day) in self.caches.items():
            counts = [self.count(name, [kind]) for kind in KINDS]
            rows.append([name, version, day, *(f"{passed} ({shown})" for passed, shown, _ in counts)])
        return rows

    def by_chapter(self) -> list[list[str]]:
        """Return a row for each chapter of the suite with the required and optimal tests that passed."""
        rows = [["chapter", "tests", *self.caches]]
        for chapter in dict.fromkeys(each.chapter for each in self.tests):
            counts = [self.count(name, ["required", "optimal"], chapter) for name in self.caches]
            if counts[0][2]:
                rows.append([chapter, str(counts[0][2]), *(str(passed) for passed, _, _ in counts)])
        return rows


def make(suite: str, entrance: str, day: str, runs: Mapping[str, tuple[str, Results]]) -> Report:
    """Return a report of one day's runs. `runs` has the version and the results of each cache, keyed by its name."""
    results = {name: each for name, (_, each) in runs.items()}
    return Report(
        suite,
        entrance,
        {name: (version, day) for name, (version, _) in runs.items()},
        next(iter(results.values())).tests,
        {name: each.verdicts for name, each in results.items()},
        {name: each.shown for name, each in results.items()},
    )


def dump(report: Report) -> str:
    """Return the report as JSON with a line for each test, so that a change of one test changes one line."""
    head = {"suite": report.suite, "entrance": report.entrance, "caches": report.caches}
    lines = []
    for each in report.tests:
        verdicts = {name: report.verdicts[name][each.id] for name in report.caches}
        unshown = [
            name for name in report.caches if verdicts[name] is Verdict.PASSED and each.id not in report.shown[name]
        ]
        line = {"id": each.id, "chapter": each.chapter, "kind": each.kind, "results": verdicts}
        lines.append(json.dumps({**line, "unshown": unshown} if unshown else line))
    return f'{json.dumps(head)[:-1]}, "tests": [\n' + ",\n".join(lines) + "\n]}\n"


def load(text: str) -> Report:
    """Return the report that `dump` wrote."""
    made: Mapping[str, Any] = json.loads(text)
    names = list(made["caches"])
    verdicts = {name: {each["id"]: Verdict(each["results"][name]) for each in made["tests"]} for name in names}
    shown = {
        name: frozenset(
            each["id"]
            for each in made["tests"]
            if each["results"][name] == Verdict.PASSED and name not in each.get("unshown", ())
        )
        for name in names
    }
    tests = tuple(Test(each["id"], each["chapter"], each["kind"]) for each in made["tests"])
    caches = {name: (version, day) for name, (version, day) in made["caches"].items()}
    return Report(made["suite"], made["entrance"], caches, tests, verdicts, shown)


def renewed(before: Report, after: Report) -> Report:
    """Return the newer report, with the older results of caches that were not run again. The order stays the same."""
    caches = {**before.caches, **after.caches}
    return replace(
        after, caches=caches, verdicts={**before.verdicts, **after.verdicts}, shown={**before.shown, **after.shown}
    )


def plain(rows: Iterable[Sequence[str]]) -> str:
    """Return the rows as text for a terminal."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def markdown(rows: Iterable[Sequence[str]]) -> str:
    """Return the rows as a table in Markdown. The first row is the heading."""
    first, *others = rows
    lines = [first, ["---"] * len(first), *others]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines) + "\n"
