"""How one reader has treated one feed: every request is judged by every rule, then learned from.

It goes on for ever in bounded memory, so a recording and live traffic are judged by the same code.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from feedproxy.clock import Instant
from feedproxy.findings import Note
from feedproxy.scoring import client_hygiene, conditional_requests, polling_interval, redirects
from feedproxy.scoring.reader_state import ReaderState
from feedproxy.scoring.rules import Observation, Rule, Verdict
from feedproxy.scoring.scored_request import Poll

type Judge = Callable[[Poll, ReaderState], Verdict | None]

EVALUATORS: Mapping[Rule, Judge] = {
    Rule.CONDITIONS: conditional_requests.evaluate,
    Rule.PACE: polling_interval.evaluate,
    Rule.REFUSALS: polling_interval.evaluate_refusal,
    Rule.MOVES: redirects.evaluate,
    Rule.ENDINGS: redirects.evaluate_ended,
    Rule.SKIPPED: polling_interval.evaluate_skips,
    Rule.CODING: client_hygiene.coding,
    Rule.IDENTITY: client_hygiene.identity,
    Rule.TEMPORARY: redirects.evaluate_temporary,
    Rule.DELTAS: conditional_requests.delta,
    Rule.CONTACT: client_hygiene.contact,
    Rule.NEEDLESS: client_hygiene.needless,
    Rule.VERSION: client_hygiene.version,
}
"""All but those that look at more than one feed, or at all requests together."""

PRAISE: Mapping[Rule, type[Note]] = {
    Rule.CONDITIONS: conditional_requests.ASKS_WELL,
    Rule.PACE: polling_interval.KEEPS_PACE,
    Rule.REFUSALS: polling_interval.LEAVES_IN_PEACE,
    Rule.MOVES: redirects.ADOPTS_MOVES,
    Rule.ENDINGS: redirects.HEEDS_ENDINGS,
    Rule.SKIPPED: polling_interval.HEEDS_SKIPPED,
    Rule.CODING: client_hygiene.TAKES_COMPRESSION,
    Rule.IDENTITY: client_hygiene.NAMES_ITSELF,
    Rule.TEMPORARY: redirects.KEEPS_ADDRESS,
    Rule.DELTAS: conditional_requests.USES_DELTAS,
    Rule.CONTACT: client_hygiene.TELLS_CONTACT,
    Rule.NEEDLESS: client_hygiene.NOTHING_NEEDLESS,
    Rule.CONNECTION: client_hygiene.REUSES_CONNECTIONS,
}

TEXT_LENGTH_MAX = 500
"""Characters of what a request shows: tags and addresses in it are as long as strangers make them."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A request that shows something, and what in it does."""

    number: int
    at: Instant
    target: str
    status: int
    words: str


@dataclass(slots=True)
class FindingCount:
    """How often something was said, and by what it is shown."""

    values: Mapping[str, Any]
    evidence: list[Evidence] = field(default_factory=list)
    """The latest last. Each conduct bounds its own."""
    count: int = 0
    rule: Rule | None = None
    """The rule that it is about; None for what only is worth knowing."""


@dataclass(slots=True)
class RuleTally:
    """How often a rule had a say, and was broken."""

    chances: int = 0
    broken: int = 0

    @property
    def share(self) -> float:
        """The part in which it was kept."""
        return 1 - self.broken / self.chances if self.chances else 1.0


@dataclass(slots=True)
class TrafficCost:
    """What a reader's polls came to."""

    requests: int = 0
    size: int = 0
    """Bytes of bodies."""
    unchanged: int = 0
    """Requests answered with 304."""
    spared: int = 0
    """Bytes of bodies that came again although nothing had changed."""


