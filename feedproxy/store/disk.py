"""The store on disk: feeds in eight shards, bounded by bytes, and the state of other parts in a ninth file.

Shards as diskcache's FanoutCache has them, but each by itself: FanoutCache passes over a write that timed
out, culls all at once, and cannot replace one of its files (docs/decisions/store-on-disk.md).
Everything here is synchronous and raises StoreError. Reading happens in one thread, writing in another.
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
"""What passes by itself, or by the operator: what is stored is read meanwhile."""
SHARDS = 8
"""Two processes that write wait 11 ms for one another at worst; on a single file it was 432 ms."""
CULL_SLICE = 10
"""Values removed at a time: under a millisecond."""
SIZE_MAX_FLOOR = 4 * 1024 * 1024
"""Eight empty files and their journals take up most of a megabyte by themselves."""


class DiskStore:
    """What `TieredStore` reads from and writes to."""

    def __init__(self, folder: Path, *, size_max: int, on_failure: OnFailure) -> None:
        """Open the folder, made where it is missing. Raises UsageError where it cannot be used.

        What is broken in it is set aside; a part that cannot be opened is told, and fails until it can.
        """
        if size_max < SIZE_MAX_FLOOR:
            raise UsageError(f"store_max: {size_max} bytes are too few, {SIZE_MAX_FLOOR} is the least")
        folder = self.folder = _usable(folder)
        share = size_max // SHARDS
        # Half of a share, so that one value never empties its shard.
        self._value_max = share // 2
        self._shards = [
            Shard(folder / "feeds" / f"{number:03}", size_max=share, on_failure=on_failure) for number in range(SHARDS)
        ]
        self._state = Shard(folder / "state" / "000", size_max=None, on_failure=on_failure)

    # -- reading

    def read(self, target: str) -> Resource | None:
        """What is kept of this target. Raises StoreError."""
        found = self.read_with_header(target)
        return found[0] if found is not None else None

    def read_with_header(self, target: str) -> tuple[Resource, bytes] | None:
        """The same, and the header that it was read from (codec.py). Raises StoreError."""
        data = self._shard(target).get(target)
        if data is None:
            return None
        resource, header = codec.load_with_header(data)
        if resource.target != target:
            raise envelope.Damaged(f"the store holds another target's value for {target}")
        return resource, header

    def holds(self, target: str) -> bool:
        """Whether something is kept of this target. Raises StoreError."""
        return self._shard(target).holds(target)

    def targets(self) -> Iterator[str]:
        """Every target, shard by shard. Raises StoreError."""
        for shard in self._shards:
            yield from shard.keys()

    def read_state(self, name: str) -> bytes | None:
        """State of another part. Raises StoreError."""
        data = self._state.get(name)
        return None if data is None else envelope.unseal(data)

    # -- writing

    def write_all(self, resources: Iterable[Resource], learn: Callable[[Resource, bytes], None]) -> None:
        """Keep these, in one transaction for each shard. Raises StoreError; then any of them may be written or not.

        `learn` is told the header (codec.py) of each.
        """
        together: dict[int, list[tuple[str, bytes]]] = {}
        turns = WritePacer()
        for each in resources:
            turns.pause()
            data, header = codec.dump_with_header(each)
            learn(each, header)
            if len(data) < FILE_MIN:
                together.setdefault(self._number(each.target), []).append((each.target, data))
            else:
                self.write(each)
        for number, values in together.items():
            turns.pause()
            self._shards[number].set_all(values)
            self._shards[number].cull_slice(CULL_SLICE + len(values))

    def write(self, resource: Resource) -> None:
        """Keep this; then remove a slice of what is too much. Raises StoreError."""
        shard = self._shard(resource.target)
        data = codec.dump(resource)
        if len(data) > self._value_max:
            shard.delete(resource.target)
            return
        shard.set(resource.target, data)
        shard.cull_slice(CULL_SLICE)

    def delete(self, target: str) -> None:
        """Keep nothing of this target. Raises StoreError."""
        self._shard(target).delete(target)

    def write_state(self, name: str, data: bytes) -> None:
        """Keep this state. Raises StoreError."""
        self._state.set(name, envelope.seal(data))

    def cull_slice(self) -> bool:
        """A slice of every shard that is too large; False when none is any more. Raises StoreError."""
        culled = 0

        def cull(shard: Shard) -> None:
            nonlocal culled
            culled += shard.cull_slice(CULL_SLICE)

        _for_each(self._shards, cull)
        if not culled:
            _for_each(self._shards, Shard.checkpoint)
        return culled > 0

    def mend(self) -> None:
        """Set aside what was found corrupt, and open what could not be opened. Raises StoreError."""
        _for_each((*self._shards, self._state), Shard.mend)

    def sweep(self, before: Instant) -> None:
        """Remove files left over by processes that were killed, where older than that. Raises StoreError."""
        _for_each((*self._shards, self._state), lambda shard: shard.sweep(before))

    def hurry(self) -> None:
        """Wait for no lock any more: the end is near. From any thread."""
        _for_each((*self._shards, self._state), Shard.hurry)

    def close(self) -> None:
        """Close this thread's connections."""
        for shard in (*self._shards, self._state):
            shard.close()

    def _shard(self, target: str) -> Shard:
        return self._shards[self._number(target)]

    def _number(self, target: str) -> int:
        return zlib.crc32(target.encode("utf-8", "surrogatepass")) % SHARDS


def _for_each(shards: Iterable[Shard], act: Callable[[Shard], object]) -> None:
    """Do this with every shard, also where it fails with one. Raises the last StoreError."""
    failure: StoreError | None = None
    for shard in shards:
        try:
            act(shard)
        except StoreError as error:
            failure = error
    if failure is not None:
        raise failure


def _usable(folder: Path) -> Path:
    """The folder, absolute, there and writable. Raises UsageError with one clear line."""
    folder = folder.absolute()
    if os.path.expandvars(folder) != str(folder):
        raise UsageError(f"store: {folder}: a folder of that name would be taken for a variable")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except FileExistsError as error:
        raise UsageError(f"store: {folder} is no folder") from error
    except OSError as error:
        if error.errno not in UNWRITABLE or not folder.is_dir():
            raise UsageError(f"store: {folder} cannot be used: {error.strerror or error}") from error
        logger.warning("store: %s cannot be written to: %s; what is new is kept in memory", folder, error.strerror)
    return folder
