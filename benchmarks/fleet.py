"""Response times of a fleet while Redis is available and while it is not: `python -m benchmarks.fleet`.

The fleet has two machines, which here are processes with separate stores, and a Redis on a Unix socket. The second
machine reaches Redis over a TCP relay that can be interrupted. A reader sends requests over one connection to the
second machine: for feeds that this machine stores (`hit`), for feeds that only the other machine has fetched
(`shared`), and for new feeds (`cold`). Then Redis fails in several ways, and hits and new feeds are measured again from
the failure on. Times are in milliseconds. The timeout (`fleet_timeout`) is the default of 250 ms. Errors are responses
other than 200. The run takes two minutes.
"""

import contextlib
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from tests.fleet.redis_server import RedisServer
from tests.fleet.wire import Wire
from tests.live.origin import Origin, a_feed, opened, until
from tests.live.product import Feedproxy, read_answer

ROUNDS = 150
HERD = 25


class Reader:
    """A reader with one persistent connection."""

    def __init__(self, proxy: Feedproxy) -> None:
        self._proxy = proxy
        self._wire = socket.create_connection(proxy.address, timeout=60)
        self._wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get(self, target: str) -> tuple[float, int, str]:
        """Request a target. Return the duration in milliseconds, the status and the Cache-Status."""
        host = self._proxy.base.removeprefix("http://")
        started = time.perf_counter()
        self._wire.sendall(f"GET /{target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: bench/1\r\n\r\n".encode())
        seen = read_answer(self._wire)
        return (time.perf_counter() - started) * 1000, seen.status, seen.cache


class Bench:
    def __init__(self, origin: Origin, one: Feedproxy, two: Feedproxy) -> None:
        self._origin, self._one, self._two = origin, one, two
        self._number = 0

    def new(self, count: int) -> list[str]:
        """Return targets that were not requested before."""
        paths = [f"/{self._number + each}" for each in range(count)]
        self._number += count
        for path in paths:
            self._origin.publish(path, a_feed("x", padding=20_000), Cache_Control="max-age=3600")
        return [self._origin.url(path) for path in paths]

    def measure(self, name: str, targets: Sequence[str], reader: Reader | None = None) -> None:
        """Request these targets from the second machine, and print a line with the times. `name` begins the line."""
        reader = reader or Reader(self._two)
        seen = [reader.get(target) for target in targets]
        times = sorted(each[0] for each in seen)
        errors = sum(each[1] != 200 for each in seen)
        hits = sum("; hit" in each[2] for each in seen)
        print(
            f"{name:28} {len(seen):5} {median(times):8.2f} {times[int(len(times) * 0.99)]:8.1f} {times[-1]:8.1f}"
            f" {hits:5} {errors:6}",
            flush=True,
        )

    def wait_for_redis(self, seconds: float) -> float:
        """Wait at most `seconds` until the second machine uses Redis again. Return the duration in seconds."""
        started = time.monotonic()
        until(lambda: self._two.said.count("is back after") == self._two.said.count("is away"), deadline=seconds)
        return time.monotonic() - started

    def measure_herd(self) -> None:
        """Request one new feed from both machines with many readers at once, and print the longest time."""
        (target,) = self.new(1)
        path = "/" + target.rpartition("/")[2]
        with ThreadPoolExecutor(2 * HERD) as pool:
            readers = [Reader(each) for _ in range(HERD) for each in (self._one, self._two)]
            seen = list(pool.map(lambda reader: reader.get(target), readers))
        slowest = max(each[0] for each in seen)
        print(f"herd: {len(seen)} readers at two machines, {len(self._origin.asked(path))} request to the origin,")
        print(f"      the last was answered after {slowest:.0f} ms")


def main() -> int:
    with tempfile.TemporaryDirectory() as name, opened(Path(name) / "origin") as (origin, authority):
        folder = Path(name)
        server = RedisServer(folder / "redis")
        machines: list[Feedproxy] = []
        try:
            with Wire(server.socket) as wire:
                for each, url in (("one", server.url), ("two", wire.url)):
                    options = {"fleet_local": folder / each / "own", "polling": "off"}
                    machines.append(Feedproxy(folder / each, store=url, authority=authority.file, **options))  # type: ignore[arg-type]
                _measured(Bench(origin, *machines), server, wire, machines)
        finally:
            for each in machines:
                each.terminate()
            server.close()
    return 0


def _measured(bench: Bench, server: RedisServer, wire: Wire, machines: Sequence[Feedproxy]) -> None:
    one = Reader(machines[0])
    print(f"{'':28} {'asked':>5} {'median':>8} {'p99':>8} {'max':>8} {'hits':>5} {'errors':>6}")
    shared = bench.new(ROUNDS)
    for target in shared:
        one.get(target)
    time.sleep(1)
    bench.measure("redis there: cold", bench.new(ROUNDS))
    bench.measure("redis there: shared", shared)
    bench.measure("redis there: hit", shared * 4)
    bench.measure_herd()
    faults: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
        "killed": (server.kill, server.start),
        "stopped": (server.stop, server.go_on),
        "stalled": (wire.stall, wire.mend),
        "cut off": (wire.drop, wire.mend),
    }
    for fault, (do, undo) in faults.items():
        reader = Reader(machines[1])
        new = bench.new(ROUNDS)
        do()
        with contextlib.ExitStack() as stack:
            stack.callback(undo)
            bench.measure(f"redis {fault}: cold", new, reader)
            bench.measure(f"redis {fault}: hit", shared * 4, reader)
        print(f"      back in the fleet after {bench.wait_for_redis(60):.1f} s")


if __name__ == "__main__":
    sys.exit(main())
