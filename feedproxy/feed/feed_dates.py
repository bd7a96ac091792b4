"""Lenient parsing of dates in feeds, and formatting of dates for each format.

The forms of RFC 822, RFC 3339 and ISO 8601 (W3C profile) are read in every format. An invalid date counts as absent: a
guess could be wrong by years. An invalid zone counts as GMT: the error is at most a day.
"""

import math
import re
import unicodedata
from datetime import UTC, datetime

from feedproxy.clock import Instant
from feedproxy.http.date import MONTHS

_TIME = (
    r"(?P<hour>\d{1,2})(?:[:.]?(?P<minute>\d\d|(?<=:)\d)(?:[:.]?(?P<second>\d\d|(?<=:)\d)(?:[.,]\d+)?)?)?"
    r"(?: ?(?P<half>[AP]\.?M\b)\.?)?"
    r"(?: ?(?P<zone>[A-Z][A-Z/_]*))?(?: ?(?P<sign>[+\u2212-]) ?(?P<hours>\d{1,2})(?::?(?P<minutes>\d\d))?"
    r"(?: ?[A-Z][A-Z/_]*)?)?(?: ?\[[\w/+-]+\])?"
)
"""Pattern of a time with its zone, such as `12:00:00 GMT`, `7:00 AM EST`, `13:00 +01:00` or `120000Z`.

In `13:00:00+01:00[Europe/Berlin]`, which also matches, the name of the zone has no effect.
"""

_MONTH = r"(?P<month>[^\W\d_]{3,20})"

_FORMS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        # RFC 822: Wed, 15 Nov 2023 12:00:00 GMT
        rf"(?:[^\W\d]+\.?,? ?)?(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)?[ -](?:de )?{_MONTH}\.?,?[ -](?:de )?"
        rf"(?P<year>\d{{2,4}})"
        rf"(?:(?:,| -| at)? {_TIME})?",
        # ISO 8601: 2023-11-15T12:00:00Z
        rf"(?P<year>\d{{4}})(?:-?(?P<month>\d\d)(?:-?(?P<day>\d\d)(?:[T ] ?{_TIME})?)?)?",
        # without leading zeros, or with slashes: 2023-1-5, 2023/11/15 12:00
        rf"(?P<year>\d{{4}})(?P<mark>[-/])(?P<month>\d{{1,2}})(?P=mark)(?P<day>\d{{1,2}})(?:[T ] ?{_TIME})?",
        # asctime: Wed Nov 15 12:00:00 2023; and November 15, 2023 12:00 PM
        rf"(?:[^\W\d]+\.?,? )?{_MONTH}\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,? (?P<year>\d{{4}}))?"
        rf"(?:(?:,| -| at)? {_TIME})?(?: (?P<last>\d{{4}}))?",
        # 15.11.2023 12:00
        rf"(?P<day>\d{{1,2}})\.(?P<month>\d{{1,2}})\.(?P<year>\d{{4}})(?:,? {_TIME})?",
    )
)
_COMMENT = re.compile(r"\([^()]*\)")
_MONTH_NUMBERS = {name.lower(): number for number, name in enumerate(MONTHS, 1)}
_OTHER_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "ene gen sty янв",
            "fev lut фев",
            "mrt maa мар",
            "avr abr kwi апр",
            "mai mei mag maj маи мая",
            "juin giu cze июн",
            "juil lug lip июл",
            "aou ago sie авг",
            "set wrz сен",
            "okt ott out paz окт",
            "lis ноя",
            "dez dic des gru дек",
        ),
        1,
    )
    for name in names.split()
}
"""The first three or four letters, without accents, of names of months in Danish, Dutch, French, German, Italian,
Norwegian, Polish, Portuguese, Russian, Spanish and Swedish. Those that equal the English ones are left out. None of
them stands for different months in two languages."""
_ZONES = {
    # North America: RFC 822, section 5.1
    "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7,
    # other names with one meaning in feeds
    "akst": -9, "akdt": -8, "hst": -10, "bst": 1, "west": 1, "cet": 1, "cest": 2, "eet": 2, "eest": 3, "msk": 3,
    "sast": 2, "jst": 9, "kst": 9, "aest": 10, "aedt": 11, "nzst": 12, "nzdt": 13,
}  # fmt: skip
"""Offsets of named zones from GMT, in hours. Unknown names count as GMT: they "SHOULD all be considered equivalent to
"-0000"" (RFC 2822, section 4.3)."""
_EARLIEST, _LATEST = -2_208_988_800, 7_258_118_400
"""Range of valid dates in Unix seconds: 1900 to 2200. Other dates are placeholders."""

