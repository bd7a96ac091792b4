"""Interning of texts that thousands of feeds have in common, above all of field lines, which take most of the memory
apart from bodies.
"""

from collections.abc import Callable
from typing import Any

from feedproxy.http.message import SHARED_LENGTH_MAX
from feedproxy.http.message_syntax import is_field

LINES_MAX = 4096
"""Maximum number of texts and field lines in the cache, which take about 1 MB. The responses of the usual kinds of
servers have fewer distinct texts."""


class Interner:
    """Cache that returns one shared object for equal texts and equal field lines.

    The cache is bounded. After it has dropped a text, an equal text gets a second object. `sys.intern` is not used,
    because origins choose these texts, and some versions of Python never free interned strings.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        self._lines: dict[tuple[str, str], tuple[str, str]] = {}

    def text(self, text: str) -> str:
        """Return the cached text that equals `text`. If there is none, cache `text` and return it. Raises TypeError if
        `text` is not a str."""
        if type(text) is not str:
            raise TypeError(f"expected str, not {type(text).__name__}")
        if len(text) > SHARED_LENGTH_MAX:
            return text
        if len(self._texts) >= LINES_MAX:
            self._texts.clear()
        return self._texts.setdefault(text, text)

    def value[Value](self, text: str, make: Callable[[], Value]) -> Value:
        """Return the cached value for this text. If no value is cached, `make` makes it."""
        cached: Value | None = self._values.get(text)
        if cached is None:
            cached = make()
            if len(text) <= SHARED_LENGTH_MAX:
                if len(self._values) >= LINES_MAX:
                    self._values.clear()
                self._values[text] = cached
        return cached

    def line(self, name: str, value: str) -> tuple[str, str]:
        """Return the cached field line that equals this line. If there is none, cache this line and return it.

        Name and value are checked, because other programs may write to a shared store. Raises TypeError if one of them
        is not a str, and ValueError for an invalid field.
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
