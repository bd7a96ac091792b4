"""Parser of schedule hints.

A value in a wrong form is accepted if it has only one possible meaning ("06", "24", "SUN"). Other invalid values are
ignored, because a wrong hint would delay updates. `Schedule.notes` describes invalid values.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from feedproxy.clock import Instant
from feedproxy.feed import feed_dates
from feedproxy.feed.channel import Period, Schedule
from feedproxy.feed.xml_parser import SY, Child, Element, children, is_itunes, qualified_name, text_of
from feedproxy.http.date import WEEKDAYS

_PODCASTING2 = "podcastindex.org/namespace/1.0"

_UPDATES = frozenset(("updatefrequency", "updateperiod", "updatebase"))
_SKIPS = {"skiphours": "hour", "skipdays": "day"}

HINTS_MAX = 64
"""Maximum number of values read of one hint. A day has 24 hours, so more have no effect."""

_NUMBER = re.compile(r"\+?([0-9]{1,1000})(?:\.[0-9]*)?")
_NUMBER_MAX = 10**18
"""A larger number in a hint counts as this number, which exceeds every limit of the schedule (schedule_hints.py)."""
_QUOTED_MAX = 40
"""A note quotes at most this many characters of an invalid value."""


def states_end(element: Element) -> bool:
    """Return True if an element of iTunes or Podcasting 2.0 states that the podcast has ended.

    "Specifying any value other than Yes has no effect." -- Apple, itunes:complete

    "complete (optional) Boolean specifying if the podcast has stopped publishing new content" -- Podcasting 2.0
    """
    namespace, local = qualified_name(element)
    if local == "complete" and is_itunes(namespace):
        return _value(element).lower() == "yes"
    if local == "updateFrequency" and namespace.endswith(_PODCASTING2):
        return (element.get("complete") or "").strip().lower() == "true"
    return False


def schedule(elements: Iterable[Child], core: str) -> Schedule:
    """Return the schedule that a channel's elements state.

    The elements are those of RSS (in the namespace `core`), the syndication module, iTunes and Podcasting 2.0.
    """
    texts: dict[str, list[str]] = {}
    finished = False
    for namespace, local, element in elements:
        key = local.lower()
        if (namespace == SY and key in _UPDATES) or (namespace == core and key == "ttl"):
            values = texts.setdefault(key, [])
            if len(values) < HINTS_MAX:
                values.append(_value(element))
        elif states_end(element):
            finished = True
        elif namespace == core and key in _SKIPS and not texts.get(key):
            texts[key] = _child_values(element, _SKIPS[key])
    return _schedule_of(texts, finished=finished)


def _child_values(element: Element, name: str) -> list[str]:
    """Return the texts of the child elements with this name. If there are none, return the element's own text."""
    values = [_value(child) for _, local, child in children(element) if local.lower() == name][:HINTS_MAX]
    return values or list(filter(None, [_value(element)]))


def _value(element: Element) -> str:
    return text_of(element) if next(element.iterchildren("*"), None) is None else ""


def _schedule_of(texts: Mapping[str, Sequence[str]], *, finished: bool) -> Schedule:
    """Return the schedule that hint elements describe (RSS 2.0; RSS 1.0 syndication module).

    `texts` maps an element's name, in lower case, to the texts of all such elements in document order. For skipHours
    and skipDays, these are the texts of the child elements. `finished` is True if the feed states its end.
    """
    notes: list[str] = []
    ttl, hours, days, period, frequency, base = (
        texts.get(name, ())
        for name in ("ttl", "skiphours", "skipdays", "updateperiod", "updatefrequency", "updatebase")
    )
    update_period, update_frequency = _update(period, frequency, notes)
    return Schedule(
        ttl=_ttl(ttl, notes),
        skip_hours=_hours(hours, notes),
        skip_days=_days(days, notes),
        period=update_period,
        frequency=update_frequency,
        base=_base(base, notes) if update_period else None,
        finished=finished,
        notes=tuple(notes),
    )


def _ttl(values: Sequence[str], notes: list[str]) -> int | None:
    valid = []
    for value in values:
        minutes = _number(value)
        if not minutes:
            notes.append(f"ttl {_quote(value)} is not a number of minutes above 0")
        else:
            valid.append(minutes)
    if len(valid) > 1:
        notes.append("ttl occurs more than once: the first counts")
    return valid[0] if valid else None


def _hours(values: Sequence[str], notes: list[str]) -> frozenset[int]:
    hours = set()
    for value in values:
        hour = _number(value)
        if hour is None or hour > 24:
            notes.append(f"skipHours {_quote(value)} is not an hour from 0 to 23")
        else:
            hours.add(hour % 24)
    if len(hours) == 24:
        notes.append("skipHours lists all 24 hours")
        return frozenset()
    return frozenset(hours)


def _days(values: Sequence[str], notes: list[str]) -> frozenset[int]:
    days = set()
    for value in values:
        word = value.strip().rstrip(".").lower()
        matching = [number for number, day in enumerate(WEEKDAYS) if len(word) >= 3 and day.lower().startswith(word)]
        if matching:
            days.add(matching[0])
        else:
            notes.append(f"skipDays {_quote(value)} is not the English name of a day")
    if len(days) == 7:
        notes.append("skipDays lists all 7 days")
        return frozenset()
    return frozenset(days)


def _update(period: Sequence[str], frequency: Sequence[str], notes: list[str]) -> tuple[Period | None, int]:
    if not period and not frequency:
        return None, 1
    times = 1
    if frequency:
        number = _number(frequency[0])
        if number:
            times = number
        else:
            notes.append(f"sy:updateFrequency {_quote(frequency[0])} is not a positive number")
            if not period:
                return None, 1
    if not period:
        return Period.DAILY, times
    word = period[0].strip().lower()
    if word not in Period:
        # The default would contradict the publisher's intent, so an unknown period gives no hint.
        notes.append(f"sy:updatePeriod {_quote(period[0])} is not one of {', '.join(Period)}")
        return None, 1
    return Period(word), times


def _base(values: Sequence[str], notes: list[str]) -> Instant | None:
    """Return the instant of sy:updateBase, or None if it is missing or invalid.

    The module defines the form `yyyy-mm-ddThh:mm`. The other forms of dates in feeds are accepted, too.
    """
    if not values:
        return None
    if (instant := feed_dates.parse(values[0])) is not None:
        return float(instant)
    notes.append(f"sy:updateBase {_quote(values[0])} is not a valid date")
    return None


def _number(value: str) -> int | None:
    match = _NUMBER.fullmatch(value.strip())
    return min(int(match[1]), _NUMBER_MAX) if match else None


def _quote(value: str) -> str:
    return repr(value.strip()[:_QUOTED_MAX])
