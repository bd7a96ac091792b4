"""Shares of a bounded number of places: connections to origins, look-ups of names.

Three limits keep one asker, or one silent server, from taking every place (Squid's per-client limit, nginx's
`limit_conn`): one for a site (registrable domain), one for a host and port, one for a client. Above them stands a
reserve: places that only known feeds may take. Waiting requests are admitted in their order, past those whose own
share is full.

A share can be full of exchanges with silent origins. A request that has waited for STUCK seconds ends the exchange
that has been silent for longest, if that has been silent for SILENT seconds: one of the client that holds the most
places. In a site's or a host's share that client has to hold clearly more than the one that waits.
(docs/decisions/connection-limits.md)
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address

from feedproxy.clock import Seconds
from feedproxy.errors import Overload

EVICTABLE_AFTER: Seconds = 0.7
"""How long a request waits for a place before the silent are looked for: an origin's usual answer takes less."""
SILENT_AFTER: Seconds = 1.0
"""How long an exchange has to have been silent to be ended for another."""
EVICTION_CHECK_INTERVAL: Seconds = 0.2
WAITING_MAX = 2048
"""Requests that wait for a place at once; further ones are refused."""


@dataclass(eq=False, slots=True)
class Requester:
    """On whose behalf the network is used: a reader's network, and whether it is for a feed that is stored.

    An empty client is feedproxy itself: the background refresh.
    """

    client: str = ""
    is_known: bool = True
    is_abandoned: bool = False
    """Every reader that waited has closed its connection, and it is no known feed."""
    on_charge: list[Callable[[], None]] = field(default_factory=list)

    def abandon(self) -> None:
        """No reader waits any more."""
        self.is_abandoned = bool(self.client) and not self.is_known

    def charge(self, client: str) -> None:
        """Another client waits for the same: what still waits for a place counts as that client's from now on."""
        self.is_abandoned = False
        if self.client and client != self.client:
            self.client = client
            for listener in list(self.on_charge):
                listener()


PROXY = Requester()
"""feedproxy itself, for a known feed."""

_REQUESTER: ContextVar[Requester] = ContextVar("asker", default=PROXY)


@contextmanager
def requesting(asker: Requester) -> Iterator[None]:
    """What is fetched and looked up inside, tasks begun there included, is for this asker."""
    token = _REQUESTER.set(asker)
    try:
        yield
    finally:
        _REQUESTER.reset(token)


def current_requester() -> Requester:
    """On whose behalf this task works."""
    return _REQUESTER.get()


def client_of(address: str) -> str:
    """The network that counts as one client: an IPv4 address, or an IPv6 /64, which is what one subscriber has."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return f"{IPv6Address(int(parsed) >> 64 << 64)}/64"
    return str(parsed)


@dataclass(frozen=True, slots=True)
class Limit:
    """Places in one share: for all, and how many of these only known feeds may take."""

    places: int
    reserve: int = 0

    @property
    def unknown(self) -> int:
        """Places for what is no known feed; at least one."""
        return max(1, self.places - self.reserve)


@dataclass(eq=False, slots=True)
class Slot:
    """One taken place, or a request for one."""

    asker: Requester
    keys: tuple[tuple[str, str], ...]
    since: Seconds
    silent_since: Callable[[], Seconds] | None = None
    """When the peer was last heard of; None: when the place was taken."""
    end: Callable[[], None] | None = None
    """Ends what takes the place. None: it cannot be ended."""
    is_ended: bool = False
    client: str = ""
    """Whom it is charged to."""
    granted: asyncio.Future[None] | None = field(default=None, repr=False)

    def quiet_since(self) -> Seconds:
        """Since when nothing has been heard."""
        return self.since if self.silent_since is None else max(self.since, self.silent_since())


@dataclass(slots=True)
class _Usage:
    """Who has places in one share."""

    places: set[Slot] = field(default_factory=set)
    unknown: int = 0


class FairLimits:
    """A bounded number of places, shared among sites, hosts and clients. For one event loop."""

    def __init__(
        self, whole: Limit, *, site: Limit | None = None, host: Limit | None = None, client: int | None = None
    ) -> None:
        """`client` bounds the places of one client, for known feeds or not; feedproxy itself is no client."""
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
        """Requests that wait for a place."""
        return len(self._waiting)

    @asynccontextmanager
    async def slot(self, *, timeout: Seconds, site: str = "", host: str = "") -> AsyncIterator[Slot]:
        """Hold a place for the current asker. Raises Overload where none is free within `timeout` seconds."""
        place = await self.acquire(timeout=timeout, site=site, host=host)
        try:
            yield place
        finally:
            self.release(place)

    async def acquire(self, *, timeout: Seconds, site: str = "", host: str = "") -> Slot:
        """A place for the current asker, to be given back with `leave`. Raises Overload."""
        who = current_requester()
        loop = asyncio.get_running_loop()
        place = Slot(who, self._keys(who, site, host), loop.time())
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
            place.keys = self._keys(who, site, host)
            self._admit()

        who.on_charge.append(charged)
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
            who.on_charge.remove(charged)
            self._waiting.pop(place, None)
        return place

    def release(self, place: Slot) -> None:
        """The place is free again: of those that wait the first that fits takes it."""
        for key in place.keys:
            taken = self._taken[key]
            taken.places.discard(place)
            taken.unknown -= not place.asker.is_known
            if not taken.places:
                del self._taken[key]
        self._admit()

    def _keys(self, who: Requester, site: str, host: str) -> tuple[tuple[str, str], ...]:
        named = {"whole": "*", "site": site, "host": host, "client": who.client}
        return tuple((kind, named[kind]) for kind in self._limits if named[kind])

    def _admit(self) -> None:
        """Of those that wait, all that fit take their places, in their order."""
        for waiting in list(self._waiting):
            if waiting.granted is not None and not waiting.granted.done() and self._is_within_limits(waiting):
                del self._waiting[waiting]
                waiting.since = waiting.granted.get_loop().time()
                self._grant(waiting)
                waiting.granted.set_result(None)

    def _grant(self, place: Slot) -> None:
        place.client = place.asker.client
        for key in place.keys:
            taken = self._taken.setdefault(key, _Usage())
            taken.places.add(place)
            taken.unknown += not place.asker.is_known

    def _is_within_limits(self, place: Slot) -> bool:
        return self._exceeded_limit(place) is None

    def _exceeded_limit(self, place: Slot) -> tuple[str, str] | None:
        """The first share in which there is no room for this request."""
        for key in place.keys:
            taken, limit = self._taken.get(key), self._limits[key[0]]
            if taken is None:
                continue
            if len(taken.places) >= limit.places:
                return key
            if not place.asker.is_known and taken.unknown >= limit.unknown:
                return key
        return None

    def _evict_stuck(self, place: Slot) -> None:
        """A request has waited for long: end the exchange that has been silent for longest, if one may be ended."""
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
        """The silent place to be ended for this request, in the share that is full."""
        held = self._taken[key].places
        of_client = Counter(each.client for each in held)
        mine = of_client[place.asker.client]
        candidates = [
            each
            for each in held
            if each.end is not None
            and not each.is_ended
            and each.quiet_since() <= before
            # feedproxy's own refresh gives way to no request; a client's exchanges with one site are not ended for
            # one another.
            and each.client
            and (key[0] not in ("site", "host") or of_client[each.client] > mine + 1)
            and (place.asker.is_known or not each.asker.is_known or of_client[each.client] > mine + 1)
        ]
        return max(candidates, key=lambda each: (of_client[each.client], before - each.quiet_since()), default=None)


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
