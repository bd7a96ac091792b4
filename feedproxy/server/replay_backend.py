"""A proxy with a replay in place of all origins."""

import random

from msgspec.structs import replace

from feedproxy.app import App
from feedproxy.clock import Clock
from feedproxy.http.message import Request
from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.fetch_result import Fetched, Oversized
from feedproxy.upstream.origin_client import Fetcher, FetchLimits


class ReplayClient:
    """Origin client that fetches from the replay at `base` over real connections."""

    def __init__(self, base: str, limits: FetchLimits, clock: Clock) -> None:
        self._base = base
        self._fetcher = Fetcher(AddressPolicy(), limits, clock=clock)

    async def fetch(self, request: Request, *, skip_address_check: bool = False) -> Fetched | Oversized:
        """Return the replay's response for the request's target, or Oversized if its content exceeds the limit. Raises
        the errors of Fetcher.fetch."""
        replay_request = replace(request, target=f"{self._base}/{request.target}")
        return await self._fetcher.fetch(replay_request, skip_address_check=True)

    async def close(self) -> None:
        """Close all connections."""
        await self._fetcher.close()


def make_replay_app(base: str, clock: Clock, seed: str) -> App:
    """Return an App with the replay at `base` as its origin. The same `seed` gives the same random choices."""
    random.seed(seed)  # for the jitter of back-offs
    return App(
        clock,
        make_client=lambda settings: ReplayClient(base, FetchLimits.from_settings(settings), clock),
        random_bytes=random.Random(seed).randbytes,  # noqa: S311 -- names and secrets are as short-lived as the replay
    )
