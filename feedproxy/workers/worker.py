"""A worker's context: what the supervisor gives it."""

import contextlib
import mmap
import socket
import struct
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

HEARTBEAT = struct.Struct("<d")
"""When a worker last reported that it runs, on the monotonic clock that all processes share; 0.0 before it was ready.
"""


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """One of `size` workers, numbered from 0. The worker that replaces another has the same number.

    `sockets` are bound to the address for clients, one for each address family, with SO_REUSEPORT: the system
    distributes connections among the workers that listen. `admin` are those of the admin listener, which the first
    worker has. `folder` has the workers' own sockets. `lifeline` leads to the supervisor. `key` is the same for all
    workers, and new at each start: readers' scores are hashed with it. `coordination_memory` is the descriptor of the
    memory in which workers agree on what is stored (store/shared_memory.py), `snapshots` those of their metrics.
    `heartbeats` is memory in which each reports that it runs. `admin_ports` are those of the admin listener, which
    every worker knows.
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
        """Return that memory as a file: opened anew, so that its locks belong to this worker."""
        return Path(f"/proc/self/fd/{self.coordination_memory}")

    @property
    def is_first(self) -> bool:
        """Return whether this worker answers the operator for all."""
        return self.index == 0

    def socket_path(self, index: int) -> Path:
        """Return the path of a worker's socket for the others."""
        return self.folder / f"worker-{index}"

    def owns(self, target: str) -> bool:
        """Return whether this worker refreshes `target` ahead of requests."""
        return zlib.crc32(target.encode("utf-8", "surrogatepass")) % self.size == self.index

    def record_heartbeat(self) -> None:
        """Report to the supervisor that this worker runs."""
        HEARTBEAT.pack_into(self.heartbeats, HEARTBEAT.size * self.index, time.monotonic())

    def notify_ready(self) -> None:
        """Report to the supervisor that clients are accepted."""
        with contextlib.suppress(OSError):
            self.lifeline.send(b".")
