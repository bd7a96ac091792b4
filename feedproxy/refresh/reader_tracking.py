"""Counting of readers. The User-Agent of requests to origins reports the number of readers."""

from collections.abc import Callable
from dataclasses import dataclass

from feedproxy.clock import Clock
from feedproxy.http import user_agent
from feedproxy.refresh.policy.expected_polls_and_price import HORIZON
from feedproxy.request.context import ClientContext
from feedproxy.request.feed_id import feed_id
from feedproxy.settings import Settings
from feedproxy.subscribers.reader_pseudonyms import Identifier
from feedproxy.subscribers.subscriber_counts import SubscriberCounts


@dataclass(eq=False)
class ReaderTracker:
    """Counter of readers by pseudonym. The counts never contain a client's address."""

    counts: SubscriberCounts
    identifier: Identifier
    clock: Clock
    settings_for: Callable[[str], Settings]
    installation: str
    version: str

    def record_read(self, target: str, client: ClientContext, agent: str) -> None:
        """Count the client as a reader of the target."""
        now = self.clock.now()
        pseudonym = self.identifier.pseudonym(client.address, agent, client.user, now)
        self.counts.record_read(target, pseudonym, agent, now)

    def has_expected_readers(self, target: str) -> bool:
        """Return whether polls of this target are expected within the time for which refreshes are planned."""
        now = self.clock.now()
        return bool(self.counts.rhythms.expected_polls(target, now, now + HORIZON))

    def upstream_user_agent(self, target: str, newcomer: str | None = None) -> str:
        """Return the User-Agent for requests to the origin of this target. It states the number of subscribers.

        `newcomer` is the User-Agent of the first reader of a new feed. The stored counts do not include this reader
        yet, so the number is computed from `newcomer` alone.
        """
        now = self.clock.now()
        subscribers = (
            self.counts.total(target, now) if newcomer is None else self.counts.count_with_first_reader(newcomer, now)
        )
        contact = self.settings_for(target).contact_url
        return user_agent.format_user_agent(self.version, contact, subscribers, feed_id(target, self.installation))

    def log_name(self, client: ClientContext, agent: str) -> str:
        """Return the pseudonym of a reader as the access log shows it."""
        return f"{self.identifier.pseudonym(client.address, agent, client.user, self.clock.now()).current:015x}"
