"""The store on disk: feeds in eight shards, bounded by bytes, and the state of other parts in a ninth file.

The shards are those of diskcache's FanoutCache, but used one by one: FanoutCache skips a write that timed out, culls
everything at once, and cannot replace one of its files (docs/decisions/store-on-disk.md). Everything here is
synchronous and raises StoreError. Reading happens in one thread, writing in another.
"""

import errno
import logging
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from feedproxy.clock import Instant
from feedproxy.errors import StoreError, UsageError
from feedproxy.store import codec, envelope
from feedproxy.store.interface import OnFailure
from feedproxy.store.resource import Resource
from feedproxy.store.shard import Shard
from feedproxy.store.sqlite_rows import FILE_MIN
from feedproxy.store.write_pacing import WritePacer

logger = logging.getLogger(__name__)

UNWRITABLE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS))
"""Errors that may pass, by themselves or by the operator. Stored values are read meanwhile."""
SHARDS = 8
"""Number of shards. Two processes that write wait 11 ms for each other at worst; on a single file it was 432 ms."""
CULL_SLICE = 10
"""Values removed at a time: under a millisecond."""
HEADER_BLOCK = 256
"""Bytes. Headers end with spaces up to a multiple of it. A response that is freshened then has the length that it had,
and SQLite writes the pages alone that differ: one or two, however long the content."""
SIZE_MAX_FLOOR = 4 * 1024 * 1024
"""Bytes that the store needs at least: eight empty files and their journals take most of a megabyte."""


class DiskStore:
    """The lower tier of `TieredStore`."""

    def __init__(self, folder: Path, *, size_max: int, on_failure: OnFailure) -> None:
        """Open the folder, which is made if missing. Raises UsageError if it cannot be used.

        Broken parts are set aside. A part that cannot be opened is reported to `on_failure`, and fails until it can.
        """
        if size_max < SIZE_MAX_FLOOR:
            raise UsageError(f"store_max: {size_max} bytes are too few: expected {SIZE_MAX_FLOOR} or more")
        folder = self.folder = _usable(folder)
        shard_max = size_max // SHARDS
        # Half, so that one value never empties its shard.
        self._value_max = shard_max // 2
        self._shards = [
            Shard(folder / "feeds" / f"{number:03}", size_max=shard_max, on_failure=on_failure)
            for number in range(SHARDS)
        ]
        self._state = Shard(folder / "state" / "000", size_max=None, on_failure=on_failure)

    # -- reading

    def read(self, target: str) -> Resource | None:
        """Return the resource stored for this target. Raises StoreError."""
        found = self.read_with_header(target)
        return found[0] if found is not None else None

    def read_with_header(self, target: str) -> tuple[Resource, bytes] | None:
        """Return the resource, and the header that it was read from (codec.py). Raises StoreError."""
        data = self._shard(target).get(target)
        if data is None:
            return None
        resource, header = codec.load_with_header(data)
        if resource.target != target:
            raise envelope.Damaged(f"the store holds another target's value for {target}")
        return resource, header

    def holds(self, target: str) -> bool:
        """Return whether a resource is stored for this target. Raises StoreError."""
        return self._shard(target).holds(target)

    def targets(self) -> Iterator[str]:
        """Yield every target, shard by shard. Raises StoreError."""
        for shard in self._shards:
            yield from shard.keys()

    def read_state(self, name: str) -> bytes | None:
        """Return the state of another part. Raises StoreError."""
        data = self._state.get(name)
        return None if data is None else envelope.unseal(data)

    # -- writing

    def write_all(self, resources: Iterable[Resource], on_header: Callable[[Resource, bytes], None]) -> None:
        """Store these resources, in one transaction for each shard. After a StoreError some may be written.

        `on_header` is called with each resource and its header (codec.py).
        """
        values_by_shard: dict[int, list[tuple[str, bytes]]] = {}
        pacer = WritePacer()
        for resource in resources:
            pacer.pause()
            data, header = codec.dump_with_header(resource, block=HEADER_BLOCK)
            on_header(resource, header)
            if len(data) < FILE_MIN:
                values_by_shard.setdefault(self._number(resource.target), []).append((resource.target, data))
            else:
                self.write(resource)
        for number, values in values_by_shard.items():
            pacer.pause()
            self._shards[number].set_all(values)
            self._shards[number].cull_slice(CULL_SLICE + len(values))

    def write(self, resource: Resource) -> None:
        """Store this resource, then remove a slice of what exceeds the bound. Raises StoreError."""
        shard = self._shard(resource.target)
        data, _ = codec.dump_with_header(resource, block=HEADER_BLOCK)
        if len(data) > self._value_max:
            shard.delete(resource.target)
            return
        shard.set(resource.target, data)
        shard.cull_slice(CULL_SLICE)

    def delete(self, target: str) -> None:
        """Remove the resource of this target. Raises StoreError."""
        self._shard(target).delete(target)

    def write_state(self, name: str, data: bytes) -> None:
        """Store this state. Raises StoreError."""
        self._state.set(name, envelope.seal(data))

    def cull_slice(self) -> bool:
        """Remove a slice of every shard above its bound. Return False once no shard is. Raises StoreError."""
        culled = 0

        def cull(shard: Shard) -> None:
            nonlocal culled
            culled += shard.cull_slice(CULL_SLICE)

        _for_each(self._shards, cull)
        if not culled:
            _for_each(self._shards, Shard.checkpoint)
        return culled > 0

    def mend(self) -> None:
        """Set corrupt shards aside, and open those that could not be opened. Raises StoreError."""
        _for_each((*self._shards, self._state), Shard.mend)

    def sweep(self, before: Instant) -> None:
        """Remove files from before this instant that killed processes left behind. Raises StoreError."""
        _for_each((*self._shards, self._state), lambda shard: shard.sweep(before))

    def hurry(self) -> None:
        """Wait for no lock from now on, because the process ends. From any thread."""
        _for_each((*self._shards, self._state), Shard.hurry)

    def close(self) -> None:
        """Close this thread's connections."""
        for shard in (*self._shards, self._state):
            shard.close()

    def _shard(self, target: str) -> Shard:
        return self._shards[self._number(target)]

    def _number(self, target: str) -> int:
        return zlib.crc32(target.encode("utf-8", "surrogatepass")) % SHARDS


def _for_each(shards: Iterable[Shard], operation: Callable[[Shard], object]) -> None:
    """Run the operation on every shard, even after a failure. Raises the last StoreError."""
    failure: StoreError | None = None
    for shard in shards:
        try:
            operation(shard)
        except StoreError as error:
            failure = error
    if failure is not None:
        raise failure


def _usable(folder: Path) -> Path:
    """Return the absolute folder, which exists and can be written. Raises UsageError."""
    folder = folder.absolute()
    if os.path.expandvars(folder) != str(folder):
        raise UsageError(f"store: folder {folder}: expected a name without environment variables")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except FileExistsError as error:
        raise UsageError(f"store: {folder} is not a folder") from error
    except OSError as error:
        if error.errno not in UNWRITABLE or not folder.is_dir():
            raise UsageError(f"store: {folder} cannot be used: {error.strerror or error}") from error
        logger.warning("store: %s cannot be written: %s; new values stay in memory", folder, error.strerror)
    return folder
