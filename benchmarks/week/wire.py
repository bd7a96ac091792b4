"""HTTP as far as the play needs it, every byte counted: one connection that is kept, one request at a time."""

import asyncio
from dataclasses import dataclass

PATIENCE = 30.0
"""Seconds of the machine's time for an answer."""


@dataclass(frozen=True, slots=True)
class Received:
    """An answer; `size` is what went over the wire for it. Names of fields are in lower case."""

    status: int
    fields: dict[str, str]
    body: bytes
    size: int


class Wire:
    """One connection to one port of loopback, made when it is needed and made anew where it was closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str, fields: dict[str, str]) -> Received:
        """GET. Raises OSError, EOFError, TimeoutError where no answer comes."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        asked = f"GET {path} HTTP/1.1\r\nHost: origin.test\r\n{lines}\r\n".encode("latin-1")
        for last in (False, True):
            fresh = self._streams is None
            try:
                async with asyncio.timeout(PATIENCE):
                    return await self._exchange(asked)
            except (OSError, EOFError) as error:
                self.close()
                if last or fresh or isinstance(error, TimeoutError):
                    raise
        raise AssertionError("unreachable")

    async def _exchange(self, asked: bytes) -> Received:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=4 * 1024 * 1024)
        reader, writer = self._streams
        writer.write(asked)
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        status, size, body = int(first.split()[1]), len(head), b""
        if status not in (204, 304):
            if "chunked" in fields.get("transfer-encoding", "").lower():
                body, framing = await _chunks(reader)
                size += framing
            elif "content-length" in fields:
                body = await reader.readexactly(int(fields["content-length"]))
            else:
                body = await reader.read()
                fields["connection"] = "close"
            size += len(body)
        if fields.get("connection", "").lower() == "close":
            self.close()
        return Received(status, fields, body, size)

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _chunks(reader: asyncio.StreamReader) -> tuple[bytes, int]:
    parts, framing = [], 0
    while True:
        line = await reader.readuntil(b"\r\n")
        length = int(line.split(b";")[0], 16)
        framing += len(line) + 2
        if length:
            parts.append(await reader.readexactly(length))
        await reader.readexactly(2)
        if not length:
            return b"".join(parts), framing
