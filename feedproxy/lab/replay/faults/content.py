"""Faults of documents: a wrong charset or wrong schedule hints.

A changed document gets another ETag, and a Last-Modified no older than the change: otherwise readers with the earlier
one would get 304.
"""

from dataclasses import replace
from typing import ClassVar

from feedproxy.errors import UsageError
from feedproxy.feed.charset import declared_encoding
from feedproxy.http.date import format_http_date, parse_http_date
from feedproxy.lab.replay import hint_edits
from feedproxy.lab.replay.faults.base import Fault, FaultContext
from feedproxy.lab.replay.replay_response import ReplayRequest, Representation

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def changed(shown: Representation, content: bytes, mark: str, context: FaultContext) -> Representation:
    """Return the representation with another content, ETag and Last-Modified."""
    if content == shown.content:
        return shown
    tag = f'{shown.tag[:-1]}-{mark}"' if shown.tag.endswith('"') else shown.tag and f"{shown.tag}-{mark}"
    date = parse_http_date(shown.modified, context.now)
    modified = shown.modified
    if date is not None and context.since is not None and date < context.since:
        modified = format_http_date(context.since)
    return replace(shown, content=content, tag=tag, modified=modified)


class CharsetLie(Fault):
    """Content-Type names an encoding that the document is not in: the value, else iso-8859-1 for a document in UTF-8,
    and utf-8 for any other.

    A server's AddDefaultCharset, set once and forgotten.

    A good reader believes a byte order mark first. For the rest RFC 7303 would have it believe the field, and most
    people would rather read their feed: where the document cannot be in the encoding named, it tries the document's
    own word.
    """

    name = "charset-lie"
    default = "auto"

    def show(self, shown: Representation, incoming: ReplayRequest, context: FaultContext) -> Representation:
        if self.value != "auto":
            lie = self.value
        else:
            lie = "iso-8859-1" if (declared_encoding(shown.content) or "utf-8").lower() == "utf-8" else "utf-8"
        essence = (shown.fields.get("content-type") or "application/xml").partition(";")[0]
        return shown.with_field("Content-Type", f"{essence}; charset={lie}")

    def check(self) -> None:
        if not all(character.isalnum() or character in "-_." for character in self.value):
            raise UsageError(f"--fault {self.name}={self.value}: expected a charset such as iso-8859-1")


class _Edit(Fault):
    hint: ClassVar[str]

    def check(self) -> None:
        if not self.value.isascii() or any(character in self.value for character in "<&\"'"):
            raise UsageError(f"--fault {self.name}={self.value}: not a value for {self.hint}")

    def show(self, shown: Representation, incoming: ReplayRequest, context: FaultContext) -> Representation:
        mark = "".join(character if character.isalnum() else "." for character in f"{self.hint}{self.value}")
        return changed(shown, hint_edits.set_hint(shown.content, self.hint, self.value), mark, context)


class Ttl(_Edit):
    """The channel's `ttl` is the value, in minutes (default: 0, which is nonsense). Also `ttl=-5`, `ttl=soon`,
    `ttl=99999999`.

    A good reader keeps to a ttl that makes sense, ignores one that does not (zero, below zero, no number), and caps
    one that is beyond a day or a week.
    """

    name = "ttl"
    hint = "ttl"
    default = "0"


class SkipHours(_Edit):
    """The channel's `skipHours` are the value: hours of GMT, 0 to 23 (default: all 24, which is nonsense).

    A good reader does not ask in those hours, counts them in GMT and not in its own zone, takes 24 for 0, and ignores
    the list when it names every hour.
    """

    name = "skip-hours"
    hint = "skiphours"
    default = ",".join(map(str, range(24)))


class SkipDays(_Edit):
    """The channel's `skipDays` are the value: English names of days, GMT (default: all seven, which is nonsense).

    A good reader does not ask on those days, and ignores the list when it names all of them.
    """

    name = "skip-days"
    hint = "skipdays"
    default = ",".join(_DAYS)


FAULTS = (CharsetLie, Ttl, SkipHours, SkipDays)
