"""Evaluation of one reader and feed.

Every rule evaluates each request. Afterwards the state is updated from the answer. Memory is bounded, so that the same
code evaluates recordings and live traffic.
"""

from collections.abc import Callable, Mapping

from feedproxy.clock import Instant
from feedproxy.feed.channel import READER_MEDIA_TYPES
from feedproxy.http.field_values import parse_parameters
from feedproxy.notes import Note
from feedproxy.scoring import (
    client_hygiene_rules,
    conditional_request_rules,
    polling_interval_rules,
    redirect_and_gone_rules,
)
from feedproxy.scoring.reader_accounts import PRAISE, Evidence, FeedAccount, FindingCount, RuleTally
from feedproxy.scoring.reader_state import ReaderState
from feedproxy.scoring.rule_weights import Observation, ReaderRule, Verdict
from feedproxy.scoring.scored_request import Poll

type Evaluator = Callable[[Poll, ReaderState], Verdict | None]

EVALUATORS: Mapping[ReaderRule, Evaluator] = {
    ReaderRule.CONDITIONS: conditional_request_rules.evaluate,
    ReaderRule.PACE: polling_interval_rules.evaluate,
    ReaderRule.REFUSALS: polling_interval_rules.evaluate_refusal,
    ReaderRule.MOVES: redirect_and_gone_rules.evaluate,
    ReaderRule.ENDINGS: redirect_and_gone_rules.evaluate_ended,
    ReaderRule.SKIPPED: polling_interval_rules.evaluate_skips,
    ReaderRule.CODING: client_hygiene_rules.evaluate_coding,
    ReaderRule.IDENTITY: client_hygiene_rules.evaluate_identity,
    ReaderRule.TAGS: conditional_request_rules.evaluate_tag_use,
    ReaderRule.TEMPORARY: redirect_and_gone_rules.evaluate_temporary,
    ReaderRule.DELTAS: conditional_request_rules.evaluate_delta,
    ReaderRule.CONTACT: client_hygiene_rules.evaluate_contact,
    ReaderRule.NEEDLESS: client_hygiene_rules.evaluate_needless,
    ReaderRule.VERSION: client_hygiene_rules.evaluate_version,
    ReaderRule.SIZE: client_hygiene_rules.evaluate_size,
}
"""The function that evaluates each rule for a single request.

It returns an empty verdict if the request keeps the rule, and None if the rule does not apply to the request. Two rules
have no function here: `Reader` evaluates CONNECTION, and `FeedAccount.finalize` evaluates HOUR.
"""

TEXT_LENGTH_MAX = 500
"""A stored reason is cut to this many characters. Reasons quote tags and addresses, which have no length limit."""


class FeedEvaluation:
    """The evaluation of one reader and feed. `first` is the time of the first request. At most `evidence_max` requests
    are stored for each finding. `partial` is true if other workers answer requests of the same reader."""

    def __init__(self, feed: str, first: Instant, *, evidence_max: int, partial: bool) -> None:
        self.account = FeedAccount(feed, first, first)
        self.state = ReaderState(partial)
        self._evidence_max = evidence_max
        self._plain_evidence: Evidence | None = None
        """The current request as evidence without a reason. All praise for this request shares the object to save
        memory."""

    def evaluate(self, poll: Poll) -> None:
        """Evaluate a request by all rules, then update the state from its answer."""
        account, state = self.account, self.state
        for rule, evaluate in EVALUATORS.items():
            if (verdict := evaluate(poll, state)) is not None:
                self.record_verdict(rule, poll, verdict)
        if (observation := client_hygiene_rules.observe_subscribers(poll, state)) is not None:
            self._record_observation(observation, poll)
        if poll.answer.get("location") is None and (
            adoptions := redirect_and_gone_rules.describe_adoptions(state, poll.target)
        ):
            self._record_praise(redirect_and_gone_rules.PERMANENT_MOVES_ADOPTED, poll, f"adopted {adoptions}")
        if not state.belongs_to_previous(poll):
            account.rounds += 1
            if polling_interval_rules.is_on_the_hour(poll):
                account.on_hour += 1
                self._append_evidence(account.hourly, self._evidence(poll, "on the hour"))
        self._add_cost(poll)
        state.learn(poll)
        account.ended = state.gone.last if state.gone is not None else None

    def record_verdict(self, rule: ReaderRule, poll: Poll, verdict: Verdict) -> None:
        """Record a rule's verdict on a request. If the rule was kept, record praise."""
        tally = self.account.tallies.get(rule)
        if tally is None:
            tally = self.account.tallies[rule] = RuleTally()
        tally.chances += 1
        tally.broken += bool(verdict)
        if verdict:
            # A request counts once for each finding, with the first observation.
            for observation in {observation.kind: observation for observation in reversed(verdict)}.values():
                self._record_observation(observation, poll, rule)
        elif (praise := PRAISE.get(rule)) is not None:
            self._record_praise(praise, poll, "")

    def _record_observation(self, observation: Observation, poll: Poll, rule: ReaderRule | None = None) -> None:
        finding = self.account.findings.get(observation.kind)
        if finding is None:
            finding = self.account.findings[observation.kind] = FindingCount(observation.values, rule=rule)
        finding.count += 1
        self._append_evidence(finding.evidence, self._evidence(poll, observation.reason))

    def _record_praise(self, kind: type[Note], poll: Poll, reason: str) -> None:
        finding = self.account.findings.get(kind)
        if finding is None:
            finding = self.account.findings[kind] = FindingCount({})
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
        account, cost = self.account, self.account.cost
        cost.requests += 1
        cost.size += poll.size
        cost.unchanged += poll.status == 304
        if conditional_request_rules.is_sent_in_vain(poll, self.state):
            cost.redundant += poll.size
        account.last = poll.at
        account.has_content |= _delivers_feed(poll)

    def _append_evidence(self, evidence: list[Evidence], request: Evidence) -> None:
        """Append a request, and drop the oldest if there are more than `evidence_max`. An empty deque would take the
        memory of a list with 80 items."""
        evidence.append(request)
        if len(evidence) > self._evidence_max:
            del evidence[0]

    def _evidence(self, poll: Poll, reason: str) -> Evidence:
        feed = self.account.feed
        target = feed if poll.target == feed else poll.target  # all evidence of a feed shares one string
        return Evidence(poll.number, poll.at, target, poll.status, reason[:TEXT_LENGTH_MAX])


def _delivers_feed(poll: Poll) -> bool:
    """Return True if the answer was a feed or confirmed the reader's copy. An answer to HEAD is a feed if its media
    type is that of a feed."""
    if poll.content is not None:
        return poll.content.is_feed
    if poll.method == "HEAD" and poll.status == 200:
        return parse_parameters(poll.answer.get("content-type") or "")[0] in READER_MEDIA_TYPES
    return poll.status in (226, 304)
