"""Reports of scores: text for a terminal, JSON, and JUnit XML for the tests of a feed reader's project."""

import json
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from feedproxy.durations_and_sizes import span
from feedproxy.feed.xml_well_formedness import valid_text
from feedproxy.notes import Level, advice_lines
from feedproxy.scoring.grade import FeedScore, Finding, ReaderScore, Score
from feedproxy.scoring.reader_accounts import Evidence, TrafficCost
from feedproxy.scoring.rule_weights import ReaderRule, short_target
from feedproxy.web.display_formats import iso, plain_text, size

EXAMPLES = 3
"""The text form shows this many requests for each finding. JSON contains all requests."""


def as_json(scores: Sequence[ReaderScore]) -> str:
    """Return the scores as JSON: `{"readers": [{"user_agent", "reader", "grade", "findings": […], …}]}`."""
    return json.dumps(view(scores), ensure_ascii=False, indent=1)


def view(scores: Sequence[ReaderScore]) -> dict[str, Any]:
    """Return the scores as an object that can be written as JSON."""
    return {
        "readers": [
            {
                "user_agent": score.user_agent,
                "reader": score.reader,
                **_score_view(score),
                "feeds": [
                    {"feed": short_target(feed.feed), "interval": round(feed.interval), **_score_view(feed)}
                    for feed in score.feeds
                ],
            }
            for score in scores
        ]
    }


def as_text(scores: Sequence[ReaderScore]) -> str:
    """Return the scores as text for a terminal: each reader with its findings."""
    return "\n\n".join(_reader_text(score) for score in scores) if scores else "No reader requested a feed."


def as_junit(scores: Sequence[ReaderScore], failures: Sequence[str]) -> str:
    """Return JUnit XML with a test suite for each reader and a test case for each rule, skipped if the rule did not
    apply. `failures` are the unmet requirements of a lab plan."""
    root = ElementTree.Element("testsuites", name="feedproxy score")
    for score in scores:
        root.append(_suite(score))
    if failures:
        suite = ElementTree.SubElement(root, "testsuite", name="plan", tests="1", failures="1", errors="0", skipped="0")
        case = ElementTree.SubElement(suite, "testcase", classname="plan", name="the plan's expectations are met")
        ElementTree.SubElement(case, "failure", message=failures[0]).text = "\n".join(failures)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def display_name(score: ReaderScore) -> str:
    """Return the User-Agent of a reader, or `(no User-Agent)` if there is none."""
    return plain_text(score.user_agent) or "(no User-Agent)"


# -- JSON


def _score_view(score: Score) -> dict[str, Any]:
    return {
        "grade": score.grade,
        "findings": [_finding_view(finding) for finding in score.findings],
        "rules": [
            {"rule": str(rule), "weight": rule.weight, "chances": tally.chances, "broken": tally.broken}
            for rule, tally in score.tallies.items()
        ],
        "cost": cost_view(score.cost),
    }


def _finding_view(finding: Finding) -> dict[str, Any]:
    note = finding.note.as_json()
    del note["subject"]
    return {**note, "count": finding.count, "requests": [_request_view(request) for request in finding.requests]}


def _request_view(request: Evidence) -> dict[str, Any]:
    return {
        "number": request.number,
        "at": iso(request.at),
        "url": short_target(request.target),
        "status": request.status,
        "words": request.reason,
    }


def cost_view(cost: TrafficCost) -> dict[str, int]:
    """Return the cost as an object that can be written as JSON."""
    return {
        "requests": cost.requests,
        "bytes": cost.size,
        "not_modified": cost.unchanged,
        "bytes_in_vain": cost.redundant,
    }


# -- text


def _reader_text(score: ReaderScore) -> str:
    cost = score.cost
    noun = "request" if cost.requests == 1 else "requests"
    head = [
        f"{score.grade:>3} of 100  {display_name(score)}",
        f"            {score.reader or 'one address'}: {cost.requests:,} {noun}, {size(cost.size)}, "
        f"{cost.unchanged:,} answered with 304"
        + (f"; {size(cost.redundant)} were sent although nothing had changed" if cost.redundant else ""),
    ]
    if len(score.feeds) > 1:
        head += [
            f"            {feed.grade:>3}  {short_target(feed.feed)}{_interval_text(feed)}" for feed in score.feeds
        ]
    elif score.feeds:
        head.append(f"            {short_target(score.feeds[0].feed)}{_interval_text(score.feeds[0])}")
    bad = [finding for finding in score.findings if finding.note.level is not Level.GOOD]
    good = [finding for finding in score.findings if finding.note.level is Level.GOOD]
    return "\n".join([*head, *(line for found in [*bad, *good] for line in _finding_text(found))])


def _interval_text(feed: FeedScore) -> str:
    return f", polled every {span(feed.interval)}" if feed.interval else ""


def _finding_text(finding: Finding) -> list[str]:
    mark, note = finding.note.level.mark, finding.note
    if note.level is Level.GOOD:
        return [f"  {mark} {note.message}"]
    lines = ["", f"  {mark} {note.id()}: {note.message}"]
    for request in finding.requests[:EXAMPLES]:
        lines.append(f"      #{request.number} {iso(request.at)} {request.status}: {plain_text(request.reason, 160)}")
    if finding.count > EXAMPLES and finding.requests:
        lines.append(f"      and {finding.count - min(EXAMPLES, len(finding.requests)):,} more")
    return [*lines, *advice_lines(note.advice_text), f"    See {note.reference}."]


# -- JUnit


def _suite(score: ReaderScore) -> ElementTree.Element:
    name = f"{display_name(score)} ({score.grade} of 100)"
    suite = ElementTree.Element("testsuite", name=name, tests=str(len(ReaderRule)), errors="0")
    failures = 0
    for rule in ReaderRule:
        case = ElementTree.SubElement(suite, "testcase", classname=score.reader or "reader", name=rule.requirement)
        tally = score.tallies.get(rule)
        if tally is None:
            ElementTree.SubElement(case, "skipped", message="no request could show it")
        elif tally.broken:
            failures += 1
            message = f"{tally.broken:,} of {tally.chances:,}"
            text = "\n\n".join(
                "\n".join(_finding_text(finding)).strip() for finding in score.findings if finding.rule is rule
            )
            ElementTree.SubElement(case, "failure", message=message, type=str(rule)).text = valid_text(text)
    suite.set("failures", str(failures))
    suite.set("skipped", str(len(ReaderRule) - len(score.tallies)))
    return suite
