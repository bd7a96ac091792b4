"""Coordination of several processes on one store: one mapped file, and locks that end with their holder.

The file contains:

* A ring with the names of changed targets (docs/decisions/worker-coordination.md). A writer appends a name when the
  new value is on disk. If the ring has overwritten names that a process has not read, the process removes all targets
  from its memory.
* Counters of invalidations and of completed fetches, by hash of the target. If two targets share a counter, the effect
  is an additional fetch, or a response that is not stored.
* The last request slots of sites (site_interval.py).
* Values that are not on disk (shared_overflow.py).

The supervisor creates the file in memory (memfd_create), so that no full or damaged disk affects it. Processes without
a supervisor use a file `common` beside the shards.

A fetch lease is a POSIX record lock on a byte beyond the end of the file. POSIX locks end when their process closes
*any* descriptor of the file. Therefore each process has only one SharedMemoryCoordination for a file.
"""

import contextlib
import fcntl
import mmap
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

from feedproxy.errors import StoreError
from feedproxy.store.coordination import shared_overflow, site_interval
from feedproxy.store.coordination.coordination_interface import COUNTERS, counter_of
from feedproxy.store.coordination.shared_overflow import SharedOverflow, name_hash
from feedproxy.store.coordination.site_interval import SiteThrottle
from feedproxy.store.corrupt_files import clear_file

MAGIC = b"FPXYcmn3"
RING_SIZE = 1 << 20
"""Size of the ring with the names of changed targets, in bytes: space for about ten thousand names."""
NAME_MAX = 8192
"""Maximum size of a target in the ring, in bytes. A change of a longer target counts as a change of all targets."""

_WRITING = 1 << 62
"""Offset of the write locks in the file, beyond all fetch leases."""
_EVERYTHING = 0xFFFFFFFF
_LENGTH = struct.Struct("<I")
_HEAD = 4096
_EPOCHS = _HEAD
_COMPLETIONS = _EPOCHS + 8 * COUNTERS
_SITES = _COMPLETIONS + 8 * COUNTERS
_OVERFLOW = _SITES + site_interval.TABLE_SIZE
_RING = _OVERFLOW + shared_overflow.TABLE_SIZE
_SIZE = _RING + RING_SIZE


