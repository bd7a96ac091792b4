"""Misses at a constant rate: `python -m benchmarks.misses PORT RATE SECONDS START`.

Each miss is a request for another feed. Each request is sent at its time, even if up to WAITING_MAX earlier requests
have no response yet.
"""

import asyncio
import sys
import time

from benchmarks.feed import path
from benchmarks.rows import READER

WAITING_MAX = 64


class Asker:
    """A client that reuses its connections."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.answered = 0
        self.errors = 0

    async def ask(self, name: str) -> None:
        """Request one feed completely."""
        fields = {**READER, "Accept-Encoding": "gzip"}
        lines = [f"GET {path(name)} HTTP/1.1", *(f"{field}: {value}" for field, value in fields.items()), "", ""]
        try:
            connection = self._idle.pop() if self._idle else await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = connection
            writer.write("\r\n".join(lines).encode())
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
        except (OSError, EOFError, ValueError):
            self.errors += 1
            return
        self._idle.append(connection)
        self.answered += head.startswith(b"http/1.1 200")


async def main(port: int, rate: int, seconds: int, start: int) -> None:
    """Send the requests, and print the number of responses per second."""
    asker = Asker(port)
    waiting: set[asyncio.Task[None]] = set()
    began = time.monotonic()
    for number in range(rate * seconds):
        await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
        while len(waiting) >= WAITING_MAX:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if time.monotonic() - began > seconds:
            break
        waiting.add(task := asyncio.create_task(asker.ask(f"late-{start + number}")))
        task.add_done_callback(waiting.discard)
    within = asker.answered / (time.monotonic() - began)
    if waiting:
        await asyncio.wait(waiting, timeout=10)
    print(f"rate={within:.1f} errors={asker.errors}")


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:5])))