IGNORED_WORDS_MAX = 6
"""Maximum number of ignored words after the time of day in a date.

For each ignored word, the date is matched once more, which takes as long as for a valid date.
"""


def parse(text: str) -> int | None:
    """Return the instant of a feed's date in whole Unix seconds, or None for an invalid date.

    A date without a zone is in GMT. A date without a day is the first of the month or year. Up to IGNORED_WORDS_MAX
    words after the time are ignored if they are not a valid zone.
    """
    text = " ".join(_COMMENT.sub(" ", text).split())
    if len(text) > 80:
        return None
    match, ignored = _match(text), 0
    while match is None and ignored < IGNORED_WORDS_MAX and ":" in (text := text.rpartition(" ")[0]):
        match, ignored = _match(text), ignored + 1
    instant = None if match is None else _instant(match.groupdict())
    return instant if instant is not None and is_valid(instant) else None


def _match(text: str) -> re.Match[str] | None:
    return next((match for form in _FORMS if (match := form.fullmatch(text))), None)


def is_valid(instant: Instant) -> bool:
    """Return True if an instant, in Unix seconds, is not a placeholder."""
    return _EARLIEST <= instant <= _LATEST


def _instant(parts: dict[str, str | None]) -> int | None:
    year, month = parts["year"] or parts.get("last"), parts["month"] or "1"
    if year is None:
        return None
    hour, minute, second, hours, minutes = (
        int(parts[name] or 0) for name in ("hour", "minute", "second", "hours", "minutes")
    )
    if parts["half"]:
        hour = hour % 12 + 12 * (parts["half"][0] in "pP") if 1 <= hour <= 12 else 99
    # "24:00" is the end of the day (ISO 8601, section 4.2.3).
    if minute > 59 or second > 60 or hour * 3600 + minute * 60 + second > 86_400:
        return None
    if parts["sign"]:
        offset = (hours * 60 + minutes) * (60 if parts["sign"] == "+" else -60)
        if hours > 23 or minutes > 59:
            offset = 0
    else:
        offset = 3600 * _ZONES.get((parts["zone"] or "").lower(), 0)
    number = int(month) if month.isdigit() else _month_number(month)
    try:
        day = datetime(_year(year), number, int(parts["day"] or 1), tzinfo=UTC)
    except ValueError:
        return None
    # A leap second becomes the last second of its minute.
    return math.floor(day.timestamp()) + hour * 3600 + minute * 60 + min(second, 59) - offset


def _month_number(name: str) -> int:
    """Return the number of a month, or 0 if its name is unknown."""
    name = name.lower()
    if not name.isascii():
        name = "".join(letter for letter in unicodedata.normalize("NFD", name) if not unicodedata.combining(letter))
    return _MONTH_NUMBERS.get(name[:3]) or _OTHER_MONTHS.get(name[:3]) or _OTHER_MONTHS.get(name[:4], 0)


def _year(digits: str) -> int:
    """Return the year that the digits mean (RFC 2822, section 4.3).

    00 to 49 mean 2000 to 2049. To other numbers of two or three digits, 1900 is added.
    """
    year = int(digits)
    if len(digits) > 3:
        return year
    return year + (2000 if len(digits) == 2 and year < 50 else 1900)
