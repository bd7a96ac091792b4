"""Texts that thousands of feeds have in common are kept once; field lines are most of what is not body."""

from typing import Any

from feedproxy.http.message_syntax import is_field

LINES_MAX = 4096
"""Texts and field lines remembered at once, about 1 MB: more than the usual kinds of server need."""
LENGTH_MAX = 128
"""Longer values (policies, reports) are seldom the same twice."""


class Interner:
    """Hands out one object for equal texts and equal field lines. Bounded; forgetting costs memory only.

    Not `sys.intern`: origins choose these texts, and interned strings have been immortal in some Pythons.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        self._lines: dict[tuple[str, str], tuple[str, str]] = {}

    def text(self, text: str) -> str:
        """This text, or the equal one that was there before. Raises TypeError for what is no text."""
        if type(text) is not str:
            raise TypeError(f"str expected, {type(text).__name__} found")
        if len(text) > LENGTH_MAX:
            return text
        if len(self._texts) >= LINES_MAX:
            self._texts.clear()
        return self._texts.setdefault(text, text)

    def value[Value](self, value: Value) -> Value:
        """This value, or the one that was there before and is written the same way."""
        if len(self._values) >= LINES_MAX:
            self._values.clear()
        known: Value = self._values.setdefault(repr(value), value)  # 0.0 and -0.0 are equal, and not the same
        return known

    def line(self, name: str, value: str) -> tuple[str, str]:
        """This field line, or the equal one that was there before.

        Raises TypeError where one is no text, ValueError for what is no field: others may write to a shared store.
        """
        shared = self._lines.get((name, value))
        if shared is not None:
            return shared
        if type(value) is not str:
            raise TypeError(f"str expected, {type(value).__name__} found")
        line = (self.text(name), value)
        if not is_field(name, value):
            raise ValueError("a stored field breaks HTTP's grammar")
        if len(value) <= LENGTH_MAX:
            if len(self._lines) >= LINES_MAX:
                self._lines.clear()
            self._lines[line] = line
        return line
