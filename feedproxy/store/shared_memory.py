"""The Common of several processes on one store: one mapped file, and locks that end with their holder.

The file has, after its head,

* a ring of the names of targets that changed. A writer appends a name once the disk has the new value, and moves the
  position; who reads compares the position with the one he knows (30 ns), drops what has been named since from his
  memory, and everything where the ring has gone round meanwhile. So nobody serves an older copy once a newer one
  was acknowledged, and no message is on its way that could be late.
* counters by hash: how often a target was outdated, and how often a fetch of it has landed. Two targets may share
  one; then one fetch too many is made, or one answer not stored.
* the sites' last turns, in buckets of eight; in a full bucket the site asked longest ago is forgotten.
* what the disk does not have (shared_overflow.py).

It lies in memory (memfd_create), made by the supervisor: so it needs no room on a disk, and nothing that happens to
the store's folder can harm it. Processes without a supervisor use a file `common` beside the shards.

A lease is a record lock (POSIX) on the byte that a target's hash names, far behind all bytes of the file: the
system gives it up when its holder ends, however it ends. POSIX locks belong to a process, and go when it closes *any*
handle of the file: one Shared per file and process. Ring and tables are guarded by flock, for microseconds.
"""

import contextlib
import fcntl
import hashlib
import mmap
import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from feedproxy.clock import Instant, Seconds, is_set_back
from feedproxy.errors import StoreError
from feedproxy.store.quarantine import clear_file
from feedproxy.store.shared_overflow import TABLE_SIZE, SharedOverflow

MAGIC = b"FPXYcmn3"
RING_SIZE = 1 << 20
"""Bytes of the ring: names of about ten thousand changes."""
NAME_MAX = 8192
"""Bytes of a name; a change of a target with a longer one counts as a change of everything."""
SLOTS = 4096
BUCKET = 8
FUTURE_MAX: Seconds = 172_800
"""A turn further ahead was booked by a clock that was wrong."""

_WRITING = 1 << 62
"""Beyond the bytes of all leases are those of the writers."""
_EVERYTHING = 0xFFFFFFFF
_LENGTH = struct.Struct("<I")
_SITE = struct.Struct("<Qddd")
_HEAD = 4096
_EPOCHS = _HEAD
_COMPLETIONS = _EPOCHS + 8 * SLOTS
_SITES = _COMPLETIONS + 8 * SLOTS
_OVERFLOW = _SITES + _SITE.size * SLOTS
_RING = _OVERFLOW + TABLE_SIZE
_SIZE = _RING + RING_SIZE


class SharedMemoryCoordination:
    """What the processes on one store have in common. One for a file and process."""

    def __init__(self, file: Path) -> None:
        """Open it, made where it is missing. Raises StoreError."""
        self._thread_lock = threading.Lock()
        try:
            self._leases, self._guard, self._map = self._open(file)
        except OSError as error:
            raise StoreError(f"the store's {file} cannot be shared: {error}") from error
        view = memoryview(self._map)
        self._counters = view[8:32].cast("Q")  # position in the ring, epoch of everything
        self._epochs = view[_EPOCHS:_COMPLETIONS].cast("Q")
        self._completion_counts = view[_COMPLETIONS:_SITES].cast("Q")
        self.sites = SharedSiteThrottle(self._map, self._mutex)
        self.overflow = SharedOverflow(self._map, _OVERFLOW, self._leases, _SIZE, self._mutex)

    def _open(self, file: Path) -> tuple[int, int, mmap.mmap]:
        clear_file(file)
        for _ in range(3):
            leases = _open_file(file)
            # Not a lock on a byte: while one thread waits for that and another holds one, a process can seem to be in
            # a deadlock with another that is in none. Not the same handle: flock belongs to that, and a fork shares it.
            self._guard = guard = _open_file(file)
            with self._mutex():
                if os.fstat(leases).st_size == 0:
                    # All of it is had now: a page that a full disk cannot give later would end the process.
                    os.posix_fallocate(leases, 0, _SIZE)
                    os.pwrite(leases, MAGIC, 0)
                if os.fstat(leases).st_size >= _SIZE and os.pread(leases, len(MAGIC), 0) == MAGIC:
                    return leases, guard, mmap.mmap(leases, _SIZE)
                # Of another form, or not made to its end. Not truncated: that would kill a process that has it mapped.
                file.unlink(missing_ok=True)
            os.close(leases)
            os.close(guard)
        raise StoreError(f"the store's {file} cannot be shared: another process keeps replacing it")

    # -- changes

    @property
    def generation(self) -> int:
        """The position in the ring: another number after every change."""
        return self._counters[0]

    def publish_change(self, target: str) -> int:
        """Name a target that has changed; the generation of just this change. From any thread."""
        name = target.encode("utf-8", "surrogatepass")
        record = _LENGTH.pack(len(name)) + name if len(name) <= NAME_MAX else _LENGTH.pack(_EVERYTHING)
        with self._mutex():
            start = self._counters[0]
            # The position moves last: a process killed in between has said nothing.
            at = start % RING_SIZE
            first = record[: RING_SIZE - at]
            self._map[_RING + at : _RING + at + len(first)] = first
            self._map[_RING : _RING + len(record) - len(first)] = record[len(first) :]
            self._counters[0] = start + len(record)
        return start + len(record)

    def changes_since(self, generation: int) -> tuple[int, frozenset[str] | None]:
        """The generation now, and the targets that have changed since that one; None: any may have."""
        now = self._counters[0]
        if not 0 <= now - generation <= RING_SIZE - NAME_MAX:
            return now, None
        start, end = generation % RING_SIZE, now % RING_SIZE
        if start <= end:
            said = self._map[_RING + start : _RING + end]
        else:
            said = self._map[_RING + start : _RING + RING_SIZE] + self._map[_RING : _RING + end]
        # What was read is right only where no writer has come round to it, nor is about to.
        if self._counters[0] - generation > RING_SIZE - 2 * NAME_MAX:
            return now, None
        return now, _names(said)

    # -- flights that are outdated, or have landed

    def invalidation_epoch(self, target: str) -> int:
        """Another number once the target was outdated."""
        return self._counters[1] + self._epochs[_slot(target)]

    def invalidate(self, target: str | None) -> None:
        """A target was purged or invalidated; None: any may have been."""
        with self._mutex():
            if target is None:
                self._counters[1] += 1
            else:
                self._epochs[_slot(target)] += 1

    def completion_count(self, target: str) -> int:
        """Another number after each landing."""
        return self._completion_counts[_slot(target)]

    # -- leases

    async def acquire_lease(self, target: str, *, local: bool = False) -> bool:
        """Become the one who fetches this target; False while another process is."""
        try:
            fcntl.lockf(self._leases, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(target))
        except (BlockingIOError, PermissionError):
            return False
        except OSError:
            return True  # no locks to be had here: two fetches are better than none
        return True

    def release_lease(self, target: str, *, local: bool = False) -> None:
        """The fetch is over, and what came of it is stored."""
        with self._mutex():
            self._completion_counts[_slot(target)] += 1
        self.abandon_lease(target)

    def abandon_lease(self, target: str) -> None:
        """What was taken is not done."""
        with contextlib.suppress(OSError):
            fcntl.lockf(self._leases, fcntl.LOCK_UN, 1, _byte(target))

    @contextlib.contextmanager
    def write_lock(self, target: str) -> Iterator[None]:
        """One process at a time changes what the disk has of this target. In the thread that writes alone."""
        byte = _byte(target) + _WRITING
        with contextlib.suppress(OSError):
            fcntl.lockf(self._leases, fcntl.LOCK_EX, 1, byte)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._leases, fcntl.LOCK_UN, 1, byte)

    def close(self) -> None:
        """Let go of the files, and with them of all leases. Closing twice is allowed."""
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
        """One thread of one process at a time."""
        with self._thread_lock:
            with contextlib.suppress(OSError):
                fcntl.flock(self._guard, fcntl.LOCK_EX)
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    fcntl.flock(self._guard, fcntl.LOCK_UN)


