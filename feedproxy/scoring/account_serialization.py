"""Conversion of reader accounts to lines of JSON and back. Workers exchange accounts in this form.

Findings of rules that a reader kept have no example requests in this form, because the page of readers does not show
them.
"""

import json
from dataclasses import astuple, fields
from typing import Any

from feedproxy.notes import Level, Note, notes_of
from feedproxy.scoring import (
    client_hygiene_rules,
    conditional_request_rules,
    polling_interval_rules,
    redirect_and_gone_rules,
)
from feedproxy.scoring.reader_accounts import (
    Evidence,
    FeedAccount,
    FindingCount,
    ReaderAccount,
    RuleTally,
    TrafficCost,
)
from feedproxy.scoring.rule_weights import ReaderRule

KINDS: dict[str, type[Note]] = {
    kind.id(): kind
    for module in (conditional_request_rules, client_hygiene_rules, redirect_and_gone_rules, polling_interval_rules)
    for kind in notes_of(module)
}
"""All kinds of Notes about readers, keyed by name."""


def dump_account(account: ReaderAccount) -> bytes:
    """Return an account as a line of JSON."""
    values = {
        "name": account.name,
        "user_agent": account.user_agent,
        "feeds": [_dump_feed(feed) for feed in account.feeds],
        "aliases": account.aliases,
    }
    return json.dumps(values).encode() + b"\n"


def load_account(line: bytes) -> ReaderAccount:
    """Parse a line of JSON and return the account.

    Raises ValueError, LookupError or TypeError if the line is invalid.
    """
    values = json.loads(line)
    return ReaderAccount(**values | {"feeds": tuple(map(_load_feed, values["feeds"]))})


def _dump_feed(account: FeedAccount) -> dict[str, Any]:
    return {
        **{field.name: getattr(account, field.name) for field in fields(FeedAccount)},
        "tallies": {rule.name: astuple(tally) for rule, tally in account.tallies.items()},
        "findings": {kind.id(): _dump_finding(kind, finding) for kind, finding in account.findings.items()},
        "cost": astuple(account.cost),
    }


def _dump_finding(kind: type[Note], finding: FindingCount) -> list[Any]:
    requests = [] if kind.level is Level.GOOD else finding.evidence
    return [dict(finding.values), requests, finding.count, finding.rule and finding.rule.name]


def _load_feed(values: dict[str, Any]) -> FeedAccount:
    loaded = {
        "tallies": {ReaderRule[rule]: RuleTally(*counts) for rule, counts in values["tallies"].items()},
        "findings": {KINDS[name]: _load_finding(*finding) for name, finding in values["findings"].items()},
        "cost": TrafficCost(*values["cost"]),
        "hourly": _load_evidence(values["hourly"]),
    }
    return FeedAccount(**values | loaded)


def _load_finding(values: dict[str, Any], requests: list[Any], count: int, rule: str | None) -> FindingCount:
    return FindingCount(values, _load_evidence(requests), count, ReaderRule[rule] if rule is not None else None)


def _load_evidence(requests: list[Any]) -> list[Evidence]:
    return [Evidence(*request) for request in requests]
