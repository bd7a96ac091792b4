"""One client connection of the fast path: its file descriptor, unparsed input and unsent output."""

import asyncio
import fcntl
import os
import socket
import termios
from typing import Any

from feedproxy.server.fastpath.body_files import BODY_MIN
from feedproxy.server.unsent_output_limit import Buffer, buffer_of

READ_SIZE = 8_192
"""Bytes per read: more than the request head of common feed readers."""

_INPUT_SIZE = bytearray(4)
"""Buffer for the number of unread bytes that the system call FIONREAD returns. All connections share it."""


class ClientConnection:
    """A client connection, identified by its file descriptor. It handles one request at a time.

    * `address` is the client's address. It is empty for a trusted proxy, because each of the proxy's requests names a
      client.
    * `unparsed` contains input bytes that are not parsed yet.
    * `unsent` contains output bytes that the socket has not accepted yet.
    * `task` is the running task for a request. Input is read only if no task is running and nothing is unsent.
    * `has_deadline` is true while the request head has a deadline.
    * `read_paused` is true if input has arrived that must not be read yet.
    * `has_read_all` is true if the last read emptied the socket, and the listener has not waited for input since.
    * `closes` is true if the current response is the last response.
    * `lingering` is true after the last response, when input is discarded.
    """

    __slots__ = (
        "_file_socket",
        "address",
        "cache",
        "closes",
        "fd",
        "has_deadline",
        "has_read_all",
        "last_read",
        "lingering",
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
        self.address = address
        self.cache = cache
        self.unparsed = b""
        self.unsent: list[memoryview | bytes] = []
        self.task: asyncio.Task[None] | None = None
        self.closes = False
        self.registered = False
        self.read_paused = False
        self.has_deadline = False
        self.has_read_all = False
        self.lingering = False
        self.last_read = 0.0
        self._file_socket: socket.SocketType | None = None
        """A socket object with the connection's descriptor. None until the first body from a file is sent."""

    secure = False
    handshake_pending = False
    """True while the TLS handshake is incomplete."""

    def read(self) -> bytes | None:
        """Return the bytes that have arrived, None if none has arrived, or b"" at the end of input. Raises OSError if
        the connection has failed."""
        try:
            data = os.read(self.fd, READ_SIZE)
        except BlockingIOError:
            return None
        self.has_read_all = len(data) < READ_SIZE
        return data

    def remove_low_water_mark(self) -> None:
        """Let the kernel report input of any length from now on. Raises OSError if the connection has failed."""

    def write(self, head: bytes, body: bytes) -> bool:
        """Send a response. Return False if a part of it remains unsent. Raises OSError if the connection has failed. If
        `closes` is true, the caller must close the connection afterwards."""
        try:
            if self.closes:
                sent = self._send_last(head, body)
            elif len(body) >= BODY_MIN and (file := self.cache.body_files.descriptor(body)) is not None:
                sent = self._send_file(head, body, file)
            else:
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

    def _send_last(self, head: bytes, body: bytes) -> int:
        """Send the last response of the connection, and return the number of bytes sent. Raises OSError if the
        connection has failed.

        The kernel sends the FIN with the last packet, which saves up to a fifth of the CPU time of a connection
        (benchmark row "304, one connection per request").
        """
        client_socket = self._borrow_socket()
        try:
            return client_socket.sendmsg((head, body), (), socket.MSG_MORE)
        finally:
            client_socket.detach()

    def _send_file(self, head: bytes, body: bytes, file: int) -> int:
        """Send a response with the body in a file (body_files.py), and return the number of bytes sent. Raises OSError
        if the connection has failed."""
        if self._file_socket is None:
            self._file_socket = self._borrow_socket()
        sent = self._file_socket.send(head, socket.MSG_MORE)
        if sent == len(head):
            try:  # noqa: SIM105 (a context manager would cost more than the call)
                sent += os.sendfile(self.fd, file, 0, len(body))
            except BlockingIOError:
                pass
        return sent

    def _borrow_socket(self) -> socket.SocketType:
        """Return a socket object with the connection's descriptor, which the caller must detach. With all arguments
        given, the constructor makes only one system call (getsockname). The address family can be wrong, but the
        methods that are used here ignore it."""
        return socket.SocketType(socket.AF_INET, socket.SOCK_STREAM, 0, self.fd)

    def send_unsent(self) -> bool:
        """Send more of the unsent bytes. Return True if none remain. Raises OSError if the connection has failed."""
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

    def unsent_buffers(self) -> tuple[Buffer, ...]:
        """Return the objects in memory that contain unsent output."""
        return tuple(map(buffer_of, self.unsent))

    def has_unread_input(self) -> bool:
        """Return True if input has arrived that is not read yet. Raises OSError if the connection has failed."""
        fcntl.ioctl(self.fd, termios.FIONREAD, _INPUT_SIZE)
        return any(_INPUT_SIZE)

    def discard(self) -> bool | None:
        """Discard available input. Return True if input was discarded, None if none has arrived, and False if the
        client has ended its input. Raises OSError if the connection has failed."""
        try:
            return bool(os.read(self.fd, READ_SIZE))
        except BlockingIOError:
            return None

    def half_close(self) -> None:
        """Shut down the sending side. Raises OSError if the connection has failed."""
        self.send_close()
        client_socket = self._borrow_socket()
        try:
            client_socket.shutdown(socket.SHUT_WR)
        finally:
            client_socket.detach()

    def send_close(self) -> bool:
        """Send close_notify if the connection has TLS. Return False if a part of it remains unsent. Raises OSError if
        the connection has failed."""
        return True

    def detach_socket(self) -> socket.socket:
        """Return a socket object with the connection's descriptor. The caller must close it."""
        self._detach_file_socket()
        return socket.socket(fileno=self.fd)

    def close(self) -> None:
        """Close the file descriptor."""
        self._detach_file_socket()
        try:  # noqa: SIM105 (a context manager would cost more than the call)
            os.close(self.fd)
        except OSError:
            pass

    def _detach_file_socket(self) -> None:
        if self._file_socket is not None:
            self._file_socket.detach()
            self._file_socket = None
