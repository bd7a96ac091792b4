"""Scores for a terminal, for programs, and for the tests of a reader's own project (JUnit)."""

import json
import textwrap
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from feedproxy.findings import Level
from feedproxy.scoring.evaluator import Evidence, TrafficCost
from feedproxy.scoring.grade import FeedScore, Finding, ReaderScore, RuleKept
from feedproxy.scoring.polling_interval import span
from feedproxy.scoring.rules import Rule, redact_target
from feedproxy.web.templates import iso, plain_text, size

EXAMPLES = 3
"""Requests that a terminal shows for each finding; JSON has all of them."""

WIDTH = 100

_MARKS = {Level.BAD: "✗", Level.WARN: "!", Level.INFO: "i", Level.GOOD: "✓"}


def as_json(scores: Sequence[ReaderScore]) -> str:
    """`{"readers": [{"user_agent", "reader", "grade", "findings": […], …}]}`."""
    return json.dumps(view(scores), ensure_ascii=False, indent=1)


def view(scores: Sequence[ReaderScore]) -> dict[str, Any]:
    """What programs are told."""
    return {"readers": [_reader(each) for each in scores]}


def as_text(scores: Sequence[ReaderScore]) -> str:
    """For a terminal: each reader with its findings, the worst first."""
    return "\n\n".join(_reader_text(each) for each in scores) if scores else "No reader asked for a feed."


def as_junit(scores: Sequence[ReaderScore], failures: Sequence[str] = ()) -> str:
    """A test suite per reader, a test case per rule; a rule that had no say is skipped. `failures` are the plan's."""
    root = ElementTree.Element("testsuites", name="feedproxy score")
    for each in scores:
        root.append(_suite(each))
    if failures:
        suite = ElementTree.SubElement(root, "testsuite", name="plan", tests="1", failures="1", errors="0", skipped="0")
        case = ElementTree.SubElement(suite, "testcase", classname="plan", name="the plan's demands are met")
        ElementTree.SubElement(case, "failure", message=failures[0]).text = "\n".join(failures)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def name_of(score: ReaderScore | FeedScore) -> str:
    """A reader or a feed as people call it; a key in an address is not repeated."""
    if isinstance(score, FeedScore):
        return redact_target(score.feed)
    return plain_text(score.user_agent) or "(no User-Agent)"


# -- JSON


def _reader(score: ReaderScore) -> dict[str, Any]:
    return {
        "user_agent": score.user_agent,
        "reader": score.reader,
        "grade": score.grade,
        "findings": [_finding(each) for each in score.findings],
        "rules": [_rule(each) for each in score.rules],
        "cost": cost_view(score.cost),
        "feeds": [
            {
                "feed": redact_target(each.feed),
                "grade": each.grade,
                "interval": round(each.interval),
                "findings": [_finding(found) for found in each.findings],
                "rules": [_rule(kept) for kept in each.rules],
                "cost": cost_view(each.cost),
            }
            for each in score.feeds
        ],
    }


def _finding(found: Finding) -> dict[str, Any]:
    said = found.note.as_json()
    del said["subject"]
    return {**said, "count": found.count, "requests": [_request(each) for each in found.requests]}


def _request(each: Evidence) -> dict[str, Any]:
    return {
        "number": each.number,
        "at": iso(each.at),
        "url": redact_target(each.target),
        "status": each.status,
        "words": each.words,
    }


def _rule(kept: RuleKept) -> dict[str, Any]:
    return {"rule": str(kept.rule), "weight": kept.rule.weight, "chances": kept.chances, "broken": kept.broken}


def cost_view(cost: TrafficCost) -> dict[str, int]:
    """What a reader's polls came to."""
    return {
        "requests": cost.requests,
        "bytes": cost.size,
        "not_modified": cost.unchanged,
        "bytes_in_vain": cost.spared,
    }


# -- text


def _reader_text(score: ReaderScore) -> str:
    cost = score.cost
    head = [
        f"{score.grade:>3} of 100  {name_of(score)}",
        f"            {score.reader or 'one address'}: {cost.requests:,} requests, {size(cost.size)}, "
        f"{cost.unchanged:,} answered with 304"
        + (f"; {size(cost.spared)} came although nothing had changed" if cost.spared else ""),
    ]
    if len(score.feeds) > 1:
        head += [
            f"            {each.grade:>3}  {redact_target(each.feed)}{_interval_text(each)}" for each in score.feeds
        ]
    elif score.feeds:
        head.append(f"            {redact_target(score.feeds[0].feed)}{_interval_text(score.feeds[0])}")
    bad = [found for found in score.findings if found.note.level is not Level.GOOD]
    good = [found for found in score.findings if found.note.level is Level.GOOD]
    return "\n".join([*head, *(line for found in [*bad, *good] for line in _finding_text(found))])


def _interval_text(feed: FeedScore) -> str:
    return f", asked every {span(feed.interval)}" if feed.interval else ""


def _finding_text(found: Finding) -> list[str]:
    mark, note = _MARKS[found.note.level], found.note
    if note.level is Level.GOOD:
        return [f"  {mark} {note.message}"]
    lines = ["", f"  {mark} {note.id()}: {note.message}"]
    for each in found.requests[:EXAMPLES]:
        lines.append(f"      #{each.number} {iso(each.at)} {each.status}: {plain_text(each.words, 160)}")
    if found.count > EXAMPLES and found.requests:
        lines.append(f"      and {found.count - min(EXAMPLES, len(found.requests)):,} more")
    lines += textwrap.wrap(note.advice_text, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return [*lines, f"    See {note.reference}."]


# -- JUnit


def _suite(score: ReaderScore) -> ElementTree.Element:
    kept = {each.rule: each for each in score.rules}
    name = f"{name_of(score)} ({score.grade} of 100)"
    suite = ElementTree.Element("testsuite", name=name, tests=str(len(Rule)), errors="0")
    failures = 0
    for rule in Rule:
        case = ElementTree.SubElement(suite, "testcase", classname=score.reader or "reader", name=rule.words)
        if rule not in kept:
            ElementTree.SubElement(case, "skipped", message="nothing gave a chance to see it")
        elif kept[rule].broken:
            failures += 1
            words = f"{kept[rule].broken:,} of {kept[rule].chances:,}"
            text = "\n\n".join(
                "\n".join(_finding_text(found)).strip() for found in score.findings if found.rule is rule
            )
            ElementTree.SubElement(case, "failure", message=words, type=str(rule)).text = _valid_xml(text)
    suite.set("failures", str(failures))
    suite.set("skipped", str(len(Rule) - len(kept)))
    return suite


def _valid_xml(text: str) -> str:
    return "".join(each for each in text if each in "\t\n" or each >= " ")
