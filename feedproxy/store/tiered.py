"""A store with memory in front of a disk.

A read searches memory, then the unwritten values, then the disk. `load` reads the disk in a thread (disk_reads.py).
"""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from functools import partial

from feedproxy.clock import Seconds
from feedproxy.errors import StoreError
from feedproxy.store import envelope, resource_codec
from feedproxy.store.coordination.coordination_interface import Coordination
from feedproxy.store.coordination.shared_overflow import DELETED
from feedproxy.store.coordination.worker_coordination import SharedMemoryCoordination
from feedproxy.store.disk import DiskStore, decode
from feedproxy.store.disk_reads import DiskReads
from feedproxy.store.envelope import EnvelopeKind
from feedproxy.store.interface import OnFailure, Precondition
from feedproxy.store.lru_memory_store import MemoryStore
from feedproxy.store.packing.memory_entry import memory_size
from feedproxy.store.resource import Resource
from feedproxy.store.stored_keys import StoredKeys
from feedproxy.store.write_behind import BATCH_WINDOW, WriteQueue
from feedproxy.store.write_retries import WriteRetries

type Key = tuple[EnvelopeKind, str]


class OnDisk(Enum):
    """Result of a search for an unwritten value that finds none: the disk has the latest value."""

    ON_DISK = auto()


ON_DISK = OnDisk.ON_DISK

CULL_AFTER_BYTES = 4 * 1024 * 1024
"""The sizes of all shards are checked each time this many bytes were written. A write checks only its own shard."""
ABSENT_MAX = 1024
"""Maximum number of targets known not to be stored. A request that misses looks its target up five times."""
PEEKED_MAX = 8
"""Maximum number of resources from `load` or `peek` that stay in memory, for a `get` soon afterwards."""
UNREADABLE_INTERVAL: Seconds = 1
"""After a failed read by `load`, the resource counts as not stored for this many seconds, or until the next `load`."""
SHARED_WRITE_TIMEOUT: Seconds = 0.1
"""Maximum time, in seconds, for which a `put` with several workers waits until the value is on disk, where the other
workers read it. If it takes longer, the value is put into shared memory, too (shared_overflow.py)."""
UNWRITTEN_MAX = 64 * 1024 * 1024
"""Maximum size of the write queue while writes are late, in bytes. Further values are stored only in shared memory."""
ORPHAN_AGE = 3600
"""A file without a database row is removed if it is older than this many seconds."""


_LOG = logging.getLogger(__name__)


def _always() -> bool:
    return True


