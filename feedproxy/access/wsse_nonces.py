"""Storage of used WSSE proofs in a folder that all workers share, and that survives a restart.

A proof is the SHA-1 sum in a token (wsse.py). Its record is kept until the token expires.
"""

import contextlib
import fcntl
import hashlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from feedproxy.clock import Instant, Seconds

logger = logging.getLogger(__name__)

CLEANUP_INTERVAL: Seconds = 60
"""Minimum time between two removals of expired records, in seconds."""


class NonceFolder:
    """A folder with an empty file for each used proof. The file's name is the SHA-256 hash of the proof, and its
    modification time the time at which the record expires."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last_cleanup: Instant = 0.0
        self._failed = False

    def claim(self, proof: bytes, until: Instant, now: Instant) -> bool:
        """Record a proof as used until the instant `until`, and return True. Return False if it has an unexpired
        record. If the folder cannot be used, the result is True: the process then relies on the proofs in its own
        memory."""
        name = hashlib.sha256(proof).hexdigest()
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._lock_file():
                if abs(now - self._last_cleanup) >= CLEANUP_INTERVAL:
                    self._remove_expired(now)
                path = self._folder / name
                with contextlib.suppress(FileNotFoundError):
                    if path.stat().st_mtime >= now:
                        return False
                path.touch(mode=0o600)
                os.utime(path, (until, until))
        except OSError as error:
            if not self._failed:
                self._failed = True
                logger.warning("%s: %s; used WSSE proofs are not shared between workers", self._folder, error)
        return True

    @contextlib.contextmanager
    def _lock_file(self) -> Iterator[None]:
        handle = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _remove_expired(self, now: Instant) -> None:
        self._last_cleanup = now
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name != "lock" and entry.stat().st_mtime < now:
                    os.unlink(entry.path)
