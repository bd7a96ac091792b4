"""Memory over disk, and the one way to open a store.

A read looks into memory, then at what waits to be written, then on the disk; what it finds is hot again.
"""

import logging
import time
from collections.abc import Iterator
from pathlib import Path

from platformdirs import user_cache_path

from feedproxy.errors import StoreError, UsageError
from feedproxy.store.base import OnFailure, Store
from feedproxy.store.disk import DiskStore
from feedproxy.store.envelope import Kind
from feedproxy.store.memory import MemoryStore, weight
from feedproxy.store.queue import WriteQueue
from feedproxy.store.resource import Resource

type Key = tuple[Kind, str]

MEMORY = "memory:"
ORPHAN_AGE = 3600
"""Seconds after which a file that no row names is taken for left over: no write takes so long."""

_LOG = logging.getLogger(__name__)


def open_store(location: str, *, memory_max: int, disk_max: int, on_failure: OnFailure | None = None) -> Store:
    """The store at this location: `memory:`, a folder, or nothing for the platform's cache folder.

    Sizes are bytes. Raises UsageError where the location cannot be used (the operator's word is wrong), and
    StoreError where the store there cannot be opened. A corrupt one is set aside with a warning.
    """
    if location == MEMORY:
        return MemoryStore(memory_max)
    if "://" in location:
        raise UsageError(f"store: {location}: neither a folder nor `{MEMORY}`")
    tell = on_failure or _log
    disk = DiskStore(_folder(location), size_max=disk_max, on_failure=tell)
    return TieredStore(MemoryStore(memory_max), disk, on_failure=tell)


def _folder(location: str) -> Path:
    if location:
        return Path(location).expanduser()
    return user_cache_path("feedproxy", appauthor=False)


def _log(error: StoreError) -> None:
    _LOG.warning("%s", error)


class TieredStore:
    """A Store that keeps the hot set in memory and everything on disk."""

    def __init__(self, memory: MemoryStore, disk: DiskStore, *, on_failure: OnFailure) -> None:
        self._memory = memory
        self._disk = disk
        self._on_failure = on_failure
        self._swept = False
        self._queue = WriteQueue[Key, Resource | bytes](
            self._write, holds=self._holds, idle=self._tidy, on_failure=on_failure
        )
        # The bound may be lower than it was when the folder was last open.
        self._queue.wake()

    def get(self, target: str) -> Resource | None:
        hot = self._memory.get(target)
        if hot is not None:
            return hot
        found = self._below(target)
        if found is not None:
            self._memory.keep(found)
        return found

    def _below(self, target: str) -> Resource | None:
        key = (Kind.RESOURCE, target)
        entry = self._queue.waiting(key)
        if entry is not None:
            return entry.value if isinstance(entry.value, Resource) else None
        if key in self._queue.unwritten:
            return None
        try:
            return self._disk.read(target)
        except StoreError as error:
            self._failed(error)
            return None

    async def put(self, resource: Resource) -> None:
        self._memory.keep(resource)
        await self._queue.add((Kind.RESOURCE, resource.target), resource, weight(resource))

    async def delete(self, target: str) -> None:
        self._memory.drop(target)
        await self._queue.add((Kind.RESOURCE, target), None, len(target))

    def targets(self) -> Iterator[str]:
        waiting = {name: is_value for (kind, name), is_value in self._queue.names() if kind is Kind.RESOURCE}
        above = {*self._memory.targets(), *(name for name, is_value in waiting.items() if is_value)}
        yield from above
        try:
            for target in self._disk.targets():
                if target not in above and waiting.get(target, True) and not self._is_unwritten(target):
                    yield target
        except StoreError as error:
            self._failed(error)

    def _is_unwritten(self, target: str) -> bool:
        return (Kind.RESOURCE, target) in self._queue.unwritten

    def get_state(self, name: str) -> bytes | None:
        key = (Kind.STATE, name)
        entry = self._queue.waiting(key)
        if entry is not None:
            return entry.value if isinstance(entry.value, bytes) else None
        if key in self._queue.unwritten:
            return None
        try:
            return self._disk.read_state(name)
        except StoreError as error:
            self._failed(error)
            return None

    async def put_state(self, name: str, data: bytes) -> None:
        await self._queue.add((Kind.STATE, name), data, len(data))

    async def flush(self) -> None:
        await self._queue.flush()

    async def close(self) -> None:
        await self._queue.close(self._disk.close)
        self._disk.close()

    def _failed(self, error: StoreError) -> None:
        self._on_failure(error)
        # What was found corrupt is set aside by the writer.
        self._queue.wake()

    # -- in the writer thread

    def _write(self, key: Key, value: Resource | bytes | None) -> None:
        if isinstance(value, Resource):
            self._disk.write(value)
        elif value is None:
            self._disk.delete(key[1])
        else:
            self._disk.write_state(key[1], value)

    def _holds(self, key: Key) -> bool:
        kind, name = key
        return self._disk.holds(name) if kind is Kind.RESOURCE else self._disk.read_state(name) is not None

    def _tidy(self) -> bool:
        self._disk.mend()
        if not self._swept:
            self._swept = True
            self._disk.sweep(time.time() - ORPHAN_AGE)
        return self._disk.cull_slice()
