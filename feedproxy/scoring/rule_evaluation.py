"""Evaluation of one reader and feed.

Every rule evaluates each request. Afterwards the state is updated from the answer. Memory is bounded, so that the same
code evaluates recordings and live traffic.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from feedproxy.clock import Instant
from feedproxy.notes import Note
from feedproxy.scoring import client_hygiene_rules, conditional_request_rules, polling_interval_rules, redirect_rules
from feedproxy.scoring.reader_state import ReaderState
from feedproxy.scoring.rule_weights import Observation, ReaderRule, Verdict
from feedproxy.scoring.scored_request import Poll

type Evaluator = Callable[[Poll, ReaderState], Verdict | None]

EVALUATORS: Mapping[ReaderRule, Evaluator] = {
    ReaderRule.CONDITIONS: conditional_request_rules.evaluate,
    ReaderRule.PACE: polling_interval_rules.evaluate,
    ReaderRule.REFUSALS: polling_interval_rules.evaluate_refusal,
    ReaderRule.MOVES: redirect_rules.evaluate,
    ReaderRule.ENDINGS: redirect_rules.evaluate_ended,
    ReaderRule.SKIPPED: polling_interval_rules.evaluate_skips,
    ReaderRule.CODING: client_hygiene_rules.evaluate_coding,
    ReaderRule.IDENTITY: client_hygiene_rules.evaluate_identity,
    ReaderRule.TAGS: conditional_request_rules.evaluate_tag_use,
    ReaderRule.TEMPORARY: redirect_rules.evaluate_temporary,
    ReaderRule.DELTAS: conditional_request_rules.evaluate_delta,
    ReaderRule.CONTACT: client_hygiene_rules.evaluate_contact,
    ReaderRule.NEEDLESS: client_hygiene_rules.evaluate_needless,
    ReaderRule.VERSION: client_hygiene_rules.evaluate_version,
    ReaderRule.SIZE: client_hygiene_rules.evaluate_size,
}
"""The function that evaluates each rule for a single request. Two rules are evaluated elsewhere: CONNECTION by
`Reader`, HOUR by `FeedAccount.finalize`."""

PRAISE: Mapping[ReaderRule, type[Note]] = {
    ReaderRule.CONDITIONS: conditional_request_rules.ASKS_WELL,
    ReaderRule.PACE: polling_interval_rules.KEEPS_PACE,
    ReaderRule.REFUSALS: polling_interval_rules.LEAVES_IN_PEACE,
    ReaderRule.MOVES: redirect_rules.ADOPTS_MOVES,
    ReaderRule.ENDINGS: redirect_rules.HEEDS_ENDINGS,
    ReaderRule.SKIPPED: polling_interval_rules.HEEDS_SKIPPED,
    ReaderRule.CODING: client_hygiene_rules.TAKES_COMPRESSION,
    ReaderRule.IDENTITY: client_hygiene_rules.NAMES_ITSELF,
    ReaderRule.TEMPORARY: redirect_rules.KEEPS_ADDRESS,
    ReaderRule.DELTAS: conditional_request_rules.USES_DELTAS,
    ReaderRule.CONTACT: client_hygiene_rules.TELLS_CONTACT,
    ReaderRule.NEEDLESS: client_hygiene_rules.NOTHING_NEEDLESS,
    ReaderRule.CONNECTION: client_hygiene_rules.REUSES_CONNECTIONS,
}

TEXT_LENGTH_MAX = 500
"""A stored reason is cut to this many characters. Reasons quote tags and addresses, which have no length limit."""


@dataclass(frozen=True, slots=True)
class Evidence:
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


class FeedEvaluation:
    """The evaluation of one reader and feed.

    At most `evidence_max` requests are stored for each finding. `partial` is true if other workers answer requests of
    the same reader.
    """

    def __init__(self, feed: str, *, evidence_max: int, partial: bool) -> None:
        self.feed = feed
        self.state = ReaderState(partial)
        self.tallies: dict[ReaderRule, RuleTally] = {}
        self.findings: dict[type[Note], FindingCount] = {}
        self.cost = TrafficCost()
        self.first: Instant | None = None
        self.last: Instant = 0.0
        self.has_content = False
        """True if at least one answer was a feed, a redirect document, a 226 or a 304."""
        self.rounds = 0
        """Number of polls. A poll includes the requests that follow its redirects, and a GET after a HEAD."""
        self.on_hour = 0
        self.hourly: list[Evidence] = []
        self._evidence_max = evidence_max
        self._plain_evidence: Evidence | None = None
        """The current request as evidence without a reason. All praise for this request shares the object to save
        memory."""

    def evaluate(self, poll: Poll) -> None:
        """Evaluate a request by all rules, then update the state from its answer."""
        state = self.state
        for rule, evaluate in EVALUATORS.items():
            if (verdict := evaluate(poll, state)) is not None:
                self.record_verdict(rule, poll, verdict)
        if (observation := client_hygiene_rules.observe_subscribers(poll, state)) is not None:
            self._record_observation(observation, poll)
        if poll.answer.get("location") is None and (adoptions := redirect_rules.describe_adoptions(state, poll.target)):
            self._record_praise(redirect_rules.ADOPTS_MOVES, poll, f"adopted {adoptions}")
        if not state.belongs_to_previous(poll):
            self.rounds += 1
            if polling_interval_rules.is_on_the_hour(poll):
                self.on_hour += 1
                self._append_evidence(self.hourly, self._evidence(poll, "on the hour"))
        self._add_cost(poll)
        state.learn(poll)

    def record_verdict(self, rule: ReaderRule, poll: Poll, verdict: Verdict) -> None:
        """Record a rule's verdict on a request. If the rule was kept, record praise."""
        tally = self.tallies.get(rule)
        if tally is None:
            tally = self.tallies[rule] = RuleTally()
        tally.chances += 1
        tally.broken += bool(verdict)
        if len(verdict) == 1:
            self._record_observation(verdict[0], poll, rule)
        elif verdict:
            self._record_once_per_request(verdict, poll, rule)
        if not verdict and (praise := PRAISE.get(rule)) is not None:
            self._record_praise(praise, poll, "")

    def _record_once_per_request(self, verdict: Verdict, poll: Poll, rule: ReaderRule) -> None:
        """Record the first observation of each kind, so that a request counts once for each finding."""
        for observation in {observation.kind: observation for observation in reversed(verdict)}.values():
            self._record_observation(observation, poll, rule)

    def _record_observation(self, observation: Observation, poll: Poll, rule: ReaderRule | None = None) -> None:
        finding = self.findings.get(observation.kind)
        if finding is None:
            finding = self.findings[observation.kind] = FindingCount(observation.values, rule=rule)
        finding.count += 1
        self._append_evidence(finding.evidence, self._evidence(poll, observation.reason))

    def _record_praise(self, kind: type[Note], poll: Poll, reason: str) -> None:
        finding = self.findings.get(kind)
        if finding is None:
            finding = self.findings[kind] = FindingCount({})
        if reason:
            finding.values = finding.values or {"example": f"{reason[0].upper()}{reason[1:]}."}
            if finding.evidence and finding.evidence[-1].number == poll.number:
                finding.evidence.pop()
                finding.count -= 1
        finding.count += 1
        if reason:
            self._append_evidence(finding.evidence, self._evidence(poll, reason))
            return
        if self._plain_evidence is None or self._plain_evidence.number != poll.number:
            self._plain_evidence = self._evidence(poll, "")
        self._append_evidence(finding.evidence, self._plain_evidence)

    def _add_cost(self, poll: Poll) -> None:
        cost, state = self.cost, self.state
        cost.requests += 1
        cost.size += poll.size
        cost.unchanged += poll.status == 304
        is_unchanged = bool(state.stored) and (poll.answer.get("etag"), poll.answer.get("last-modified")) == (
            state.stored.tag or None,
            state.stored.modified or None,
        )
        if poll.status == 200 and poll.is_success and is_unchanged:
            cost.redundant += poll.size
        self.first = poll.at if self.first is None else self.first
        self.last = poll.at
        self.has_content |= poll.content.is_feed if poll.content is not None else poll.status in (226, 304)

    def _append_evidence(self, evidence: list[Evidence], request: Evidence) -> None:
        """Append a request, and drop the oldest request if there are more than `evidence_max`.

        A list is used because an empty deque takes the memory of a list with 80 items.
        """
        evidence.append(request)
        if len(evidence) > self._evidence_max:
            del evidence[0]

    def _evidence(self, poll: Poll, reason: str) -> Evidence:
        target = self.feed if poll.target == self.feed else poll.target  # all evidence of a feed shares one string
        return Evidence(poll.number, poll.at, target, poll.status, reason[:TEXT_LENGTH_MAX])
