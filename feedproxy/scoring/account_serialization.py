"""Conversion of reader accounts to lines of JSON and back. Workers exchange accounts in this form.

The example requests for praise are left out, because the page of readers does not show them.
"""

import json
from collections.abc import Iterable
from typing import Any

from feedproxy.notes import Level, Note, notes_of
from feedproxy.scoring import client_hygiene_rules, conditional_request_rules, polling_interval_rules, redirect_rules
from feedproxy.scoring.reader_accounts import FeedAccount, ReaderAccount
from feedproxy.scoring.rule_evaluation import Evidence, FindingCount, RuleTally, TrafficCost
from feedproxy.scoring.rule_weights import ReaderRule

KINDS: dict[str, type[Note]] = {
    kind.id(): kind
    for module in (conditional_request_rules, client_hygiene_rules, redirect_rules, polling_interval_rules)
    for kind in notes_of(module)
}
"""All kinds of Notes about readers, keyed by name."""


def dump_account(account: ReaderAccount) -> bytes:
    """Return an account as a line of JSON."""
    values = {
        "name": account.name,
        "user_agent": account.user_agent,
        "aliases": account.aliases,
        "feeds": [_dump_feed(feed) for feed in account.feeds],
    }
    return json.dumps(values).encode() + b"\n"


def load_account(line: bytes) -> ReaderAccount:
    """Parse a line of JSON and return the account.

    Raises ValueError, LookupError or TypeError if the line is invalid.
    """
    values = json.loads(line)
    return ReaderAccount(
        str(values["name"]),
        str(values["user_agent"]),
        tuple(_load_feed(feed) for feed in values["feeds"]),
        {str(alias): str(feed) for alias, feed in values["aliases"].items()},
    )


def _dump_feed(account: FeedAccount) -> dict[str, Any]:
    cost = account.cost
    return {
        "feed": account.feed,
        "tallies": {rule: [tally.chances, tally.broken] for rule, tally in account.tallies.items()},
        "heard": {kind.id(): _dump_finding(kind, count) for kind, count in account.findings.items()},
        "cost": [cost.requests, cost.size, cost.unchanged, cost.redundant],
        "first": account.first,
        "last": account.last,
        "has_content": account.has_content,
        "rounds": account.rounds,
        "on_hour": account.on_hour,
        "hourly": _dump_evidence(account.hourly),
        "ended": account.ended,
    }


def _dump_finding(kind: type[Note], finding: FindingCount) -> list[Any]:
    requests = () if kind.level is Level.GOOD else finding.evidence
    return [finding.count, finding.rule, dict(finding.values), _dump_evidence(requests)]


def _dump_evidence(requests: Iterable[Evidence]) -> list[Any]:
    return [[request.number, request.at, request.target, request.status, request.reason] for request in requests]


def _load_feed(values: dict[str, Any]) -> FeedAccount:
    findings = {}
    for name, (count, rule, details, requests) in values["heard"].items():
        broken_rule = ReaderRule(rule) if rule is not None else None
        findings[KINDS[name]] = FindingCount(dict(details), list(_load_evidence(requests)), int(count), broken_rule)
    return FeedAccount(
        feed=str(values["feed"]),
        tallies={ReaderRule(rule): RuleTally(*map(int, counts)) for rule, counts in values["tallies"].items()},
        findings=findings,
        cost=TrafficCost(*map(int, values["cost"])),
        first=float(values["first"]),
        last=float(values["last"]),
        has_content=bool(values["has_content"]),
        rounds=int(values["rounds"]),
        on_hour=int(values["on_hour"]),
        hourly=_load_evidence(values["hourly"]),
        ended=None if values["ended"] is None else float(values["ended"]),
    )


def _load_evidence(values: list[Any]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(int(number), float(at), str(target), int(status), str(reason))
        for number, at, target, status, reason in values
    )
