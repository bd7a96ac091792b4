"""Schedule hints put into a feed's document, or taken out; every other byte stays.

`ttl`, `skipHours` and `skipDays` are RSS's own; `sy` goes into any XML feed. A document that has no channel to put them
into (OPML, JSON, HTML, or an encoding in which ASCII is not ASCII) stays as it is: a replay shows what there was.
"""

import re

SY = "http://purl.org/rss/1.0/modules/syndication/"

_CHANNEL = re.compile(rb"<(?:[A-Za-z_][\w.-]*:)?(?P<name>channel|feed)(?=[\s>])(?:[^<>\"']|\"[^\"]*\"|'[^']*')*(?<!/)>")
_ITEM = re.compile(rb"<(?:[A-Za-z_][\w.-]*:)?(?:item|entry)[\s>]")
_ELEMENTS = {
    "ttl": rb"ttl",
    "skiphours": rb"skipHours",
    "skipdays": rb"skipDays",
    "sy": rb"[A-Za-z_][\w.-]*:update(?:Period|Frequency|Base)",
}
NAMES = frozenset(_ELEMENTS)
"""What can be put in or taken out, in lower case."""

FAULTS = {"ttl": "ttl", "skiphours": "skip-hours", "skipdays": "skip-days"}
"""The faults that put nonsense in."""

_DAYS = frozenset({"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"})
_PERIOD = re.compile(r"(?:hourly|daily|weekly|monthly|yearly)(?:/[1-9][0-9]{0,5})?")
_MINUTES = re.compile(r"[1-9][0-9]{0,8}")
_HOUR = re.compile(r"[01]?[0-9]|2[0-3]")


def is_sensible(name: str, value: str) -> bool:
    """Whether this is a value that readers are meant to understand."""
    parts = [each.strip() for each in value.split(",")]
    match name:
        case "ttl":
            return bool(_MINUTES.fullmatch(value))
        case "skiphours":
            return all(map(_HOUR.fullmatch, parts))
        case "skipdays":
            return all(each.lower() in _DAYS for each in parts)
    return bool(_PERIOD.fullmatch(value))


def without(content: bytes, name: str) -> bytes:
    """The document without this hint in its channel."""
    element = _ELEMENTS[name]
    pattern = re.compile(rb"\s*<(" + element + rb")(?:\s[^<>]*)?(?:/>|>.*?</\1\s*>)", re.DOTALL)
    first = _ITEM.search(content)
    end = first.start() if first else len(content)
    # RSS 2.0 lets what belongs to the channel stand behind its items, too; within items there are no such elements.
    return pattern.sub(b"", content[:end]) + pattern.sub(b"", content[end:])


def with_hint(content: bytes, name: str, value: str) -> bytes:
    """The document with this hint in its channel, in the place of what it said before.

    Values: `ttl` any text; `skiphours` and `skipdays` lists with commas; `sy` such as `hourly/2`.
    """
    channel = _CHANNEL.search(content)
    if channel is None or (name != "sy" and channel["name"] != b"channel"):
        return content
    changed = without(content[channel.end() :], name)
    return content[: channel.end()] + _element(name, value).encode("ascii", "xmlcharrefreplace") + changed


def _element(name: str, value: str) -> str:
    value = value.replace("&", "&amp;").replace("<", "&lt;")
    match name:
        case "ttl":
            return f"<ttl>{value}</ttl>"
        case "skiphours":
            return "<skipHours>" + "".join(f"<hour>{each.strip()}</hour>" for each in value.split(",")) + "</skipHours>"
        case "skipdays":
            return "<skipDays>" + "".join(f"<day>{each.strip()}</day>" for each in value.split(",")) + "</skipDays>"
    period, _, frequency = value.partition("/")
    return (
        f'<sy:updatePeriod xmlns:sy="{SY}">{period}</sy:updatePeriod>'
        f'<sy:updateFrequency xmlns:sy="{SY}">{frequency or 1}</sy:updateFrequency>'
    )
