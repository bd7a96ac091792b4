"""The readers of benchmarks/million.py: `python -m benchmarks.million_readers PROXY ORIGIN FEEDS OFFSET SECONDS SHARE`.

A SHARE of them polls through the gateway at the port PROXY, with a clock that is OFFSET seconds ahead. At the end, a
line of JSON is printed: the number of polls, the number without a 200, and percentiles of the duration in milliseconds.
"""

import asyncio
import json
import sys
import time

from benchmarks.latency import percentile
from benchmarks.million_world import World, agent

CONNECTIONS = 16


async def play(proxy: int, world: World, offset: float, seconds: float, share: float) -> dict[str, float]:
    """Send the polls of a share of the readers in the next `seconds`. Return the figures."""
    begin = time.time() + offset
    due = asyncio.Queue[tuple[float, int, int]]()
    taken: list[float] = []
    failed = 0

    async def connection() -> None:
        nonlocal failed
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy)
        while True:
            _, number, client = await due.get()
            started = time.perf_counter()
            writer.write(request(world.target(number), agent(client)))
            status, length = parse(await reader.readuntil(b"\r\n\r\n"))
            await reader.readexactly(length)
            taken.append(time.perf_counter() - started)
            failed += status != 200

    workers = [asyncio.ensure_future(connection()) for _ in range(CONNECTIONS)]
    for poll in world.polls(begin, begin + seconds) if share else ():
        if poll[2] % 100 >= 100 * share:
            continue
        await asyncio.sleep(max(0.0, poll[0] - offset - time.time()))
        due.put_nowait(poll)
    await asyncio.sleep(max(0.0, begin + seconds - offset - time.time()))
    for worker in workers:
        worker.cancel()
    ordered = sorted(each * 1000 for each in taken) or [0.0]
    return {
        "polls": len(taken),
        "failed": failed,
        "p50": percentile(ordered, 0.5),
        "p99": percentile(ordered, 0.99),
        "longest": ordered[-1],
    }


def request(target: str, user_agent: str) -> bytes:
    """Return a request to the gateway."""
    fields = f"Host: localhost\r\nUser-Agent: {user_agent}\r\nAccept-Encoding: gzip\r\n"
    return f"GET /{target} HTTP/1.1\r\n{fields}\r\n".encode()


def parse(head: bytes) -> tuple[int, int]:
    """Return the status and the length of the content from a response head."""
    fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if line)
    return int(head.split(b" ", 2)[1]), int(fields.get(b"content-length", b"0"))


if __name__ == "__main__":
    proxy, origin, feeds = map(int, sys.argv[1:4])
    figures = asyncio.run(play(proxy, World(feeds, origin), *map(float, sys.argv[4:7])))
    print(json.dumps(figures))
