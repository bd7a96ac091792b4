"""What a request costs with one process, and with two on the same port. Neither servers nor load are bound to a CPU."""

import statistics
import subprocess
import sys

from benchmarks.aim import Aim
from benchmarks.client import verify
from benchmarks.feed import path
from benchmarks.load import Load, run
from benchmarks.peers import ROOT, Stage
from benchmarks.rows import ROWS, Row

_rows = [row for row in ROWS if row.key in {"304-keep", "304-close"}]


def offered() -> bool:
    """Does `feedproxy serve` know --workers?"""
    command = [sys.executable, "-m", "feedproxy.cli", "serve", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=30)
    return "--workers" in done.stdout


def play(stage: Stage, rounds: int, seconds: int) -> list[Aim]:
    """By row the cost with two workers divided by that with one."""
    if not offered():
        return [_told(row, None) for row in _rows]
    found = []
    servers = [stage.feedproxy("--workers", str(many), name=f"feedproxy {many}", free=True) for many in (1, 2)]
    for row in _rows:
        us: dict[str, list[float]] = {server.name: [] for server in servers}
        for _ in range(rounds):
            for server in servers:
                tag, _ = verify(server, row)
                load = Load(server.url(path("1")), row.fields(tag), close=row.close)
                us[server.name].append(run(server.pid, load, seconds).us)
        one, two = (statistics.median(us[server.name]) for server in servers)
        found.append(_told(row, two / one))
    return found


def _told(row: Row, value: float | None) -> Aim:
    return Aim(f"{row.title}: CPU a request with two workers ÷ with one", value, "", "≤", 1.15)
