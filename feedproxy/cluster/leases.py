"""The Common of a machine in a fleet: what its own processes agree upon, and with it leases of all machines."""

import asyncio
import contextlib
import zlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from feedproxy.clock import Instant, Seconds
from feedproxy.cluster.redis_connection import Away, Refused
from feedproxy.cluster.redis_store import Found, Shelf
from feedproxy.store.coordination import Common, Sites

POLL: Seconds = 0.25
"""So often one who waits for another machine asks, where he is not told; and he is."""
SLOTS = 4096
WAITING_MAX = 10_000
"""Targets that somebody waits for, or has given up waiting for."""


@dataclass(slots=True)
class _Held:
    """A lease of ours. Two flights may have it, where the first was outdated."""

    token: int
    flights: int = 1


class FleetCommon:
    """One lease for a target on this machine, as `here` has it, and one among all machines, while Redis is there."""

    def __init__(self, here: Common, shelf: Shelf) -> None:
        self.here = here
        self._shelf = shelf
        self._held: dict[str, _Held] = {}
        self._landings = [0] * SLOTS
        self._waiting: OrderedDict[str, asyncio.Event] = OrderedDict()
        self.sites = FleetSites(here.sites, self)
        self.known: Callable[[str], int] = lambda _: 0
        """The number of what this machine has of a target."""
        self.take_in: Callable[[str, Found, object], Awaitable[bool]] = _nothing
        """Make what was found this machine's own; whether it was later than what was here."""
        self.settled: Callable[[str], Awaitable[object]] = _at_once
        """Returns when all was told of a target that others need to know before it is fetched anew; and its state."""
        self.on_release: Callable[[str, int], None] = lambda target, token: None
        self.on_outdate: Callable[[str | None], None] = lambda target: None
        self.on_booked: Callable[[str, Instant], None] = lambda site, until: None
        self.lost = 0
        """Leases that another machine had before ours was over."""

    @property
    def generation(self) -> int:
        """That of this machine: what others change counts once it is here."""
        return self.here.generation

    def epoch(self, target: str) -> int:
        """That of this machine."""
        return self.here.epoch(target)

    def outdate(self, target: str | None) -> None:
        """A target was purged or invalidated, for all machines; None: any may have been."""
        self.here.outdate(target)
        self.on_outdate(target)

    def token(self, target: str) -> int:
        """That of the lease which this process has of a target; 0 for none."""
        held = self._held.get(target)
        return held.token if held is not None else 0

    async def take(self, target: str, *, here: bool = False) -> bool:
        """Become the one who fetches this target; False while another is, after a moment in which he may have landed.

        What other machines have fetched meanwhile is this machine's own when it returns, and counts as a landing.
        """
        if not await self.here.take(target, here=here):
            return False
        if here or not self._shelf.link.up:
            return True
        try:
            state = await self.settled(target)
            held = self._held.get(target)
            taken = await self._shelf.take(target, self.known(target), held.token if held is not None else 0)
        except (Away, Refused):
            return True  # alone: two fetches are better than none
        except BaseException:
            self.here.let_go(target)
            raise
        if not taken.token:
            self.here.let_go(target)
            await self._wait(target)
            return False
        self._waiting.pop(target, None)
        if held is not None:
            held.token, held.flights = taken.token, held.flights + 1
        else:
            self._held[target] = _Held(taken.token)
        if await self.take_in(target, taken.found, state):
            self._landings[_slot(target)] += 1
        return True

    def release(self, target: str, *, here: bool = False) -> None:
        """The fetch is over, and what came of it is stored here; Redis has it in a moment."""
        self.here.release(target, here=here)
        held = None if here else self._held.get(target)
        if held is not None:
            held.flights -= 1
            if not held.flights:
                del self._held[target]
                self.on_release(target, held.token)

    def let_go(self, target: str) -> None:
        """What was taken is not done."""
        self.here.let_go(target)

    def landings(self, target: str) -> int:
        """Another number after each landing, on whichever machine."""
        return self.here.landings(target) + self._landings[_slot(target)]

    def landed(self, target: str) -> None:
        """Another machine's fetch is over: whoever waits here may go on."""
        if (waiting := self._waiting.get(target)) is not None:
            self._landings[_slot(target)] += 1
            waiting.set()

    async def renew(self) -> None:
        """Keep the leases of what is under way. Raises Away or Refused."""
        held = [(target, each.token) for target, each in self._held.items()]
        if held:
            self.lost += (await self._shelf.renew(held)).count(False)

    async def _wait(self, target: str) -> None:
        # It stays until the lease is had: what lands while nobody looks is counted, too.
        event = self._waiting.setdefault(target, asyncio.Event())
        event.clear()
        if len(self._waiting) > WAITING_MAX:
            self._waiting.popitem(last=False)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL):
                await event.wait()


class FleetSites:
    """The sites' turns: those of this machine, and what was heard of others'."""

    def __init__(self, here: Sites, common: FleetCommon) -> None:
        self._here = here
        self._common = common

    def free(self, site: str, interval: Seconds, now: Instant | None = None) -> Instant:
        """When the site may be asked again; 0.0 for one that never was, or was by a clock that is ahead of `now`."""
        return self._here.free(site, interval, now)

    def book(self, site: str, now: Instant, interval: Seconds) -> Instant:
        """Take the site's next turn; another machine that books at the same moment may get the same."""
        turn = self._here.book(site, now, interval)
        if interval:
            self._common.on_booked(site, turn + interval)
        return turn

    def hold(self, site: str, until: Instant) -> None:
        """Leave the whole site in peace until then."""
        self._here.hold(site, until)
        self._common.on_booked(site, until)

    def heard(self, site: str, until: Instant) -> None:
        """Another machine asks this site: it is free from then on."""
        self._here.hold(site, until)


async def _nothing(target: str, found: Found, state: object) -> bool:
    return False


async def _at_once(target: str) -> object:
    return None


def _slot(target: str) -> int:
    return zlib.crc32(target.encode("utf-8", "surrogatepass")) % SLOTS
