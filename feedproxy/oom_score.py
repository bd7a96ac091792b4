"""The order in which Linux kills feedproxy's processes when memory runs out (proc_pid_oom_score_adj(5)).

By default, the kernel kills the process that uses most memory, perhaps the one that must not end: the single process
that serves clients, or the supervisor. All other processes get a higher score, because a killed worker or helper
process is replaced.
"""

import contextlib
from pathlib import Path

HELPER = 500
"""Addition to the score of a helper process and its template, in thousandths of the available memory. A worker with
caches of half the memory still has a lower score."""

WORKER = 100
"""Addition to the score of each of several workers. A worker's score is usually above the supervisor's even without
this addition, because the worker takes more memory."""

MAX = 1000


def raise_oom_score(addition: int, file: Path = Path("/proc/self/oom_score_adj")) -> None:
    """Raise the score of this process and of its later children, if the system has such a score. Only a privileged
    process could lower it again."""
    with contextlib.suppress(OSError, ValueError):
        file.write_text(str(min(MAX, int(file.read_text(encoding="ascii")) + addition)), encoding="ascii")
