"""Accounts of readers: the counts and findings from which scores are computed, in a form that workers exchange.

If several workers answer requests of the same reader, the counts are added. A violation counts if at least one worker
has found it. Praise counts only for rules about single requests, because no worker gets all requests.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.clock import Instant, Seconds
from feedproxy.notes import Note
from feedproxy.scoring import (
    client_hygiene_rules,
    conditional_request_rules,
    polling_interval_rules,
    redirect_and_gone_rules,
)
from feedproxy.scoring.reader_names import ReaderName, reader_name
from feedproxy.scoring.rule_weights import ReaderRule

EVIDENCE_MAX = 3
"""Live scores store at most this many example requests for each finding of one reader and feed."""

SINGLE_REQUEST_RULES = frozenset(
    {ReaderRule.CODING, ReaderRule.IDENTITY, ReaderRule.CONTACT, ReaderRule.NEEDLESS, ReaderRule.VERSION}
)
"""Rules for which a single request shows whether the reader keeps them."""

PRAISE: Mapping[ReaderRule, type[Note]] = {
    ReaderRule.CONDITIONS: conditional_request_rules.VALIDATORS_RETURNED,
    ReaderRule.PACE: polling_interval_rules.POLLED_WHEN_DUE,
    ReaderRule.REFUSALS: polling_interval_rules.WAITED_AFTER_FAILURES,
    ReaderRule.MOVES: redirect_and_gone_rules.PERMANENT_MOVES_ADOPTED,
    ReaderRule.ENDINGS: redirect_and_gone_rules.ENDINGS_OBEYED,
    ReaderRule.SKIPPED: polling_interval_rules.SKIPPED_TIMES_OBEYED,
    ReaderRule.CODING: client_hygiene_rules.COMPRESSION_ACCEPTED,
    ReaderRule.IDENTITY: client_hygiene_rules.USER_AGENT_NAMES_READER,
    ReaderRule.TEMPORARY: redirect_and_gone_rules.ADDRESS_KEPT,
    ReaderRule.DELTAS: conditional_request_rules.DELTAS_ACCEPTED,
    ReaderRule.CONTACT: client_hygiene_rules.CONTACT_STATED,
    ReaderRule.NEEDLESS: client_hygiene_rules.NO_NEEDLESS_DATA,
    ReaderRule.CONNECTION: client_hygiene_rules.CONNECTIONS_REUSED,
}

RULES_OF_PRAISE: Mapping[type[Note], ReaderRule] = {kind: rule for rule, kind in PRAISE.items()}
"""The rule to which each kind of praise belongs."""


class Evidence(NamedTuple):
    """A request that shows a finding, with the reason for the finding."""

    number: int
    at: Instant
    target: str
    status: int
    reason: str


@dataclass(slots=True)
class FindingCount:
    """The number of requests with a finding, and the latest of these requests."""

    values: Mapping[str, Any]
    evidence: list[Evidence] = field(default_factory=list)
    """The latest requests with the finding, oldest first; `FeedEvaluation` limits their number."""
    count: int = 0
    rule: ReaderRule | None = None
    """The violated rule, or None if the finding is praise or information."""


@dataclass(slots=True)
class RuleTally:
    """The number of requests to which a rule applied, and the number of these requests that broke the rule."""

    chances: int = 0
    broken: int = 0

    @property
    def share(self) -> float:
        """Return the share of requests that kept the rule, from 0 to 1. It is 1 if the rule applied to no request."""
        return 1 - self.broken / self.chances if self.chances else 1.0


@dataclass(slots=True)
class TrafficCost:
    """The number of a reader's requests and the bytes of content sent in answer."""

    requests: int = 0
    size: int = 0
    """Bytes of content in all answers."""
    unchanged: int = 0
    """Number of requests answered with 304."""
    redundant: int = 0
    """Bytes of content in 200 answers with an ETag and Last-Modified that the reader already had."""


@dataclass(slots=True)
class FeedAccount:
    """The counts and findings for one reader and one feed."""

    feed: str
    first: Instant
    last: Instant
    tallies: dict[ReaderRule, RuleTally] = field(default_factory=dict)
    findings: dict[type[Note], FindingCount] = field(default_factory=dict)
    cost: TrafficCost = field(default_factory=TrafficCost)
    has_content: bool = False
    """True if at least one answer was a feed, a redirect document, a 226 or a 304."""
    rounds: int = 0
    """Number of polls. A poll includes the requests that follow its redirects, and a GET after a HEAD."""
    on_hour: int = 0
    hourly: list[Evidence] = field(default_factory=list)
    ended: Instant | None = None
    """Time of the latest answer that declared the feed gone. None if there is no such answer, or if a later answer
    delivered the feed."""

    @property
    def interval(self) -> Seconds:
        """Return the mean time between two polls, in seconds; 0 if there was only one poll."""
        return (self.last - self.first) / (self.rounds - 1) if self.rounds > 1 else 0.0

    def finalize(self, now: Instant) -> tuple[Mapping[ReaderRule, RuleTally], Mapping[type[Note], FindingCount]]:
        """Return tallies and findings for the time up to `now`, with findings that need all polls, such as
        POLLED_ON_THE_HOUR. Praise for a rule is removed if the rule was broken or did not apply."""
        tallies, findings = dict(self.tallies), dict(self.findings)
        if redirect_and_gone_rules.is_left_alone(self.ended, now) and ReaderRule.ENDINGS not in tallies:
            tallies[ReaderRule.ENDINGS] = RuleTally(1, 0)
            findings[redirect_and_gone_rules.ENDINGS_OBEYED] = FindingCount({}, [], 1)
        if self.rounds >= polling_interval_rules.HOURS_MIN:
            is_hourly = self.on_hour >= self.rounds * polling_interval_rules.ON_THE_HOUR_SHARE
            tallies[ReaderRule.HOUR] = RuleTally(self.rounds, self.on_hour if is_hourly else 0)
            if is_hourly:
                findings[polling_interval_rules.POLLED_ON_THE_HOUR] = FindingCount(
                    {}, self.hourly, self.on_hour, ReaderRule.HOUR
                )
        broken = {rule for rule, tally in tallies.items() if tally.broken}
        withheld = {kind for kind, rule in RULES_OF_PRAISE.items() if rule in broken or rule not in tallies}
        return tallies, {kind: finding for kind, finding in findings.items() if kind not in withheld}


