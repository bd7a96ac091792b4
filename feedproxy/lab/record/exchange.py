"""Recorded exchanges: a request, its response, and the circumstances of both.

A recording has two sides: requests of readers to feedproxy or to a replay, and requests of feedproxy to origins.
Contents are stored separately, keyed by their SHA-256, because most responses of a feed have the same content.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from feedproxy.clock import Instant, Seconds
from feedproxy.http.message import Fields, Request, Response


class Side(StrEnum):
    """The side of a recording to which an exchange belongs."""

    READER = "reader"
    """Requests of readers to feedproxy or to a replay."""
    ORIGIN = "origin"
    """Requests of feedproxy to origins."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response. The content of the request is not recorded.

    `request.target` is the absolute target URI, for every form of the request line. Fields are redacted
    (har_redaction.py): of Authorization and Cookie, only the presence is recorded.
    """

    side: Side
    at: Instant
    """Time when the request was received; in a replay, according to the virtual clock."""
    request: Request
    status: int
    """Status of the response; 0 if there was no response."""
    fields: Fields = field(default_factory=Fields)
    """Fields of the response as sent, without hop-by-hop fields."""
    reason: str = ""
    digest: str = ""
    """SHA-256 of the response's content in hexadecimal. Empty if there was no content, or it was not stored."""
    size: int = 0
    """Size of the response's content on the wire, in bytes, including its content coding."""
    seconds: Seconds = 0.0
    """Seconds from the request to the end of the response, measured with the same clock as `at`."""
    reader: str = ""
    """Network address of the reader, or a stable pseudonym of the address. Empty on the origins' side."""
    connection: str = ""
    """Identifier of the connection; empty if unknown."""
    version: str = "HTTP/1.1"
    """HTTP version of the request."""
    entrance: str = ""
    """Entrance of the request: gateway, proxy or reverse; `origin` for requests to a replay. Empty on the origins'
    side."""
    public: str = ""
    """The address that the reader requested in reverse mode, if it differs from the target; otherwise empty."""
    raw: bool = False
    """True if the content is stored as received, because the body could not be decoded by its Content-Encoding."""
    faults: tuple[str, ...] = ()
    """Names of the faults that changed this response, in a replay."""
    failure: str = ""
    """The reason why there was no response, or "" if there was one."""

    @property
    def user_agent(self) -> str:
        """Return the User-Agent of the request, or ""."""
        return self.request.fields.get("user-agent") or ""


@dataclass(frozen=True, slots=True)
class Recording:
    """Exchanges sorted by time, and contents keyed by digest."""

    exchanges: tuple[Exchange, ...]
    contents: Mapping[str, bytes] = field(default_factory=dict)
    until: Instant = 0.0
    """Time when the recording ended, which may be long after the last exchange; 0 if unknown."""

    def side(self, side: Side) -> tuple[Exchange, ...]:
        """Return the exchanges of one side."""
        return tuple(exchange for exchange in self.exchanges if exchange.side is side)

    def content(self, exchange: Exchange) -> bytes:
        """Return the decoded content of the response, or the undecoded body if `exchange.raw` is true.

        Return empty bytes if there was no content, or if it was not stored.
        """
        return self.contents.get(exchange.digest, b"")

    def response(self, exchange: Exchange) -> Response:
        """Return the response with its content."""
        return Response(exchange.status, exchange.fields, self.content(exchange), exchange.reason)


def merge_recordings(recordings: Iterable[Recording]) -> Recording:
    """Return one recording with the exchanges of several, sorted by time."""
    exchanges: list[Exchange] = []
    contents: dict[str, bytes] = {}
    until = 0.0
    for recording in recordings:
        exchanges += recording.exchanges
        contents.update(recording.contents)
        until = max(until, recording.until)
    return Recording(tuple(sorted(exchanges, key=lambda exchange: exchange.at)), contents, until)


def content_digest(content: bytes) -> str:
    """Return the SHA-256 of a content in hexadecimal, or "" if the content is empty."""
    return hashlib.sha256(content).hexdigest() if content else ""
