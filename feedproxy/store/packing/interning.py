"""Interning of texts that thousands of feeds share, such as field lines, to save memory."""

from collections.abc import Callable
from typing import Any

from feedproxy.http.field_lines import is_field
from feedproxy.http.message import SHARED_LENGTH_MAX

LINES_MAX = 4096
"""The cache holds at most this many texts and field lines, which take about 1 MB."""


class Interner:
    """Cache that returns the same object for equal texts and equal field lines.

    The cache is bounded, so equal texts may still be two objects. `sys.intern` is not used: origins choose these texts,
    and some versions of Python never free interned strings.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        self._lines: dict[tuple[str, str], tuple[str, str]] = {}

    def text(self, text: str) -> str:
        """Return the cached text that equals `text`. A new text is added to the cache. Raises TypeError if `text` is
        not a str."""
        if type(text) is not str:
            raise TypeError(f"expected str, not {type(text).__name__}")
        if len(text) > SHARED_LENGTH_MAX:
            return text
        if len(self._texts) >= LINES_MAX:
            self._texts.clear()
        return self._texts.setdefault(text, text)

    def value[Value](self, text: str, make: Callable[[], Value]) -> Value:
        cached: Value | None = self._values.get(text)
        if cached is None:
            cached = make()
            if len(text) <= SHARED_LENGTH_MAX:
                if len(self._values) >= LINES_MAX:
                    self._values.clear()
                self._values[text] = cached
        return cached

    def line(self, name: str, value: str) -> tuple[str, str]:
        """Return the cached field line that equals this line. A new line is added to the cache.

        Raises TypeError if the name or the value is not a str, and ValueError for an invalid field: other programs may
        write to a shared store.
        """
        cached = self._lines.get((name, value))
        if cached is not None:
            return cached
        if type(value) is not str:
            raise TypeError(f"expected str, not {type(value).__name__}")
        line = (self.text(name), value)
        if not is_field(name, value):
            raise ValueError("invalid stored field: expected a valid name and value")
        if len(value) <= SHARED_LENGTH_MAX:
            if len(self._lines) >= LINES_MAX:
                self._lines.clear()
            self._lines[line] = line
        return line
