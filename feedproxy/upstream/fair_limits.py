"""Fair limits for connections to origins and for name look-ups.

Three limits keep one client or one silent server from taking all slots (Squid's per-client limit, nginx's
`limit_conn`): per site (registrable domain), per host and port, and per client. Each has a reserve of slots for known
feeds. Waiting requests are admitted in their order, past those with a full share.

A share can be full of exchanges with silent origins. A request that has waited for EVICTABLE_AFTER seconds ends the
exchange that has been silent for longest, SILENT_AFTER seconds at least, of the client with the most slots. In a site's
or a host's share that client must hold clearly more slots than the waiting one.
(docs/decisions/connection-limits.md)
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from feedproxy.clock import Seconds
from feedproxy.errors import Overload

EVICTABLE_AFTER: Seconds = 0.7
"""Seconds a request waits before silent exchanges are evicted; most origins respond faster."""
SILENT_AFTER: Seconds = 1.0
"""Seconds of silence after which an exchange may be evicted."""
EVICTION_CHECK_INTERVAL: Seconds = 0.2
WAITING_MAX = 2048
"""Waiting requests; further ones are refused."""


@dataclass(eq=False, slots=True)
class Requester:
    """The client network on behalf of which a request is sent, and whether its target is a known feed.

    An empty client is feedproxy itself: the background refresh.
    """

    client: str = ""
    is_known: bool = True
    is_abandoned: bool = False
    """All waiting clients have closed their connections, and the target is not a known feed."""
    on_charge: list[Callable[[], None]] = field(default_factory=list)

    def abandon(self) -> None:
        """Record that no client waits any more."""
        self.is_abandoned = bool(self.client) and not self.is_known

    def charge(self, client: str) -> None:
        """Charge waiting requests to another client, which has joined them."""
        self.is_abandoned = False
        if self.client and client != self.client:
            self.client = client
            for listener in list(self.on_charge):
                listener()


PROXY = Requester()
"""feedproxy itself, for a known feed."""

_REQUESTER: ContextVar[Requester] = ContextVar("requester", default=PROXY)


@contextmanager
def requesting(requester: Requester) -> Iterator[None]:
    """Charge fetches and look-ups within the block, and in tasks it starts, to this requester."""
    token = _REQUESTER.set(requester)
    try:
        yield
    finally:
        _REQUESTER.reset(token)


def current_requester() -> Requester:
    """Return the requester of the current task."""
    return _REQUESTER.get()


@dataclass(frozen=True, slots=True)
class Limit:
    """The slots of one share, and how many of them are reserved for known feeds."""

    places: int
    reserve: int = 0

    @property
    def unknown(self) -> int:
        """Return the slots for targets that are not known feeds; at least one."""
        return max(1, self.places - self.reserve)


@dataclass(eq=False, slots=True)
class Slot:
    """A slot that is taken or waited for."""

    requester: Requester
    keys: tuple[tuple[str, str], ...]
    since: Seconds
    silent_since: Callable[[], Seconds] | None = None
    """Returns when the origin last sent something; None counts from when the slot was taken."""
    end: Callable[[], None] | None = None
    """Ends the exchange in the slot; None if it cannot be evicted."""
    is_ended: bool = False
    client: str = ""
    """The client that it is charged to."""
    granted: asyncio.Future[None] | None = field(default=None, repr=False)

    def quiet_since(self) -> Seconds:
        """Return the start of the current silence."""
        return self.since if self.silent_since is None else max(self.since, self.silent_since())


@dataclass(slots=True)
class _Usage:
    """The slots taken in one share."""

    places: set[Slot] = field(default_factory=set)
    unknown: int = 0


class FairLimits:
    """A bounded number of slots, shared among sites, hosts and clients. For one event loop."""

    def __init__(
        self, whole: Limit, *, site: Limit | None = None, host: Limit | None = None, client: int | None = None
    ) -> None:
        """`client` limits the slots of one client; feedproxy's own refreshes are exempt."""
        self._limits: dict[str, Limit] = {"whole": whole}
        if site is not None:
            self._limits["site"] = site
        if host is not None:
            self._limits["host"] = host
        if client is not None:
            self._limits["client"] = Limit(client)
        self._taken: dict[tuple[str, str], _Usage] = {}
        self._waiting: dict[Slot, None] = {}

    def __len__(self) -> int:
        return len(self._taken[_TOTAL].places) if _TOTAL in self._taken else 0

    @property
    def waiting(self) -> int:
        """Return the number of waiting requests."""
        return len(self._waiting)

    @asynccontextmanager
    async def slot(self, *, timeout: Seconds, site: str = "", host: str = "") -> AsyncIterator[Slot]:
        """Hold a slot for the current requester. Raises Overload if none is free within `timeout` seconds."""
        place = await self.acquire(timeout=timeout, site=site, host=host)
        try:
            yield place
        finally:
            self.release(place)

    async def acquire(self, *, timeout: Seconds, site: str = "", host: str = "") -> Slot:
        """Return a slot for the current requester, to be returned with `release`. Raises Overload."""
        requester = current_requester()
        loop = asyncio.get_running_loop()
        place = Slot(requester, self._keys(requester, site, host), loop.time())
        if self._is_within_limits(place):
            self._grant(place)
            return place
        if len(self._waiting) >= WAITING_MAX:
            raise Overload("too many requests wait for the network")
        place.granted = loop.create_future()
        self._waiting[place] = None
        timer = loop.call_later(EVICTABLE_AFTER, self._evict_stuck, place)

        def charged() -> None:
            if place not in self._waiting:
                return
            place.keys = self._keys(requester, site, host)
            self._admit()

        requester.on_charge.append(charged)
        try:
            async with asyncio.timeout(timeout):
                await place.granted
        except TimeoutError:
            if not _is_granted(place.granted):
                raise Overload(_limit_name(self._exceeded_limit(place))) from None
        except BaseException:
            if _is_granted(place.granted):
                self.release(place)
            raise
        finally:
            timer.cancel()
            requester.on_charge.remove(charged)
            self._waiting.pop(place, None)
        return place

    def release(self, place: Slot) -> None:
        """Return a slot and admit waiting requests."""
        for key in place.keys:
            taken = self._taken[key]
            taken.places.discard(place)
            taken.unknown -= not place.requester.is_known
            if not taken.places:
                del self._taken[key]
        self._admit()

    def _keys(self, requester: Requester, site: str, host: str) -> tuple[tuple[str, str], ...]:
        named = {"whole": "*", "site": site, "host": host, "client": requester.client}
        return tuple((kind, named[kind]) for kind in self._limits if named[kind])

    def _admit(self) -> None:
        """Grant slots to all waiting requests within the limits, in their order."""
        for waiting in list(self._waiting):
            if waiting.granted is not None and not waiting.granted.done() and self._is_within_limits(waiting):
                del self._waiting[waiting]
                waiting.since = waiting.granted.get_loop().time()
                self._grant(waiting)
                waiting.granted.set_result(None)

    def _grant(self, place: Slot) -> None:
        place.client = place.requester.client
        for key in place.keys:
            taken = self._taken.setdefault(key, _Usage())
            taken.places.add(place)
            taken.unknown += not place.requester.is_known

    def _is_within_limits(self, place: Slot) -> bool:
        return self._exceeded_limit(place) is None

    def _exceeded_limit(self, place: Slot) -> tuple[str, str] | None:
        """Return the first share that is full for this request; None if all have room."""
        for key in place.keys:
            taken, limit = self._taken.get(key), self._limits[key[0]]
            if taken is None:
                continue
            if len(taken.places) >= limit.places:
                return key
            if not place.requester.is_known and taken.unknown >= limit.unknown:
                return key
        return None

    def _evict_stuck(self, place: Slot) -> None:
        """Evict an exchange with a silent origin for a request that has waited long, if there is one."""
        if place not in self._waiting:
            return
        loop = asyncio.get_running_loop()
        key = self._exceeded_limit(place)
        if key is not None and (victim := self._find_evictable(place, key, loop.time() - SILENT_AFTER)) is not None:
            victim.is_ended = True
            assert victim.end is not None
            victim.end()
        timer = loop.call_later(EVICTION_CHECK_INTERVAL, self._evict_stuck, place)
        assert place.granted is not None
        place.granted.add_done_callback(lambda _: timer.cancel())

    def _find_evictable(self, place: Slot, key: tuple[str, str], before: Seconds) -> Slot | None:
        """Return the slot to evict for this request in the full share; None if there is none."""
        held = self._taken[key].places
        of_client = Counter(slot.client for slot in held)
        mine = of_client[place.requester.client]
        candidates = [
            slot
            for slot in held
            if slot.end is not None
            and not slot.is_ended
            and slot.quiet_since() <= before
            # feedproxy's own refreshes are never evicted; within a site or host a client needs clearly more slots.
            and slot.client
            and (key[0] not in ("site", "host") or of_client[slot.client] > mine + 1)
            and (place.requester.is_known or not slot.requester.is_known or of_client[slot.client] > mine + 1)
        ]
        return max(candidates, key=lambda slot: (of_client[slot.client], before - slot.quiet_since()), default=None)


_TOTAL = ("whole", "*")


def _is_granted(granted: asyncio.Future[None]) -> bool:
    return granted.done() and not granted.cancelled()


def _limit_name(key: tuple[str, str] | None) -> str:
    if key is None or key[0] == "whole":
        return "every connection that may be used is taken"
    return {
        "site": f"too many exchanges with {key[1]} are under way",
        "host": f"too many exchanges with {key[1]} are under way",
        "client": "too many fetches for one client are under way",
    }[key[0]]
