"""Channel Definition Format (1997): root element `CHANNEL`, its timing in `SCHEDULE`.

Names are matched in any case: the note shows capitals, Microsoft's own examples both.
"""

import re

from feedproxy.clock import Seconds
from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.parse import hints
from feedproxy.feed.parse.structure import Items
from feedproxy.feed.xml import Document, Element, attributes, children, qualified_name, text_of

_UNITS = {"day": 86400.0, "hour": 3600.0, "min": 60.0, "sec": 1.0}
_ELEMENTS = frozenset(("item", "schedule", "logo", "abstract", "a", "usage", "intropage"))
_DISTINCTIVE = frozenset(("href", "a", "schedule", "usage", "intropage", "abstract"))
"""Names that are CDF's and rarely any other vocabulary's, of elements or attributes."""
_NUMBER = re.compile(r"[0-9]{1,9}")


def read(document: Document, items: Items) -> Channel | None:
    """The channel; None where nothing of CDF is in it.

    In capitals any element of CDF's shows it. In other cases `channel` and `item` are words of many vocabularies, and
    it takes what only CDF has: an address in an attribute, or a schedule.
    """
    root = document.root
    if qualified_name(root)[1] != "CHANNEL":
        if not _attribute(root, "href") and not _has(root, _DISTINCTIVE) and _DISTINCTIVE.isdisjoint(items.first or ()):
            return None
    elif not items.items and not _attribute(root, "href") and not _has(root, _ELEMENTS):
        return None
    return Channel(
        kind=Kind.CDF,
        version="",
        well_formed=document.well_formed,
        title=next((text_of(child) for child in _named(root, "title")), ""),
        link=_attribute(root, "href") or next((_attribute(child, "href") for child in _named(root, "a")), ""),
        schedule=hints.schedule(interval=_interval(root)),
    )


def _interval(root: Element) -> Seconds | None:
    """`INTERVALTIME`'s days, hours and minutes: how long the schedule takes to come round."""
    for times in _named(root, "schedule"):
        for interval in _named(times, "intervaltime"):
            given = {unit: _attribute(interval, unit) for unit in _UNITS}
            if not all(_NUMBER.fullmatch(value) for value in given.values() if value):
                return 0.0
            return sum(_UNITS[unit] * int(value) for unit, value in given.items() if value)
    return None


def _has(parent: Element, names: frozenset[str]) -> bool:
    return any(local.lower() in names for _, local, _ in children(parent))


def _named(parent: Element, wanted: str) -> list[Element]:
    return [child for _, local, child in children(parent) if local.lower() == wanted]


def _attribute(element: Element, wanted: str) -> str:
    return next((value.strip() for key, value in attributes(element) if key.lower() == wanted), "")
