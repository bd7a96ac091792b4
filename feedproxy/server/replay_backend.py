"""The proxy in front of a replay: all requests to origins go to the replay."""

import random
from collections.abc import Callable
from dataclasses import replace

from feedproxy.admin.replay_clock import advance_clock
from feedproxy.app import App
from feedproxy.clock import Clock
from feedproxy.http.message import Request
from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.client import Fetched, Fetcher, FetchLimits, Oversized


class ReplayClient:
    """Fetches from the replay at `base`, in the gateway's form, over real connections with real faults."""

    def __init__(self, base: str, limits: FetchLimits, clock: Clock) -> None:
        self._base = base
        self._fetcher = Fetcher(AddressPolicy(), limits, clock=clock)

    async def fetch(self, request: Request, *, exempt: bool = False) -> Fetched | Oversized:
        """Return the replay's response for this target. Raises the errors of a Fetcher."""
        replay_request = replace(request, target=f"{self._base}/{request.target}")
        return await self._fetcher.fetch(replay_request, exempt=True)

    async def close(self) -> None:
        """Close every connection."""
        await self._fetcher.close()


def replay_setup(base: str, clock: Clock, seed: str) -> Callable[[App], None]:
    """Return a function that connects an App to the replay at `base`, with its clock and repeatable randomness."""

    def prepare(app: App) -> None:
        app.random_bytes = random.Random(seed).randbytes  # noqa: S311 -- secrets of a replay only
        random.seed(seed)  # the jitter of back-offs
        app.make_fetcher = lambda: ReplayClient(base, FetchLimits.from_settings(app.settings), clock)
        app.admin_actions["advance"] = lambda request: advance_clock(request, clock)

    return prepare
