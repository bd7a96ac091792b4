"""The memory that this process may use: that of the machine, or less in a container or service (cgroups)."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

NO_LIMIT = 2**63
LIMITS_V2: tuple[str, ...] = ("memory.max", "memory.high")
LIMITS_V1 = ("memory.limit_in_bytes",)


def available_memory(root: Path = Path("/")) -> int:
    """Return the bytes of memory that this process may use: the least of the limits of its cgroups and the machine's
    memory. Tests pass another root folder of the file system as `root`."""
    return min(_of_machine(), *_of_cgroups(root), NO_LIMIT)


def _of_machine() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return NO_LIMIT


def _of_cgroups(root: Path) -> Iterator[int]:
    """Yield the limits of this process's cgroups and of those above them (cgroups(7))."""
    mount = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        # "hierarchy-ID:controller-list:cgroup-path" -- cgroups(7). In version 2, the list is empty.
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        folder, names = (mount / "memory", LIMITS_V1) if controllers else (mount, LIMITS_V2)
        # In a container of version 1, the path is that of the machine, and only the root is mounted.
        for below in (PurePosixPath(path.lstrip("/")), *PurePosixPath(path.lstrip("/")).parents):
            yield from _read_limits(folder / below, names)


def _read_limits(folder: Path, names: tuple[str, ...]) -> Iterator[int]:
    for name in names:
        try:
            text = (folder / name).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text.isdecimal():  # the word `max` stands for no limit
            yield int(text)
