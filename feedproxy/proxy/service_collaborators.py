"""Protocols of the proxy's collaborators, each with a default for a single process."""

from collections.abc import AsyncIterator
from typing import Protocol

from feedproxy.clock import Instant


class PeerCopies(Protocol):
    """Stored responses that other machines of a fleet share."""

    async def sync(self, target: str) -> bool:
        """Fetch the peers' stored resource of `target` if it is newer. Return True if the local resource changed."""
        ...

    def targets(self) -> AsyncIterator[str]:
        """Yield the targets for which peers have stored resources."""
        ...


class FeedOwnership(Protocol):
    """Division of the scheduled refreshes among worker processes and machines."""

    def owns(self, target: str) -> bool:
        """Return True if this process makes the scheduled refreshes of `target`."""
        ...


class Demand(Protocol):
    """Interest in feeds that comes from other sources than requests, such as the import of a list of feeds."""

    def count_since(self, target: str, since: Instant) -> int:
        """Return the number of readers of `target` that these sources have added since the instant `since`."""
        ...


class NoPeers:
    """The default without a fleet: there are no peers."""

    async def sync(self, target: str) -> bool:
        """Return False, because there are no peers with newer copies."""
        return False

    async def targets(self) -> AsyncIterator[str]:
        """Yield nothing."""
        nothing: tuple[str, ...] = ()
        for target in nothing:
            yield target


class OwnsAll:
    """The default of a single process: it owns all feeds."""

    def owns(self, target: str) -> bool:
        """Return True for every target."""
        return True


class NoDemand:
    """The default without imports: only requests of feed readers count."""

    def count_since(self, target: str, since: Instant) -> int:
        """Return 0."""
        return 0
