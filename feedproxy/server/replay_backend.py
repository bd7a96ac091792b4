"""The whole proxy in front of a replay: whatever it asks an origin for, the replay is asked."""

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
    """Asks the replay at `base`, in the gateway's form, by real exchanges: faults of the wire are real ones."""

    def __init__(self, base: str, limits: FetchLimits, clock: Clock) -> None:
        self._base = base
        self._fetcher = Fetcher(AddressPolicy(), limits, clock=clock)

    async def fetch(self, request: Request, *, exempt: bool = False) -> Fetched | Oversized:
        """What the replay answers for this target; raises what a Fetcher raises."""
        replay_request = replace(request, target=f"{self._base}/{request.target}")
        return await self._fetcher.fetch(replay_request, exempt=True)

    async def close(self) -> None:
        """Close every connection."""
        await self._fetcher.close()


def replay_setup(base: str, clock: Clock, seed: str) -> Callable[[App], None]:
    """What makes a Runtime ask the replay at `base`, its operator able to move the clock, and chance repeat itself."""

    def prepare(app: App) -> None:
        app.random_bytes = random.Random(seed).randbytes  # noqa: S311 -- a play: names and secrets last as long as it
        random.seed(seed)  # the jitter of back-offs
        app.make_fetcher = lambda: ReplayClient(base, FetchLimits.from_settings(app.settings), clock)
        app.admin_actions["advance"] = lambda request: advance_clock(request, clock)

    return prepare
