"""Where the store is, how much it uses, and how much the disk has left: measured off the event loop, now and then."""

import asyncio
import os
import shutil
import time
from pathlib import Path

from feedproxy.admin.health import StorePlace
from feedproxy.clock import Seconds
from feedproxy.store.tiered import store_folder

REUSE_TIME: Seconds = 30
"""A store has some thousand files at most; counting them takes milliseconds."""


class StoreUsageMeter:
    """Measures one store, whose location is that of the option `store`."""

    def __init__(self) -> None:
        self._place = StorePlace()
        self._good_until = 0.0

    async def look(self, location: str, most: int) -> StorePlace:
        """How it is now, or was a moment ago."""
        if time.monotonic() >= self._good_until:
            self._place = await asyncio.to_thread(measure, location, most)
            self._good_until = time.monotonic() + REUSE_TIME
        return self._place


def measure(location: str, most: int) -> StorePlace:
    """The place of a store. What cannot be measured is left out: in memory, or on another machine."""
    if ":" in location and not Path(location).is_dir():
        return StorePlace()
    folder = store_folder(location)
    try:
        disk = shutil.disk_usage(folder)
        used = sum(_size(each) for part in ("feeds", "state") for each in _files(folder / part))
    except OSError:
        return StorePlace(str(folder))
    return StorePlace(str(folder), disk.free, disk.total, used, most)


def _files(folder: Path) -> list[str]:
    return [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names]


def _size(file: str) -> int:
    try:
        return os.stat(file).st_size
    except OSError:
        return 0  # it was there a moment ago
