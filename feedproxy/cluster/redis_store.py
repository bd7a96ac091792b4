"""What the fleet keeps in Redis, one method for each thing that can be done: copies, leases, news.

Everything here raises Away or Refused, and nothing else. A copy is written as on disk (store/codec.py), its checksum
included; one that cannot be read is as good as none.
"""

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from feedproxy.clock import Seconds
from feedproxy.cluster import lua_scripts
from feedproxy.cluster.keys import RedisKeys
from feedproxy.cluster.redis_connection import RedisConnection, RedisRefused, ScriptCall

LOG_MAX = 10_000
"""News kept for machines that were away: some two megabytes. Who has missed more compares all it has."""
TRANSFER_TIMEOUT_FACTOR: float = 20
"""Times the timeout for what nobody waits for: a copy may have megabytes."""


@dataclass(frozen=True, slots=True)
class StoredCopy:
    """What is there of a target: its number, and the copy where it is later than the one known.

    A number that is later and no copy: it was purged.
    """

    version: int
    data: bytes | None


@dataclass(frozen=True, slots=True)
class LeaseResult:
    """A lease, by its token (0: another has it), and what was found with it."""

    token: int
    found: StoredCopy


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """Something that was told to all. `number` is 0 for what is not counted, since it need not be heard."""

    number: int
    version: int
    kind: str
    machine: str
    target: str
    rest: Any = None


