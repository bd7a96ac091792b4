"""One client connection of the fast path: its file descriptor, unparsed input and unsent output."""

import asyncio
import os
import socket
from typing import Any

READ_SIZE = 8_192
"""Bytes read at a time: more than the request head of any common feed reader."""


class ClientConnection:
    """A client connection, by file descriptor. Requests are answered strictly one after the other.

    `address` is empty for a trusted proxy: there each request names the client. `network` is the key under which the
    connection is counted (connection_limits.py). `unparsed` has been read and not answered, `unsent` has not been
    written yet. While something is unsent, or `task` makes a response, nothing more is read, so a connection holds one
    response at most. `has_deadline`: a deadline is set for the request head. `read_paused`: input has arrived and stays
    unread. `lingering`: the last response is sent, and further input is discarded.
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
    """Return whether the TLS handshake is incomplete."""

    def read(self) -> bytes | None:
        """Return the bytes that arrived; None if there are none yet, b"" at the end. Raise OSError."""
        try:
            return os.read(self.fd, READ_SIZE)
        except BlockingIOError:
            return None

    def write(self, head: bytes, body: bytes) -> bool:
        """Send a response. Return False if part of it is unsent. Raise OSError."""
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
        """Send more of the unsent bytes. Return True if nothing is left. Raise OSError."""
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
        """Discard input. Return None if there is none yet, False at the end. Raise OSError."""
        try:
            return bool(os.read(self.fd, READ_SIZE))
        except BlockingIOError:
            return None

    def half_close(self) -> None:
        """Shut down the sending side. Raise OSError."""
        self.send_close()
        client_socket = socket.socket(fileno=self.fd)
        try:
            client_socket.shutdown(socket.SHUT_WR)
        finally:
            client_socket.detach()

    def send_close(self) -> bool:
        """Announce the end, where the protocol can. Return False if that is not sent yet. Raise OSError."""
        return True

    def detach_socket(self) -> socket.socket:
        """Return a socket with the descriptor, for its next owner."""
        return socket.socket(fileno=self.fd)

    def close(self) -> None:
        """Close the descriptor."""
        try:  # noqa: SIM105 (a context manager would cost more than the call)
            os.close(self.fd)
        except OSError:
            pass
