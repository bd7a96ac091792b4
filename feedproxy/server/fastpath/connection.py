"""One connection of a reader: what came on it, and what waits to go out."""

import asyncio
import os
import socket
from typing import Any

READ_SIZE = 8_192
"""Bytes read at one go: every head of a sane reader fits in."""


class ClientConnection:
    """A connection, by its file descriptor. It is answered strictly one request after the other.

    `address` is empty for a load balancer of ours: then each request says who asks. `place` is where it is counted
    (connection_limits.py). `held` is what has been read and not answered, `left` what has been answered and not taken
    by him. While something is left, or `task` makes an answer, nothing more is read: so no reader makes us hold more
    than one answer. `due` tells that what is held has to become whole in time, `muted` that he has sent something that
    is not read yet. `parting`: the last answer has gone out, and what still comes is thrown away.
    """

    __slots__ = (
        "address",
        "cache",
        "closes",
        "fd",
        "has_deadline",
        "last_read",
        "lingering",
        "network",
        "peer",
        "read_paused",
        "registered",
        "task",
        "unparsed",
        "unsent",
    )

    def __init__(self, fd: int, peer: str, address: str, cache: Any) -> None:
        self.fd = fd
        self.peer = peer
        self.network = ""
        self.address = address
        self.cache = cache
        self.unparsed = b""
        self.unsent: list[memoryview | bytes] = []
        self.task: asyncio.Task[None] | None = None
        self.closes = False
        self.registered = False
        self.read_paused = False
        self.has_deadline = False
        self.lingering = False
        self.last_read = 0.0

    secure = False
    handshake_pending = False
    """Whether a handshake has still to be done."""

    def read(self) -> bytes | None:
        """What has come; None for nothing yet, b"" for the end. Raises OSError."""
        try:
            return os.read(self.fd, READ_SIZE)
        except BlockingIOError:
            return None

    def write(self, head: bytes, body: bytes) -> bool:
        """Send; False where the reader does not take all of it now. Raises OSError."""
        try:
            sent = os.writev(self.fd, (head, body)) if body else os.write(self.fd, head)
        except BlockingIOError:
            sent = 0
        if sent == len(head) + len(body):
            return True
        if sent < len(head):
            self.unsent = [memoryview(head)[sent:], body]
        else:
            self.unsent = [memoryview(body)[sent - len(head) :]]
        return False

    def send_unsent(self) -> bool:
        """Send more of what is left; True when nothing is. Raises OSError."""
        while self.unsent:
            try:
                sent = os.write(self.fd, self.unsent[0])
            except BlockingIOError:
                return False
            if sent < len(self.unsent[0]):
                self.unsent[0] = memoryview(self.unsent[0])[sent:]
                return False
            self.unsent.pop(0)
        return True

    def discard(self) -> bool | None:
        """Throw away what has come; None where nothing has yet, False at the end. Raises OSError."""
        try:
            return bool(os.read(self.fd, READ_SIZE))
        except BlockingIOError:
            return None

    def half_close(self) -> None:
        """End the sending side. Raises OSError."""
        self.send_close()
        client_socket = socket.socket(fileno=self.fd)
        try:
            client_socket.shutdown(socket.SHUT_WR)
        finally:
            client_socket.detach()

    def send_close(self) -> bool:
        """Say that no more will come, where that can be said; False where it is not sent yet. Raises OSError."""
        return True

    def detach_socket(self) -> socket.socket:
        """Its socket, for who goes on with it."""
        return socket.socket(fileno=self.fd)

    def close(self) -> None:
        """Let go of it."""
        try:  # noqa: SIM105 (a context manager would cost more than the call)
            os.close(self.fd)
        except OSError:
            pass
