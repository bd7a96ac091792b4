"""wrk as the readers (handshakes.py where each is to have a TLS handshake), and the CPU that a server takes for them.

Figures are CPU microseconds a request: user and system time of all processes and threads of the server, by
/proc/PID/stat, divided by the requests that wrk counted. The clock's tick is 10 ms: in a run of 2 s that is 0.5 %.
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
    """One kind of asking: wrk's mode (load.lua), the fields sent, and whether each request has its own connection."""

    url: str
    fields: Mapping[str, str]
    mode: str = "same"
    count: int = 1
    start: int = 0
    close: bool = False
    connections: int = CONNECTIONS


@dataclass(frozen=True, slots=True)
class Counted:
    """What wrk tells at its end: p99 in microseconds, and errors by their kind."""

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
        """How many of which kind; those that were."""
        kinds = ("connect", "read", "write", "status", "timeout")
        return {kind: many for kind in kinds if (many := getattr(self, kind))}


@dataclass(frozen=True, slots=True)
class Run:
    """One run: CPU microseconds a request, requests a second, and what wrk told."""

    us: float
    rate: float
    counted: Counted


def parse(said: str) -> Counted:
    """The line that load.lua writes. Raises ValueError where there is none."""
    if not (line := re.search(r"^bench (.*)$", said, re.MULTILINE)):
        raise ValueError(f"no figures: {said.strip()[-300:]}")
    values = dict(each.split("=") for each in line[1].split())
    return Counted(**{name: int(value) for name, value in values.items()})


def parents(stats: Mapping[int, str]) -> dict[int, int]:
    """Of each process its parent's id, from the texts of /proc/PID/stat."""
    # The name in brackets may hold blanks and brackets itself.
    return {pid: int(text.rpartition(")")[2].split()[1]) for pid, text in stats.items()}


def ticks(stat: str) -> int:
    """User and system time in a text of /proc/PID/stat, of all threads, in ticks."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def family(root: int, parent_of: Mapping[int, int]) -> set[int]:
    """A process and all that descend from it."""
    found = {root}
    while more := {pid for pid, parent in parent_of.items() if parent in found} - found:
        found |= more
    return found


def processes() -> dict[int, str]:
    """The text of /proc/PID/stat of every process that is there now."""
    stats = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                stats[int(folder.name)] = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue  # it ended meanwhile
    return stats


def cpu_seconds(root: int) -> float:
    """What the server with this process at its top has taken so far."""
    stats = processes()
    return sum(ticks(stats[pid]) for pid in family(root, parents(stats)) if pid in stats) / TICKS


def resident(root: int) -> int:
    """Bytes of memory that a server's processes hold, each its own share; files that are mapped are not held."""
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
    """What is started meanwhile runs on these CPUs; None: wherever it likes."""
    before = os.sched_getaffinity(0)
    if cpus is not None:
        os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def split_cpus() -> tuple[set[int] | None, set[int] | None]:
    """One CPU for the server, another for all the rest; on a machine with one there is nothing to split."""
    cpus = sorted(os.sched_getaffinity(0))
    return ({cpus[0]}, {cpus[1]}) if len(cpus) > 1 else (None, None)


def ask(load: Load, seconds: int, cpus: set[int] | None = None) -> Counted:
    """Ask for so long. Raises ValueError where the program that asks fails."""
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
    """Ask the server with this process for so long, and reckon what one request cost it. Raises ValueError."""
    before = cpu_seconds(server)
    counted = ask(load, seconds, cpus)
    spent = cpu_seconds(server) - before
    if not counted.requests:
        raise ValueError("no answers")
    return Run(spent / counted.requests * 1e6, counted.requests / counted.microseconds * 1e6, counted)
