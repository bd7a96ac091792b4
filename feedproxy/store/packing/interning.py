"""Interning of values that thousands of feeds share, such as field lines, to save memory."""

from typing import Any

from feedproxy.http.field_lines import is_field
from feedproxy.http.message import SHARED_LENGTH_MAX

VALUES_MAX = 8192
"""Maximum number of cached values. Texts and field lines take about 1 MB."""


class Interner:
    """Cache that returns the same object for equal values.

    It has a limit, so equal values can still be two objects. `sys.intern` is not used: origins choose the texts, and
    some versions of Python never free interned strings.
    """

    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}

    def text(self, text: str) -> str:
        """Return the cached text that equals `text`, or cache and return `text`. Raises TypeError if it is not a str.

        A text of more than SHARED_LENGTH_MAX characters is returned without caching.
        """
        if type(text) is not str:
            raise TypeError(f"expected str, not {type(text).__name__}")
        return self.intern(text) if len(text) <= SHARED_LENGTH_MAX else text

    def line(self, name: str, value: str) -> tuple[str, str]:
        """Return the cached field line that equals this line, or cache and return this line.

        A line with a value of more than SHARED_LENGTH_MAX characters is not cached. Raises TypeError if the name or the
        value is not a str, and ValueError for an invalid field: other programs can write to a shared store.
        """
        cached: tuple[str, str] | None = self._values.get((name, value))
        if cached is not None:
            return cached
        if type(value) is not str:
            raise TypeError(f"expected str, not {type(value).__name__}")
        line = (self.text(name), value)
        if not is_field(name, value):
            raise ValueError("invalid stored field: expected a valid name and value")
        return self.intern(line) if len(value) <= SHARED_LENGTH_MAX else line

    def intern[Value](self, value: Value, key: object = None) -> Value:
        """Return the cached value with the key `key` (`value` itself if None), or cache and return `value`."""
        if len(self._values) >= VALUES_MAX:
            self._values.clear()
        interned: Value = self._values.setdefault(value if key is None else key, value)
        return interned
