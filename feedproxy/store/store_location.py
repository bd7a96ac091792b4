"""The location of a store (option `store`): memory, a folder, or the platform's cache folder."""

import logging
from pathlib import Path

from platformdirs import user_cache_path

from feedproxy import option_files
from feedproxy.errors import UsageError
from feedproxy.store.coordination.worker_coordination import SharedMemoryCoordination
from feedproxy.store.disk import DiskStore
from feedproxy.store.interface import OnFailure, Store
from feedproxy.store.lru_memory_store import RESOURCES_MAX, MemoryStore
from feedproxy.store.tiered import TieredStore

MEMORY = "memory:"

_LOG = logging.getLogger(__name__)


def open_store(
    location: str,
    *,
    memory_max: int,
    disk_max: int,
    on_failure: OnFailure | None = None,
    shared: bool | Path = False,
) -> Store:
    """Return the store at `location`: `memory:`, a folder, or "" for the platform's cache folder.

    Sizes are in bytes. `shared` is True if several processes use the folder, or the path of the file for their
    coordination (worker_coordination.py). Broken files are renamed. Raises UsageError if the location cannot be used.
    """
    if location == MEMORY:
        if shared:
            raise UsageError(f"store: {MEMORY} is not shared by workers: expected a folder")
        return MemoryStore(memory_max)
    if "://" in location:
        raise UsageError(f"store: invalid location {location}: expected a folder or `{MEMORY}`")
    report_failure = on_failure or (lambda error: _LOG.warning("%s", error))
    disk = DiskStore(store_folder(location), size_max=disk_max, on_failure=report_failure)
    common = disk.folder / "common" if shared is True else shared
    return TieredStore(
        MemoryStore(memory_max, RESOURCES_MAX),
        disk,
        on_failure=report_failure,
        shared=SharedMemoryCoordination(common) if common else None,
    )


def store_folder(location: str) -> Path:
    """Return the folder that the option `store` names, or the platform's cache folder for ""."""
    if location:
        return option_files.expand(location)
    return user_cache_path("feedproxy", appauthor=False)
