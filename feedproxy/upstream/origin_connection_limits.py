"""Fair limits for connections to origins and for name look-ups.

Each connection or look-up takes a slot. The slots that one site, one host and port, or one client may take are its
*share*. A request waits while one of its shares is full. It may end an exchange with a silent origin
(`_find_evictable`). Waiting requests with free shares are admitted in their order. The memory of incomplete responses
is limited, too. See docs/decisions/connection-limits.md.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from msgspec import Struct

from feedproxy.clock import Seconds
from feedproxy.errors import Overload
from feedproxy.upstream import local_resource_exhaustion

EVICTS_AFTER: Seconds = 0.7
"""A request that has waited this many seconds may end another request's exchange with a silent origin."""
SILENT_AFTER: Seconds = 1.0
"""An origin that has sent nothing for this many seconds during an exchange is silent."""
EVICTION_CHECK_INTERVAL: Seconds = 0.2
WAITING_MAX = 2048
"""At most this many requests of all clients wait. Further requests are refused."""


@dataclass(eq=False, slots=True)
class Requester:
    """The party for which a request is sent. `client` is the network of a client, or empty for feedproxy itself.
    `is_known` is true if the target is a known feed."""

    client: str = ""
    is_known: bool = True
    is_abandoned: bool = False
    """True if all waiting clients have closed their connections, and the target is not a known feed."""
    on_charge: list[Callable[[], None]] = field(default_factory=list)

    def abandon(self) -> None:
        """Record that no client waits for the response any more."""
        self.is_abandoned = bool(self.client) and not self.is_known

    def charge(self, client: str) -> None:
        """Charge the request to another client that waits for the same response."""
        self.is_abandoned = False
        if self.client and client != self.client:
            self.client = client
            for listener in list(self.on_charge):
                listener()


PROXY = Requester()
"""The requester of feedproxy's own requests for known feeds: the default of a task in which no requester was set."""

_REQUESTER: ContextVar[Requester] = ContextVar("requester", default=PROXY)


@contextmanager
def requesting(requester: Requester) -> Iterator[None]:
    """Charge the fetches and look-ups in a `with` block to this requester. Tasks that are started in the block are
    charged to the requester, too."""
    token = _REQUESTER.set(requester)
    try:
        yield
    finally:
        _REQUESTER.reset(token)


def charge_current_task(requester: Requester) -> None:
    """Charge the further fetches and look-ups of the current task, and of tasks that it starts, to this requester."""
    _REQUESTER.set(requester)


def current_requester() -> Requester:
    """Return the requester of the current task."""
    return _REQUESTER.get()


class Limit(Struct, frozen=True):
    """The number of slots in one share (`slots`), and how many of them are reserved for known feeds (`reserve`)."""

    slots: int
    reserve: int = 0

    @property
    def unknown(self) -> int:
        """Return the number of slots that targets other than known feeds may take, at least one."""
        return max(1, self.slots - self.reserve)


CONNECTIONS = Limit(200, reserve=40)
"""Limit of concurrent exchanges with all origins."""
PER_SITE = Limit(16, reserve=4)
"""Limit of concurrent exchanges with one site."""
PER_HOST = Limit(8, reserve=2)
"""Limit of concurrent exchanges with one host and port."""
PER_CLIENT = CONNECTIONS.unknown // 2
"""Maximum number of concurrent exchanges for one client: half of the slots for targets that are not known feeds."""
OWN_HOST = Limit(64)
"""Limit of concurrent exchanges with the upstream in reverse mode."""
OWN_CLIENT = 16
"""Maximum number of concurrent exchanges with the upstream in reverse mode, for one client."""


@dataclass(eq=False, slots=True)
class Slot:
    """A slot that a request has taken or waits for."""

    requester: Requester
    keys: tuple[tuple[str, str], ...]
    since: Seconds
    silent_since: Callable[[], Seconds] | None = None
    """A function that returns the instant at which the origin last sent bytes. If it is None, silence is counted from
    the instant at which the slot was taken."""
    end: Callable[[], None] | None = None
    """A function that ends the exchange in the slot, or None if the exchange must not be ended."""
    is_ended: bool = False
    client: str = ""
    granted: asyncio.Future[None] | None = field(default=None, repr=False)

    def quiet_since(self) -> Seconds:
        """Return the start of the origin's current silence, in the event loop's time."""
        return self.since if self.silent_since is None else max(self.since, self.silent_since())


