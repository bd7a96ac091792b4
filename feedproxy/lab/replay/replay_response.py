"""Request and response of a replay."""

import re
from enum import StrEnum
from http import HTTPStatus
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct, field
from msgspec.structs import replace

from feedproxy.clock import Instant, Seconds
from feedproxy.http import uri
from feedproxy.http.message import Fields, Request

_MOVED = re.compile(r"/moved-([0-9]{1,3})(?=/)")

DROPPED_FIELDS = (
    # The replay generates these fields.
    *("date", "age", "content-length", "content-encoding", "accept-ranges", "etag", "last-modified", "expires"),
    # These fields describe the recorded coding of the content, or a recorded hop.
    *("content-digest", "content-md5", "digest", "alt-svc", "via", "cache-status", "set-cookie", "server-timing"),
    *("strict-transport-security", "report-to", "nel"),
)
"""Fields that a replay does not copy from a recorded response. It generates some of them itself."""


class Form(StrEnum):
    """Form of a request target."""

    ORIGIN = "origin"
    ABSOLUTE = "proxy"
    GATEWAY = "gateway"


class ReplayRequest(Struct, frozen=True):
    """A request in a replay. `target` is the address in the recording. A fault can redirect the client: `hops` is the
    number of redirects from `target` to the address of this request."""

    request: Request
    form: Form
    at: Instant
    number: int
    """Number of the request among those for the same target, from 1. It is 0 for a target that is not recorded."""
    target: str
    hops: int = 0
    base: str = ""
    """Prefix of addresses for clients of the gateway, or "" for other clients."""

    def moved_address(self, hops: int) -> str:
        """Return the address after `hops` redirects, such as `/moved-2/feed.xml` at the target's host. A client of the
        gateway gets the gateway address of the moved feed."""
        split = urlsplit(self.target)
        path = f"/moved-{hops}{split.path}" if hops else split.path
        return self.base + urlunsplit((split.scheme, split.netloc, path, split.query, ""))

    @property
    def is_conditional(self) -> bool:
        fields = self.request.fields
        return "if-none-match" in fields or "if-modified-since" in fields


def original_target(target: str) -> tuple[str, int]:
    """Return the recorded target from which the redirects of the replay lead to `target`, and the number of these
    redirects. If there are none, return `target` and 0."""
    start = len(uri.origin_of(target))
    match = _MOVED.match(target, start)
    return (target[:start] + target[match.end() :], int(match[1])) if match else (target, 0)


class ReplayResponse(Struct, frozen=True):
    """A response and the way it is sent."""

    status: int
    fields: Fields
    """Fields of the response, without Content-Length."""
    body: bytes = b""
    reason: str = ""
    pause: Seconds = 0.0
    """Delay before the first byte, in seconds of real time."""
    spread: Seconds = 0.0
    """Duration of sending the body, in seconds of real time."""
    surplus: int = 0
    """Content-Length minus the size of the body, in bytes. The value can be negative."""
    reset: bool = False
    """True if the connection is reset after half of the body."""
    blanks: int = 0
    """Number of blanks that follow the body, or 0. After the blanks, the connection is reset, so that the response has
    no end."""
    faults: tuple[str, ...] = field(default=())

    def with_field(self, name: str, value: str) -> "ReplayResponse":
        return replace(self, fields=self.fields.with_field(name, value))


def reason_phrase(status: int) -> str:
    """Return the usual reason phrase of a status, or "" for an unknown status."""
    return HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
