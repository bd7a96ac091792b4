"""A minimal HTTP client on a persistent connection. It counts every byte."""

import asyncio
from contextlib import AsyncExitStack

from msgspec import Struct

from feedproxy.http.message import Fields

CONNECTIONS = 6
"""All simulated readers together use this many connections to each server."""

HEAD_MAX = 65_536
"""Maximum size of a message's head, in bytes."""


class CountedResponse(Struct, frozen=True):
    """A response with its size in bytes, including the head."""

    status: int
    fields: Fields
    body: bytes
    size: int


class CountingConnection:
    """A persistent connection to one address, opened at the first request."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self.authority = f"{host}:{port}"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def close(self) -> None:
        if self._streams:
            self._streams[1].close()

    async def get(self, path: str, fields: Fields) -> CountedResponse:
        """Send a GET and return the response. Raises OSError, EOFError or ValueError for an incomplete or invalid
        response."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address, limit=HEAD_MAX)
        reader, writer = self._streams
        writer.write(format_head(f"GET {path} HTTP/1.1", fields))
        head = await reader.readuntil(b"\r\n\r\n")
        first, received = parse_head(head)
        status = int(first.split()[1])
        length = 0 if status in (204, 304) else int(received.get("content-length") or 0)
        body = await reader.readexactly(length)
        if (received.get("connection") or "").lower() == "close":
            self.close()
            self._streams = None
        return CountedResponse(status, received, body, len(head) + length)


def make_connections(stack: AsyncExitStack, host: str, port: int) -> list[CountingConnection]:
    """Return CONNECTIONS connections to one address, which `stack` closes."""
    connections = [CountingConnection(host, port) for _ in range(CONNECTIONS)]
    for connection in connections:
        stack.callback(connection.close)
    return connections


def format_head(first: str, fields: Fields) -> bytes:
    """Return the head of a message as bytes."""
    return "\r\n".join([first, *(f"{name}: {value}" for name, value in fields), "", ""]).encode("latin-1")


def parse_head(head: bytes) -> tuple[str, Fields]:
    """Return the first line and the fields of a head. Raises ValueError if it is invalid."""
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    split = (line.split(":", 1) for line in lines)
    return first, Fields((name, value.strip()) for name, value in split)