class FeedEvaluation:
    """One reader, one feed. `evidence_max` bounds what is kept to show each finding."""

    def __init__(self, feed: str, *, evidence_max: int = 1000, partial: bool = False) -> None:
        self.feed = feed
        self.known = ReaderState(partial)
        self.tallies: dict[Rule, RuleTally] = {}
        self.heard: dict[type[Note], FindingCount] = {}
        self.cost = TrafficCost()
        self.first: Instant | None = None
        self.last: Instant = 0.0
        self.has_content = False
        """A feed, or a word of one that has moved or ended, was seen."""
        self.rounds = 0
        """Polls, each with the redirects it went through."""
        self.on_hour = 0
        self.hourly: list[Evidence] = []
        self._evidence_max = evidence_max
        self._plain: Evidence | None = None

    def see(self, poll: Poll) -> None:
        """Judge a request, and learn from its answer."""
        known = self.known
        for rule, judge in EVALUATORS.items():
            if (verdict := judge(poll, known)) is not None:
                self.count(rule, poll, verdict)
        if (said := client_hygiene.shared(poll, known)) is not None:
            self.hear(said, poll)
        if poll.answer.get("location") is None and (when := redirects.adoptions(known, poll.target)):
            self._praise_of(redirects.ADOPTS_MOVES, poll, f"adopted {when}")
        if not known.follows(poll):
            self.rounds += 1
            if polling_interval.is_on_the_hour(poll):
                self.on_hour += 1
                self._show(self.hourly, self._evidence(poll, "on the hour"))
        self._cost(poll)
        known.learn(poll)

    def count(self, rule: Rule, poll: Poll, verdict: Verdict) -> None:
        """Take in a verdict."""
        tally = self.tallies.get(rule)
        if tally is None:
            tally = self.tallies[rule] = RuleTally()
        tally.chances += 1
        tally.broken += bool(verdict)
        if len(verdict) == 1:
            self.hear(verdict[0], poll, rule)
        elif verdict:
            self._record_once_per_request(verdict, poll, rule)
        if not verdict and (praise := PRAISE.get(rule)) is not None:
            self._praise_of(praise, poll, "")

    def _record_once_per_request(self, verdict: Verdict, poll: Poll, rule: Rule) -> None:
        """Once for each request, whatever shows it there."""
        for said in {each.kind: each for each in reversed(verdict)}.values():
            self.hear(said, poll, rule)

    def hear(self, said: Observation, poll: Poll, rule: Rule | None = None) -> None:
        """Take in what was said of a request."""
        heard = self.heard.get(said.kind)
        if heard is None:
            heard = self.heard[said.kind] = FindingCount(said.values, rule=rule)
        heard.count += 1
        self._show(heard.evidence, self._evidence(poll, said.words))

    def _praise_of(self, kind: type[Note], poll: Poll, words: str) -> None:
        heard = self.heard.get(kind)
        if heard is None:
            heard = self.heard[kind] = FindingCount({})
        if words:
            heard.values = {"example": f"{words[0].upper()}{words[1:]}."} if not heard.values else heard.values
            if heard.evidence and heard.evidence[-1].number == poll.number:
                heard.evidence.pop()
                heard.count -= 1
        heard.count += 1
        if words:
            self._show(heard.evidence, self._evidence(poll, words))
            return
        if self._plain is None or self._plain.number != poll.number:
            self._plain = self._evidence(poll, "")  # the same for each rule that was kept
        self._show(heard.evidence, self._plain)

    def _cost(self, poll: Poll) -> None:
        cost, known = self.cost, self.known
        cost.requests += 1
        cost.size += poll.size
        cost.unchanged += poll.status == 304
        same = bool(known.held) and (poll.answer.get("etag"), poll.answer.get("last-modified")) == (
            known.held.tag or None,
            known.held.modified or None,
        )
        if poll.status == 200 and poll.succeeded and same:
            cost.spared += poll.size
        self.first = poll.at if self.first is None else self.first
        self.last = poll.at
        self.has_content |= poll.content.is_feed if poll.content is not None else poll.status in (226, 304)

    def _show(self, shown: list[Evidence], another: Evidence) -> None:
        """Add to what is shown, the oldest going first. Lists, since an empty deque takes as much as eighty entries."""
        shown.append(another)
        if len(shown) > self._evidence_max:
            del shown[0]

    def _evidence(self, poll: Poll, words: str) -> Evidence:
        target = self.feed if poll.target == self.feed else poll.target  # one text for all
        return Evidence(poll.number, poll.at, target, poll.status, words[:TEXT_LENGTH_MAX])
