"""How late scheduled refreshes begin: python -m benchmarks.lateness FILE OFFSET serve …, as `feedproxy serve …`.

When it ends, FILE has a line for each refresh that the schedule began: when it began, how many seconds after the
instant planned for it, and the feed. The clock of the process is ahead by OFFSET seconds.
"""

import sys
import time
from pathlib import Path

from feedproxy.cli import main
from feedproxy.clock import Instant, SystemClock
from feedproxy.refresh.prefetch_scheduler import PrefetchScheduler


def watch(offset: float) -> list[tuple[Instant, float, str]]:
    """Shift the clock, and return the list to which each refresh is added: its instant, its delay, and the feed."""
    begun: list[tuple[Instant, float, str]] = []
    refreshed = PrefetchScheduler._run_refresh
    SystemClock.now = lambda _: time.time() + offset  # type: ignore[method-assign]

    async def noted(scheduler: PrefetchScheduler, target: str, lane: str, due: Instant) -> None:
        now = time.time() + offset
        begun.append((now, now - due, target))
        await refreshed(scheduler, target, lane, due)

    PrefetchScheduler._run_refresh = noted  # type: ignore[method-assign]
    return begun


if __name__ == "__main__":
    refreshes = watch(float(sys.argv[2]))
    try:
        code = main(sys.argv[3:])
    finally:
        lines = (f"{at:.3f} {late:.3f} {target}\n" for at, late, target in refreshes)
        Path(sys.argv[1]).write_text("".join(lines), encoding="utf-8")
    sys.exit(code)
