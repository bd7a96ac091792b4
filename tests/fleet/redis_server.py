"""A real Redis (or Valkey) for the tests: on its own socket, without a port, and ended by its own pid."""

import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

PROGRAM = next((found for name in ("redis-server", "valkey-server") if (found := shutil.which(name))), None)

needs_redis = pytest.mark.skipif(PROGRAM is None, reason="not installed: redis-server or valkey-server")


class RedisServer:
    """One server. After `kill`, `start` begins without data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.socket = folder / "redis.sock"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        """Start the server and wait until it responds."""
        assert PROGRAM is not None
        self.socket.unlink(missing_ok=True)
        options = ["--port", "0", "--unixsocket", str(self.socket), "--save", "", "--appendonly", "no"]
        with (self._folder / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(
                [PROGRAM, *options, "--dir", str(self._folder)], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        end = time.monotonic() + PATIENCE
        while not self._pages():
            assert self.process.poll() is None, (self._folder / "redis.log").read_text()
            assert time.monotonic() < end, "redis never answered"
            time.sleep(0.02)

    def kill(self) -> None:
        """Send SIGKILL. All data is lost, because none is on disk."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self) -> None:
        """Send SIGSTOP. Connections stay open, but get no response."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Send SIGCONT."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.go_on()
            self.kill()

    def ask(self, *words: str | bytes) -> object:
        """Send one command with redis-py's blocking client and return the reply."""
        import redis

        with redis.Redis(unix_socket_path=str(self.socket), socket_timeout=PATIENCE) as client:
            return client.execute_command(*words)

    def _pages(self) -> bool:
        import redis

        try:
            return bool(self.ask("PING"))
        except (redis.RedisError, OSError):
            return False
