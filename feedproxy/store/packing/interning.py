"""Interning of texts that thousands of feeds have in common; field lines are most of what is not body."""

from typing import Any

from feedproxy.http.message_syntax import is_field

LINES_MAX = 4096
"""Texts and field lines remembered at once, about 1 MB: more than the usual kinds of server need."""
LENGTH_MAX = 128
"""Bytes of an interned text; longer ones (policies, reports) seldom occur twice."""


class Interner:
    """Returns one object for equal texts and equal field lines. Bounded; forgetting costs memory only.

    Not `sys.intern`: origins choose these texts, and interned strings have been immortal in some versions of Python.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        self._lines: dict[tuple[str, str], tuple[str, str]] = {}

    def text(self, text: str) -> str:
        """Return this text, or the equal one that is remembered. Raises TypeError for other types."""
        if type(text) is not str:
            raise TypeError(f"str expected, {type(text).__name__} found")
        if len(text) > LENGTH_MAX:
            return text
        if len(self._texts) >= LINES_MAX:
            self._texts.clear()
        return self._texts.setdefault(text, text)

    def value[Value](self, value: Value) -> Value:
        """Return this value, or a remembered one with the same repr()."""
        if len(self._values) >= LINES_MAX:
            self._values.clear()
        known: Value = self._values.setdefault(repr(value), value)  # 0.0 and -0.0 are equal, but have different texts
        return known

    def line(self, name: str, value: str) -> tuple[str, str]:
        """Return this field line, or the equal one that is remembered.

        Raises TypeError for other types, and ValueError for an invalid field: other programs may write to a shared
        store.
        """
        known = self._lines.get((name, value))
        if known is not None:
            return known
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
