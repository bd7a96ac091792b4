"""A server as a process of its own: started, waited for, ended by its id."""

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 60.0

OUTSIDE = range(12_000, 32_000)
"""Linux gives 32768 and above to who asks for any port, the BSDs 49152 and above."""


class DidNotStart(Exception):
    """The server ended, or opened no port; the text has the end of what it said."""


def free_port() -> int:
    """A port that nobody listens on now, for a server that cannot be told to find one itself.

    From below those that the kernel deals out: between this call and the server's start, and while the server is
    away, no connection that goes out and nobody who asks for port 0 gets it.
    """
    while True:
        port = secrets.choice(OUTSIDE)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@contextmanager
def started(
    command: Sequence[str], port: int, *, log: Path, cwd: Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """The command, running, once something listens on the port. Raises DidNotStart."""
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
