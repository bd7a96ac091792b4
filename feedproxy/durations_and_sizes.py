"""Durations and sizes as an operator writes them, such as `1h30m` or `64KiB`, and durations in words.

A number without a unit has the option's own unit. `K` to `T` and `KiB` to `TiB` are powers of 1024. `kB` to `TB` are
powers of 1000.
"""

import math
import re
from functools import lru_cache
from typing import Literal

from feedproxy.clock import Seconds

type Unit = Literal["", "s", "ms", "B"]
"""The unit of an option's number: none, seconds, milliseconds, or bytes."""

EXAMPLES: dict[Unit, str] = {
    "s": "a duration, such as 30m or 1800 (seconds)",
    "ms": "a duration, such as 250ms or 250 (milliseconds)",
    "B": "a size, such as 64KiB or 65536 (bytes)",
}

_DURATIONS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}

_PREFIXES = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}

_PART = re.compile(r"([0-9]{1,18})\s*([a-z]+)")
_DURATION = re.compile(rf"(?:{_PART.pattern}\s*)+")
_SIZE = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,6}))?\s*([kmgt]?)(i?)(b?)")


def parse(text: str, unit: Unit) -> int | None:
    """Return the quantity in `unit` as a whole number, or None if `text` is not a quantity."""
    text = text.strip().lower()
    if re.fullmatch(r"[0-9]{1,18}", text):
        return int(text)
    if unit == "B":
        return _size(text)
    return _duration(text, unit) if unit else None


def _size(text: str) -> int | None:
    match = _SIZE.fullmatch(text)
    if match is None or (match[4] and not match[3]):
        return None
    whole, fraction, prefix, binary, byte = match.groups()
    factor = (1000 if byte and not binary else 1024) ** _PREFIXES[prefix]
    number = int(whole) * factor + (int(fraction) * factor // 10 ** len(fraction) if fraction else 0)
    return None if fraction and not prefix else number


def _duration(text: str, unit: Unit) -> int | None:
    if not _DURATION.fullmatch(text):
        return None
    parts = _PART.findall(text)
    if any(name not in _DURATIONS for _, name in parts):
        return None
    sizes = [_DURATIONS[name] for _, name in parts]
    if sizes != sorted(set(sizes), reverse=True):
        return None  # `30m1h` and `1h1h` are typing errors
    milliseconds = sum(int(number) * size for (number, _), size in zip(parts, sizes, strict=True))
    whole, remainder = divmod(milliseconds, _DURATIONS[unit])
    return None if remainder else whole


def format_quantity(number: int, unit: Unit) -> str:
    """Return `number` with the largest exact units: 5400 seconds are `1h30m`, and 65536 bytes are `64KiB`."""
    if not unit or not number:
        return str(number)
    if unit == "B":
        return _format_size(number)
    remainder, parts = number * _DURATIONS[unit], []
    for name in ("d", "h", "m", "s", "ms"):
        count, remainder = divmod(remainder, _DURATIONS[name])
        if count:
            parts.append(f"{count}{name}")
    return "".join(parts)


def _format_size(number: int) -> str:
    best = str(number)
    for power, prefix in enumerate("KMGT", 1):
        for factor, name in ((1024, f"{prefix}iB"), (1000, "kB" if prefix == "K" else f"{prefix}B")):
            count, remainder = divmod(number, factor**power)
            if count and not remainder:
                best = f"{count}{name}"
    return best


def span(seconds: Seconds) -> str:
    """Return a duration in words: `40 s`, `4 min 59 s`, `35 min`, `1 h 5 min`, `3 days`."""
    whole = round(seconds)
    if whole >= 600:
        whole -= whole % 60  # the words have no seconds, so that few different results are cached
    return _span(whole if whole > 0 else 0)


def exact_span(seconds: Seconds) -> str:
    """Return a duration in words to the second, rounded down: `29 min 50 s`, `1 h 20 s`, `2 days 5 min`.

    Use it for a duration that is compared with a limit. A duration below the limit then does not read like the limit.
    """
    remainder, parts = max(0, math.floor(seconds)), []
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min"), (1, "s")):
        count = remainder // size
        if count > 1 or (count and unit != "days"):
            parts.append(f"{count} {unit}")
            remainder -= count * size
    return " ".join(parts) or "0 s"


@lru_cache(maxsize=8192)
def _span(whole: int) -> str:
    if whole >= 2 * 86_400:
        return _two(whole, 86_400, "days", 3_600, "h")
    if whole >= 3_600:
        return _two(whole, 3_600, "h", 60, "min")
    if whole >= 600:
        return f"{whole // 60} min"
    return _two(whole, 60, "min", 1, "s") if whole >= 60 else f"{whole} s"


def _two(whole: int, size: int, unit: str, smaller: int, smaller_unit: str) -> str:
    remainder = whole % size // smaller
    return f"{whole // size} {unit} {remainder} {smaller_unit}" if remainder else f"{whole // size} {unit}"


def count_noun(number: int, noun: str) -> str:
    """Return a number with its noun: `1 minute`, `2,000 minutes`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
