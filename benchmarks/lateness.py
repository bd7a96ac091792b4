"""How late scheduled refreshes begin: `python -m benchmarks.lateness FILE OFFSET serve …`, with the arguments of
`feedproxy serve`.

FILE gets a line for each refresh that the schedule begins: when it begins, how many seconds after the instant planned
for it, and the feed. The clock of the process is ahead by OFFSET seconds.
"""

import sys
import time
from pathlib import Path
from typing import TextIO

from feedproxy.cli import main
from feedproxy.clock import Instant, SystemClock
from feedproxy.refresh.refresh_scheduler import RefreshScheduler


def watch(offset: float, begun: TextIO) -> None:
    """Shift the clock, and write a line for each refresh when it begins."""
    start_refresh, run_refresh = RefreshScheduler._start_refresh, RefreshScheduler._run_refresh
    planned: dict[str, Instant] = {}

    def now(self: SystemClock) -> Instant:
        return time.time() + offset

    def started(self: RefreshScheduler, target: str, lane: str, due: Instant) -> None:
        planned[target] = due
        start_refresh(self, target, lane, due)

    async def noted(self: RefreshScheduler, target: str, lane: str) -> None:
        begins = time.time() + offset
        begun.write(f"{begins:.3f} {begins - planned.pop(target):.3f} {target}\n")
        await run_refresh(self, target, lane)

    SystemClock.now = now  # type: ignore[method-assign]
    RefreshScheduler._start_refresh = started  # type: ignore[method-assign]
    RefreshScheduler._run_refresh = noted  # type: ignore[method-assign]


if __name__ == "__main__":
    # The lines are written in blocks: a write for each refresh would delay the hits that million.py measures.
    with Path(sys.argv[1]).open("w", encoding="utf-8") as file:
        watch(float(sys.argv[2]), file)
        code = main(sys.argv[3:])
    sys.exit(code)
