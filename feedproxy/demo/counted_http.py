"""HTTP as far as the demo needs it, with every byte counted: a connection that is kept, and nothing between.

A client library would add fields of its own and hide how much went over the wire.
"""

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from feedproxy.http.message import Fields

HEAD_MAX = 65_536


@dataclass(frozen=True, slots=True)
class Received:
    """An answer, and how many bytes it was with its head."""

    status: int
    fields: Fields
    body: bytes
    size: int


class Wire:
    """One connection to one address, made at the first request and kept."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._streams:
            self._streams[1].close()

    async def get(self, path: str, fields: Fields) -> Received:
        """GET, and the whole answer. Raises OSError, EOFError and ValueError where it is none."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address, limit=HEAD_MAX)
        reader, writer = self._streams
        writer.write(written(f"GET {path} HTTP/1.1", fields))
        head = await reader.readuntil(b"\r\n\r\n")
        first, received = parsed(head)
        status = int(first.split()[1])
        length = 0 if status in (204, 304) else int(received.get("content-length") or 0)
        body = await reader.readexactly(length)
        if (received.get("connection") or "").lower() == "close":
            writer.close()
            self._streams = None
        return Received(status, received, body, len(head) + length)


def written(first: str, fields: Fields) -> bytes:
    """A head, as it goes over the wire."""
    return "\r\n".join([first, *(f"{name}: {value}" for name, value in fields), "", ""]).encode("latin-1")


def parsed(head: bytes) -> tuple[str, Fields]:
    """The first line and the fields of a head. Raises ValueError."""
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    split = (line.split(":", 1) for line in lines)
    return first, Fields((name, value.strip()) for name, value in split)
