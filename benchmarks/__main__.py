"""Run all benchmarks: `make bench`, or `python -m benchmarks [--quick] [--rows …] [--parts …] [--json FILE]`."""

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from http.client import HTTPException
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import footprint, hits, latency, table, workers
from benchmarks.aim import Aim
from benchmarks.client import Unequal
from benchmarks.peers import GROUPS, PEERS, ROOT, Stage, a_stage
from conformance.process import DidNotStart

PARTS = ("latency", "workers", "footprint", "store", "hits")
MINUTES, QUICK_MINUTES = 9.7, 1.9
"""Time limits of a complete run and of a quick run, in minutes. They include the time that servers need to end."""
MARGIN = 10
"""No measurement starts within this many seconds before the time limit."""


def say(line: str) -> None:
    """Print a line of progress to standard error."""
    print(line, file=sys.stderr, flush=True)


def machine() -> dict[str, Any]:
    """Return the properties of this machine."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    found = re.search(r"^model name\s*:\s*(.*)$", info, re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        system = platform.system()
    return {
        "cpu": found[1] if found else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 1024**3),
        "kernel": platform.release(),
        "system": system,
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """Return the versions of all measured programs."""
    found = {"feedproxy": version("feedproxy"), "mitmproxy": version("mitmproxy")}
    for name, flag in (("nginx", "-v"), ("varnishd", "-V"), ("squid", "-v"), ("haproxy", "-v"), ("h2o", "-v")):
        path = next((peer.path for peer in PEERS if peer.program == name), None)
        if path:
            done = subprocess.run([path, flag], capture_output=True, text=True, timeout=30, check=False)
            number = re.search(r"\d+\.\d+(\.\d+)*", done.stdout + done.stderr)
            found[name] = number[0] if number else "?"
    return found


def stop(*_: object) -> None:
    """Exit on SIGTERM or SIGINT, so that started servers are ended, even if the shell has set SIGINT to be ignored."""
    raise KeyboardInterrupt


class TimeIsOver(Exception):
    """The time limit of `make bench` is reached: a server hangs, or the machine is busy."""


def over(*_: object) -> None:
    """Raise TimeIsOver on SIGALRM, so that the results so far are reported."""
    raise TimeIsOver


def one_part(part: str, stage: Stage, quick: bool, rounds: int, seconds: int) -> list[Aim]:
    """Return the figures of one part. Raises the errors of servers and of wrong responses."""
    match part:
        case "latency":
            return latency.play(stage, 3 if quick else 10)
        case "workers":
            return workers.play(stage, rounds, seconds)
        case _:
            return footprint.play(stage, *((10_000, 1_000) if quick else (100_000, 10_000)))


def store_alone(many: int) -> str:
    """Return the output of store.py with `many` targets."""
    command = [sys.executable, "-m", "benchmarks.store", str(many)]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=120).stdout


def main() -> int:
    """Run the benchmarks, print the results and write them to the file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of a second: two minutes, not ten")
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--rows", nargs="+", default=(), help="of the table of hits, by key (benchmarks/rows.py)")
    parser.add_argument(
        "--peers", nargs="*", default=GROUPS, choices=GROUPS, help="all; without a name feedproxy alone"
    )
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=int, help="of a run")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "bench.json", metavar="FILE")
    args = parser.parse_args()
    for program in ("wrk", "openssl"):
        if not shutil.which(program):
            print(f"{program} is not installed: nothing can be measured", file=sys.stderr)
            return 1
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, stop)
    rounds, seconds = args.rounds or (1 if args.quick else 3), args.seconds or (1 if args.quick else 2)
    minutes = QUICK_MINUTES if args.quick else MINUTES
    until = time.monotonic() + 60 * minutes - MARGIN
    signal.signal(signal.SIGALRM, over)
    signal.alarm(int(60 * minutes))
    rows = hits.chosen(args.rows, args.quick)
    results: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "versions": versions(),
        "how": {"rounds": rounds, "seconds": seconds},
        "titles": {row.key: row.title for row in rows},
        "runs": [],
        "aims": [],
    }
    complete = True
    # The hits come last, because they use the remaining time.
    for part in (each for each in PARTS if each in args.parts):
        say(f"== {part}")
        try:
            if part == "store":
                results["store"] = store_alone(10_000 if args.quick else 100_000)
                continue
            with a_stage() as stage:
                if part == "hits":
                    servers = hits.begin(stage, say, args.peers, any(row.tls for row in rows))
                    for run in hits.play(stage, servers, rows, rounds=rounds, seconds=seconds, until=until, say=say):
                        results["runs"].append(asdict(run))
                else:
                    results["aims"] += [asdict(each) for each in one_part(part, stage, args.quick, rounds, seconds)]
        except (DidNotStart, Unequal, ValueError, OSError, HTTPException, subprocess.SubprocessError) as error:
            say(f"{part} could not be measured: {type(error).__name__}: {error}")
            complete = False
        except TimeIsOver:
            say(f"the time is over: {part} and what follows are incomplete")
            complete = False
            break
    signal.alarm(0)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(table.page(results))
    print(f"\nwritten to {args.json}")
    return 0 if complete else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
