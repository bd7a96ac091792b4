"""Whether the time of a call grows in proportion to the size of its input, as a ratio of two measured times."""

import gc
import time
from collections.abc import Callable

TIMES = 6
"""How much larger the second input is: what is quadratic takes 36 times as long."""

WORST = 3 * TIMES
MOMENT = 0.05
"""Seconds below which a cost is noise."""


def cost(work: Callable[[], object], repetitions: int = 1) -> float:
    """Return the mean processor time of this thread, in seconds, without collections of garbage.

    A collection also examines the objects of earlier tests, so its time does not depend on the size of the input.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        began = time.thread_time()
        for _ in range(repetitions):
            work()
        return (time.thread_time() - began) / repetitions
    finally:
        if was_enabled:
            gc.enable()


def grows_no_faster(work: Callable[[int], Callable[[], object]], size: int) -> str:
    """Return an empty text if the time of `work` grows with the size, else the times.

    A failed measurement is repeated, with a longer time for the small input: a virtual machine's clock of processor
    time errs by some milliseconds.
    """
    told = ""
    for repetitions in (1, TIMES, TIMES):
        large = cost(work(TIMES * size))
        if large < MOMENT:
            return ""
        small = cost(work(size), repetitions)
        if large <= WORST * small:
            return ""
        told = f"{small:.4f} s, and {large:.4f} s for {TIMES} times as much"
    return told
