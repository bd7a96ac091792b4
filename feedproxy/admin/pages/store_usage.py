"""Measurement of the store: its folder, its size, and the free space of its disk."""

import asyncio
import os
import shutil
import time
from pathlib import Path

from msgspec import Struct

from feedproxy.clock import Seconds
from feedproxy.store.store_location import store_folder

REUSE_TIME: Seconds = 30
"""A measurement of the store is reused for this many seconds. A measurement takes about 15 ms for each thousand
files."""


class StoreUsage(Struct, frozen=True):
    """Folder and disk of the store. `folder` is empty for a store in memory. Sizes are in bytes, and None if they are
    unknown: `free` and `total` are the free space and the size of the disk."""

    folder: str = ""
    free: int | None = None
    total: int | None = None
    used: int | None = None
    """Bytes that the store uses."""
    most: int | None = None
    """Bytes that the store may use (`store_max`)."""

    @property
    def growth(self) -> int:
        """Return the number of bytes by which the store may still grow."""
        return max(0, (self.most or 0) - (self.used or 0))


UNKNOWN_USAGE = StoreUsage()
"""The usage of a store in memory, or of a store that is not measured yet."""


class StoreUsageMeter:
    """Meter of the size of one store. It reads the disk outside the event loop."""

    def __init__(self) -> None:
        self._usage = UNKNOWN_USAGE
        self._good_until = 0.0

    async def measure(self, location: str, most: int) -> StoreUsage:
        """Return a measurement, at most REUSE_TIME seconds old. `location` is the option `store`, and `most` is
        `store_max`."""
        if time.monotonic() >= self._good_until:
            self._usage = await asyncio.to_thread(_measure, location, most)
            self._good_until = time.monotonic() + REUSE_TIME
        return self._usage


def _measure(location: str, most: int) -> StoreUsage:
    if ":" in location and not Path(location).is_dir():
        return UNKNOWN_USAGE
    folder = store_folder(location)
    try:
        disk = shutil.disk_usage(folder)
        used = sum(_size(file) for part in ("feeds", "state") for file in _files(folder / part))
    except OSError:
        return StoreUsage(str(folder))
    return StoreUsage(str(folder), disk.free, disk.total, used, most)


def _files(folder: Path) -> list[str]:
    return [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names]


def _size(file: str) -> int:
    try:
        return os.stat(file).st_size
    except OSError:
        return 0  # the file was removed after the folder was listed
