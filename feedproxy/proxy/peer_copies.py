"""Access of the proxy to the stored responses of other machines of a fleet."""

from collections.abc import AsyncIterator
from typing import Protocol


class PeerCopies(Protocol):
    """Stored responses that other machines of a fleet share."""

    async def sync(self, target: str) -> bool:
        """Fetch the peers' stored resource of `target` if it is newer. Return True if the local resource changed."""
        ...

    def targets(self) -> AsyncIterator[str]:
        """Yield the targets for which peers have stored resources."""
        ...


class NoPeers:
    """The default without a fleet: there are no peers."""

    async def sync(self, target: str) -> bool:
        return False

    async def targets(self) -> AsyncIterator[str]:
        nothing: tuple[str, ...] = ()
        for target in nothing:
            yield target
