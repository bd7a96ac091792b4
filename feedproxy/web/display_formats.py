"""Instants, durations, sizes, counts and foreign texts in the form in which pages and reports show them."""

import re

from feedproxy.clock import Instant
from feedproxy.http.date import format_rfc3339

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]+")


def plain_text(text: str, longest: int = 300) -> str:
    """Return a text on one line, of at most `longest` characters. A longer text is cut, and ends in `…`.

    Control characters become spaces, and so do characters that change the writing direction.
    """
    line = " ".join(_CONTROLS.sub(" ", text).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def iso(instant: Instant) -> str:
    """Return an instant as `2026-01-31T12:00:00Z`, limited to the years 1970 to 9999."""
    return format_rfc3339(min(max(instant, 0.0), 253402300799.0))


def absolute(instant: Instant) -> str:
    """Return an instant as `2026-01-31 12:00:00 UTC`."""
    return iso(instant).replace("T", " ").replace("Z", " UTC")


def short(seconds: float) -> str:
    """Return a duration as a whole number of one unit, rounded down: `45 s`, `5 min`, `3 h`, `2 days`."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size or (size < 86_400 and seconds >= size):
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def size(count: float) -> str:
    """Return a number of bytes with its unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def number(count: float) -> str:
    """Return a count with narrow spaces between its thousands."""
    return f"{count:,.0f}".replace(",", "\u202f")


def plural(count: float, one: str, many: str) -> str:
    """Return a count with its noun: `1 feed`, `2 feeds`."""
    return f"{number(count)} {one if count == 1 else many}"
