"""What keeps the event loop from hits: python -m benchmarks.stalls serve …, as `feedproxy serve …`, told when it ends.

Each callback of the loop is timed, wall and CPU: where the wall's time is longer, the thread waited for Python's lock
(another thread computed) or for a CPU. What takes long within a callback is seen by a thread that looks at the stack; a
function that gives the lock away for a moment (a write, a look into SQLite) is where waiting for it shows.
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


@dataclass(slots=True)
class Sum:
    """Of callbacks of one name: how many, seconds by the wall and of CPU, and the longest."""

    many: int = 0
    wall: float = 0.0
    cpu: float = 0.0
    longest: float = 0.0
    long: int = 0

    def add(self, wall: float, cpu: float) -> None:
        """One more."""
        self.many, self.wall, self.cpu = self.many + 1, self.wall + wall, self.cpu + cpu
        self.longest, self.long = max(self.longest, wall), self.long + (wall > LONG)


class Watch:
    """Times the loop's callbacks from now on."""

    def __init__(self) -> None:
        self.sums: dict[str, Sum] = {}
        self.stacks: Counter[str] = Counter()
        self.collections = Sum()
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
                wall = time.perf_counter() - watch._began
                watch._began = 0.0
                watch.sums.setdefault(name, Sum()).add(wall, time.thread_time() - cpu)

        asyncio.events.Handle._run = timed  # type: ignore[method-assign,assignment]
        gc.callbacks.append(self._collected)
        threading.Thread(target=self._look, daemon=True).start()

    def _collected(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._collecting = time.perf_counter()
        else:
            took = time.perf_counter() - self._collecting
            self.collections.add(took, took)

    def _look(self) -> None:
        while True:
            time.sleep(0.0005)
            began = self._began
            if began and time.perf_counter() - began > LONG:
                self.stacks[where(sys._current_frames().get(self._thread))] += 1

    def tell(self) -> None:
        """The callbacks that took most, and what was seen in those that took long."""
        told = sys.stderr
        print("\n  calls  long  wall ms   cpu ms  longest ms  callback", file=told)
        for name, each in sorted(self.sums.items(), key=lambda item: -item[1].wall)[:SHOWN]:
            print(line(each, name), file=told)
        print(line(self.collections, "garbage collections, in any thread"), file=told)
        print(f"\nseen in callbacks of more than {LONG * 1000:g} ms:", file=told)
        for stack, many in self.stacks.most_common(SHOWN):
            print(f"{many:7}  {stack}", file=told)


def line(each: Sum, name: str) -> str:
    """One line of the table."""
    wall, cpu, longest = (seconds * 1000 for seconds in (each.wall, each.cpu, each.longest))
    return f"{each.many:7}{each.long:6}{wall:9.0f}{cpu:9.0f}{longest:12.1f}  {name}"


def called(callback: Any) -> str:
    """What a callback is: a task by its coroutine, else the function."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        coroutine: Any = owner.get_coro()
        return f"task {getattr(coroutine, '__qualname__', coroutine)}"
    function = getattr(callback, "func", callback)
    return str(getattr(function, "__qualname__", type(function).__name__))


def where(frame: FrameType | None) -> str:
    """The innermost functions, the last one first, up to the loop."""
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
