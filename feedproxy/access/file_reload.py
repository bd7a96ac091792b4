"""A file that is parsed again after each change."""

import logging
import os
from collections.abc import Callable

from feedproxy import option_files
from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.errors import UsageError

logger = logging.getLogger(__name__)

CHECK_INTERVAL: Seconds = 1
"""Minimum time between two checks whether a file has changed, in seconds."""


class ReloadingFile[T]:
    """The content of a file as `parse(text, name)` returns it. `name` is the name of the file.

    The constructor raises UsageError if the file cannot be used. If a later version of the file is invalid, a line is
    logged, and the previous content remains in use.
    """

    def __init__(self, path: str, parse: Callable[[str, str], T], clock: Clock) -> None:
        self._path = option_files.expand(path)
        self._parse = parse
        self._clock = clock
        self._last_check: Instant = clock.now()
        self._file_state = self._state()
        self._value = self._read()

    @property
    def value(self) -> T:
        """Return the parsed content of the file's last valid version."""
        now = self._clock.now()
        if not 0 <= now - self._last_check < CHECK_INTERVAL:
            self._last_check = now
            state = self._state()
            if state != self._file_state:
                self._file_state = state
                try:
                    self._value = self._read()
                except UsageError as error:
                    logger.warning("%s: reload failed, keeping previous contents", error)
        return self._value

    def _state(self) -> tuple[int, int, int]:
        try:
            status = os.stat(self._path)
        except OSError:
            return 0, 0, 0
        # The time of the status also changes with the mode and owner, which may have prevented reading.
        return status.st_ctime_ns, status.st_size, status.st_ino

    def _read(self) -> T:
        return self._parse(option_files.read_text(self._path), str(self._path))


def significant_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines of `text` with their numbers, without empty lines and comments."""
    numbered = enumerate(text.splitlines(), start=1)
    return [(number, line.strip()) for number, line in numbered if line.strip() and not line.lstrip().startswith("#")]
