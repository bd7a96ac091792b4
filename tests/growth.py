"""Whether the time of a call grows in proportion to the size of its input, as a ratio of two measured times."""

import time
from collections.abc import Callable

TIMES = 6
"""How much larger the second input is: what is quadratic takes 36 times as long."""

WORST = 3 * TIMES
MOMENT = 0.05
"""Seconds below which a cost is noise."""


def cost(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def grows_no_faster(work: Callable[[int], Callable[[], object]], size: int) -> str:
    """Return an empty text if the time of `work` grows with the size, else the times.

    A failed measurement is repeated.
    """
    told = ""
    for _ in range(3):
        large = cost(work(TIMES * size))
        if large < MOMENT:
            return ""
        small = cost(work(size))
        if large <= WORST * small:
            return ""
        told = f"{small:.4f} s, and {large:.4f} s for {TIMES} times as much"
    return told
