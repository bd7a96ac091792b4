"""The store on disk: eight shards with resources, limited in bytes, and a ninth shard with states.

A state is a named value of a part of feedproxy, such as the subscriber counts. All methods block, and can raise
StoreError. Several threads read, and one thread writes (docs/decisions/store-on-disk.md).
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
from feedproxy.store import envelope, resource_codec
from feedproxy.store.disk_shard import Shard
from feedproxy.store.interface import OnFailure
from feedproxy.store.resource import Resource
from feedproxy.store.sqlite_rows import FILE_MIN
from feedproxy.store.writer_thread_pauses import WritePacer

logger = logging.getLogger(__name__)

UNWRITABLE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS))
"""Codes of write errors, such as of a full disk, after which reading still works."""
SHARDS = 8
"""Number of shards. With eight, a writing process waited at most 11 ms for another process, with one, up to 432 ms."""
CULL_SLICE = 10
"""Maximum number of values that one step of culling removes, in less than a millisecond. After a write of n values
together, a step removes at most CULL_SLICE + n values."""
HEADER_BLOCK = 256
"""A resource's JSON header is padded with spaces to a multiple of this many bytes.

The header then keeps its length when a response is freshened, and SQLite writes only the pages that differ.
"""
SIZE_MAX_FLOOR = 4 * 1024 * 1024
"""Minimum size limit of the store, in bytes. Eight empty files and their journals take almost 1 MB."""


class DiskStore:
    """The lower tier of `TieredStore`: all resources and state, on disk."""

    def __init__(self, folder: Path, *, size_max: int, on_failure: OnFailure) -> None:
        """Open the store in `folder`, or create it if it is missing. Raises UsageError if the folder cannot be used.

        A shard that cannot be opened is reported to `on_failure` and opened later. Broken files are renamed.
        """
        if size_max < SIZE_MAX_FLOOR:
            raise UsageError(f"store_max: {size_max} bytes are too few: expected {SIZE_MAX_FLOOR} or more")
        folder = self.folder = _prepare_folder(folder)
        shard_max = size_max // SHARDS
        # Half of the shard's share, so that one value never empties its shard.
        self._value_max = shard_max // 2
        self._shards = [
            Shard(folder / "feeds" / f"{number:03}", size_max=shard_max, on_failure=on_failure)
            for number in range(SHARDS)
        ]
        self._state = Shard(folder / "state" / "000", size_max=None, on_failure=on_failure)

    # -- reading

    def read(self, target: str) -> tuple[Resource, bytes] | None:
        """Return the resource and its encoded header (resource_codec.py), or None. Raises StoreError if this fails."""
        data = self.read_encoded(target)
        return None if data is None else decode(data, target)

    def read_encoded(self, target: str) -> bytes | None:
        """Return the stored form of a resource, or None if it is not stored. Raises StoreError if the disk fails."""
        return self._shard(target).get(target)

    def holds(self, target: str) -> bool:
        """Return True if a resource is stored for this target. Raises StoreError if the disk fails."""
        return self._shard(target).holds(target)

    def targets(self) -> Iterator[str]:
        """Yield every stored target. Raises StoreError if the disk fails."""
        for shard in self._shards:
            yield from shard.keys()

    @property
    def opened_count(self) -> int:
        """Return how many times a shard was opened, for the first time or after its replacement."""
        return sum(shard.opened_count for shard in self._shards)

    def read_state(self, name: str) -> bytes | None:
        data = self._state.get(name)
        return None if data is None else envelope.unseal(data)

    # -- writing

    def write_all(self, resources: Iterable[Resource], on_header: Callable[[Resource, bytes], None]) -> None:
        """Store the resources. Raises StoreError if the disk fails, perhaps after some resources were stored.

        The resources of one shard are written in one transaction, except large ones (FILE_MIN). `on_header` receives
        each resource and its encoded header (resource_codec.py).
        """
        values_by_shard: dict[int, dict[str, bytes]] = {}
        pacer = WritePacer()
        for resource in resources:
            pacer.pause()
            data, header = resource_codec.dump_with_header(resource, block=HEADER_BLOCK)
            on_header(resource, header)
            if len(data) < FILE_MIN:
                values_by_shard.setdefault(self._number(resource.target), {})[resource.target] = data
            else:
                self._write_encoded(resource.target, data)
        for number, values in values_by_shard.items():
            pacer.pause()
            self._shards[number].set_all(values)
            self._shards[number].cull_slice(CULL_SLICE + len(values))

    def write(self, resource: Resource) -> None:
        """Store a resource, and remove up to CULL_SLICE values if its shard exceeds the size limit. Raises StoreError.

        A resource larger than half of the shard's size limit is not stored, and an earlier one is removed.
        """
        self._write_encoded(resource.target, resource_codec.dump_with_header(resource, block=HEADER_BLOCK)[0])

    def _write_encoded(self, target: str, data: bytes) -> None:
        shard = self._shard(target)
        if len(data) > self._value_max:
            shard.delete(target)
            return
        shard.set(target, data)
        shard.cull_slice(CULL_SLICE)

    def delete(self, target: str) -> None:
        """Remove the resource of this target. Raises StoreError if the disk fails."""
        self._shard(target).delete(target)

    def write_state(self, name: str, data: bytes) -> None:
        self._state.set(name, envelope.seal(data))

    def cull_slice(self) -> bool:
        """Remove up to CULL_SLICE of the least recently stored values from every shard that exceeds its size limit.

        Return True if a value was removed. Raises StoreError if the disk fails.
        """
        is_culled = any(_for_each(self._shards, lambda shard: shard.cull_slice(CULL_SLICE)))
        if not is_culled:
            _for_each(self._shards, Shard.checkpoint)
        return is_culled

    def repair(self) -> None:
        """Rename corrupt shards, and open the shards that could not be opened. Raises StoreError if the disk fails."""
        _for_each((*self._shards, self._state), Shard.repair)

    def remove_orphans(self, before: Instant) -> None:
        """Remove files older than `before` that killed processes have left. Raises StoreError if the disk fails."""
        _for_each((*self._shards, self._state), lambda shard: shard.remove_orphans(before))

    def stop_waiting(self) -> None:
        """Let operations fail instead of waiting for a lock. May be called from any thread."""
        _for_each((*self._shards, self._state), Shard.stop_waiting)

    def close(self) -> None:
        """Close the connections of the calling thread."""
        for shard in (*self._shards, self._state):
            shard.close()

    def _shard(self, target: str) -> Shard:
        return self._shards[self._number(target)]

    def _number(self, target: str) -> int:
        return zlib.crc32(target.encode("utf-8", "surrogatepass")) % SHARDS


def _for_each[Result](shards: Iterable[Shard], operation: Callable[[Shard], Result]) -> list[Result]:
    """Return the results of an operation on each shard. After all shards, raise the last StoreError, if any."""
    results, failure = list[Result](), None
    for shard in shards:
        try:
            results.append(operation(shard))
        except StoreError as error:
            failure = error
    if failure is not None:
        raise failure
    return results


def decode(data: bytes, target: str) -> tuple[Resource, bytes]:
    """Return the resource in this stored form, and its encoded header (resource_codec.py). Raises Damaged if the data
    was altered or has another target, and UnknownVersion for a form of a later feedproxy."""
    resource, header = resource_codec.load_with_header(data, target)
    if resource.target != target:
        raise envelope.Damaged(f"the value stored for {target} has another target")
    return resource, header


def _prepare_folder(folder: Path) -> Path:
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
