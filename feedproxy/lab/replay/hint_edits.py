"""Insertion and removal of schedule hints in a feed's document. All other bytes remain.

`ttl`, `skipHours` and `skipDays` are elements of RSS. `sy` is the RSS 1.0 syndication module, which can occur in every
XML feed. OPML, JSON, HTML, and documents in an encoding that does not include ASCII are not changed.
"""

import re

from feedproxy.feed.xml_parser import SY
from feedproxy.http.date import WEEKDAYS

_CHANNEL = re.compile(rb"<(?:[A-Za-z_][\w.-]*:)?(?P<name>channel|feed)(?=[\s>])(?:[^<>\"']|\"[^\"]*\"|'[^']*')*(?<!/)>")
_ITEM = re.compile(rb"<(?:[A-Za-z_][\w.-]*:)?(?:item|entry)[\s>]")
_ELEMENTS = {
    "ttl": rb"ttl",
    "skiphours": rb"skipHours",
    "skipdays": rb"skipDays",
    "sy": rb"[A-Za-z_][\w.-]*:update(?:Period|Frequency|Base)",
}
NAMES = frozenset(_ELEMENTS)

FAULT_NAMES = {"ttl": "ttl", "skiphours": "skip-hours", "skipdays": "skip-days"}
"""Names of the faults that insert invalid hints, by hint."""

_PERIOD = re.compile(r"(?:hourly|daily|weekly|monthly|yearly)(?:/[1-9][0-9]{0,5})?")
_MINUTES = re.compile(r"[1-9][0-9]{0,8}")
_HOUR = re.compile(r"[01]?[0-9]|2[0-3]")


def is_valid(name: str, value: str) -> bool:
    """Return True if the value is valid for the hint `name`."""
    parts = [part.strip() for part in value.split(",")]
    match name:
        case "ttl":
            return bool(_MINUTES.fullmatch(value))
        case "skiphours":
            return all(map(_HOUR.fullmatch, parts))
        case "skipdays":
            return all(part.capitalize() in WEEKDAYS for part in parts)
    return bool(_PERIOD.fullmatch(value))


def remove_hint(content: bytes, name: str) -> bytes:
    """Return the document without the hint `name` in its channel."""
    element = _ELEMENTS[name]
    pattern = re.compile(rb"\s*<(" + element + rb")(?:\s[^<>]*)?(?:/>|>.*?</\1\s*>)", re.DOTALL)
    first = _ITEM.search(content)
    end = first.start() if first else len(content)
    # RSS 2.0 also allows elements of the channel after its items. Items have no such elements.
    return pattern.sub(b"", content[:end]) + pattern.sub(b"", content[end:])


def set_hint(content: bytes, name: str, value: str) -> bytes:
    """Return the document with the hint `name` in its channel, in place of its present value, or unchanged if it cannot
    contain the hint. `value` is a list with commas for `skiphours` and `skipdays`, and for `sy` a text such as
    `hourly/2`."""
    channel = _CHANNEL.search(content)
    if channel is None or (name != "sy" and channel["name"] != b"channel"):
        return content
    changed = remove_hint(content[channel.end() :], name)
    return content[: channel.end()] + _element(name, value).encode("ascii", "xmlcharrefreplace") + changed


def _element(name: str, value: str) -> str:
    value = value.replace("&", "&amp;").replace("<", "&lt;")
    match name:
        case "ttl":
            return f"<ttl>{value}</ttl>"
        case "skiphours":
            return "<skipHours>" + "".join(f"<hour>{hour.strip()}</hour>" for hour in value.split(",")) + "</skipHours>"
        case "skipdays":
            return "<skipDays>" + "".join(f"<day>{day.strip()}</day>" for day in value.split(",")) + "</skipDays>"
    period, _, frequency = value.partition("/")
    return (
        f'<sy:updatePeriod xmlns:sy="{SY}">{period}</sy:updatePeriod>'
        f'<sy:updateFrequency xmlns:sy="{SY}">{frequency or 1}</sy:updateFrequency>'
    )
