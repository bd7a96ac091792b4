"""Fields and schedule hints that a replay removes from all responses with status 200 (--strip) or adds to them
(--add)."""

import re
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from feedproxy.errors import UsageError
from feedproxy.http.field_values import is_token
from feedproxy.http.hop_by_hop import HOP_BY_HOP
from feedproxy.lab.replay import hint_edits
from feedproxy.lab.replay.timeline import Version

type Change = Callable[[Version], Version]
"""A change to every response with status 200."""

_SECONDS = ("max-age", "s-maxage", "stale-while-revalidate", "stale-if-error")
_FLAGS = (
    *("no-store", "no-cache", "no-transform", "private", "public", "immutable"),
    *("must-revalidate", "proxy-revalidate", "must-understand"),
)

_VALUES = {
    "ttl": "ttl=MINUTES, a positive integer",
    "skiphours": "skipHours=22,23, hours of GMT from 0 to 23",
    "skipdays": "skipDays=Saturday,Sunday, English names of days",
    "sy": "sy=PERIOD/FREQUENCY, such as hourly/2, daily or weekly/1",
}
_NONSENSE = {name: f"; for invalid values use --fault {fault}=…" for name, fault in hint_edits.FAULT_NAMES.items()}

_FRAMING = HOP_BY_HOP | {"content-length", "content-encoding", "date"}
"""Fields that --add does not accept, because they depend on how and when a response is sent."""
_SENDABLE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")


def parse_changes(strip: Iterable[str], add: Iterable[str]) -> list[Change]:
    """Return the changes of --strip and --add, removals first. Raises UsageError if a value is invalid."""
    return [*map(_strip, strip), *map(_add, add)]


def _strip(name: str) -> Change:
    lowered = name.lower()
    if lowered in hint_edits.NAMES:
        return lambda representation: replace(
            representation, content=hint_edits.remove_hint(representation.content, lowered)
        )
    if lowered == "etag":
        return lambda representation: replace(representation, tag="")
    if lowered == "last-modified":
        return lambda representation: replace(representation, modified="")
    if lowered == "content-encoding":
        return lambda representation: replace(representation, coded=())
    if not is_token(name):
        raise UsageError(f"--strip {name}: expected a field such as ETag, or ttl, skipHours, skipDays, sy")
    return lambda representation: replace(representation, fields=representation.fields.without(name))


def _add(hint: str) -> Change:
    name, colon, value = hint.partition(":")
    if colon and is_token(name) and name.lower() not in _FRAMING and _SENDABLE.fullmatch(value):
        return _field(name, value.strip())
    name, _, value = hint.partition("=")
    lowered = name.lower()
    if lowered in hint_edits.NAMES and value:
        if not hint_edits.is_valid(lowered, value):
            raise UsageError(f"--add {hint}: expected {_VALUES[lowered]}{_NONSENSE.get(lowered, '')}")
        return lambda representation: replace(
            representation, content=hint_edits.set_hint(representation.content, lowered, value)
        )
    if (lowered in _SECONDS and re.fullmatch(r"[0-9]{1,10}", value)) or (lowered in _FLAGS and not value):
        return lambda representation: _directive(representation, hint.lower())
    if lowered == "gzip" and not value:
        return lambda representation: representation if representation.raw else replace(representation, coded=("gzip",))
    raise UsageError(
        f"--add {hint}: expected ttl=MINUTES, skipHours=22,23, skipDays=Sunday, sy=hourly/2, max-age=SECONDS or "
        "another directive of Cache-Control, gzip, or a field such as 'Name: value'"
    )


def _field(name: str, value: str) -> Change:
    match name.lower():
        case "etag":
            return lambda representation: replace(representation, tag=value)
        case "last-modified":
            return lambda representation: replace(representation, modified=value)
    return lambda representation: representation.with_field(name, value)


def _directive(representation: Version, directive: str) -> Version:
    """Return the representation with this directive in Cache-Control. A directive of the same name is replaced."""
    name = directive.partition("=")[0]
    directives = (representation.fields.combined("cache-control") or "").split(",")
    others = [text.strip() for text in directives if text.strip() and text.strip().lower().partition("=")[0] != name]
    return representation.with_field("Cache-Control", ", ".join([*others, directive]))
