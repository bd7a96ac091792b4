"""What a reader's conduct has come to: all that a score is made of, and nothing that only the next request needs.

Where several workers answer the same reader, each keeps an account of what it saw, and the accounts are added up. A
fault that one has seen is one for all. Of what is done well this only holds where a request shows it alone: between two
requests at one worker the other may have had the one that was too early. So of a feed that several have answered, what
is told as well done is only what each request shows by itself.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from feedproxy.clock import Instant, Seconds
from feedproxy.findings import Note
from feedproxy.scoring import polling_interval, redirects
from feedproxy.scoring.evaluator import PRAISE, Evidence, FeedEvaluation, FindingCount, RuleTally, TrafficCost
from feedproxy.scoring.reader import Reader, ReaderName, reader_name
from feedproxy.scoring.rules import Rule

EVIDENCE = 3
"""Requests kept of each feed to show a finding, where readers are judged while they read."""

BY_ITSELF = frozenset({Rule.CODING, Rule.IDENTITY, Rule.CONTACT, Rule.NEEDLESS, Rule.VERSION})
"""Rules that look at one request alone."""

PRAISED: Mapping[type[Note], Rule] = {kind: rule for rule, kind in PRAISE.items()}


@dataclass(frozen=True, slots=True)
class FeedAccount:
    """One reader, one feed."""

    feed: str
    tallies: Mapping[Rule, RuleTally]
    heard: Mapping[type[Note], FindingCount]
    cost: TrafficCost
    first: Instant
    last: Instant
    has_content: bool
    rounds: int
    on_hour: int
    hourly: tuple[Evidence, ...]
    ended: Instant | None
    """When it was last told that the feed is no more; None where it lives."""

    @property
    def interval(self) -> Seconds:
        """The usual time between two polls; 0 for one alone."""
        return (self.last - self.first) / (self.rounds - 1) if self.rounds > 1 else 0.0

    def settled(self, now: Instant) -> tuple[Mapping[Rule, RuleTally], Mapping[type[Note], FindingCount]]:
        """Tallies and what was heard, with what only the end shows."""
        tallies, heard = dict(self.tallies), dict(self.heard)
        if redirects.is_left_alone(self.ended, now) and Rule.ENDINGS not in tallies:
            tallies[Rule.ENDINGS] = RuleTally(1, 0)
            heard[redirects.HEEDS_ENDINGS] = FindingCount({}, [], 1)
        if self.rounds >= polling_interval.HOURS_MIN:
            together = self.on_hour >= self.rounds / 2
            tallies[Rule.HOUR] = RuleTally(self.rounds, self.on_hour if together else 0)
            if together:
                heard[polling_interval.ON_THE_HOUR] = FindingCount({}, list(self.hourly), self.on_hour, Rule.HOUR)
        kept = {rule for rule, tally in tallies.items() if not tally.broken}
        return tallies, {kind: each for kind, each in heard.items() if kind not in PRAISED or PRAISED[kind] in kept}


@dataclass(frozen=True, slots=True)
class ReaderAccount:
    """One reader with all its feeds."""

    name: str
    user_agent: str
    """As it was sent last."""
    feeds: tuple[FeedAccount, ...]
    aliases: Mapping[str, str]
    """Addresses that belong to a feed: what it led to."""

    @property
    def who(self) -> ReaderName:
        """Whose account it is."""
        return reader_name(self.name, self.user_agent[:512], "")


def account_of(reader: Reader) -> ReaderAccount:
    """The account of a reader, up to now."""
    return ReaderAccount(
        reader.name, reader.user_agent, tuple(map(_feed_account, reader.feeds.values())), dict(reader.aliases)
    )


def merge_accounts(accounts: Iterable[ReaderAccount]) -> Iterator[ReaderAccount]:
    """Accounts of several workers, those of the same reader made one when it is their turn."""
    found: dict[ReaderName, list[ReaderAccount]] = {}
    for each in accounts:
        found.setdefault(each.who, []).append(each)
    return (_merge_reader(same) if len(same) > 1 else same[0] for same in found.values())


def _feed_account(conduct: FeedEvaluation) -> FeedAccount:
    gone = conduct.known.gone
    return FeedAccount(
        feed=conduct.feed,
        tallies=conduct.tallies,
        heard=conduct.heard,
        cost=conduct.cost,
        first=conduct.last if conduct.first is None else conduct.first,
        last=conduct.last,
        has_content=conduct.has_content,
        rounds=conduct.rounds,
        on_hour=conduct.on_hour,
        hourly=tuple(conduct.hourly),
        ended=gone.last if gone is not None else None,
    )


def _merge_reader(same: list[ReaderAccount]) -> ReaderAccount:
    aliases: dict[str, str] = {}
    for each in same:
        aliases |= each.aliases
    feeds: dict[str, list[FeedAccount]] = {}
    for feed in chain.from_iterable(each.feeds for each in same):
        feeds.setdefault(aliases.get(feed.feed, feed.feed), []).append(feed)
    latest = max(same, key=lambda each: max((feed.last for feed in each.feeds), default=0.0))
    one = tuple(_merge_feed(root, parts) if len(parts) > 1 else parts[0] for root, parts in feeds.items())
    return replace(latest, feeds=one, aliases=aliases)


def _merge_feed(root: str, parts: list[FeedAccount]) -> FeedAccount:
    latest = max(parts, key=lambda each: each.last)
    return FeedAccount(
        feed=root,
        tallies=_sum_tallies([each.tallies for each in parts]),
        heard=_merge_findings([each.heard for each in parts]),
        cost=sum_costs(each.cost for each in parts),
        first=min(each.first for each in parts),
        last=latest.last,
        has_content=any(each.has_content for each in parts),
        rounds=sum(each.rounds for each in parts),
        on_hour=sum(each.on_hour for each in parts),
        hourly=_latest_evidence(each.hourly for each in parts),
        # Whoever answered last knows whether it has ended; where it has, every request since was one too many.
        ended=latest.last if latest.ended is not None else None,
    )


def _sum_tallies(tallies: list[Mapping[Rule, RuleTally]]) -> Mapping[Rule, RuleTally]:
    return {
        rule: RuleTally(
            sum(each[rule].chances for each in tallies if rule in each),
            sum(each[rule].broken for each in tallies if rule in each),
        )
        for rule in Rule
        if any(rule in each for each in tallies)
    }


def _merge_findings(parts: list[Mapping[type[Note], FindingCount]]) -> Mapping[type[Note], FindingCount]:
    merged = {}
    for kind in dict.fromkeys(chain.from_iterable(parts)):
        if kind in PRAISED and PRAISED[kind] not in BY_ITSELF:
            continue
        told = [each[kind] for each in parts if kind in each]
        shown = _latest_evidence(each.evidence for each in told)
        merged[kind] = FindingCount(told[0].values, list(shown), sum(each.count for each in told), told[0].rule)
    return merged


def _latest_evidence(shown: Iterable[Iterable[Evidence]]) -> tuple[Evidence, ...]:
    return tuple(sorted(chain.from_iterable(shown), key=lambda each: (each.at, each.number))[-EVIDENCE:])


def sum_costs(costs: Iterable[TrafficCost]) -> TrafficCost:
    """What several came to."""
    total = TrafficCost()
    for each in costs:
        total.requests += each.requests
        total.size += each.size
        total.unchanged += each.unchanged
        total.spared += each.spared
    return total
