"""The duration of a recording, as feeds state it."""

import re

_COLONS = re.compile(r"(?:(?:(\d{1,9}):)?(\d{1,9}):)?(\d{1,9})(?:[.,]\d*)?", re.ASCII)
"""Pattern of a duration as `seconds`, `minutes:seconds` or `hours:minutes:seconds` (itunes:duration, Media RSS)."""
_ISO_8601 = re.compile(
    r"P(?=T?\d)(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:[.,]\d*)?S)?)?",
    re.ASCII | re.IGNORECASE,
)
"""Pattern of days, hours, minutes and seconds (ISO 8601): `PT1H2M3S`."""
_MAX = 10**9
"""A duration of this many seconds (31 years) or more is invalid."""


def parse_duration(text: str) -> int | None:
    """Return the whole seconds of a duration, or None if it is invalid. A fraction of a second is cut off."""
    text = text.strip()
    if (match := _COLONS.fullmatch(text)) is not None:
        hours, minutes, seconds = (int(part or 0) for part in match.groups())
        total = (hours * 60 + minutes) * 60 + seconds
    elif (match := _ISO_8601.fullmatch(text)) is not None:
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    else:
        return None
    return total if total < _MAX else None