@dataclass(slots=True)
class _Usage:
    """The slots taken in one share."""

    slots: set[Slot] = field(default_factory=set)
    unknown: int = 0


class FairLimits:
    """A bounded number of slots, divided among sites, hosts and clients. All calls must come from one event loop."""

    def __init__(
        self, whole: Limit, *, site: Limit | None = None, host: Limit | None = None, client: int | None = None
    ) -> None:
        """Create the limits. `whole` is for all requests together, `site` for each site, and `host` for each host.
        `client` limits the slots of one client. feedproxy's own refreshes have no such limit."""
        self._limits: dict[str, Limit] = {"whole": whole}
        if site is not None:
            self._limits["site"] = site
        if host is not None:
            self._limits["host"] = host
        if client is not None:
            self._limits["client"] = Limit(client)
        self._usages: defaultdict[tuple[str, str], _Usage] = defaultdict(_Usage)
        self._waiting: dict[Slot, None] = {}

    def __len__(self) -> int:
        return len(self._usages[_TOTAL].slots) if _TOTAL in self._usages else 0

    async def acquire(self, *, timeout: Seconds, site: str = "", host: str = "") -> Slot:
        """Return a slot for the current requester. The caller must call `release`.

        `site` and `host` name the shares of the request. Raises Overload if no slot is free within `timeout`
        seconds, or if WAITING_MAX requests wait already.
        """
        requester = current_requester()
        loop = asyncio.get_running_loop()
        slot = Slot(requester, self._keys(requester, site, host), loop.time())
        if self._exceeded_limit(slot) is None:
            self._grant(slot)
            return slot
        if len(self._waiting) >= WAITING_MAX:
            raise Overload("too many requests wait for the network")
        slot.granted = loop.create_future()
        self._waiting[slot] = None
        timer = loop.call_later(EVICTS_AFTER, self._evict_stuck, slot)

        def apply_charge() -> None:
            if slot not in self._waiting:
                return
            slot.keys = self._keys(requester, site, host)
            self._admit()

        requester.on_charge.append(apply_charge)
        try:
            async with asyncio.timeout(timeout):
                await slot.granted
        except TimeoutError:
            if not _is_granted(slot.granted):
                raise Overload(_limit_name(self._exceeded_limit(slot))) from None
        except BaseException:
            if _is_granted(slot.granted):
                self.release(slot)
            raise
        finally:
            timer.cancel()
            requester.on_charge.remove(apply_charge)
            self._waiting.pop(slot, None)
        return slot

    def release(self, slot: Slot) -> None:
        """Release a slot and admit waiting requests."""
        for key in slot.keys:
            usage = self._usages[key]
            usage.slots.discard(slot)
            usage.unknown -= not slot.requester.is_known
            if not usage.slots:
                del self._usages[key]
        self._admit()

    def _keys(self, requester: Requester, site: str, host: str) -> tuple[tuple[str, str], ...]:
        share_names = {"whole": "*", "site": site, "host": host, "client": requester.client}
        return tuple([(kind, share_names[kind]) for kind in self._limits if share_names[kind]])

    def _admit(self) -> None:
        """Give slots to all waiting requests within the limits, in their order."""
        for waiting in list(self._waiting):
            if waiting.granted is not None and not waiting.granted.done() and self._exceeded_limit(waiting) is None:
                del self._waiting[waiting]
                waiting.since = waiting.granted.get_loop().time()
                self._grant(waiting)
                waiting.granted.set_result(None)

    def _grant(self, slot: Slot) -> None:
        slot.client = slot.requester.client
        for key in slot.keys:
            usage = self._usages[key]
            usage.slots.add(slot)
            usage.unknown += not slot.requester.is_known

    def _exceeded_limit(self, slot: Slot) -> tuple[str, str] | None:
        """Return the kind and name of the first full share of a waiting request, or None if all have room."""
        for key in slot.keys:
            usage, limit = self._usages.get(key), self._limits[key[0]]
            if usage is None:
                continue
            if len(usage.slots) >= limit.slots:
                return key
            if not slot.requester.is_known and usage.unknown >= limit.unknown:
                return key
        return None

    def _evict_stuck(self, slot: Slot) -> None:
        """End an exchange with a silent origin in favour of a request that has waited for EVICTS_AFTER seconds."""
        if slot not in self._waiting:
            return
        loop = asyncio.get_running_loop()
        key = self._exceeded_limit(slot)
        if key is not None and (victim := self._find_evictable(slot, key, loop.time() - SILENT_AFTER)) is not None:
            victim.is_ended = True
            assert victim.end is not None
            victim.end()
        timer = loop.call_later(EVICTION_CHECK_INTERVAL, self._evict_stuck, slot)
        assert slot.granted is not None
        slot.granted.add_done_callback(lambda _: timer.cancel())

    def _find_evictable(self, slot: Slot, key: tuple[str, str], before: Seconds) -> Slot | None:
        """Return a slot with an exchange that may be ended in favour of the waiting `slot`, or None if there is none.

        `key` names the share in which no slot is free. The origin of the exchange has been silent at least since the
        time `before`.
        """
        slots = self._usages[key].slots
        of_client = Counter(candidate.client for candidate in slots)
        own_slots = of_client[slot.requester.client]
        candidates = [
            candidate
            for candidate in slots
            if candidate.end is not None
            and not candidate.is_ended
            and candidate.quiet_since() <= before
            # feedproxy's own refreshes are never evicted. Within a site or host, the evicted client needs two slots
            # more, and in every share if only its exchange is for a known feed.
            and candidate.client
            and (key[0] not in ("site", "host") or of_client[candidate.client] > own_slots + 1)
            and (
                slot.requester.is_known
                or not candidate.requester.is_known
                or of_client[candidate.client] > own_slots + 1
            )
        ]
        return max(
            candidates,
            key=lambda candidate: (of_client[candidate.client], before - candidate.quiet_since()),
            default=None,
        )


