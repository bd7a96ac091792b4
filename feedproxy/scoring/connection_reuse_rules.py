"""Rules on the reuse of connections: redirects and bursts of requests to one host need few connections."""

from urllib.parse import urlsplit

from feedproxy.clock import Instant, Seconds
from feedproxy.scoring import client_hygiene_rules
from feedproxy.scoring.rule_evaluation import FeedEvaluation
from feedproxy.scoring.rule_weights import NO_VIOLATIONS, ReaderRule, violation
from feedproxy.scoring.scored_request import Poll

BURST_GAP: Seconds = 10
"""A request belongs to the burst of the previous request if it follows within this many seconds: it could then have
used an open connection."""

CONNECTIONS_MAX = 6
"""A reader may open at most this many connections to one host in a burst. Most browsers have the same limit for
HTTP/1.1."""


class ConnectionReuse:
    """The connections of one reader in the current burst: a series of requests to one server, each at most BURST_GAP
    seconds after the previous request."""

    def __init__(self) -> None:
        self._at: Instant = 0.0
        self._authority = ""
        self._connections: list[str] = []
        self._was_incomplete = False

    def evaluate(self, poll: Poll, evaluation: FeedEvaluation) -> None:
        """Record in `evaluation` whether the request reused a connection of the burst, if its connection is known.

        A new connection is a violation after a redirect to the same host, and in a burst that has already opened
        CONNECTIONS_MAX connections. For any other new connection, nothing is recorded.
        """
        authority, connections = urlsplit(poll.target).netloc, self._connections
        was_incomplete, self._was_incomplete = self._was_incomplete, not poll.complete
        if not poll.connection:
            return
        begins = authority != self._authority or poll.at - self._at > BURST_GAP or was_incomplete
        self._at, self._authority = poll.at, authority
        if begins:
            self._connections = [poll.connection]
            return
        if poll.connection in connections:
            evaluation.record_verdict(ReaderRule.CONNECTION, poll, NO_VIOLATIONS)
            return
        if evaluation.state.follows(poll) or len(connections) >= CONNECTIONS_MAX:
            reason = f"connection {len(connections) + 1} to {authority}, seconds after the previous one"
            evaluation.record_verdict(
                ReaderRule.CONNECTION, poll, violation(client_hygiene_rules.CONNECTION_NOT_REUSED, reason)
            )
        if len(connections) <= CONNECTIONS_MAX:
            connections.append(poll.connection)