class SharedSiteThrottle:
    """The sites' turns, in the mapped file."""

    def __init__(self, mapped: mmap.mmap, mutex: Callable[[], AbstractContextManager[None]]) -> None:
        self._map = mapped
        self._mutex = mutex

    def next_free(self, site: str, interval: Seconds, now: Instant | None = None) -> Instant:
        """When the site may be asked again; 0.0 for one that never was, or was by a clock that is ahead of `now`."""
        with self._mutex():
            _, last, held, noted = self._find(_byte(site))
        if now is not None and is_set_back(noted, now):
            return 0.0
        return max(last + interval if last else 0.0, held)

    def reserve(self, site: str, now: Instant, interval: Seconds) -> Instant:
        """Take the site's next turn; the result is when it comes. Nobody else gets the same, in no process."""
        key = _byte(site)
        with self._mutex():
            place, last, held, noted = self._find(key)
            if is_set_back(noted, now):
                last = held = 0.0
            free = max(last + interval if last else 0.0, held)
            turn = max(now, free) if free < now + FUTURE_MAX else now
            _SITE.pack_into(self._map, place, key, turn, held if held < now + FUTURE_MAX else 0.0, now)
        return turn

    def pause(self, site: str, until: Instant) -> None:
        """Leave the whole site in peace until then."""
        key = _byte(site)
        with self._mutex():
            place, last, held, noted = self._find(key)
            _SITE.pack_into(self._map, place, key, last, max(held, until), noted)

    def close(self) -> None:
        """Used no more."""
        del self._map

    def _find(self, key: int) -> tuple[int, Instant, Instant, Instant]:
        """The site's place and what is there of it; else the place of whom to forget, and nothing."""
        first = _SITES + key % (SLOTS // BUCKET) * BUCKET * _SITE.size
        oldest = (float("inf"), first)
        for place in range(first, first + BUCKET * _SITE.size, _SITE.size):
            there, last, held, noted = _SITE.unpack_from(self._map, place)
            if there == key:
                return place, last, held, noted
            oldest = min(oldest, (max(last, held) if there else 0.0, place))
        return oldest[1], 0.0, 0.0, 0.0


def _open_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _names(said: bytes) -> frozenset[str] | None:
    names, at = set(), 0
    while at < len(said):
        (length,) = _LENGTH.unpack_from(said, at)
        at += _LENGTH.size
        if length == _EVERYTHING:
            return None
        names.add(said[at : at + length].decode("utf-8", "surrogatepass"))
        at += length
    return frozenset(names)


def _slot(target: str) -> int:
    return zlib.crc32(target.encode("utf-8", "surrogatepass")) % SLOTS


def _byte(name: str) -> int:
    """The byte that stands for a name: 62 bits of its hash, and never one of the first, which are ours."""
    data = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(data, "big") >> 2) | 4096
