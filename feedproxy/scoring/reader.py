"""One reader and all its feeds; many readers, and who of them is who.

A reader is an address and a User-Agent; where the feed's address carries a key of the reader's own (a token that makes
a feed private, or tells one experiment from the next), the key stands in for the network address. A changing number of
subscribers in the User-Agent makes no other reader.

A feed is an address with all that it leads to: what a redirect or a redirect document names belongs to it.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from feedproxy.clock import Instant, Seconds
from feedproxy.feed.xml_redirect import Moved
from feedproxy.http.memoize import memoised
from feedproxy.http.redaction import without_secrets
from feedproxy.http.user_agent import parse_claim
from feedproxy.scoring import client_hygiene
from feedproxy.scoring.evaluator import FeedEvaluation
from feedproxy.scoring.reader_state import location, resolve_location
from feedproxy.scoring.rules import KEPT, Observation, Rule
from feedproxy.scoring.scored_request import Poll

BURST_GAP: Seconds = 10
"""Requests that are no further apart could have shared a connection."""

CONNECTIONS_MAX = 6
"""Connections to one host that a reader of many feeds may open at once; as many as browsers do."""

FEEDS_MAX = 10_000

TARGETS_MAX = 16_384
"""Addresses of which it is remembered whether they hold a key."""


class ReaderName(NamedTuple):
    """A reader's name: a pseudonym or the key in its addresses, and what it calls itself."""

    reader: str
    user_agent: str


def reader_name(address: str, user_agent: str, target: str) -> ReaderName:
    """Whose request this is."""
    return ReaderName(secret_marker(target) or address, _distinguishing_part(user_agent))


@memoised()
def _distinguishing_part(user_agent: str) -> str:
    """A User-Agent without the number of those it speaks for."""
    claim = parse_claim(user_agent)
    return f"{claim.fetcher}\0claim" if claim is not None else user_agent


@memoised(entries=TARGETS_MAX, longest=2048)
def secret_marker(target: str) -> str:
    """What stands for the secrets of an address; empty where there are none. It does not tell them."""
    found: list[str] = []

    def take(secret: str) -> str:
        found.append(secret)
        return ""

    try:
        without_secrets(target, take)
    except ValueError:
        return ""
    secrets = "\0".join(filter(None, found))
    # What a recording has put in their place is no secret any more, and can be found there.
    if not secrets or secrets.startswith("redacted-"):
        return secrets
    return f"key-{hashlib.blake2b(secrets.encode(), digest_size=6).hexdigest()}"


@dataclass(slots=True)
class Burst:
    """Requests to one server that came one upon the other."""

    at: Instant = 0.0
    authority: str = ""
    connections: list[str] = field(default_factory=list)


class Reader:
    """One reader. `feeds_max` bounds the feeds remembered, the one asked for longest ago first to go.

    `partial`: others answer it, too, and what they say is not seen here.
    """

    def __init__(
        self, name: str, *, evidence_max: int = 1000, feeds_max: int = FEEDS_MAX, partial: bool = False
    ) -> None:
        self.name = name
        self.user_agent = ""
        """As it was sent last."""
        self.feeds: OrderedDict[str, FeedEvaluation] = OrderedDict()
        self.aliases: dict[str, str] = {}
        """Addresses that belong to a feed: what it led to."""
        self._burst = Burst()
        self._broke_off = False
        """The answer before was not whole."""
        self._evidence_max = evidence_max
        self._feeds_max = feeds_max
        self._partial = partial

    def knows(self, target: str, at: Instant) -> bool:
        """Whether the feed at this address is one of those that are remembered."""
        return self._root(target, at) in self.feeds

    def forget_oldest(self) -> None:
        """Forget the feed asked for longest ago."""
        gone, _ = self.feeds.popitem(last=False)
        self.aliases = {alias: feed for alias, feed in self.aliases.items() if feed != gone}

    def see(self, poll: Poll) -> FeedEvaluation:
        """Judge a request; what it is part of."""
        self.user_agent = poll.fields.get("user-agent") or ""
        root = self._root(poll.target, poll.at)
        conduct = self.feeds.get(root)
        if conduct is None:
            conduct = self.feeds[root] = FeedEvaluation(root, evidence_max=self._evidence_max, partial=self._partial)
            if len(self.feeds) > self._feeds_max:
                self.forget_oldest()
        self.feeds.move_to_end(root)
        self._connection(poll, conduct)
        conduct.see(poll)
        for leads_to in (location(poll), _moved_to(poll)):
            if leads_to and leads_to not in self.feeds and len(self.aliases) < 4 * self._feeds_max:
                self.aliases.setdefault(leads_to, root)
        return conduct

    def _root(self, target: str, at: Instant) -> str:
        root = client_hygiene.strip_cache_busters(target, at)
        return self.aliases.get(root, root)

    def _connection(self, poll: Poll, conduct: FeedEvaluation) -> None:
        """A redirect to the same host goes over the connection that is open, and so does the seventh feed of a site."""
        burst, authority = self._burst, urlsplit(poll.target).netloc
        broke_off, self._broke_off = self._broke_off, not poll.whole
        if not poll.connection:
            return
        if authority != burst.authority or poll.at - burst.at > BURST_GAP or broke_off:
            self._burst = Burst(poll.at, authority, [poll.connection])
            return
        burst.at = poll.at
        if poll.connection in burst.connections:
            conduct.count(Rule.CONNECTION, poll, KEPT)
        elif conduct.known.follows(poll) or len(burst.connections) >= CONNECTIONS_MAX:
            words = f"connection {len(burst.connections) + 1} to {authority}, seconds after the one before"
            conduct.count(Rule.CONNECTION, poll, (Observation(client_hygiene.CONNECTIONS_UNUSED, words),))
        if poll.connection not in burst.connections and len(burst.connections) <= CONNECTIONS_MAX:
            burst.connections.append(poll.connection)


def _moved_to(poll: Poll) -> str:
    said = poll.content.relocation if poll.content is not None else None
    return resolve_location(poll, said.location) if isinstance(said, Moved) else ""