class RedisStore:
    """The shared tier. `lease` and `expiry` are seconds; purged targets are remembered as long as copies are kept."""

    def __init__(
        self, link: RedisConnection, names: RedisKeys, machine: str, *, lease: Seconds, expiry: Seconds
    ) -> None:
        self.connection = link
        self.keys = names
        self.machine = machine
        self._lease = int(lease * 1000)
        self._expiry = int(expiry * 1000)

    async def get_if_later(self, target: str, known: int) -> StoredCopy:
        """What is there that is later than what is known."""
        version, data = await self.connection.run(lua_scripts.LOOK, [self._copy(target)], known)
        return StoredCopy(_integer(version), data)

    async def get_if_later_slow(self, target: str, known: int) -> StoredCopy:
        """The same, for those who have time."""
        version, data = await self.connection.run(
            lua_scripts.LOOK, [self._copy(target)], known, timeout_factor=TRANSFER_TIMEOUT_FACTOR
        )
        return StoredCopy(_integer(version), data)

    async def acquire_lease(self, target: str, known: int, own: int = 0) -> LeaseResult:
        """The lease of a target, unless another has it; `own` is a token of ours that may be in the way."""
        names = self.keys
        keys = [names.lease(target), self._copy(target), names.fencing_counter]
        token, version, data = await self.connection.run(lua_scripts.TAKE, keys, self._lease, known, own)
        return LeaseResult(_integer(token), StoredCopy(_integer(version), data))

    async def renew_leases(self, held: Sequence[tuple[str, int]]) -> list[bool]:
        """For each target and token: whether its lease is still ours; if so, for its whole time from now on."""
        calls: list[ScriptCall] = [
            (lua_scripts.RENEW, [self.keys.lease(target)], [token, self._lease]) for target, token in held
        ]
        return [bool(each) for each in await self.connection.run_all(calls, timeout_factor=2)]

    async def release_lease(self, target: str, token: int) -> None:
        """Give a lease back."""
        said = self._message("landed", target)
        await self.connection.run(
            lua_scripts.RELEASE,
            [self.keys.lease(target)],
            token,
            self.keys.channel,
            said,
            timeout_factor=TRANSFER_TIMEOUT_FACTOR,
        )

    async def put(self, target: str, version: int, data: bytes, token: int, *, release: bool) -> tuple[bool, int]:
        """Keep a copy, unless there is a later one; and the number that is there now.

        `token` is that of the lease it was fetched under, or 0; `release` gives it back.
        """
        names = self.keys
        keys = [self._copy(target), names.lease(target), names.barrier, names.sequence, names.log]
        released = token if release and token else ""
        asked = (version, data, released, token or version, self._expiry)
        told = (names.channel, LOG_MAX, self._message("put", target))
        done, there = await self.connection.run(
            lua_scripts.PUT, keys, *asked, *told, timeout_factor=TRANSFER_TIMEOUT_FACTOR
        )
        return bool(done), _integer(there)

    async def purge(self, target: str, version: int) -> None:
        """Forget a target: what of it was fetched before `version`; 0 is now."""
        names = self.keys
        keys = [self._copy(target), names.fencing_counter, names.sequence, names.log]
        told = (names.channel, LOG_MAX, self._message("purge", target))
        await self.connection.run(
            lua_scripts.PURGE, keys, version, self._expiry, *told, timeout_factor=TRANSFER_TIMEOUT_FACTOR
        )

    async def invalidate_all(self) -> None:
        """Nothing that is being fetched now is stored."""
        names = self.keys
        keys = [names.barrier, names.fencing_counter, names.sequence, names.log]
        await self.connection.run(
            lua_scripts.BAR,
            keys,
            names.channel,
            LOG_MAX,
            self._message("bar", ""),
            timeout_factor=TRANSFER_TIMEOUT_FACTOR,
        )

    async def publish(self, kind: str, target: str, rest: Any = None) -> None:
        """Tell all machines something."""
        keys = [self.keys.sequence, self.keys.log]
        said = self._message(kind, target, rest)
        await self.connection.run(
            lua_scripts.TELL, keys, self.keys.channel, LOG_MAX, said, timeout_factor=TRANSFER_TIMEOUT_FACTOR
        )

    async def publish_unlogged(self, kind: str, target: str, rest: Any = None) -> None:
        """The same, for what is of use at once or not at all."""
        said = "0 0 " + self._message(kind, target, rest)
        await self.connection.run(
            lua_scripts.SHOUT, [], self.keys.channel, said, timeout_factor=TRANSFER_TIMEOUT_FACTOR
        )

    async def last_event_number(self) -> int:
        """The number of the last news."""
        return _integer(await self.connection.run(lua_scripts.NUMBER, [self.keys.sequence]))

    async def events_since(self, number: int) -> tuple[int, list[ClusterEvent] | None]:
        """The number of the last news, and all since that one; None where they are not all known any more."""
        keys = [self.keys.sequence, self.keys.log]
        now, said = await self.connection.run(lua_scripts.SINCE, keys, number, timeout_factor=TRANSFER_TIMEOUT_FACTOR)
        now, told = _integer(now), [each for each in map(parse_event, said) if each is not None]
        if now == number:
            return now, []
        if not number and len(told) < LOG_MAX:
            return now, told  # nothing had ever been said
        if now < number or not told or told[0].number != number + 1 or told[-1].number != now:
            return now, None
        return now, told

    async def versions(self, targets: Iterable[str]) -> list[tuple[int, bool]]:
        """For each target the number that is there, and whether there is a copy."""
        calls: list[ScriptCall] = [(lua_scripts.VERSION, [self._copy(target)], []) for target in targets]
        return [
            (_integer(version), bool(kept))
            for version, kept in await self.connection.run_all(calls, timeout_factor=TRANSFER_TIMEOUT_FACTOR)
        ]

    async def claim(self, what: str, seconds: Seconds) -> bool:
        """Whether this machine is the first that asks for it, within that time."""
        said = await self.connection.run(
            lua_scripts.CLAIM, [self.keys.delivery_claim(what)], self.machine, int(seconds * 1000), timeout_factor=4
        )
        return bool(said)

    async def targets(self) -> AsyncIterator[str]:
        """Every target of which something is there; some more than once."""
        cursor: bytes | str = "0"
        while True:
            cursor, found = await self.connection.run(
                lua_scripts.SCAN, [], cursor, self.keys.copies, timeout_factor=TRANSFER_TIMEOUT_FACTOR
            )
            for name in found:
                yield self.keys.target(name)
            if cursor in (b"0", "0"):
                return

    def _copy(self, target: str) -> Any:
        return self.keys.copy(target)

    def _message(self, kind: str, target: str, rest: Any = None) -> str:
        said = [kind, self.machine, target] if rest is None else [kind, self.machine, target, rest]
        return json.dumps(said, separators=(",", ":"))


def _integer(said: Any) -> int:
    """A number, as Redis has it. Raises Refused for anything else: the key is another program's."""
    try:
        return int(said)
    except (TypeError, ValueError):
        raise RedisRefused("a number of ours was replaced by something else") from None


def parse_event(said: bytes) -> ClusterEvent | None:
    """A message, read; None for what is none of ours."""
    try:
        number, version, rest = said.split(b" ", 2)
        kind, machine, target, *more = json.loads(rest)
        return ClusterEvent(int(number), int(version), str(kind), str(machine), str(target), more[0] if more else None)
    except (ValueError, TypeError):
        return None
