"""The feeds of a reader. A feed is a target with all addresses that its redirects and redirect documents name."""

from collections import OrderedDict

from feedproxy.clock import Instant
from feedproxy.feed.xml_redirect import Moved
from feedproxy.scoring.cache_busting_parameters import strip_cache_busters
from feedproxy.scoring.connection_reuse_rules import ConnectionReuse
from feedproxy.scoring.reader_accounts import ReaderAccount
from feedproxy.scoring.reader_state import resolve_redirect, resolve_reference
from feedproxy.scoring.rule_evaluation import FeedEvaluation
from feedproxy.scoring.scored_request import Poll

FEEDS_MAX = 10_000
"""At most this many feeds of one reader in a recording are remembered."""


class Reader:
    """A reader with at most `feeds_max` feeds. Beyond this number, the least recently requested feed is forgotten.
    `partial` is true if other workers answer requests of the same reader."""

    def __init__(
        self, name: str, *, evidence_max: int = 1000, feeds_max: int = FEEDS_MAX, partial: bool = False
    ) -> None:
        self.name = name
        self.user_agent = ""
        """The User-Agent of the last request."""
        self.feeds: OrderedDict[str, FeedEvaluation] = OrderedDict()
        self.aliases: dict[str, str] = {}
        """Each address to which a redirect or a redirect document led, with the address under which `feeds` has the
        feed."""
        self._connections = ConnectionReuse()
        self._evidence_max = evidence_max
        self._feeds_max = feeds_max
        self._partial = partial

    def account(self) -> ReaderAccount:
        """Return an account of the requests that the reader has sent so far. It is valid until the next request."""
        feeds = tuple(evaluation.account for evaluation in self.feeds.values())
        return ReaderAccount(self.name, self.user_agent, feeds, self.aliases)

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
            evaluation = self.feeds[root] = FeedEvaluation(
                root, poll.at, evidence_max=self._evidence_max, partial=self._partial
            )
            if len(self.feeds) > self._feeds_max:
                self.forget_oldest()
        self.feeds.move_to_end(root)
        self._connections.evaluate(poll, evaluation)
        evaluation.evaluate(poll)
        for address in (resolve_redirect(poll), _resolve_relocation(poll)):
            if address and address not in self.feeds and len(self.aliases) < 4 * self._feeds_max:
                self.aliases.setdefault(address, root)
        return evaluation

    def _feed_address(self, target: str, at: Instant) -> str:
        root = strip_cache_busters(target, at)
        return self.aliases.get(root, root)


def _resolve_relocation(poll: Poll) -> str:
    relocation = poll.content.relocation if poll.content is not None else None
    return resolve_reference(poll, relocation.location) if isinstance(relocation, Moved) else ""
