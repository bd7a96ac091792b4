"""Measurement of the store: its folder, its size, and the free space of its disk."""

import asyncio
import os
import shutil
import time
from pathlib import Path

from feedproxy.admin.pages.health import StoreUsage
from feedproxy.clock import Seconds
from feedproxy.store.store_location import store_folder

REUSE_TIME: Seconds = 30
"""A measurement of the store is reused for this many seconds. A measurement of thousands of files takes
milliseconds."""


class StoreUsageMeter:
    """Meter of one store. It works outside the event loop."""

    def __init__(self) -> None:
        self._usage = StoreUsage()
        self._good_until = 0.0

    async def measure(self, location: str, most: int) -> StoreUsage:
        """Return a measurement, at most REUSE_TIME seconds old.

        `location` is the option `store`, and `most` is `store_max`.
        """
        if time.monotonic() >= self._good_until:
            self._usage = await asyncio.to_thread(_measure, location, most)
            self._good_until = time.monotonic() + REUSE_TIME
        return self._usage


def _measure(location: str, most: int) -> StoreUsage:
    if ":" in location and not Path(location).is_dir():
        return StoreUsage()
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