class SharedMemoryCoordination:
    """The coordination of the processes on one store. A process has only one such object for a file."""

    def __init__(self, file: Path) -> None:
        """Open the file, or create it if it is missing. Raises StoreError if that is impossible."""
        self._thread_lock = threading.Lock()
        try:
            self._leases, self._guard, self._map = self._open(file)
        except OSError as error:
            raise StoreError(f"store: {file} cannot be shared: {error}") from error
        view = memoryview(self._map)
        self._counters = view[8:32].cast("Q")  # position in the ring, and invalidation epoch of all targets
        self._epochs = view[_EPOCHS:_COMPLETIONS].cast("Q")
        self._completion_counts = view[_COMPLETIONS:_SITES].cast("Q")
        self.sites = SiteThrottle(self._map, _SITES, self._mutex)
        self.overflow = SharedOverflow(self._map, _OVERFLOW, self._leases, _SIZE, self._mutex)

    def _open(self, file: Path) -> tuple[int, int, mmap.mmap]:
        clear_file(file)
        for _ in range(3):
            leases = _open_file(file)
            # flock is used instead of a record lock: with several threads in a process, the system can report a
            # deadlock (EDEADLK) where there is none. flock needs its own descriptor, because a fork shares it.
            self._guard = guard = _open_file(file)
            with self._mutex():
                if os.fstat(leases).st_size == 0:
                    # The space is allocated at once: an access to a page that a full disk cannot provide would end the
                    # process.
                    os.posix_fallocate(leases, 0, _SIZE)
                    os.pwrite(leases, MAGIC, 0)
                if os.fstat(leases).st_size >= _SIZE and os.pread(leases, len(MAGIC), 0) == MAGIC:
                    return leases, guard, mmap.mmap(leases, _SIZE)
                # The file has another form or is incomplete. It is not truncated, because that would kill a process
                # that has it mapped.
                file.unlink(missing_ok=True)
            os.close(leases)
            os.close(guard)
        raise StoreError(f"store: {file} cannot be shared: another process keeps replacing it")

    # -- changes

    @property
    def generation(self) -> int:
        return self._counters[0]

    def publish_change(self, target: str) -> int:
        """Append the name of a changed target to the ring. Return the generation of the store after this change.

        May be called from any thread.
        """
        name = target.encode("utf-8", "surrogatepass")
        record = _LENGTH.pack(len(name)) + name if len(name) <= NAME_MAX else _LENGTH.pack(_EVERYTHING)
        with self._mutex():
            start = self._counters[0]
            # The position advances last: a process killed before that has published nothing.
            offset = start % RING_SIZE
            first = record[: RING_SIZE - offset]
            self._map[_RING + offset : _RING + offset + len(first)] = first
            self._map[_RING : _RING + len(record) - len(first)] = record[len(first) :]
            self._counters[0] = start + len(record)
        return start + len(record)

    def changes_since(self, generation: int) -> tuple[int, frozenset[str] | None]:
        """Return the current generation, and the targets changed since `generation`.

        If these are no longer known, return None in their place. Each target can then have changed.
        """
        now = self._counters[0]
        if not 0 <= now - generation <= RING_SIZE - NAME_MAX:
            return now, None
        start, end = generation % RING_SIZE, now % RING_SIZE
        if start <= end:
            record_bytes = self._map[_RING + start : _RING + end]
        else:
            record_bytes = self._map[_RING + start : _RING + RING_SIZE] + self._map[_RING : _RING + end]
        # The bytes are valid only if no writer has overwritten them or is about to overwrite them.
        if self._counters[0] - generation > RING_SIZE - 2 * NAME_MAX:
            return now, None
        return now, _names(record_bytes)

    # -- invalidations and completed fetches

    def invalidation_epoch(self, target: str) -> int:
        return self._counters[1] + self._epochs[counter_of(target)]

    def invalidate(self, target: str | None) -> None:
        with self._mutex():
            if target is None:
                self._counters[1] += 1
            else:
                self._epochs[counter_of(target)] += 1

    def completion_count(self, target: str) -> int:
        return self._completion_counts[counter_of(target)]

    # -- leases

    async def acquire_lease(self, target: str, *, local: bool = False) -> bool:
        try:
            fcntl.lockf(self._leases, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(target))
        except (BlockingIOError, PermissionError):
            return False
        except OSError:
            return True  # this system has no locks: two fetches of one target are better than none
        return True

    def release_lease(self, target: str, *, local: bool = False) -> None:
        with self._mutex():
            self._completion_counts[counter_of(target)] += 1
        self.abandon_lease(target)

    def abandon_lease(self, target: str) -> None:
        with contextlib.suppress(OSError):
            fcntl.lockf(self._leases, fcntl.LOCK_UN, 1, _byte(target))

    @contextlib.contextmanager
    def write_lock(self, target: str) -> Iterator[None]:
        """Lock the target's value on disk against other processes. Only for the writer thread."""
        byte = _byte(target) + _WRITING
        with contextlib.suppress(OSError):
            fcntl.lockf(self._leases, fcntl.LOCK_EX, 1, byte)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._leases, fcntl.LOCK_UN, 1, byte)

    def close(self) -> None:
        """Close the files, which ends all leases. May be called again."""
        if self._leases < 0:
            return
        self.sites.close()
        self.overflow.close()
        for view in (self._counters, self._epochs, self._completion_counts):
            view.release()
        with contextlib.suppress(BufferError):
            self._map.close()
        os.close(self._leases)
        os.close(self._guard)
        self._leases = -1

    @contextlib.contextmanager
    def _mutex(self) -> Iterator[None]:
        with self._thread_lock:
            with contextlib.suppress(OSError):
                fcntl.flock(self._guard, fcntl.LOCK_EX)
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    fcntl.flock(self._guard, fcntl.LOCK_UN)


def _open_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _names(record_bytes: bytes) -> frozenset[str] | None:
    names, offset = set(), 0
    while offset < len(record_bytes):
        (length,) = _LENGTH.unpack_from(record_bytes, offset)
        offset += _LENGTH.size
        if length == _EVERYTHING:
            return None
        names.add(record_bytes[offset : offset + length].decode("utf-8", "surrogatepass"))
        offset += length
    return frozenset(names)


def _byte(name: str) -> int:
    """Return the offset of the byte to lock for the lease of a name, computed from its hash."""
    return (name_hash(name) >> 2) | 4096
