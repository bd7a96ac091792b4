"""Load by wrk (or by handshakes.py for TLS handshakes), and the CPU time that a server uses for it.

Figures are CPU microseconds per request: user and system time of all processes and threads of the server, from
/proc/PID/stat, divided by the number of requests of wrk. The clock tick is 10 ms, which is 0.5 % in a run of 2 s.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

SCRIPT = Path(__file__).with_name("load.lua")
TICKS = os.sysconf("SC_CLK_TCK")
CONNECTIONS = 50


@dataclass(frozen=True, slots=True)
class Load:
    """A kind of load: wrk's mode (load.lua), the request fields, and whether each request has its own connection."""

    url: str
    fields: Mapping[str, str]
    mode: str = "same"
    count: int = 1
    start: int = 0
    close: bool = False
    connections: int = CONNECTIONS


@dataclass(frozen=True, slots=True)
class Counted:
    """The output of wrk: p99 in microseconds, and errors by kind."""

    requests: int
    microseconds: int
    bytes: int
    p99: int
    connect: int = 0
    read: int = 0
    write: int = 0
    status: int = 0
    timeout: int = 0

    @property
    def errors(self) -> dict[str, int]:
        """Return the number of errors of each kind that occurred."""
        kinds = ("connect", "read", "write", "status", "timeout")
        return {kind: many for kind in kinds if (many := getattr(self, kind))}


@dataclass(frozen=True, slots=True)
class Run:
    """One run: CPU microseconds per request, requests per second, and the output of wrk."""

    us: float
    rate: float
    counted: Counted


def parse(said: str) -> Counted:
    """Return the values in the line that load.lua writes. Raises ValueError if it is missing."""
    if not (line := re.search(r"^bench (.*)$", said, re.MULTILINE)):
        raise ValueError(f"no figures: {said.strip()[-300:]}")
    values = dict(each.split("=") for each in line[1].split())
    return Counted(**{name: int(value) for name, value in values.items()})


def parents(stats: Mapping[int, str]) -> dict[int, int]:
    """Return the parent's id of each process, from the contents of /proc/PID/stat."""
    # The name in brackets may contain spaces and brackets.
    return {pid: int(text.rpartition(")")[2].split()[1]) for pid, text in stats.items()}


def ticks(stat: str) -> int:
    """Return user and system time of all threads in ticks, from the content of /proc/PID/stat."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def family(root: int, parent_of: Mapping[int, int]) -> set[int]:
    """Return a process and all its descendants."""
    found = {root}
    while more := {pid for pid, parent in parent_of.items() if parent in found} - found:
        found |= more
    return found


def processes() -> dict[int, str]:
    """Return the content of /proc/PID/stat of each process."""
    stats = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                stats[int(folder.name)] = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue  # the process has ended
    return stats


def cpu_seconds(root: int) -> float:
    """Return the CPU time in seconds of a process and its descendants."""
    stats = processes()
    return sum(ticks(stats[pid]) for pid in family(root, parents(stats)) if pid in stats) / TICKS


def resident(root: int) -> int:
    """Return the memory of a process and its descendants in bytes. Memory that several processes share is divided among
    them. Mapped files are excluded."""
    total = 0
    for pid in family(root, parents(processes())):
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
        except OSError:
            continue
        total += sum(int(each) for each in re.findall(r"^Pss_(?:Anon|Shmem):\s+(\d+) kB", text, re.MULTILINE)) * 1024
    return total


@contextmanager
def pinned(cpus: set[int] | None) -> Iterator[None]:
    """Bind processes that are started in this context to these CPUs. None stands for any CPU."""
    before = os.sched_getaffinity(0)
    if cpus is not None:
        os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def split_cpus() -> tuple[set[int] | None, set[int] | None]:
    """Return one CPU for the server and another for the load, or None for both on a machine with one CPU."""
    cpus = sorted(os.sched_getaffinity(0))
    return ({cpus[0]}, {cpus[1]}) if len(cpus) > 1 else (None, None)


def ask(load: Load, seconds: int, cpus: set[int] | None = None) -> Counted:
    """Run the load for `seconds`. Raises ValueError if the load generator fails."""
    fields = {**load.fields, **({"Connection": "close"} if load.close else {})}
    lines = [f"{name}: {value}" for name, value in fields.items()]
    url = urlsplit(load.url)
    if load.close and url.scheme == "https":
        command = [sys.executable, "-m", "benchmarks.handshakes", str(url.port), url.path, str(seconds), *lines]
    else:
        command = ["wrk", "-t1", f"-c{load.connections}", f"-d{seconds}s", "--timeout", "5s", "-s", str(SCRIPT)]
        command += [*(word for line in lines for word in ("-H", line)), load.url]
    asking = {"BENCH_MODE": load.mode, "BENCH_COUNT": str(load.count), "BENCH_START": str(load.start)}
    with pinned(cpus):
        done = subprocess.run(
            command,
            cwd=SCRIPT.parents[1],
            env={**os.environ, **asking},
            capture_output=True,
            text=True,
            timeout=seconds + 30,
            check=False,
        )
    return parse(done.stdout + done.stderr)


def run(server: int, load: Load, seconds: int, cpus: set[int] | None = None) -> Run:
    """Run the load for `seconds`, and return the cost of a request in the process `server`. Raises ValueError."""
    before = cpu_seconds(server)
    counted = ask(load, seconds, cpus)
    spent = cpu_seconds(server) - before
    if not counted.requests:
        raise ValueError("no responses")
    return Run(spent / counted.requests * 1e6, counted.requests / counted.microseconds * 1e6, counted)
