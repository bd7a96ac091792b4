"""What a replay was asked, what it shows, and what it sends: the three values that hints and faults work on."""

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from urllib.parse import urlsplit, urlunsplit

from feedproxy.clock import Instant, Seconds
from feedproxy.http import uri
from feedproxy.http.message import Fields, Request
from feedproxy.lab.replay.timeline import Version

_MOVED = re.compile(r"/moved-([0-9]{1,3})(?=/)")


class Form(StrEnum):
    """How the request line named the target."""

    ORIGIN = "origin"
    ABSOLUTE = "proxy"
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """A request. `target` is the recorded address that it means; `hops` tells how far redirects have led on from it."""

    request: Request
    form: Form
    at: Instant
    number: int
    """The how manieth request for this target it is, from 1."""
    target: str
    hops: int = 0
    base: str = ""
    """What stands before a target in the addresses that this reader is told; empty but in the gateway's form."""

    def moved(self, hops: int) -> str:
        """The address, as this reader has to spell it, to which so many redirects lead."""
        return self.base + moved_target(self.target, hops)

    @property
    def conditional(self) -> bool:
        """Whether it asks for what has changed only."""
        fields = self.request.fields
        return "if-none-match" in fields or "if-modified-since" in fields


def moved_target(target: str, hops: int) -> str:
    """The address that a target has moved to, so many redirects on: `/moved-2/feed.xml`."""
    split = urlsplit(target)
    path = f"/moved-{hops}{split.path}" if hops else split.path
    return urlunsplit((split.scheme, split.netloc, path, split.query, ""))


def original_target(target: str) -> tuple[str, int]:
    """A target and how many redirects it has led on: the inverse of `moved`."""
    start = len(uri.origin_of(target))
    found = _MOVED.match(target, start)
    return (target[:start] + target[found.end() :], int(found[1])) if found else (target, 0)


@dataclass(frozen=True, slots=True)
class Representation:
    """The representation that conditions are evaluated against: the live version, as hints and faults would have it."""

    status: int
    fields: Fields
    content: bytes
    tag: str
    """As it will be written in ETag; empty for none."""
    modified: str
    """As it will be written in Last-Modified; empty for none."""
    compresses: bool = False
    """Whether readers who want gzip get it."""
    raw: tuple[str, ...] = ()
    """The codings that its Content-Encoding names without being true."""
    reason: str = ""

    @classmethod
    def of(cls, version: Version) -> "Representation":
        """As it was."""
        return cls(
            version.status,
            version.fields,
            version.content,
            version.tag,
            version.modified,
            compresses=bool(version.coded) and not version.raw,
            raw=version.coded if version.raw else (),
            reason=version.reason,
        )

    def with_field(self, name: str, value: str) -> "Representation":
        """With this field said once."""
        return replace(self, fields=self.fields.with_field(name, value))


@dataclass(frozen=True, slots=True)
class ReplayResponse:
    """What goes over the wire, and how."""

    status: int
    fields: Fields
    """Without Content-Length: that is said by whoever sends."""
    body: bytes = b""
    reason: str = ""
    pause: Seconds = 0.0
    """Before the first byte; of the machine's own time."""
    spread: Seconds = 0.0
    """Over which the body trickles; of the machine's own time."""
    surplus: int = 0
    """Bytes that Content-Length promises beyond the body's; below zero it promises less."""
    reset: bool = False
    """The connection is reset when half of the body is sent."""
    faults: tuple[str, ...] = field(default=())

    def with_field(self, name: str, value: str) -> "ReplayResponse":
        """With this field said once."""
        return replace(self, fields=self.fields.with_field(name, value))
