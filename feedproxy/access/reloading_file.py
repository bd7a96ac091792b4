"""A file the operator edits while we run: read anew when it has changed, kept as it was where it is broken."""

import logging
import os
from collections.abc import Callable
from pathlib import Path

from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.errors import UsageError

logger = logging.getLogger(__name__)

CHECK_INTERVAL: Seconds = 1
"""A file is looked at this often at most: a change counts after a second, and a request costs no system call."""


class ReloadingFile[T]:
    """What a file says, parsed. Raises UsageError at the first look where it cannot be read; later it only warns."""

    def __init__(self, path: str, parse: Callable[[str, str], T], clock: Clock) -> None:
        self._path = Path(path).expanduser()
        self._parse = parse
        self._clock = clock
        self._last_check: Instant = clock.now()
        self._seen = self._state()
        self._value = self._read()
        self.version = 0
        """How often it was read anew."""

    @property
    def value(self) -> T:
        """What the file says now, or said when it could last be read."""
        now = self._clock.now()
        if not 0 <= now - self._last_check < CHECK_INTERVAL:
            self._last_check = now
            state = self._state()
            if state != self._seen:
                self._seen = state
                try:
                    self._value = self._read()
                    self.version += 1
                except UsageError as error:
                    logger.warning("%s; what it said before holds on", error)
        return self._value

    def _state(self) -> tuple[int, int, int]:
        try:
            found = os.stat(self._path)
        except OSError:
            return 0, 0, 0
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> T:
        try:
            text = self._path.read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{self._path}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"{self._path}: this is no UTF-8") from error
        return self._parse(text, str(self._path))


def significant_lines(text: str) -> list[tuple[int, str]]:
    """The lines that say something, with their numbers: no empty ones, no comments."""
    numbered = enumerate(text.splitlines(), start=1)
    return [(number, line.strip()) for number, line in numbered if line.strip() and not line.lstrip().startswith("#")]
