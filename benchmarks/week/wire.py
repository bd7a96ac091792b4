"""A minimal HTTP client that counts every byte: one persistent connection with pipelined requests.

It does not use asyncio, because the player only waits for answers, of which there are some hundred thousand.
"""

import re
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

PATIENCE = 120.0
"""Seconds of real time within which an answer must arrive."""

TRIES = 3
"""Number of attempts at a request. A server may close the connection between two rows of requests, because the
connection is idle for long by the play's clock.
"""

_LINE = re.compile(
    rb"\r\n(content-length|content-encoding|transfer-encoding|connection|etag|last-modified|location|cache-status|x-cache)"
    rb":[ \t]*([^\r]*)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Received:
    """An answer. `size` is its number of bytes on the wire. `fields` contains only the fields that the play reads, with
    names in lower case.
    """

    status: int
    fields: dict[bytes, bytes]
    body: bytes
    size: int


class Wire:
    """A connection to one port on loopback. It is opened at the first request, and again after it was closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._room = bytearray(1024 * 1024)
        self._view = memoryview(self._room)
        self._begin = self._end = 0

    def get(self, asked: Sequence[bytes]) -> Iterator[Received]:
        """Send these requests, and yield their answers in order. Raises OSError, EOFError or TimeoutError if an answer
        is missing.
        """
        done, tries = 0, 0
        while done < len(asked):
            try:
                self._send(b"".join(asked[done:]))
                while done < len(asked):
                    received = self._receive()
                    done, tries = done + 1, 0
                    yield received
                    if self._socket is None:
                        break  # the server announced that it closes the connection
            except (OSError, EOFError) as error:
                self.close()
                tries += 1
                if tries == TRIES or isinstance(error, TimeoutError):
                    raise

    def _send(self, asked: bytes) -> None:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(asked)

    def _receive(self) -> Received:
        at = self._begin
        while (body_at := self._room.find(b"\r\n\r\n", at, self._end) + 4) < 4:
            at -= self._more()
        at = self._begin
        head = bytes(self._view[at : body_at - 2])
        fields = {name.lower(): value for name, value in _LINE.findall(head)}
        status, framing, body = int(head[9:12]), body_at - at, b""
        self._begin = body_at
        if status not in (204, 304):
            if b"chunked" in fields.get(b"transfer-encoding", b"").lower():
                body, extra = self._chunks()
                framing += extra
            elif b"content-length" in fields:
                body = self._take(int(fields[b"content-length"]))
            else:
                body = self._rest()
                fields[b"connection"] = b"close"
        if fields.get(b"connection", b"").lower() == b"close":
            self.close()
        return Received(status, fields, body, framing + len(body))

    def _more(self) -> int:
        """Read more bytes. Return the number of bytes by which the unread ones were moved to the front of the
        buffer.
        """
        moved = 0
        if self._end == len(self._room):
            moved, held = self._begin, bytes(self._view[self._begin : self._end])
            if len(held) > len(self._room) // 2:
                self._room = bytearray(2 * len(self._room))
                self._view = memoryview(self._room)
            self._view[: len(held)] = held
            self._begin, self._end = 0, len(held)
        assert self._socket is not None
        count = self._socket.recv_into(self._view[self._end :])
        if not count:
            raise EOFError("the connection was closed within an answer")
        self._end += count
        return moved

    def _take(self, count: int) -> bytes:
        while self._end - self._begin < count:
            self._more()
        taken = bytes(self._view[self._begin : self._begin + count])
        self._begin += count
        if self._begin == self._end:
            self._begin = self._end = 0
        return taken

    def _rest(self) -> bytes:
        try:
            while True:
                self._more()
        except EOFError:
            return self._take(self._end - self._begin)

    def _chunks(self) -> tuple[bytes, int]:
        parts: list[bytes] = []
        framing = 0
        while True:
            while (end := self._room.find(b"\r\n", self._begin, self._end)) < 0:
                self._more()
            line = self._take(end + 2 - self._begin)
            length = int(line.split(b";")[0], 16)
            framing += len(line) + 2
            if length:
                parts.append(self._take(length))
            self._take(2)
            if not length:
                return b"".join(parts), framing

    def close(self) -> None:
        """Close the connection."""
        self._begin = self._end = 0
        if self._socket is not None:
            self._socket.close()
            self._socket = None
