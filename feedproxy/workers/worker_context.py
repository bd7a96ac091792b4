"""The context of a worker: the values that the supervisor passes to the worker."""

import mmap
import socket
import struct
import time
from pathlib import Path

from msgspec import Struct

HEARTBEAT = struct.Struct("<d")
"""Binary form of the time of a worker's last heartbeat, on the monotonic clock that all processes share. The time is
0.0 until the worker is ready."""


class WorkerContext(Struct, frozen=True):
    """The context of one of `size` workers, which are numbered from 0. A worker that replaces another has the same
    number.

    * `index` is the number of this worker.
    * `folder` contains the sockets at which workers answer each other. Its path is short: it names a descriptor of the
      folder.
    * `sockets` are bound to the address for clients, one for each address family, with SO_REUSEPORT. The system
      distributes connections among the workers that listen.
    * `admin` contains the sockets of the admin listener, which only the first worker has.
    * `admin_ports` contains the ports of the admin listener, which all workers know.
    * `lifeline` is a socket that all workers share. The supervisor has the other end, which closes when it exits.
    * `key` is the same for all workers and new at each start. With it, all workers give a reader the same pseudonym in
      the scores.
    * `coordination_memory` is the descriptor of the memory through which workers coordinate the store
      (store/coordination/worker_coordination.py).
    * `snapshots` contains the descriptors of the memory for the metrics of each worker.
    * `heartbeats` is memory in which each worker reports that it runs.
    * `logs_start` is true for the one worker that logs the messages about the start.
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
    logs_start: bool = False

    @property
    def coordination_file(self) -> Path:
        """Return the path by which this worker opens the memory for the coordination of the store. A lock of the
        inherited descriptor would belong to all workers together."""
        return Path(f"/proc/self/fd/{self.coordination_memory}")

    @property
    def is_first(self) -> bool:
        """Return True if this worker answers the operator for all workers."""
        return self.index == 0

    def socket_path(self, index: int) -> Path:
        """Return the path of the socket at which the worker with number `index` answers the other workers."""
        return self.folder / f"worker-{index}"

    @property
    def supervisor_has_exited(self) -> bool:
        """Return True if the supervisor has exited. This worker must then exit as well."""
        try:
            return not self.lifeline.recv(1, socket.MSG_DONTWAIT)
        except OSError:
            return False

    @property
    def all_are_ready(self) -> bool:
        """Return True if each worker has become ready after its last start."""
        return all(beat for (beat,) in HEARTBEAT.iter_unpack(self.heartbeats))

    def record_heartbeat(self) -> None:
        """Report to the supervisor that this worker runs."""
        HEARTBEAT.pack_into(self.heartbeats, HEARTBEAT.size * self.index, time.monotonic())
