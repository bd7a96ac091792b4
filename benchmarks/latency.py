"""Duration of hits while the same process answers 200 misses a second. Each millisecond, a reader sends a request that
gets a 304.

While a reader waits, it sends no request, so that a long stall would count as one slow hit. For each elapsed
millisecond, another hit is therefore added with the remaining waiting time. HdrHistogram calls this the correction of
coordinated omission.
"""

import argparse
import gc
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.aim import Aim
from benchmarks.client import verify
from benchmarks.feed import path
from benchmarks.load import pinned
from benchmarks.peers import NGINX, ROOT, Server, Stage, a_stage
from benchmarks.rows import ROWS

EVERY = 0.001
RATE = 200
_row = ROWS[0]


@dataclass(frozen=True, slots=True)
class Latency:
    """Durations of hits in milliseconds, and the number of misses per second that were answered at the same time."""

    p50: float
    p99: float
    longest: float
    misses: float


def corrected(seconds: Sequence[float], every: float) -> list[float]:
    """Return the durations, sorted, with added durations for the requests that were due while a reader waited.

    `every` is the number of seconds between two requests.
    """
    more = [
        left for each in seconds for left in (each - every * n for n in range(1, int(each / every) + 1)) if left > 0
    ]
    return sorted([*seconds, *more])


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which this fraction of the sorted values lies. Raises ValueError without values."""
    if not ordered:
        raise ValueError("no values")
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def request(tag: str) -> bytes:
    """Return the bytes of a request that is answered with 304."""
    lines = [f"{name}: {value}" for name, value in _row.fields(tag).items()]
    return "\r\n".join([f"GET {path('1')} HTTP/1.1", *lines, "", ""]).encode()


def hits(port: int, asked: bytes, seconds: float) -> list[float]:
    """Return the duration of each hit in seconds. Raises ValueError for any other response."""
    taken: list[float] = []
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        gc.disable()
        try:
            due = time.perf_counter()
            until = due + seconds
            while due < until:
                time.sleep(max(0.0, due - time.perf_counter()))
                start = time.perf_counter()
                sock.sendall(asked)
                answer = sock.recv(65_536)
                while answer and not answer.endswith(b"\r\n\r\n"):
                    answer += sock.recv(65_536)
                taken.append(time.perf_counter() - start)
                if not answer.startswith(b"HTTP/1.1 304 "):
                    raise ValueError(f"no 304 but {answer[:40]!r}")
                due = max(due + EVERY, time.perf_counter())
        finally:
            gc.enable()
    return taken


def measure(server: Server, rate: int, seconds: int, cpus: set[int] | None, start: int = 0) -> Latency:
    """Measure hits during `rate` misses a second. Raises ValueError, OSError, Unequal."""
    tag, _ = verify(server, _row)
    command = ["nice", sys.executable, "-m", "benchmarks.misses", *map(str, (server.port, rate, seconds + 1, start))]
    with pinned(cpus), subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as missing:
        try:
            time.sleep(1)
            taken = hits(server.port, request(tag), seconds)
            said = missing.communicate(timeout=60)[0]
        finally:
            missing.kill()
    made = dict(each.split("=") for each in said.split())
    ordered = [each * 1000 for each in corrected(taken, EVERY)]
    return Latency(percentile(ordered, 0.5), percentile(ordered, 0.99), ordered[-1], float(made.get("rate", 0)))


def play(stage: Stage, seconds: int) -> list[Aim]:
    """Return the figures of feedproxy, and those of nginx as a measure of the machine."""
    found = []
    ours = stage.feedproxy()
    for server in (ours, *(stage.peer(peer) for peer in (NGINX,) if peer.path)):
        for rate in (0, RATE):
            got = measure(server, rate, seconds, stage.other_cpus)
            strict = server is ours and rate > 0
            what = f"{server.name}, hits beside {rate} misses/s"
            found += [
                Aim(f"{what}: p99", got.p99, "ms", "≤", 2 if strict else None),
                Aim(f"{what}: longest", got.longest, "ms", "≤", 20 if strict else None),
            ]
            if rate:
                found.append(Aim(f"{what}: answered", got.misses, "misses/s", "≥", rate * 0.97 if strict else None))
    return found


def main() -> None:
    """Measure feedproxy alone, and print the callbacks that delayed hits."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency")
    parser.add_argument("--rate", type=int, default=RATE, help="misses a second")
    parser.add_argument("--seconds", type=int, default=5)
    args = parser.parse_args()
    with a_stage() as stage:
        with stage.apart():
            print(measure(stage.feedproxy(), args.rate, args.seconds, stage.other_cpus))
        with stage.apart():
            server = stage.feedproxy(module="benchmarks.stalls", name="watched")
            print("watched:", measure(server, args.rate, args.seconds, stage.other_cpus))
        said = (stage.folder / "watched.log").read_text(encoding="utf-8")
        print(said[said.rfind("\n  calls") :])


if __name__ == "__main__":
    main()
