"""The shared data in Redis: operations on copies, leases and events.

All methods raise only RedisUnavailable and RedisRefused. A copy has the form on disk (store/resource_codec.py), and can
be compressed. An unreadable copy counts as absent.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.fleet import lua_scripts
from feedproxy.fleet.copy_compression import compress
from feedproxy.fleet.lua_scripts import Script
from feedproxy.fleet.redis_connection import RedisConnection, ScriptCall
from feedproxy.fleet.redis_keys import RedisKeys

LOG_MAX = 10_000
"""Maximum number of events in the log, about 2 MB. A machine that has missed more events compares all copies with
Redis."""
TRANSFER_TIMEOUT_FACTOR: float = 20
"""The timeout of requests to Redis that no client waits for is longer by this factor. A copy can have megabytes."""


class StoredCopy(Struct, frozen=True):
    """The version of a target in Redis, and the copy if the version is later than the caller's. A later version without
    a copy means that the target was purged."""

    version: int
    data: bytes | None
    """The copy as stored in Redis, for `decompress`. None after a purge, or if `version` is not later than the
    caller's."""


class FleetEvent(Struct, frozen=True):
    number: int
    version: int
    kind: str
    machine: str
    target: str
    payload: Any = None


class RedisOperations:
    """The operations on the shared data in Redis. `lease` is the duration of a lease in seconds. `expiry` is the
    lifetime of a copy, or of the record of a purge, in seconds."""

    def __init__(
        self,
        connection: RedisConnection,
        keys: RedisKeys,
        machine: str,
        clock: Clock,
        *,
        lease: Seconds,
        expiry: Seconds,
    ) -> None:
        self.connection = connection
        self._clock = clock
        self._clock_difference = 0
        """The microseconds by which the clock of Redis is ahead of this machine's clock, negative if it is behind. The
        last measurement permits several values. The one closest to 0 is taken."""
        self.keys = keys
        self.machine = machine
        self._lease = int(lease * 1000)
        self._expiry = int(expiry * 1000)

    async def get_if_later(self, target: str, known_version: int, *, timeout_factor: float = 1) -> StoredCopy:
        """Return the stored version. If it is later than `known_version`, also return the copy."""
        version, data = await self.connection.run(
            lua_scripts.GET_IF_LATER, [self.keys.copy(target)], known_version, timeout_factor=timeout_factor
        )
        return StoredCopy(self._integer(version), data)

    async def acquire_lease(self, target: str, known_version: int, own: int = 0) -> tuple[int, StoredCopy]:
        """Acquire the lease of a target. Return the lease's token and the stored version. A version later than
        `known_version` comes with its copy. The token is 0 if another machine holds the lease.

        `own` is the token of the lease that this machine already holds, or 0.
        """
        names = self.keys
        keys: list[str | bytes] = [names.lease(target), names.copy(target), names.fencing_counter]
        token, version, data = await self.connection.run(
            lua_scripts.ACQUIRE_LEASE, keys, self._lease, known_version, own
        )
        return self._integer(token), StoredCopy(self._integer(version), data)

    async def renew_leases(self, leases: Sequence[tuple[str, int]]) -> list[bool]:
        """Renew leases of targets with their tokens. Return for each lease True if this machine still holds it."""
        calls: list[ScriptCall] = [
            (lua_scripts.RENEW_LEASE, [self.keys.lease(target)], [token, self._lease]) for target, token in leases
        ]
        return [bool(renewed) for renewed in await self.connection.run_all(calls, timeout_factor=2)]

    async def release_lease(self, target: str, token: int) -> None:
        message = self._message("landed", target)
        await self._transfer(lua_scripts.RELEASE_LEASE, [self.keys.lease(target)], token, self.keys.channel, message)

    async def put(self, target: str, version: int, data: bytes, token: int, *, release: bool) -> tuple[bool, int]:
        """Store a copy unless a later copy is stored. Return True if the copy was accepted, and the version that is
        stored now.

        `token` is the token of the lease for the fetch, or 0 if there was no lease. If `release` is true, the lease
        ends.
        """
        names = self.keys
        keys: list[str | bytes] = [names.copy(target), names.lease(target), names.barrier, names.sequence, names.log]
        released = token if release and token else ""
        data = await asyncio.to_thread(compress, data)
        copy_values = (version, data, released, token or version, self._expiry)
        accepted, stored_version = await self._transfer(
            lua_scripts.PUT_COPY, keys, *copy_values, *self._event_values("put", target)
        )
        return bool(accepted), self._integer(stored_version)

    async def purge(self, target: str, age: Seconds, version: int = 0) -> int:
        """Delete the target's copy if it was fetched at least `age` seconds ago by the clock of Redis, or if `age` is
        0. Return the version of the purge, or 0 if the copy stays.

        If the purge is sent again, `version` is the version that Redis gave to it, and `age` is ignored.
        """
        names = self.keys
        keys: list[str | bytes] = [names.copy(target), names.fencing_counter, names.sequence, names.log]
        values = (_microseconds(age), self._expiry, *self._event_values("purge", target), version)
        return self._integer(await self._transfer(lua_scripts.PURGE_COPY, keys, *values))

    async def invalidate_all(self) -> None:
        """Make Redis refuse the copies of all fetches that are in progress on any machine."""
        names = self.keys
        keys = [names.barrier, names.fencing_counter, names.sequence, names.log]
        await self._transfer(lua_scripts.INVALIDATE_ALL, keys, *self._event_values("bar", ""))

    async def publish(self, kind: str, target: str, payload: Any = None) -> None:
        keys = [self.keys.sequence, self.keys.log]
        await self._transfer(lua_scripts.PUBLISH, keys, *self._event_values(kind, target, payload))

    async def publish_unlogged(self, kind: str, target: str, payload: Any = None) -> None:
        """Send an event without the log. It can be lost, because it is of no use later."""
        message = "0 0 " + self._message(kind, target, payload)
        await self._transfer(lua_scripts.PUBLISH_UNLOGGED, [], self.keys.channel, message)

    async def last_event_number(self) -> int:
        """Return the number of the last event. Also compare the clock of Redis with this machine's clock."""
        began = self._clock.now()
        number, microseconds = await self.connection.run(lua_scripts.LAST_EVENT_NUMBER, [self.keys.sequence])
        redis_now, earliest, latest = (
            self._integer(microseconds),
            _microseconds(began),
            _microseconds(self._clock.now()),
        )
        # Redis has read its clock between the two instants. A smaller difference would be a guess, and would change the
        # order of fetches by machines with equal clocks.
        self._clock_difference = redis_now - max(earliest, min(redis_now, latest))
        return self._integer(number)

    def token_at(self, instant: Instant) -> int:
        """Return the fencing token of a fetch without a lease at this instant: the time in microseconds, corrected by
        `_clock_difference`."""
        return _microseconds(instant) + self._clock_difference

    async def events_since(self, number: int) -> tuple[int, list[FleetEvent] | None]:
        """Return the number of the last event, and all events after `number`. The second value is None if the log lacks
        some of these events."""
        keys = [self.keys.sequence, self.keys.log]
        now, texts = await self._transfer(lua_scripts.EVENTS_SINCE, keys, number)
        now, events = self._integer(now), [event for event in map(parse_event, texts) if event is not None]
        if now == number:
            return now, []
        if not number and len(events) == len(texts) < LOG_MAX:
            return now, events  # the log contains all events
        if now < number or not events or events[0].number != number + 1 or events[-1].number != now:
            return now, None
        return now, events

    async def versions(self, targets: Iterable[str]) -> list[tuple[int, bool]]:
        calls: list[ScriptCall] = [(lua_scripts.COPY_VERSION, [self.keys.copy(target)], []) for target in targets]
        return [
            (self._integer(version), bool(has_copy))
            for version, has_copy in await self.connection.run_all(calls, timeout_factor=TRANSFER_TIMEOUT_FACTOR)
        ]

    async def claim(self, change: str, seconds: Seconds) -> bool:
        """Claim the deliveries of a change for `seconds`. Return True if no other machine has claimed them."""
        claimed = await self.connection.run(
            lua_scripts.CLAIM_CHANGE,
            [self.keys.delivery_claim(change)],
            self.machine,
            int(seconds * 1000),
            timeout_factor=4,
        )
        return bool(claimed)

    async def restore_state(self, state: Mapping[str, bytes]) -> None:
        """Store those values of the shared state that Redis does not have. Machines that start later need these
        values."""
        if state:
            pairs = [part for name, value in state.items() for part in (name, value)]
            await self._transfer(lua_scripts.RESTORE_STATE, [self.keys.identity], *pairs)

    async def targets(self) -> AsyncIterator[str]:
        """Yield each target with a copy in Redis. A target can be yielded more than once."""
        cursor: bytes | str = "0"
        while True:
            cursor, keys = await self._transfer(lua_scripts.SCAN_COPIES, [], cursor, self.keys.copies)
            for name in keys:
                yield self.keys.target(name)
            if cursor in (b"0", "0"):
                return

    async def _transfer(self, script: Script, keys: Sequence[str | bytes], *values: str | bytes | int) -> Any:
        """Run a script that no client waits for, and return its result."""
        return await self.connection.run(script, keys, *values, timeout_factor=TRANSFER_TIMEOUT_FACTOR)

    def _integer(self, value: Any) -> int:
        """Return a number from Redis. Raises RedisRefused for a value that is no number."""
        try:
            return int(value)
        except (TypeError, ValueError):
            raise self.connection.refuse(f"invalid number: {value!r:.40}") from None

    def _event_values(self, kind: str, target: str, payload: Any = None) -> tuple[str, int, str]:
        """Return the last arguments of each script that publishes an event: the Pub/Sub channel, the
        maximum length of the event log in Redis, and the message."""
        return self.keys.channel, LOG_MAX, self._message(kind, target, payload)

    def _message(self, kind: str, target: str, payload: Any = None) -> str:
        message = [kind, self.machine, target] if payload is None else [kind, self.machine, target, payload]
        return json.dumps(message, separators=(",", ":"))


def _microseconds(seconds: Seconds) -> int:
    return int(seconds * 1_000_000)


def parse_event(message: bytes) -> FleetEvent | None:
    """Return the event in a message, or None if the message has another form."""
    try:
        number, version, data = message.split(b" ", 2)
        kind, machine, target, *payload = json.loads(data)
        return FleetEvent(
            int(number), int(version), str(kind), str(machine), str(target), payload[0] if payload else None
        )
    except (ValueError, TypeError, RecursionError):
        return None
