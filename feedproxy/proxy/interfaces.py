"""Questions that the proxy asks of its collaborators, each with a default for one process on its own."""

from collections.abc import AsyncIterator
from typing import Protocol

from feedproxy.clock import Instant


class PeerCopies(Protocol):
    """Copies that other machines of a cluster share."""

    async def sync(self, target: str) -> bool:
        """Take in what the peers have of `target`. Return whether this changed anything here."""
        ...

    def targets(self) -> AsyncIterator[str]:
        """Return the targets of which the peers have copies."""
        ...


class FeedOwnership(Protocol):
    """Division of the scheduled refreshes among the worker processes."""

    def owns(self, target: str) -> bool:
        """Return whether this process refreshes `target` ahead of requests."""
        ...


class Demand(Protocol):
    """Interest in feeds beside the requests of feed readers."""

    def count_since(self, target: str, since: Instant) -> int:
        """Return how many additional readers the schedule counts for `target` since an instant."""
        ...


class NoPeers:
    """The peers of a proxy without a cluster."""

    async def sync(self, target: str) -> bool:
        """Return False: no peer has anything."""
        return False

    async def targets(self) -> AsyncIterator[str]:
        """Return no targets."""
        nothing: tuple[str, ...] = ()
        for target in nothing:
            yield target


class OwnsAll:
    """The ownership of a single process."""

    def owns(self, target: str) -> bool:
        """Return True for every target."""
        return True


class NoDemand:
    """No interest beside the requests of feed readers."""

    def count_since(self, target: str, since: Instant) -> int:
        """Return 0."""
        return 0
