"""Parser of the Channel Definition Format (1997): root element `CHANNEL`.

Names are case-insensitive: the specification has capitals, Microsoft's examples have capitals and small letters.
"""

import re

from feedproxy.feed.channel import NO_HINTS, Channel, Kind, Schedule
from feedproxy.feed.parse.feed_structure import Items
from feedproxy.feed.xml_parser import Element, XmlTree, attribute_of, children, named_children, qualified_name, text_of

_UNITS = {"day": 86400.0, "hour": 3600.0, "min": 60.0, "sec": 1.0}
_ELEMENTS = frozenset(("item", "schedule", "logo", "abstract", "a", "usage", "intropage"))
_DISTINCTIVE = frozenset(("href", "a", "schedule", "usage", "intropage", "abstract"))
"""Elements and attributes of CDF that are rare in other formats of feeds."""
_NUMBER = re.compile(r"[0-9]{1,9}")
_INVALID_INTERVAL = "INTERVALTIME is not a positive duration"


def read(document: XmlTree, items: Items) -> Channel | None:
    """Return the channel of a CDF document, or None for another vocabulary.

    A root `CHANNEL` in capitals is CDF if it has an element of CDF, an item or an `href`. Many other vocabularies have
    elements `channel` and `item`. A root in another spelling is therefore CDF only if it has an `href`, or if the root
    or its first item has a name of _DISTINCTIVE.
    """
    root = document.root
    if qualified_name(root)[1] != "CHANNEL":
        if (
            not attribute_of(root, "href").strip()
            and not _has_child(root, _DISTINCTIVE)
            and _DISTINCTIVE.isdisjoint(items.first or ())
        ):
            return None
    elif not items.items and not attribute_of(root, "href").strip() and not _has_child(root, _ELEMENTS):
        return None
    return Channel(
        kind=Kind.CDF,
        version="",
        well_formed=document.well_formed,
        title=next((text_of(child) for child in named_children(root, "title")), ""),
        link=attribute_of(root, "href").strip()
        or next((attribute_of(child, "href").strip() for child in named_children(root, "a")), ""),
        schedule=_schedule(root),
    )


def _schedule(root: Element) -> Schedule:
    """Return the schedule with the interval of the first element `INTERVALTIME`, or NO_HINTS if there is none.

    If the interval is invalid or zero, the schedule has a note in place of the interval.
    """
    for times in named_children(root, "schedule"):
        for interval in named_children(times, "intervaltime"):
            values = {unit: attribute_of(interval, unit).strip() for unit in _UNITS}
            is_valid = all(_NUMBER.fullmatch(value) for value in values.values() if value)
            seconds = sum(_UNITS[unit] * int(value) for unit, value in values.items() if value) if is_valid else 0.0
            return Schedule(interval=seconds) if seconds else Schedule(notes=(_INVALID_INTERVAL,))
    return NO_HINTS


def _has_child(parent: Element, names: frozenset[str]) -> bool:
    return any(local.lower() in names for _, local, _ in children(parent))
