"""A worker's seat: what its supervisor gives it."""

import contextlib
import mmap
import socket
import struct
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

HEARTBEAT = struct.Struct("<d")
"""When a worker was last alive, on the monotonic clock, which all processes share; 0.0 before it was ready."""


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """One of `size` workers, numbered from 0. A worker that is started again takes the same seat.

    `sockets` are bound to the address where readers connect, one for each address family, with SO_REUSEPORT: the
    system spreads connections over the workers that listen. `admin` are those of the admin listener, which the first
    worker has. `folder` is where workers find one another. `lifeline` leads to the supervisor. `key`
    is the same for all, and new at each start: readers are hashed under it where they are judged. `common` is the
    descriptor of the memory in which workers agree on what is stored (store/shared_memory.py), `snapshots` those of
    what each has counted. `beats` is memory where each tells that it is alive. `admin_ports` are those of the admin
    listener, which every worker knows.
    """

    index: int
    size: int
    folder: Path
    sockets: tuple[socket.socket, ...]
    admin: tuple[socket.socket, ...]
    lifeline: socket.socket
    key: bytes
    coordination_memory: int
    snapshots: tuple[int, ...]
    heartbeats: mmap.mmap
    admin_ports: tuple[int, ...] = ()

    @property
    def coordination_file(self) -> Path:
        """That memory as a file: opened anew, so that its locks are this worker's own."""
        return Path(f"/proc/self/fd/{self.coordination_memory}")

    @property
    def is_first(self) -> bool:
        """Whether this worker speaks to the operator for all."""
        return self.index == 0

    def socket_path(self, index: int) -> Path:
        """Where the worker with this number is asked."""
        return self.folder / f"worker-{index}"

    def owns(self, target: str) -> bool:
        """Return whether this worker refreshes `target` ahead of requests."""
        return zlib.crc32(target.encode("utf-8", "surrogatepass")) % self.size == self.index

    def record_heartbeat(self) -> None:
        """Tell the supervisor that this worker does not hang."""
        HEARTBEAT.pack_into(self.heartbeats, HEARTBEAT.size * self.index, time.monotonic())

    def notify_ready(self) -> None:
        """Tell the supervisor that readers are let in."""
        with contextlib.suppress(OSError):
            self.lifeline.send(b".")
