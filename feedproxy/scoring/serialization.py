"""An account of a reader as one worker tells it to another: a line of JSON.

Of what is done well only the count is told: the page shows no requests for it.
"""

import json
from collections.abc import Iterable
from typing import Any

from feedproxy.findings import Level, Note, notes_of
from feedproxy.scoring import client_hygiene, conditional_requests, polling_interval, redirects
from feedproxy.scoring.aggregate import FeedAccount, ReaderAccount
from feedproxy.scoring.evaluator import Evidence, FindingCount, RuleTally, TrafficCost
from feedproxy.scoring.rules import Rule

_KINDS: dict[str, type[Note]] = {
    kind.id(): kind
    for module in (conditional_requests, client_hygiene, redirects, polling_interval)
    for kind in notes_of(module)
}


def dump_account(account: ReaderAccount) -> bytes:
    """The account in one line."""
    told = {
        "name": account.name,
        "user_agent": account.user_agent,
        "aliases": account.aliases,
        "feeds": [_feed(each) for each in account.feeds],
    }
    return json.dumps(told).encode() + b"\n"


def load_account(told: bytes) -> ReaderAccount:
    """The account in a line. Raises ValueError, LookupError or TypeError for what is none."""
    values = json.loads(told)
    return ReaderAccount(
        str(values["name"]),
        str(values["user_agent"]),
        tuple(_read_feed(each) for each in values["feeds"]),
        {str(alias): str(feed) for alias, feed in values["aliases"].items()},
    )


def _feed(account: FeedAccount) -> dict[str, Any]:
    cost = account.cost
    return {
        "feed": account.feed,
        "tallies": {rule: [each.chances, each.broken] for rule, each in account.tallies.items()},
        "heard": {kind.id(): _dump_finding(kind, each) for kind, each in account.heard.items()},
        "cost": [cost.requests, cost.size, cost.unchanged, cost.spared],
        "first": account.first,
        "last": account.last,
        "has_content": account.has_content,
        "rounds": account.rounds,
        "on_hour": account.on_hour,
        "hourly": _requests(account.hourly),
        "ended": account.ended,
    }


def _dump_finding(kind: type[Note], heard: FindingCount) -> list[Any]:
    shown = () if kind.level is Level.GOOD else heard.evidence
    return [heard.count, heard.rule, dict(heard.values), _requests(shown)]


def _requests(shown: Iterable[Evidence]) -> list[Any]:
    return [[each.number, each.at, each.target, each.status, each.words] for each in shown]


def _read_feed(told: dict[str, Any]) -> FeedAccount:
    heard = {}
    for name, (count, rule, values, shown) in told["heard"].items():
        known = Rule(rule) if rule is not None else None
        heard[_KINDS[name]] = FindingCount(dict(values), list(_read_requests(shown)), int(count), known)
    return FeedAccount(
        feed=str(told["feed"]),
        tallies={Rule(rule): RuleTally(*map(int, counts)) for rule, counts in told["tallies"].items()},
        heard=heard,
        cost=TrafficCost(*map(int, told["cost"])),
        first=float(told["first"]),
        last=float(told["last"]),
        has_content=bool(told["has_content"]),
        rounds=int(told["rounds"]),
        on_hour=int(told["on_hour"]),
        hourly=_read_requests(told["hourly"]),
        ended=None if told["ended"] is None else float(told["ended"]),
    )


def _read_requests(told: list[Any]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(int(number), float(at), str(target), int(status), str(words))
        for number, at, target, status, words in told
    )
