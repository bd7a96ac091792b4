"""The lease by which one of several processes fetches a target."""

import asyncio

from feedproxy.refresh.fetch_lease import FetchLease
from feedproxy.store.coordination.coordination_interface import LocalCoordination

TARGET = "https://example.com/feed"


class Peers(LocalCoordination):
    """The coordination of a process whose peers hold leases."""

    def __init__(self) -> None:
        super().__init__()
        self.holder = ""
        self.completions = 0

    async def acquire_lease(self, target: str, *, local: bool = False) -> bool:
        if self.holder:
            return False
        self.holder = "this process"
        return True

    def release_lease(self, target: str, *, local: bool = False) -> None:
        self.holder = ""
        self.completions += 1

    def completion_count(self, target: str) -> int:
        return self.completions


async def test_lease_is_held_in_the_block_and_released_after_it() -> None:
    peers = Peers()

    async with FetchLease(peers, TARGET, timeout=1) as lease:
        assert peers.holder == "this process"
        assert not lease.completed_by_peer

    assert not peers.holder


async def test_lease_reports_a_refresh_that_a_peer_completed_meanwhile() -> None:
    peers = Peers()
    peers.holder = "peer"
    asyncio.get_running_loop().call_soon(peers.release_lease, TARGET)

    async with FetchLease(peers, TARGET, timeout=1) as lease:
        assert lease.completed_by_peer
        assert peers.holder == "this process"


async def test_lease_timeout_lets_the_block_run_and_leaves_the_lease_to_its_holder() -> None:
    peers = Peers()
    peers.holder = "peer"

    async with FetchLease(peers, TARGET, timeout=0) as lease:
        assert not lease.completed_by_peer

    assert peers.holder == "peer"


async def test_lease_released_early_is_not_released_again() -> None:
    peers = Peers()

    async with FetchLease(peers, TARGET, timeout=1) as lease:
        lease.release()
        peers.holder = "peer"

    assert peers.holder == "peer"
