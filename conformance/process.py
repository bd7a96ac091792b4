"""A server in a process of its own: its start, the wait until it listens, and its end."""

import fcntl
import os
import secrets
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

PATIENCE = 60.0

OUTSIDE = range(12_000, 32_000)
"""Ports that kernels do not assign by themselves. Linux assigns ports from 32768 on, and BSDs from 49152 on."""


class DidNotStart(Exception):
    """The server ended, or opened no port. The text contains the end of its output."""


_reserved: set[int] = set()
"""Ports that `free_port` has returned in this process."""


def free_port() -> int:
    """Return a port on which no program listens now, for a server that cannot choose one itself.

    It is below the ports that the kernel assigns. No outgoing connection, and no program that requests port 0, gets it
    before the server starts or restarts. Until this process ends, no other process on this machine gets the port from
    this function.
    """
    while True:
        port = secrets.choice(OUTSIDE)
        if port in _reserved or not _reserve(port):
            continue
        _reserved.add(port)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def _reserve(port: int) -> bool:
    """Lock the byte of this port in a file that all processes of this user share. Return False if another process has
    locked it. The lock ends with the process."""
    try:
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


@cache
def _reservations() -> int:
    # The descriptor is never closed: closing it would end all locks of the process.
    return os.open(Path(tempfile.gettempdir()) / f"feedproxy-ports-{os.getuid()}", os.O_RDWR | os.O_CREAT, 0o600)


@contextmanager
def started(
    command: Sequence[str], port: int, *, log: Path, cwd: Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command in this context. Yield its process when it listens on the port. Raises DidNotStart."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            list(command), cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        try:
            _wait(process, port, command[0], log)
            yield process
        finally:
            _end(process)


def _wait(process: subprocess.Popen[bytes], port: int, name: str, log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    said = log.read_text(encoding="utf-8", errors="replace").strip()[-600:]
    raise DidNotStart(f"{name} did not start: {said}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
