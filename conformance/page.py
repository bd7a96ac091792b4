"""Generator of docs/reference/conformance.md from results/ and notes.toml."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from conformance import report
from conformance.caches import FEEDPROXY, ROOT
from conformance.outcome import Test, Verdict
from conformance.report import Report

PAGE = ROOT / "docs" / "reference" / "conformance.md"
NOTES = Path(__file__).with_name("notes.toml")

HEAD = """\
# Conformance

This page shows the results of feedproxy and other caches in [cache-tests.fyi](https://cache-tests.fyi/), a public suite
of tests for HTTP caches. The suite acts as the client and as the origin of the tested cache, and compares the messages
on the two sides. There are three kinds of tests:

| kind | the test asserts |
| --- | --- |
| required | what a cache must do |
| optimal | what an efficient cache does |
| check | nothing. The test shows what the cache does |

feedproxy runs with its default configuration, except for one option: `shared_fields` names the fields that the suite
adds to its requests. By default, feedproxy does not share the answer to a request with such fields
([why](../decisions/unusual-requests.md)). The other caches run with their default configurations and with caching
enabled (`conformance/peers/`).

    make conformance                          feedproxy, nginx, Squid, Varnish, Traffic Server, httpd (if installed)
    make conformance SUITE=../cache-tests     with a checkout of the suite, instead of its release on npm
    make conformance ENTRANCE=proxy           as an explicit proxy
    make conformance WORKERS=2                with several processes, a row of its own
    make conformance-check                    feedproxy alone: has a test been lost that passed before?

The commands need node and npm. They install the suite outside of this repository. If node and npm are installed,
`make test` includes `make conformance-check`. `make conformance CONFORMANCE_ARGS=--record` also stores the results in
`conformance/results/`, and makes this page from them and from `conformance/notes.toml`.
"""


def explained(notes: Mapping[str, Any], part: str, name: str) -> Mapping[str, Any] | None:
    """Return the first note of a part of notes.toml that names this test, or None."""
    return next((note for note in notes[part] if any(fnmatchcase(name, each) for each in note["tests"])), None)


def load(folder: Path) -> list[Report]:
    """Return the recorded reports. The suite with the most tests comes first, and for each suite reverse before
    proxy."""
    reports = [report.load(each.read_text(encoding="utf-8")) for each in folder.glob("*.json")]
    reports.sort(key=lambda each: each.entrance, reverse=True)
    return sorted(reports, key=lambda each: len(each.tests), reverse=True)


def page(reports: Sequence[Report], notes: Mapping[str, Any]) -> str:
    """Return the whole page. The notes must explain each test that did not pass and is not a check."""
    return "\n".join((HEAD, *_results(reports, notes), *_not_passed(reports, notes), *_checks(reports, notes)))


def unexplained(reports: Sequence[Report], notes: Mapping[str, Any]) -> set[str]:
    """Return the tests that notes.toml must explain but does not."""
    missing = {test.id for test in _failed(reports) if not explained(notes, "not_passed", test.id)}
    checks = {each.id for one in reports for each in one.tests if each.kind == "check"}
    return missing | {name for name in checks if not explained(notes, "check", name)}


def notes() -> Mapping[str, Any]:
    return tomllib.loads(NOTES.read_text(encoding="utf-8"))


def write(folder: Path) -> None:
    made = page(load(folder), notes())
    PAGE.write_text(made, encoding="utf-8")


def _results(reports: Sequence[Report], notes: Mapping[str, Any]) -> Iterator[str]:
    yield "## Results\n"
    yield (
        "The tables state how many tests each cache passed. This number alone can mislead: a cache that never reuses\n"
        "a response passes every test that forbids reuse. Some tests therefore depend on other tests. The number in\n"
        "brackets leaves out each test that depends on a test that the cache failed. For checks, the tables state how\n"
        "many had the answer yes.\n"
    )
    for each in reports:
        yield f"Results with {_title(each, notes)}:\n"
        yield report.markdown(each.by_kind())
    yield f"Required and optimal tests passed by chapter, with {_title(reports[0], notes)}:\n"
    yield report.markdown(reports[0].by_chapter())


def _title(each: Report, notes: Mapping[str, Any]) -> str:
    entrance = "in reverse mode" if each.entrance == "reverse" else "as an explicit proxy"
    return f"{notes['suites'].get(each.suite, each.suite)}, {entrance}"


def _failed(reports: Sequence[Report]) -> dict[Test, list[Report]]:
    """Return the tests that feedproxy does not pass, required ones first, with the reports in which they fail."""
    found: dict[Test, list[Report]] = {}
    for one in reports:
        for each in one.tests:
            if each.kind != "check" and one.verdicts[FEEDPROXY.name][each.id] is not Verdict.PASSED:
                found.setdefault(Test(each.id, each.chapter, each.kind), []).append(one)
    return dict(sorted(found.items(), key=lambda item: item[0].kind, reverse=True))


def _not_passed(reports: Sequence[Report], notes: Mapping[str, Any]) -> Iterator[str]:
    yield "## Not passed, and why\n"
    rows: dict[tuple[str, str, str], list[str]] = {}
    for test, where in _failed(reports).items():
        note = explained(notes, "not_passed", test.id)
        rows.setdefault((test.kind, _where(where, reports), note["text"] if note else "?"), []).append(f"`{test.id}`")
    yield report.markdown(
        [
            ["tests", "kind", "run", "why"],
            *([", ".join(tests), kind, where, _line(text)] for (kind, where, text), tests in rows.items()),
        ]
    )


def _where(found: Sequence[Report], reports: Sequence[Report]) -> str:
    """Return the runs in which a test fails, in the shortest form."""
    if len(found) == len(reports):
        return "all"
    names = []
    for suite in dict.fromkeys(each.suite for each in found):
        short, runs = suite.partition("-")[0], [each for each in found if each.suite == suite]
        whole = len(runs) == sum(each.suite == suite for each in reports)
        names.append(short if whole else f"{short} ({', '.join(each.entrance for each in runs)})")
    return ", ".join(names)


def _checks(reports: Sequence[Report], notes: Mapping[str, Any]) -> Iterator[str]:
    yield "## What the checks find\n"
    yield "A test of the kind *check* asks what a cache does, and has no wrong answer. Each paragraph states what"
    yield "feedproxy does, and lists the tests that answer yes, and those that answer no, in the first run above."
    yield "The suite's website shows the question of each test.\n"
    answers: dict[str, list[str]] = {}
    for one in reports:
        for each in one.tests:
            if each.kind == "check":
                answer = "yes" if one.verdicts[FEEDPROXY.name][each.id] is Verdict.PASSED else "no"
                answers.setdefault(each.id, []).append(answer)
    for note in notes["check"]:
        mine = [name for name in answers if explained(notes, "check", name) is note]
        if mine:
            yield f"**{note['title']}.** {_line(note['text'])}\n"
            yield from _answered(mine, answers)


def _answered(names: Sequence[str], answers: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield two list items: the tests with the answer yes in the first run, and those with the answer no. If other runs
    have another answer, this answer follows the name of the test."""
    for answer in ("yes", "no"):
        if found := [f"`{name}`{_elsewhere(answers[name])}" for name in names if answers[name][0] == answer]:
            yield f"* {answer}: {', '.join(found)}"
    yield ""


def _elsewhere(answers: Sequence[str]) -> str:
    return "" if len(set(answers)) == 1 else f" (in some other runs: {'no' if answers[0] == 'yes' else 'yes'})"


def _line(text: str) -> str:
    return " ".join(text.split())
