"""Machines of a fleet in one process: complete except for sockets, before one origin in memory."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from feedproxy.app import App
from feedproxy.clock import Clock, SystemClock
from feedproxy.fleet.synchronization import FleetSynchronization
from feedproxy.http import uri
from feedproxy.http.message import Fields, Request
from feedproxy.proxy.service import Service
from feedproxy.request.context import ClientContext, Entrance, ProxyResponse
from tests.stages.origin import Origin, OriginFetcher
from tests.stages.play import Seen

PATIENT = 30_000
"""Milliseconds until Redis counts as lost. They are many because this machine may be busy with other tests."""


class WrongClock(SystemClock):
    """A clock that is ahead by some seconds. `monotonic_ahead` is added to the time since the start of the machine."""

    def __init__(self, ahead: float) -> None:
        self.ahead = ahead
        self.monotonic_ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.monotonic_ahead


class Machine:
    """One feedproxy. Its store is in `folder`, or else in memory."""

    def __init__(
        self,
        url: str,
        origin: Origin,
        prefix: str,
        folder: Path | None = None,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        self.app = App(clock or SystemClock(), make_client=lambda _: OriginFetcher(origin))
        self._origin = origin
        given: dict[str, Any] = {
            "store": url,
            "fleet_local": str(folder) if folder else "memory:",
            "fleet_prefix": prefix,
            "fleet_timeout": PATIENT,
            "site_interval": 0,
            "feed_min_interval": 0,
            "polling": "off",
        }
        self.app.configure({**given, **options})

    async def open(self) -> "Machine":
        _ = self.service
        await self.fleet.start()
        return self

    @property
    def service(self) -> Service:
        return self.app.service

    @property
    def fleet(self) -> FleetSynchronization:
        assert self.app.fleet is not None
        return self.app.fleet

    async def get(self, path: str, *, reader: str = "198.51.100.1", agent: str = "reader/1", **fields: str) -> Seen:
        """Send a reader's GET through the gateway and return the response."""
        named = {"User-Agent": agent} | {name.replace("_", "-"): value for name, value in fields.items()}
        request = Request("GET", uri.normalise(self._origin.url(path)), Fields(named.items()))
        answer = await self.service.answer(request, ClientContext(Entrance.GATEWAY, "http://proxy.example", reader))
        assert isinstance(answer, ProxyResponse)
        return Seen(answer.response.status, answer.response.fields, answer.response.body)

    async def flush(self) -> None:
        """Wait until Redis has all that this machine knows."""
        outbox, sums = self.fleet.store.redis_queue, self.fleet.sums
        assert sums is not None
        await until(lambda: not outbox and not outbox.busy and not sums.waiting)

    async def close(self) -> None:
        await self.app.close()


async def until[T](what: Callable[[], T], *, deadline: float = 60) -> T:
    """Return the first true value of `what`."""
    end = time.monotonic() + deadline
    while not (found := what()):
        assert time.monotonic() < end, "it never came true"
        await asyncio.sleep(0.01)
    return found