class TieredStore:
    """A Store that has everything on disk, and recently used resources also in memory.

    If processes share the disk, `get` returns what is on disk or in shared memory, even while a newer value is queued.
    """

    def __init__(
        self,
        memory: MemoryStore,
        disk: DiskStore,
        *,
        on_failure: OnFailure,
        shared: SharedMemoryCoordination | None = None,
    ) -> None:
        self._memory = memory
        self._disk = disk
        self._on_failure = on_failure
        self._shared = shared
        self._generation = shared.generation if shared else 0
        self._published_at: dict[str, int] = {}
        self._preconditions: dict[str, Precondition] = {}
        self._published: dict[Key, tuple[Resource | bytes | None, int]] = {}
        self._publishing = threading.Lock()
        self._late = False
        self._orphans_removed = False
        self._needs_cull = True
        self._bytes_written = 0
        self._keys = StoredKeys(disk.targets())
        self._opened_count = disk.opened_count
        self._absent: set[str] = set()
        self._unreadable: set[str] = set()
        """The targets that are in `_absent` because their last read has failed."""
        self._peeked: dict[str, tuple[Resource, bytes]] = {}
        """The last resources that `load` or `peek` has read from the disk, for a `get` soon afterwards."""
        self._reads = DiskReads(
            disk.read_encoded, on_value=self._on_read, on_failure=self._on_failed_read, close_thread=disk.close
        )
        self._last_read_states: dict[str, bytes | None] = {}
        """The last value of each state that `read_state` has read from the disk, by name."""
        self._state_reads = DiskReads(
            disk.read_state,
            on_value=self._last_read_states.__setitem__,
            on_failure=lambda _, error: self._on_read_failure(error),
            close_thread=disk.close,
        )
        self._queue = WriteQueue[Key, Resource | bytes](
            self._write,
            holds=self._holds,
            idle=self._run_housekeeping,
            on_failure=on_failure,
            # In a shared store, `put` waits for its write, and each write has its own lock.
            write_all=self._write_all if shared is None else None,
            batch_window=BATCH_WINDOW if shared is None else 0.0,
            # In a shared store, values that could not be written are in the shared memory, for all processes.
            retains=shared is None,
        )
        self._retries = (
            WriteRetries(self._queue.unwritten_keys, self._queue.write_again)
            if shared is None
            else WriteRetries(lambda: [name for name, _ in shared.overflow.names()], self._write_from_overflow)
        )
        self._is_failing = False
        # The limit may be lower than when the folder was last open.
        self._queue.wake()

    @property
    def coordination(self) -> Coordination:
        return self._shared or self._memory.coordination

    @property
    def unwritten_count(self) -> int:
        return self._queue.unwritten_count if self._shared is None else len(self._shared.overflow)

    async def load(self, target: str) -> None:
        if target in self._unreadable:
            self._forget_failure(target)  # the next read may succeed
        # What was read may be outdated, or have left memory, before this task continues.
        while self._must_read_disk(target) and not self._reads.is_stalled:
            await self._reads.wait_for(target)

    def _must_read_disk(self, target: str) -> bool:
        if self._shared is not None and self._shared.generation != self._generation:
            self._catch_up(self._shared)
        if self._memory.holds(target) or target in self._peeked or self._is_absent(target):
            return False
        try:
            return self._unwritten((EnvelopeKind.RESOURCE, target)) is ON_DISK
        except StoreError:
            return False  # `get` reports the failure

    def _on_read(self, target: str, data: bytes | None) -> None:
        if data is None:
            self._remember_absent(target)
            return
        try:
            self._remember_peeked(target, decode(data, target))
        except StoreError as error:
            self._on_failed_read(target, error)

    def _on_failed_read(self, target: str, error: StoreError) -> None:
        self._on_read_failure(error)
        # The read would fail again, perhaps after a long wait, if the caller of `load` repeated it in the event loop.
        self._remember_absent(target)
        self._unreadable.add(target)
        asyncio.get_running_loop().call_later(UNREADABLE_INTERVAL, self._forget_failure, target)

    def _forget_failure(self, target: str) -> None:
        if target in self._unreadable:
            self._unreadable.discard(target)
            self._absent.discard(target)

    def get(self, target: str) -> Resource | None:
        if self._shared is not None and self._shared.generation != self._generation:
            self._catch_up(self._shared)
        resource = self._memory.get(target)
        if resource is not None:
            return resource
        below_memory = self._peeked.get(target) or self._read_below_memory(target)
        if below_memory is None:
            return None
        resource, header = below_memory
        self._memory.put_now(resource, header=header)
        if self._memory.holds(target):  # otherwise it is larger than the memory
            self._peeked.pop(target, None)
        return resource

    def version(self, target: str, *, used: bool = False) -> object | None:
        if self._shared is not None and self._shared.generation != self._generation:
            self._catch_up(self._shared)
        return self._memory.version(target, used=used)

    def get_latest(self, target: str) -> Resource | None:
        entry = self._queue.pending_write((EnvelopeKind.RESOURCE, target))
        if entry is not None:
            return entry.value if isinstance(entry.value, Resource) else None
        return self.get(target)

    def peek(self, target: str) -> Resource | None:
        if self._shared is not None and self._shared.generation != self._generation:
            self._catch_up(self._shared)
        resource = self._memory.peek(target)
        if resource is not None:
            return resource
        below_memory = self._peeked.get(target) or self._read_below_memory(target)
        if below_memory is None:
            return None
        self._remember_peeked(target, below_memory)
        return below_memory[0]

    def _remember_peeked(self, target: str, found: tuple[Resource, bytes]) -> None:
        self._peeked[target] = found
        if len(self._peeked) > PEEKED_MAX:
            del self._peeked[next(iter(self._peeked))]

    def _is_absent(self, target: str) -> bool:
        """Return True if the disk has no resource of this target, or if the last read has failed."""
        return target in self._absent or not self._keys.may_contain(target)

    def _remember_absent(self, target: str) -> None:
        if len(self._absent) >= ABSENT_MAX:
            self._absent.clear()
        self._absent.add(target)

    def holds(self, target: str) -> bool:
        if self._memory.holds(target) or target in self._peeked:
            return True
        try:
            unwritten = self._unwritten((EnvelopeKind.RESOURCE, target))
            if unwritten is not ON_DISK:
                return unwritten is not None
            return not self._is_absent(target) and self._disk.holds(target)
        except StoreError as error:
            self._on_read_failure(error)
            return False

    def _read_below_memory(self, target: str) -> tuple[Resource, bytes] | None:
        """Return the resource from the write queue, shared memory or disk, with its header (or b""), or None."""
        try:
            unwritten = self._unwritten((EnvelopeKind.RESOURCE, target))
            if unwritten is not ON_DISK:
                return (unwritten, b"") if isinstance(unwritten, Resource) else None
            if self._is_absent(target):
                return None
            if self._reads.is_stalled:
                raise StoreError("store: the disk does not respond")
            found = self._disk.read(target)
        except StoreError as error:
            self._on_read_failure(error)
            return None
        if found is None:
            self._remember_absent(target)
        return found

    def _unwritten(self, key: Key) -> Resource | bytes | OnDisk | None:
        """Return the unwritten value, None if it is a delete or was dropped, or ON_DISK if the disk has the latest
        value. Raises StoreError if the value is damaged."""
        if self._shared is not None:
            data = self._shared.overflow.get(_name(key))
            return ON_DISK if data is None else _deserialize(key[0], data)
        if (entry := self._queue.pending_write(key)) is not None:
            return entry.value
        return None if key in self._queue.failed_keys else ON_DISK

    async def put(self, resource: Resource, precondition: Precondition | None = None) -> None:
        self._forget_read(resource.target)
        if self._shared is not None:
            self._preconditions[resource.target] = precondition or _always
            await self._write_for_all(self._shared, resource.target, resource, precondition)
            return
        size = memory_size(resource)
        self._memory.put_now(resource, size)
        self._memory.coordination.record_change()
        await self._queue.add((EnvelopeKind.RESOURCE, resource.target), resource, size)

    async def wait_written(self, target: str) -> None:
        await self._queue.wait_written((EnvelopeKind.RESOURCE, target))

    async def delete(self, target: str, token_max: int | None = None) -> None:
        if token_max is not None and (latest := self.get_latest(target)) and latest.fencing_token > token_max:
            return
        self._memory.drop(target)
        self._forget_read(target)
        if self._shared is not None:
            precondition = (
                None if token_max is None else partial(self._is_token_at_most, self._shared, target, token_max)
            )
            self._preconditions[target] = precondition or _always
            await self._write_for_all(self._shared, target, None)
            return
        self._memory.coordination.record_change()
        await self._queue.add((EnvelopeKind.RESOURCE, target), None, len(target))

    async def _write_for_all(
        self,
        shared: SharedMemoryCoordination,
        target: str,
        resource: Resource | None,
        precondition: Precondition | None = None,
    ) -> None:
        """Write a resource, or delete it if `resource` is None. Return when every process answers with the result."""
        key = (EnvelopeKind.RESOURCE, target)
        size = memory_size(resource) if resource is not None else len(target)
        if not await self._queue.write(key, resource, size, timeout=0.0 if self._late else SHARED_WRITE_TIMEOUT):
            self._late = True
            try:
                await asyncio.to_thread(self._publish, key, resource, precondition or _always)
            except StoreError as error:
                self._on_failure(error)
            if self._queue.size > UNWRITTEN_MAX:
                self._queue.discard(key, resource)
                self._published.pop(key, None)
        published_at = self._published_at.pop(target, None)
        self._absent.discard(target)
        self._catch_up(shared)
        pending = self._queue.pending_write((EnvelopeKind.RESOURCE, target))
        if resource is None or (pending is not None and pending.value is not resource):
            return
        later = shared.changes_since(published_at)[1] if published_at is not None else None
        if later is not None and target not in later:  # otherwise another process has changed the resource since
            self._memory.put_now(resource)

    def _publish(self, key: Key, value: Resource | bytes | None, precondition: Precondition) -> None:
        shared = self._shared
        if shared is None:
            return
        with self._publishing:
            if key in self._published and self._published[key][0] is value:
                return
            position = shared.overflow.put(_name(key), _serialize(value), _always if value is None else precondition)
            self._published[key] = (value, position)
            if key[0] is EnvelopeKind.RESOURCE:
                self._published_at[key[1]] = shared.publish_change(key[1])

    def _catch_up(self, shared: SharedMemoryCoordination) -> None:
        self._generation, changed = shared.changes_since(self._generation)
        if changed is None:
            self._memory.clear()
            self._keys.read_again(self._disk.targets())
            self._queue.wake()
            self._absent.clear()
            self._peeked.clear()
            self._reads.discard_all()
        else:
            for target in changed:
                self._keys.add(target)
                self._memory.drop(target)
                self._forget_read(target)

    def _forget_read(self, target: str) -> None:
        self._absent.discard(target)
        self._peeked.pop(target, None)
        self._reads.discard(target)

    def targets(self) -> Iterator[str]:
        pending_names = {
            name: is_value for (kind, name), is_value in self._queue.names() if kind is EnvelopeKind.RESOURCE
        }
        if self._shared is not None:
            prefix = EnvelopeKind.RESOURCE.name + ":"
            pending_names |= {
                name.removeprefix(prefix): is_value
                for name, is_value in self._shared.overflow.names()
                if name.startswith(prefix)
            }
        listed = {*self._memory.targets(), *(name for name, is_value in pending_names.items() if is_value)}
        yield from listed
        try:
            for target in self._disk.targets():
                self._keys.add(target)  # a program that does not share its changes may have stored it
                key = (EnvelopeKind.RESOURCE, target)
                is_lost = key in self._queue.failed_keys and self._shared is None
                if target not in listed and pending_names.get(target, True) and not is_lost:
                    yield target
        except StoreError as error:
            self._on_read_failure(error)

    def get_state(self, name: str) -> bytes | None:
        key = (EnvelopeKind.STATE, name)
        entry = self._queue.pending_write(key)
        try:
            unwritten = entry.value if entry is not None else self._unwritten(key)
            if unwritten is not ON_DISK:
                return unwritten if isinstance(unwritten, bytes) else None
            return self._disk.read_state(name)
        except StoreError as error:
            self._on_read_failure(error)
            return None

    async def read_state(self, name: str) -> bytes | None:
        while self._is_state_on_disk(name):
            if await self._state_reads.wait_for(name) and self._is_state_on_disk(name):
                return self._last_read_states.get(name)
        return self.get_state(name)

    def _is_state_on_disk(self, name: str) -> bool:
        key = (EnvelopeKind.STATE, name)
        try:
            return self._queue.pending_write(key) is None and self._unwritten(key) is ON_DISK
        except StoreError:
            return False  # `get_state` reports the failure

    async def put_state(self, name: str, data: bytes) -> None:
        self._state_reads.discard(name)
        if name in self._last_read_states:
            self._last_read_states[name] = data
        await self._queue.add((EnvelopeKind.STATE, name), data, len(data))

    async def flush(self) -> None:
        # The writer thread, for which this call waits, could read keys for seconds. It continues after the next write.
        self._keys.is_paused = True
        try:
            await self._queue.flush()
        finally:
            self._keys.is_paused = False

    async def close(self) -> None:
        self._keys.is_paused = True
        if self.unwritten_count:
            self._retries.hasten()
            self._queue.wake()
        # All of these wait while the disk does not respond.
        await asyncio.gather(
            self._queue.close(self._disk.close, self._disk.stop_waiting), self._reads.close(), self._state_reads.close()
        )
        self._disk.close()
        if self._shared is not None:
            self._shared.close()

    def _on_read_failure(self, error: StoreError) -> None:
        self._on_failure(error)
        # The writer sets corrupt shards aside.
        self._needs_cull = True
        self._queue.wake()

    # -- in the writer thread

    def _write(self, key: Key, value: Resource | bytes | None) -> None:
        try:
            self._write_latest(key, value)
        except StoreError:
            if not self._is_failing:
                self._is_failing = True
                _LOG.warning("store: a value could not be written: such values stay in memory, and are written later")
            self._retries.postpone()
            raise

    def _write_latest(self, key: Key, value: Resource | bytes | None) -> None:
        kind, target = key
        shared, name = self._shared, _name(key)
        if shared is None:
            self._write_value(key, value)
            return
        # A purge invalidates before it acquires this lock, so an older value is written before the delete, or
        # discarded.
        with shared.write_lock(target if kind is EnvelopeKind.RESOURCE else name):
            precondition = self._preconditions.pop(target, _always) if kind is EnvelopeKind.RESOURCE else _always
            pending = self._queue.pending_write(key)
            if pending is not None and pending.value is not value:
                return  # a later value has replaced this value during the wait for the lock
            position = shared.overflow.position(name)
            published = self._published.get(key)
            if published is not None and published[0] is value and published[1] != position:
                self._published.pop(key, None)
                return  # the value was published in memory, and another process has replaced it since
            # While the disk is late, a delete is in shared memory already.
            is_shared_delete = value is None and published is not None and published[0] is None
            if not is_shared_delete and not precondition():
                return
            try:
                self._write_value(key, value)
            except Exception:
                self._publish(key, value, precondition)
                raise
            else:
                self._late = False
                shared.overflow.clear(name, position)
            finally:
                with self._publishing:
                    published = self._published.pop(key, None)
                    if published is not None and published[0] is not value:
                        self._published[key] = published
                        published = None
                if kind is EnvelopeKind.RESOURCE:
                    # Publish the change even after a failure: the other processes' copies in memory are outdated in any
                    # case.
                    self._published_at[target] = shared.publish_change(target)
            if published is not None:
                shared.overflow.clear(name, published[1])

    def _is_token_at_most(self, shared: SharedMemoryCoordination, target: str, token_max: int) -> bool:
        """Return True if the stored resource has a fencing token of at most `token_max`, or if no resource can be read.

        The caller must hold the target's write lock.
        """
        try:
            data = shared.overflow.get(_name((EnvelopeKind.RESOURCE, target)))
            if data is None:
                data = self._disk.read_encoded(target)
            return not data or resource_codec.load(data).fencing_token <= token_max
        except StoreError:
            return True

    def _write_from_overflow(self, name: str) -> None:
        """Write the value with this name from shared memory to disk. If this fails, report it and raise StoreError."""
        assert self._shared is not None
        shared, (kind, target) = self._shared, _key(name)
        with shared.write_lock(target if kind is EnvelopeKind.RESOURCE else name):
            # A write that holds this lock removes the entry, and any later value has another position.
            position = shared.overflow.position(name)
            value = shared.overflow.get(name) if position else None
            if value is None or (value == DELETED and kind is EnvelopeKind.STATE):
                return  # a state is never deleted: it was too large for the shared memory
            try:
                self._write_value((kind, target), _deserialize(kind, value))
            except StoreError as error:
                self._on_failure(error)
                raise
            shared.overflow.clear(name, position)

    def _write_all(self, entries: Sequence[tuple[Key, Resource | bytes | None]]) -> None:
        resources = [value for _, value in entries if isinstance(value, Resource)]
        self._bytes_written += sum([resource.size() for resource in resources])
        for resource in resources:
            self._keys.add(resource.target)
        self._disk.write_all(resources, self._memory.remember_header)
        for key, value in entries:
            if not isinstance(value, Resource):
                self._write_value(key, value)

    def _write_value(self, key: Key, value: Resource | bytes | None) -> None:
        if isinstance(value, Resource):
            self._bytes_written += memory_size(value)
            self._keys.add(key[1])
            self._disk.write(value)
        elif value is None:
            self._disk.delete(key[1])
        else:
            self._disk.write_state(key[1], value)

    def _holds(self, key: Key) -> bool:
        kind, name = key
        return self._disk.holds(name) if kind is EnvelopeKind.RESOURCE else self._disk.read_state(name) is not None

    def _run_housekeeping(self) -> bool:
        more = self._read_keys()
        more = self._retries.step() or more
        if self._is_failing and not self.unwritten_count:
            self._is_failing = False
            _LOG.info("store: all values are written again")
        return self._cull_slice() or more

    def _read_keys(self) -> bool:
        """Read some of the keys on disk. Return True if more keys remain."""
        if self._opened_count != self._disk.opened_count:  # a shard was replaced, perhaps by one with other keys
            self._opened_count = self._disk.opened_count
            self._keys.read_again(self._disk.targets())
        return self._keys.read_some()

    def _cull_slice(self) -> bool:
        if not self._needs_cull and self._bytes_written < CULL_AFTER_BYTES:
            return False
        self._needs_cull, self._bytes_written = False, 0
        self._disk.repair()
        if not self._orphans_removed:
            self._orphans_removed = True
            self._disk.remove_orphans(time.time() - ORPHAN_AGE)
        self._needs_cull = self._disk.cull_slice() or self._needs_cull
        return self._needs_cull


def _name(key: Key) -> str:
    return f"{key[0].name}:{key[1]}"


def _key(name: str) -> Key:
    kind, _, target = name.partition(":")
    return EnvelopeKind[kind], target


def _serialize(value: Resource | bytes | None) -> bytes:
    if value is None:
        return DELETED
    return resource_codec.dump(value) if isinstance(value, Resource) else envelope.seal(value)


def _deserialize(kind: EnvelopeKind, data: bytes) -> Resource | bytes | None:
    if data == DELETED:
        return None
    return resource_codec.load(data) if kind is EnvelopeKind.RESOURCE else envelope.unseal(data)
