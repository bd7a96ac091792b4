"""Scores: findings with their counts, and a grade.

grade = 100 x sum of (weight x share kept) / sum of weights, over the rules that applied, rounded down

A rule applies only if the requests could show whether the reader keeps it. For example, the rule for 410 does not apply
if no answer was a 410. A grade of 100 therefore means that no violation was found. A grade from a short recording is
less reliable.
"""

from collections.abc import Iterable, Mapping
from itertools import chain

from msgspec import Struct

from feedproxy.clock import Instant, Seconds
from feedproxy.durations_and_sizes import count_noun
from feedproxy.notes import Level, Note
from feedproxy.scoring import client_hygiene_rules
from feedproxy.scoring.reader_accounts import (
    RULES_OF_PRAISE,
    Evidence,
    FeedAccount,
    FindingCount,
    ReaderAccount,
    RuleTally,
    TrafficCost,
    sum_costs,
    sum_tallies,
)
from feedproxy.scoring.rule_weights import ReaderRule

REQUESTS_MIN = 3
"""The grade of a reader with fewer polls than this number is provisional (FEW_REQUESTS)."""


class Grade(int):
    """A number from 0 to 100: how well the requests of a reader follow the rules."""

    @property
    def level(self) -> str:
        """Return the CSS class in which pages show the grade."""
        return "good" if self >= 90 else "held" if self >= 75 else "warn" if self >= 50 else "bad"


class Finding(Struct, frozen=True):
    """A Note with the number of requests that it applies to, and the latest of these requests."""

    note: Note
    count: int
    requests: tuple[Evidence, ...]
    rule: ReaderRule | None = None
    """The violated rule, or None if the finding is praise or information."""


class Score(Struct, frozen=True, kw_only=True):
    """The grade and findings of one reader."""

    grade: Grade
    findings: tuple[Finding, ...]
    tallies: Mapping[ReaderRule, RuleTally]
    cost: TrafficCost


class FeedScore(Score, frozen=True, kw_only=True):
    """The score of one reader for one feed."""

    feed: str
    interval: Seconds
    """Mean time between polls, in seconds; 0 if there was only one poll."""


class ReaderScore(Score, frozen=True, kw_only=True):
    """The score of one reader for all its feeds."""

    reader: str
    user_agent: str
    feeds: tuple[FeedScore, ...] = ()


def compute_grade(tallies: Mapping[ReaderRule, RuleTally]) -> Grade:
    """Return the grade by the formula at the head of this module. It is 100 if no rule applied."""
    weights = sum(rule.weight for rule in tallies)
    fulfilled = sum(rule.weight * tally.share for rule, tally in tallies.items())
    # Shares such as 2/3 are rounded: a sum may miss 100 by less than 1e-9.
    return Grade(100 * fulfilled / weights + 1e-9) if weights else Grade(100)


def rank(scores: Iterable[ReaderScore | None]) -> list[ReaderScore]:
    """Return the scores sorted by grade, the lowest first. None values are dropped."""
    return sorted(filter(None, scores), key=lambda score: (score.grade, -score.cost.requests))


def score_account(account: ReaderAccount, now: Instant) -> ReaderScore | None:
    """Return the score of an account for the time up to `now`, or None if no answer delivered or confirmed a feed
    (`has_content`)."""
    finalized = [(feed, *feed.finalize(now)) for feed in account.feeds if feed.has_content]
    if not finalized:
        return None
    feeds = tuple(_feed_score(*finalized_feed) for finalized_feed in finalized)
    tallies = sum_tallies(tallies for _, tallies, _ in finalized)
    rounds = sum(feed.rounds for feed, _, _ in finalized)
    return ReaderScore(
        reader=account.name,
        user_agent=account.user_agent,
        grade=compute_grade(tallies),
        findings=_findings([findings for _, _, findings in finalized], tallies, account.name, rounds),
        tallies=tallies,
        cost=sum_costs(feed.cost for feed, _, _ in finalized),
        feeds=tuple(sorted(feeds, key=lambda feed: (feed.grade, feed.feed))),
    )


def _feed_score(
    account: FeedAccount, tallies: Mapping[ReaderRule, RuleTally], findings: Mapping[type[Note], FindingCount]
) -> FeedScore:
    tallies = sum_tallies([tallies])  # in the order of ReaderRule
    return FeedScore(
        feed=account.feed,
        grade=compute_grade(tallies),
        findings=_findings([findings], tallies, account.feed, account.rounds),
        tallies=tallies,
        cost=account.cost,
        interval=account.interval,
    )


def _findings(
    findings_by_feed: list[Mapping[type[Note], FindingCount]],
    tallies: Mapping[ReaderRule, RuleTally],
    subject: str,
    rounds: int,
) -> tuple[Finding, ...]:
    kinds = dict.fromkeys(chain.from_iterable(findings_by_feed))
    broken = {rule for rule, tally in tallies.items() if tally.broken}
    findings = []
    for kind in kinds:
        if kind in RULES_OF_PRAISE and RULES_OF_PRAISE[kind] in broken:
            continue  # the requests for another feed broke the rule
        counts = [by_kind[kind] for by_kind in findings_by_feed if kind in by_kind]
        total = sum(count.count for count in counts)
        values = {"example": "", "times": count_noun(total, "request"), **counts[0].values}
        evidence = chain.from_iterable(count.evidence for count in counts)
        requests = tuple(sorted(evidence, key=lambda request: (request.at, request.number)))
        findings.append(Finding(kind(subject, **values), total, requests, counts[0].rule))
    if rounds < REQUESTS_MIN:
        findings.append(
            Finding(client_hygiene_rules.FEW_REQUESTS(subject, times=count_noun(rounds, "poll")), rounds, ())
        )
    return tuple(sorted(findings, key=_rank))


def _rank(finding: Finding) -> tuple[int, int, str]:
    """Return the sort key of a finding: within a level, the finding that costs the most points comes first."""
    weight = finding.rule.weight if finding.rule is not None else 1
    return -list(Level).index(finding.note.level), -finding.count * weight, finding.note.id()
