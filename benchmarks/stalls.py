"""The callbacks that delay hits in the event loop: `python -m benchmarks.stalls serve …`, with the arguments of
`feedproxy serve`.

The result is printed when feedproxy ends. Each callback's elapsed time and CPU time are measured. If the elapsed time
is longer than the CPU time, the thread waited for Python's interpreter lock, which another thread held, or for a CPU. A
thread samples the stack during long callbacks. The wait for the lock appears in functions that release it for a moment,
such as a write or an access to SQLite.

The output also has the share of hits that a callback would delay if hits came at random times. It is computed from CPU
times, so other processes of the machine do not change it. It covers the time since the full garbage collection at the
start.
"""

import asyncio
import gc
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from types import FrameType
from typing import Any

from feedproxy.cli import main

LONG = 0.002
SHOWN = 15
LIMITS = (0.001, 0.0015, 0.002)


@dataclass(slots=True)
class Sum:
    """Sums over the callbacks of one name: their number, their elapsed and CPU seconds, the longest time, and the
    number of long callbacks."""

    many: int = 0
    wall: float = 0.0
    cpu: float = 0.0
    longest: float = 0.0
    long: int = 0

    def add(self, wall: float, cpu: float) -> None:
        """Add one callback."""
        self.many, self.wall, self.cpu = self.many + 1, self.wall + wall, self.cpu + cpu
        self.longest, self.long = max(self.longest, wall), self.long + (wall > LONG)


class Watch:
    """Timer of the loop's callbacks."""

    def __init__(self) -> None:
        self.sums: dict[str, Sum] = {}
        self.stacks: Counter[str] = Counter()
        self.collections = Sum()
        self.beyond = dict.fromkeys(LIMITS, 0.0)
        """For each limit in seconds, the sum of the CPU seconds by which callbacks exceeded it."""
        self._counted_from = 0.0
        self._was_full = False
        self._began = 0.0
        self._thread = threading.main_thread().ident or 0
        watch, run = self, asyncio.events.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            name = called(handle._callback)  # type: ignore[attr-defined]  # asyncio's own, and not declared
            if name == "task serve":  # start and end
                return run(handle)
            cpu, watch._began = time.thread_time(), time.perf_counter()
            try:
                run(handle)
            finally:
                wall, cpu = time.perf_counter() - watch._began, time.thread_time() - cpu
                watch._began = 0.0
                watch.sums.setdefault(name, Sum()).add(wall, cpu)
                watch._count(cpu)
                # The frames of a cancelled task refer to this frame, which would refer to the task: a cycle for each.
                del handle

        asyncio.events.Handle._run = timed  # type: ignore[method-assign,assignment]
        gc.callbacks.append(self._collected)
        threading.Thread(target=self._look, daemon=True).start()

    def _count(self, cpu: float) -> None:
        if self._was_full:
            self.beyond, self._counted_from, self._was_full = dict.fromkeys(LIMITS, 0.0), time.perf_counter(), False
            return
        for limit in LIMITS:
            self.beyond[limit] += max(0.0, cpu - limit)

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting = time.perf_counter()
        else:
            took = time.perf_counter() - self._collecting
            self.collections.add(took, took)
            self._was_full = self._was_full or info["generation"] == 2

    def _look(self) -> None:
        while True:
            time.sleep(0.0005)
            began = self._began
            if began and time.perf_counter() - began > LONG:
                self.stacks[where(sys._current_frames().get(self._thread))] += 1

    def tell(self) -> None:
        """Print the callbacks that took most time, and the stacks sampled in long ones."""
        told = sys.stderr
        print("\n  calls  long  wall ms   cpu ms  longest ms  callback", file=told)
        for name, each in sorted(self.sums.items(), key=lambda item: -item[1].wall)[:SHOWN]:
            print(line(each, name), file=told)
        print(line(self.collections, "garbage collections, in any thread"), file=told)
        lasted = time.perf_counter() - self._counted_from
        print("\nshare of hits that one callback delays, by its CPU time alone:", file=told)
        for limit, seconds in self.beyond.items():
            print(f"  by more than {limit * 1000:g} ms: {100 * seconds / lasted:.3f} %", file=told)
        print(f"\nseen in callbacks of more than {LONG * 1000:g} ms:", file=told)
        for stack, many in self.stacks.most_common(SHOWN):
            print(f"{many:7}  {stack}", file=told)


def line(each: Sum, name: str) -> str:
    """Return a row of the table."""
    wall, cpu, longest = (seconds * 1000 for seconds in (each.wall, each.cpu, each.longest))
    return f"{each.many:7}{each.long:6}{wall:9.0f}{cpu:9.0f}{longest:12.1f}  {name}"


def called(callback: Any) -> str:
    """Return the name of a callback. The name of a task is that of its coroutine."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        coroutine: Any = owner.get_coro()
        return f"task {getattr(coroutine, '__qualname__', coroutine)}"
    function = getattr(callback, "func", callback)
    return str(getattr(function, "__qualname__", type(function).__name__))


def where(frame: FrameType | None) -> str:
    """Return the functions of a stack from the innermost outwards, at most six, and none of the event loop."""
    names: list[str] = []
    while frame is not None and len(names) < 6 and frame.f_code.co_name not in {"timed", "_run"}:
        module = frame.f_globals.get("__name__", "?")
        names.append(f"{module}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    return " < ".join(names)


if __name__ == "__main__":
    watch = Watch()
    try:
        code = main(sys.argv[1:])
    finally:
        watch.tell()
    sys.exit(code)
