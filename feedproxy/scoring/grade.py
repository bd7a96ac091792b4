"""Scores: findings with their counts, and a grade.

    grade = 100 x sum of (weight x share kept) / sum of weights, over the rules that applied, rounded down

A rule that did not apply, such as the one for 410 without a 410, is left out. 100 therefore means no violation, and
the grade of a short recording says less than that of a long one.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from feedproxy.clock import Instant, Seconds
from feedproxy.findings import Level, Note
from feedproxy.scoring import client_hygiene
from feedproxy.scoring.aggregate import RULES_OF_PRAISE, FeedAccount, ReaderAccount, create_account, sum_costs
from feedproxy.scoring.evaluator import Evidence, FindingCount, RuleTally, TrafficCost
from feedproxy.scoring.reader import Reader
from feedproxy.scoring.rules import Rule

REQUESTS_MIN = 3
"""Polls below which FEW_REQUESTS qualifies a grade."""

_ORDER = {Level.BAD: 0, Level.WARN: 1, Level.INFO: 2, Level.GOOD: 3}


@dataclass(frozen=True, slots=True)
class Finding:
    """A Note, the number of requests that it applies to, and the latest of them."""

    note: Note
    count: int
    requests: tuple[Evidence, ...]
    rule: Rule | None = None
    """The violated rule; None for praise and information."""


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The number of requests to which a rule applied, and of those that broke it."""

    rule: Rule
    chances: int
    broken: int

    @property
    def share(self) -> float:
        """The share of requests that kept the rule."""
        return 1 - self.broken / self.chances


@dataclass(frozen=True, slots=True)
class FeedScore:
    """The score of one reader and feed."""

    feed: str
    grade: int
    findings: tuple[Finding, ...]
    rules: tuple[RuleResult, ...]
    cost: TrafficCost
    interval: Seconds
    """The mean time between polls; 0 for a single poll."""


@dataclass(frozen=True, slots=True)
class ReaderScore:
    """The score of one reader with all its feeds."""

    reader: str
    user_agent: str
    grade: int
    findings: tuple[Finding, ...]
    rules: tuple[RuleResult, ...]
    cost: TrafficCost
    feeds: tuple[FeedScore, ...] = field(default=())


def compute_grade(rules: Iterable[RuleResult]) -> int:
    """Return the grade, 0 to 100."""
    applicable = list(rules)
    weights = sum(result.rule.weight for result in applicable)
    fulfilled = sum(result.rule.weight * result.share for result in applicable)
    # Shares such as 2/3 are rounded: the sum may miss 100 by less than 1e-9.
    return math.floor(100 * fulfilled / weights + 1e-9) if weights else 100


def score_reader(reader: Reader, now: Instant) -> ReaderScore | None:
    """Return the score of a reader up to `now`; None if it has not requested a feed."""
    return score_account(create_account(reader), now)


def rank(scores: Iterable[ReaderScore | None]) -> list[ReaderScore]:
    """Return the scores of readers that have requested a feed, the lowest grade first."""
    return sorted(filter(None, scores), key=lambda score: (score.grade, -score.cost.requests))


def score_account(account: ReaderAccount, now: Instant) -> ReaderScore | None:
    """Return the score of an account up to `now`; None if it contains no feed."""
    finalized = [(feed, *feed.finalize(now)) for feed in account.feeds if feed.has_content]
    if not finalized:
        return None
    feeds = tuple(_feed_score(*finalized_feed) for finalized_feed in finalized)
    rules = _rules(tallies for _, tallies, _ in finalized)
    rounds = sum(feed.rounds for feed, _, _ in finalized)
    return ReaderScore(
        reader=account.name,
        user_agent=account.user_agent,
        grade=compute_grade(rules),
        findings=_findings([findings for _, _, findings in finalized], rules, account.name, rounds),
        rules=rules,
        cost=sum_costs(feed.cost for feed, _, _ in finalized),
        feeds=tuple(sorted(feeds, key=lambda feed: (feed.grade, feed.feed))),
    )


def _feed_score(
    account: FeedAccount, tallies: Mapping[Rule, RuleTally], findings: Mapping[type[Note], FindingCount]
) -> FeedScore:
    rules = _rules([tallies])
    return FeedScore(
        feed=account.feed,
        grade=compute_grade(rules),
        findings=_findings([findings], rules, account.feed, account.rounds),
        rules=rules,
        cost=account.cost,
        interval=account.interval,
    )


def _rules(tallies: Iterable[Mapping[Rule, RuleTally]]) -> tuple[RuleResult, ...]:
    chances, broken = dict.fromkeys(Rule, 0), dict.fromkeys(Rule, 0)
    for rule, tally in chain.from_iterable(feed_tallies.items() for feed_tallies in tallies):
        chances[rule] += tally.chances
        broken[rule] += tally.broken
    return tuple(RuleResult(rule, chances[rule], broken[rule]) for rule in Rule if chances[rule])


def _findings(
    findings_by_feed: list[Mapping[type[Note], FindingCount]], rules: tuple[RuleResult, ...], subject: str, rounds: int
) -> tuple[Finding, ...]:
    kinds = dict.fromkeys(chain.from_iterable(findings_by_feed))
    broken = {result.rule for result in rules if result.broken}
    findings = []
    for kind in kinds:
        if kind in RULES_OF_PRAISE and RULES_OF_PRAISE[kind] in broken:
            continue  # another feed's requests broke the rule
        counts = [by_kind[kind] for by_kind in findings_by_feed if kind in by_kind]
        total = sum(count.count for count in counts)
        values = {"example": "", "times": count_requests(total), **counts[0].values}
        evidence = chain.from_iterable(count.evidence for count in counts)
        requests = tuple(sorted(evidence, key=lambda request: (request.at, request.number)))
        findings.append(Finding(kind(subject, **values), total, requests, counts[0].rule))
    if rounds < REQUESTS_MIN:
        findings.append(Finding(client_hygiene.FEW_REQUESTS(subject, times=_count_noun(rounds, "poll")), rounds, ()))
    return tuple(sorted(findings, key=lambda finding: (_ORDER[finding.note.level], -finding.count, finding.note.id())))


def count_requests(count: int) -> str:
    """Return a number of requests in words: `1 request`, `12 requests`."""
    return _count_noun(count, "request")


def _count_noun(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
