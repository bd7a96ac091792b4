"""From what was counted to a score: findings with their numbers, and a grade.

    grade = 100 x sum of (weight x share kept) / sum of weights, over the rules that had a say, rounded down

A rule that nothing gave a chance to break, such as what to do after a 410 that never came, is left out. So 100 means
that nothing was done wrong, and the grade of a short recording says less than that of a long one.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from feedproxy.clock import Instant, Seconds
from feedproxy.findings import Level, Note
from feedproxy.scoring import client_hygiene
from feedproxy.scoring.aggregate import PRAISED, FeedAccount, ReaderAccount, account_of, sum_costs
from feedproxy.scoring.evaluator import Evidence, FindingCount, RuleTally, TrafficCost
from feedproxy.scoring.reader import Reader
from feedproxy.scoring.rules import Rule

REQUESTS_MIN = 3
"""Polls below which a grade is only a beginning."""

_ORDER = {Level.BAD: 0, Level.WARN: 1, Level.INFO: 2, Level.GOOD: 3}


@dataclass(frozen=True, slots=True)
class Finding:
    """A Note, how often it was given rise to, and the requests that show it (the latest, where there are many)."""

    note: Note
    count: int
    requests: tuple[Evidence, ...]
    rule: Rule | None = None
    """The rule that is broken; None for praise and information."""


@dataclass(frozen=True, slots=True)
class RuleKept:
    """How often a rule had a say, and how often it was broken."""

    rule: Rule
    chances: int
    broken: int

    @property
    def share(self) -> float:
        """The part in which it was kept."""
        return 1 - self.broken / self.chances


@dataclass(frozen=True, slots=True)
class FeedScore:
    """What one reader did with one feed."""

    feed: str
    grade: int
    findings: tuple[Finding, ...]
    rules: tuple[RuleKept, ...]
    cost: TrafficCost
    interval: Seconds
    """The usual time between polls; 0 for one alone."""


@dataclass(frozen=True, slots=True)
class ReaderScore:
    """What one reader did with all its feeds."""

    reader: str
    user_agent: str
    grade: int
    findings: tuple[Finding, ...]
    rules: tuple[RuleKept, ...]
    cost: TrafficCost
    feeds: tuple[FeedScore, ...] = field(default=())


def grade(rules: Iterable[RuleKept]) -> int:
    """0 to 100."""
    had_a_say = list(rules)
    weights = sum(each.rule.weight for each in had_a_say)
    kept = sum(each.rule.weight * each.share for each in had_a_say)
    # A share such as 2/3 is no exact number: what is a hundred but for 1e-9 is a hundred.
    return math.floor(100 * kept / weights + 1e-9) if weights else 100


def score(reader: Reader, now: Instant) -> ReaderScore | None:
    """The score of a reader, up to `now`; None for one that has asked for no feed."""
    return score_of(account_of(reader), now)


def rank(scores: Iterable[ReaderScore | None]) -> list[ReaderScore]:
    """The scores of those that have asked for a feed, the worst first."""
    found = [each for each in scores if each is not None]
    return sorted(found, key=lambda each: (each.grade, -each.cost.requests))


def score_of(account: ReaderAccount, now: Instant) -> ReaderScore | None:
    """What an account comes to, up to `now`; None where there is no feed in it."""
    settled = [(each, *each.settled(now)) for each in account.feeds if each.has_content]
    if not settled:
        return None
    feeds = tuple(_feed_score(*each) for each in settled)
    rules = _rules(tallies for _, tallies, _ in settled)
    rounds = sum(feed.rounds for feed, _, _ in settled)
    return ReaderScore(
        reader=account.name,
        user_agent=account.user_agent,
        grade=grade(rules),
        findings=_findings([heard for _, _, heard in settled], rules, account.name, rounds),
        rules=rules,
        cost=sum_costs(feed.cost for feed, _, _ in settled),
        feeds=tuple(sorted(feeds, key=lambda each: (each.grade, each.feed))),
    )


def _feed_score(
    account: FeedAccount, tallies: Mapping[Rule, RuleTally], heard: Mapping[type[Note], FindingCount]
) -> FeedScore:
    rules = _rules([tallies])
    return FeedScore(
        feed=account.feed,
        grade=grade(rules),
        findings=_findings([heard], rules, account.feed, account.rounds),
        rules=rules,
        cost=account.cost,
        interval=account.interval,
    )


def _rules(tallies: Iterable[Mapping[Rule, RuleTally]]) -> tuple[RuleKept, ...]:
    chances, broken = dict.fromkeys(Rule, 0), dict.fromkeys(Rule, 0)
    for rule, tally in chain.from_iterable(each.items() for each in tallies):
        chances[rule] += tally.chances
        broken[rule] += tally.broken
    return tuple(RuleKept(rule, chances[rule], broken[rule]) for rule in Rule if chances[rule])


def _findings(
    heard: list[Mapping[type[Note], FindingCount]], rules: tuple[RuleKept, ...], subject: str, rounds: int
) -> tuple[Finding, ...]:
    kinds = dict.fromkeys(chain.from_iterable(heard))
    broken = {each.rule for each in rules if each.broken}
    found = []
    for kind in kinds:
        if kind in PRAISED and PRAISED[kind] in broken:
            continue  # kept with one feed, and not with another
        told = [each[kind] for each in heard if kind in each]
        count = sum(each.count for each in told)
        values = {"example": "", "times": count_requests(count), **told[0].values}
        shown = sorted(chain.from_iterable(each.evidence for each in told), key=lambda each: (each.at, each.number))
        found.append(Finding(kind(subject, **values), count, tuple(shown), told[0].rule))
    if rounds < REQUESTS_MIN:
        found.append(Finding(client_hygiene.FEW_REQUESTS(subject, times=_count_noun(rounds, "poll")), rounds, ()))
    return tuple(sorted(found, key=lambda each: (_ORDER[each.note.level], -each.count, each.note.id())))


def count_requests(count: int) -> str:
    """`1 request`, `12 requests`."""
    return _count_noun(count, "request")


def _count_noun(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