class ReceivingLimit:
    """Limiter of the memory of incomplete responses. `bytes_max` is their maximum size together.

    An incomplete response takes up to `buffer_max`. Without the limit, origins that send most of a response and then
    pause could fill the memory. A response that is complete after the first read is not counted.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._sizes: dict[Slot, int] = {}
        self._total = 0

    def record(self, slot: Slot, size: int) -> None:
        """Record that the response in this slot has `size` bytes so far. Above the limit, end the largest exchange of
        the client that has the most incomplete content."""
        self._total += size - self._sizes.get(slot, 0)
        self._sizes[slot] = size
        if self._total > self._bytes_max:
            self._end_largest()

    def release(self, slot: Slot) -> None:
        """Remove the response of a slot."""
        self._total -= self._sizes.pop(slot, 0)

    def _end_largest(self) -> None:
        by_client: Counter[str] = Counter()
        for slot, size in self._sizes.items():
            by_client[slot.client] += size
        candidates = [slot for slot in self._sizes if slot.end is not None and not slot.is_ended]
        victim = max(candidates, key=lambda slot: (by_client[slot.client], self._sizes[slot]), default=None)
        if victim is None:
            return
        local_resource_exhaustion.shortage_log.warn(
            f"a fetch was ended, because incomplete responses take more than {self._bytes_max // 1_000_000} MB"
        )
        self.release(victim)
        victim.is_ended = True
        assert victim.end is not None
        victim.end()


_TOTAL = ("whole", "*")


def _is_granted(granted: asyncio.Future[None]) -> bool:
    return granted.done() and not granted.cancelled()


def _limit_name(key: tuple[str, str] | None) -> str:
    if key is None or key[0] == "whole":
        return "all permitted connections are in use"
    return {
        "site": f"too many exchanges with {key[1]}",
        "host": f"too many exchanges with {key[1]}",
        "client": "too many fetches for one client",
    }[key[0]]
