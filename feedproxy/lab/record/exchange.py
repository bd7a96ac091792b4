"""Recorded exchanges: a request, its response and their circumstances.

A recording has two sides: requests of readers to feedproxy or to a replay, and requests of feedproxy to origins.
Contents are stored separately by their SHA-256, since most responses of a feed have the same content.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from feedproxy.clock import Instant, Seconds
from feedproxy.http.message import Fields, Request, Response


class Side(StrEnum):
    """The side of a recording that an exchange belongs to."""

    READER = "reader"
    """A reader sent a request to feedproxy or to a replay."""
    ORIGIN = "origin"
    """feedproxy sent a request to an origin."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response. Contents of requests are not recorded.

    `request.target` is the absolute target URI, whichever form the request line had. Fields have been redacted
    (redact.py): of Authorization and Cookie only the presence is recorded.
    """

    side: Side
    at: Instant
    """When the request was received; in a replay, by the virtual clock."""
    request: Request
    status: int
    """0 if there was no response."""
    fields: Fields = field(default_factory=Fields)
    """The response's fields as sent, without hop-by-hop fields."""
    reason: str = ""
    digest: str = ""
    """SHA-256 of the response's content in hexadecimal; empty if there was none, or it was not stored."""
    size: int = 0
    """Bytes of the response's content on the wire, with its content coding."""
    seconds: Seconds = 0.0
    """From the request to the end of the response, by the clock of `at`."""
    reader: str = ""
    """The reader's address, or a stable pseudonym. Empty on the origins' side."""
    connection: str = ""
    """Identifier of the connection, the same for all its exchanges; empty if unknown."""
    version: str = "HTTP/1.1"
    """HTTP version of the request."""
    entrance: str = ""
    """gateway, proxy or reverse; origin for requests to a replay. Empty on the origins' side."""
    public: str = ""
    """The address that the reader knows, if another than the target (reverse mode)."""
    raw: bool = False
    """The stored content is the undecoded body, since it does not match its Content-Encoding."""
    faults: tuple[str, ...] = ()
    """In a replay: the names of the faults that changed this response."""
    failure: str = ""
    """Why there was no response."""

    @property
    def user_agent(self) -> str:
        """Return the request's User-Agent, or an empty string."""
        return self.request.fields.get("user-agent") or ""


@dataclass(frozen=True, slots=True)
class Recording:
    """Exchanges in the order of their instants, and contents by their digest."""

    exchanges: tuple[Exchange, ...]
    contents: Mapping[str, bytes] = field(default_factory=dict)
    until: Instant = 0.0
    """When the recording ended, perhaps long after the last exchange; 0 if unknown."""

    def side(self, side: Side) -> tuple[Exchange, ...]:
        """Return the exchanges of one side."""
        return tuple(exchange for exchange in self.exchanges if exchange.side is side)

    def content(self, exchange: Exchange) -> bytes:
        """Return the response's content, decoded unless `raw`; empty if there was none, or it was not stored."""
        return self.contents.get(exchange.digest, b"")

    def response(self, exchange: Exchange) -> Response:
        """Return the response with its content."""
        return Response(exchange.status, exchange.fields, self.content(exchange), exchange.reason)


def merge_recordings(recordings: Iterable[Recording]) -> Recording:
    """Return several recordings as one, in the order of instants."""
    exchanges: list[Exchange] = []
    contents: dict[str, bytes] = {}
    until = 0.0
    for recording in recordings:
        exchanges += recording.exchanges
        contents.update(recording.contents)
        until = max(until, recording.until)
    return Recording(tuple(sorted(exchanges, key=lambda exchange: exchange.at)), contents, until)


def content_digest(content: bytes) -> str:
    """Return the SHA-256 of a content in hexadecimal; empty for an empty content."""
    return hashlib.sha256(content).hexdigest() if content else ""
