"""Faults of documents: a wrong charset or wrong schedule hints.

A changed document gets another ETag and a later Last-Modified, so that no reader with the unchanged document gets 304.
"""

from typing import ClassVar

from msgspec.structs import replace

from feedproxy.errors import UsageError
from feedproxy.feed.encoding_detection import declared_encoding
from feedproxy.http.date import WEEKDAYS, format_http_date, parse_http_date
from feedproxy.lab.replay import hint_edits
from feedproxy.lab.replay.faults.fault import Fault, FaultContext
from feedproxy.lab.replay.timeline import Version


def with_content(representation: Version, content: bytes, mark: str, context: FaultContext) -> Version:
    """Return the representation with another content, ETag and Last-Modified. `mark` is appended to the ETag."""
    if content == representation.content:
        return representation
    tag = (
        f'{representation.tag[:-1]}-{mark}"'
        if representation.tag.endswith('"')
        else representation.tag and f"{representation.tag}-{mark}"
    )
    date = parse_http_date(representation.modified, context.incoming.at)
    modified = representation.modified
    if date is not None and context.since is not None and date < context.since:
        modified = format_http_date(context.since)
    return replace(representation, content=content, tag=tag, modified=modified)


class CharsetLie(Fault):
    """Content-Type names an encoding that the document does not have.

    The fault's value is the encoding that is named. The default is iso-8859-1 for a document in UTF-8, and utf-8 for
    any other document. The usual cause is a default charset of the server, such as nginx's `charset`, or of PHP.

    A good reader follows a byte order mark first. RFC 7303 then gives priority to Content-Type. If the document is
    invalid in the encoding that Content-Type names, a good reader tries the encoding that the document declares.
    """

    name = "charset-lie"
    default = "auto"

    def change_representation(self, representation: Version, context: FaultContext) -> Version:
        if self.value != "auto":
            lie = self.value
        else:
            lie = "iso-8859-1" if (declared_encoding(representation.content) or "utf-8").lower() == "utf-8" else "utf-8"
        essence = (representation.fields.get("content-type") or "application/xml").partition(";")[0]
        return representation.with_field("Content-Type", f"{essence}; charset={lie}")

    def check(self) -> None:
        if not all(character.isalnum() or character in "-_." for character in self.value):
            raise UsageError(f"--fault {self.name}={self.value}: expected a charset such as iso-8859-1")


class _Edit(Fault):
    hint: ClassVar[str]

    def check(self) -> None:
        if not self.value.isascii() or any(character in self.value for character in "<&\"'"):
            raise UsageError(f"--fault {self.name}={self.value}: invalid value for {self.hint}")

    def change_representation(self, representation: Version, context: FaultContext) -> Version:
        mark = "".join(character if character.isalnum() else "." for character in f"{self.hint}{self.value}")
        return with_content(
            representation, hint_edits.set_hint(representation.content, self.hint, self.value), mark, context
        )


class Ttl(_Edit):
    """The feed has an unusual `ttl`. The fault's value is the ttl in minutes (default: 0, which is invalid).

    Other unusual values are `ttl=-5`, `ttl=soon` and `ttl=99999999`.

    A good reader honours a valid ttl, ignores an invalid ttl (zero, negative, not a number), and limits a long ttl to a
    day or a week.
    """

    name = "ttl"
    hint = "ttl"
    default = "0"


class SkipHours(_Edit):
    """The feed has unusual `skipHours`. The fault's value lists the hours in GMT, from 0 to 23 (default: all 24, so
    that readers would never poll).

    A good reader does not poll in those hours, counts them in GMT and not in its own time zone, treats 24 as 0, and
    ignores a list of all hours.
    """

    name = "skip-hours"
    hint = "skiphours"
    default = ",".join(map(str, range(24)))


class SkipDays(_Edit):
    """The feed has unusual `skipDays`. The fault's value lists English names of days in GMT (default: all seven, so
    that readers would never poll).

    A good reader does not poll on those days, and ignores a list of all days.
    """

    name = "skip-days"
    hint = "skipdays"
    default = ",".join(WEEKDAYS)


FAULTS = (CharsetLie, Ttl, SkipHours, SkipDays)