class ReaderAccount(Struct, frozen=True):
    """The counts and findings for one reader, with an account for each of its feeds."""

    name: str
    user_agent: str
    """The User-Agent of the last request."""
    feeds: tuple[FeedAccount, ...]
    aliases: Mapping[str, str]
    """For each address to which a redirect or a redirect document led: the address of its feed."""

    @property
    def identity(self) -> ReaderName:
        """Return the name by which accounts of the same reader from different workers are recognised."""
        return reader_name(self.name, self.user_agent[:512], "")


def merge_accounts(accounts: Iterable[ReaderAccount]) -> Iterator[ReaderAccount]:
    """Yield one account per reader, merged from the accounts of several workers."""
    by_reader: dict[ReaderName, list[ReaderAccount]] = {}
    for account in accounts:
        by_reader.setdefault(account.identity, []).append(account)
    return (
        _merge_reader(same_reader) if len(same_reader) > 1 else same_reader[0] for same_reader in by_reader.values()
    )


def _merge_reader(accounts: list[ReaderAccount]) -> ReaderAccount:
    aliases: dict[str, str] = {}
    for account in accounts:
        aliases |= account.aliases
    feeds: dict[str, list[FeedAccount]] = {}
    for feed in chain.from_iterable(account.feeds for account in accounts):
        feeds.setdefault(aliases.get(feed.feed, feed.feed), []).append(feed)
    latest = max(accounts, key=lambda account: max((feed.last for feed in account.feeds), default=0.0))
    merged = tuple(_merge_feed(root, parts) if len(parts) > 1 else parts[0] for root, parts in feeds.items())
    return replace(latest, feeds=merged, aliases=aliases)


def _merge_feed(root: str, parts: list[FeedAccount]) -> FeedAccount:
    latest = max(parts, key=lambda part: part.last)
    return FeedAccount(
        feed=root,
        tallies=sum_tallies(part.tallies for part in parts),
        findings=_merge_findings([part.findings for part in parts]),
        cost=sum_costs(part.cost for part in parts),
        first=min(part.first for part in parts),
        last=latest.last,
        has_content=any(part.has_content for part in parts),
        rounds=sum(part.rounds for part in parts),
        on_hour=sum(part.on_hour for part in parts),
        hourly=_latest_evidence(part.hourly for part in parts),
        # The worker that answered last knows whether the feed is gone. If the feed is gone, the last request was sent
        # after the feed had ended.
        ended=latest.last if latest.ended is not None else None,
    )


def sum_tallies(parts: Iterable[Mapping[ReaderRule, RuleTally]]) -> dict[ReaderRule, RuleTally]:
    """Return the sum of the tallies of each rule that applied, in the order of ReaderRule."""
    chances, broken = dict.fromkeys(ReaderRule, 0), dict.fromkeys(ReaderRule, 0)
    for rule, tally in chain.from_iterable(part.items() for part in parts):
        chances[rule] += tally.chances
        broken[rule] += tally.broken
    return {rule: RuleTally(chances[rule], broken[rule]) for rule in ReaderRule if chances[rule]}


def _merge_findings(parts: list[dict[type[Note], FindingCount]]) -> dict[type[Note], FindingCount]:
    merged = {}
    for kind in dict.fromkeys(chain.from_iterable(parts)):
        if kind in RULES_OF_PRAISE and RULES_OF_PRAISE[kind] not in SINGLE_REQUEST_RULES:
            continue
        counts = [part[kind] for part in parts if kind in part]
        evidence = _latest_evidence(count.evidence for count in counts)
        merged[kind] = FindingCount(counts[0].values, evidence, sum(count.count for count in counts), counts[0].rule)
    return merged


def _latest_evidence(requests: Iterable[Iterable[Evidence]]) -> list[Evidence]:
    return sorted(chain.from_iterable(requests), key=lambda request: (request.at, request.number))[-EVIDENCE_MAX:]


def sum_costs(costs: Iterable[TrafficCost]) -> TrafficCost:
    """Return the sum of several costs."""
    total = TrafficCost()
    for cost in costs:
        total.requests += cost.requests
        total.size += cost.size
        total.unchanged += cost.unchanged
        total.redundant += cost.redundant
    return total
