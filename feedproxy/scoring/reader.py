"""A reader with its feeds, and the names that distinguish readers.

A reader is a network address with a User-Agent; the number of subscribers in the User-Agent does not count. If the
target contains a secret, such as the token of a private feed, a hash of the secret replaces the network address.

A feed is a target with all addresses that its redirects and redirect documents name.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from feedproxy.clock import Instant, Seconds
from feedproxy.feed.xml_redirect import Moved
from feedproxy.http.memoize import memoize_short
from feedproxy.http.target_uri.url_redaction import without_secrets
from feedproxy.http.user_agent import parse_claim
from feedproxy.scoring import client_hygiene
from feedproxy.scoring.reader_state import resolve_redirect, resolve_reference
from feedproxy.scoring.rule_evaluation import FeedEvaluation
from feedproxy.scoring.rule_weights import NO_VIOLATIONS, Observation, Rule
from feedproxy.scoring.scored_request import Poll

BURST_GAP: Seconds = 10
"""Seconds in which a second request to the same host could have used the connection of the first request."""

CONNECTIONS_MAX = 6
"""Connections that a reader may open to one host at a time. Most browsers open as many with HTTP/1.1."""

FEEDS_MAX = 10_000
"""Maximum number of feeds remembered for one reader in a recording."""

TARGETS_MAX = 16_384
"""Maximum number of targets with a cached hash of their secrets."""


class ReaderName(NamedTuple):
    """The name of a reader.

    `reader` is a pseudonym of the network address, or the hash of the secrets in the target (`secret_hash`).
    `user_agent` has no number of subscribers.
    """

    reader: str
    user_agent: str


def reader_name(address: str, user_agent: str, target: str) -> ReaderName:
    """Return the name of the reader that sent a request."""
    return ReaderName(secret_hash(target) or address, _distinguishing_part(user_agent))


@memoize_short()
def _distinguishing_part(user_agent: str) -> str:
    """Return the part of a User-Agent that distinguishes readers: everything except the number of subscribers."""
    claim = parse_claim(user_agent)
    return f"{claim.fetcher}\0claim" if claim is not None else user_agent


@memoize_short(entries=TARGETS_MAX, longest=2048)
def secret_hash(target: str) -> str:
    """Return a hash of the secrets in a target, or "" if the target has no secret."""
    secrets: list[str] = []

    def collect(secret: str) -> str:
        secrets.append(secret)
        return ""

    try:
        without_secrets(target, collect)
    except ValueError:
        return ""
    joined = "\0".join(filter(None, secrets))
    # Placeholders for secrets in recordings are not hashed, so that they can be searched for in the recording.
    if not joined or joined.startswith("redacted-"):
        return joined
    return f"key-{hashlib.blake2b(joined.encode(), digest_size=6).hexdigest()}"


@dataclass(slots=True)
class Burst:
    """A series of requests to one server, each at most BURST_GAP seconds after the previous request."""

    at: Instant = 0.0
    authority: str = ""
    connections: list[str] = field(default_factory=list)


class Reader:
    """A reader with at most `feeds_max` feeds. Beyond this number, the least recently requested feed is forgotten.

    `partial` is true if other workers answer the same reader.
    """

    def __init__(
        self, name: str, *, evidence_max: int = 1000, feeds_max: int = FEEDS_MAX, partial: bool = False
    ) -> None:
        self.name = name
        self.user_agent = ""
        """The User-Agent of the last request."""
        self.feeds: OrderedDict[str, FeedEvaluation] = OrderedDict()
        self.aliases: dict[str, str] = {}
        """Maps each address that a redirect named to its feed."""
        self._burst = Burst()
        self._was_incomplete = False
        """True if the previous answer was incomplete."""
        self._evidence_max = evidence_max
        self._feeds_max = feeds_max
        self._partial = partial

    def has_feed(self, target: str, at: Instant) -> bool:
        """Return True if `target` belongs to a remembered feed. `at` is the time of the request."""
        return self._feed_address(target, at) in self.feeds

    def forget_oldest(self) -> None:
        """Forget the feed that has gone longest without a request."""
        oldest, _ = self.feeds.popitem(last=False)
        self.aliases = {alias: feed for alias, feed in self.aliases.items() if feed != oldest}

    def evaluate(self, poll: Poll) -> FeedEvaluation:
        """Evaluate a request and return the evaluation of its feed."""
        self.user_agent = poll.fields.get("user-agent") or ""
        root = self._feed_address(poll.target, poll.at)
        evaluation = self.feeds.get(root)
        if evaluation is None:
            evaluation = self.feeds[root] = FeedEvaluation(root, evidence_max=self._evidence_max, partial=self._partial)
            if len(self.feeds) > self._feeds_max:
                self.forget_oldest()
        self.feeds.move_to_end(root)
        self._evaluate_connection(poll, evaluation)
        evaluation.evaluate(poll)
        for address in (resolve_redirect(poll), _resolve_relocation(poll)):
            if address and address not in self.feeds and len(self.aliases) < 4 * self._feeds_max:
                self.aliases.setdefault(address, root)
        return evaluation

    def _feed_address(self, target: str, at: Instant) -> str:
        root = client_hygiene.strip_cache_busters(target, at)
        return self.aliases.get(root, root)

    def _evaluate_connection(self, poll: Poll, evaluation: FeedEvaluation) -> None:
        """Evaluate whether the request reused a connection.

        The client should have an open connection after a redirect to the same host, and in a burst that has opened
        CONNECTIONS_MAX connections.
        """
        burst, authority = self._burst, urlsplit(poll.target).netloc
        was_incomplete, self._was_incomplete = self._was_incomplete, not poll.complete
        if not poll.connection:
            return
        if authority != burst.authority or poll.at - burst.at > BURST_GAP or was_incomplete:
            self._burst = Burst(poll.at, authority, [poll.connection])
            return
        burst.at = poll.at
        if poll.connection in burst.connections:
            evaluation.record_verdict(Rule.CONNECTION, poll, NO_VIOLATIONS)
        elif evaluation.state.follows(poll) or len(burst.connections) >= CONNECTIONS_MAX:
            reason = f"connection {len(burst.connections) + 1} to {authority}, seconds after the previous one"
            evaluation.record_verdict(Rule.CONNECTION, poll, (Observation(client_hygiene.CONNECTIONS_UNUSED, reason),))
        if poll.connection not in burst.connections and len(burst.connections) <= CONNECTIONS_MAX:
            burst.connections.append(poll.connection)


def _resolve_relocation(poll: Poll) -> str:
    relocation = poll.content.relocation if poll.content is not None else None
    return resolve_reference(poll, relocation.location) if isinstance(relocation, Moved) else ""
