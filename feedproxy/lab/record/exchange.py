"""Recorded exchanges: a request, its response, and the circumstances of both.

Contents are stored separately, keyed by their SHA-256, because most responses of a feed have the same content.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct, field

from feedproxy.clock import Instant, Seconds
from feedproxy.http.message import NO_FIELDS, Fields, Request


class Side(StrEnum):
    """The side of a recording: requests of readers, or requests of feedproxy to origins."""

    READER = "reader"
    ORIGIN = "origin"


class Exchange(Struct, frozen=True):
    """A request and its response, without secrets in fields (har_redaction.py). The content of the request is not
    recorded. `request.target` is the absolute target URI."""

    side: Side
    at: Instant
    """Time when the request was received. In a replay, it is the virtual time."""
    request: Request
    status: int
    """Status of the response, or 0 if there was no response."""
    fields: Fields = NO_FIELDS
    """Fields of the response, without hop-by-hop fields."""
    reason: str = ""
    digest: str = ""
    """SHA-256 of the response's content in hexadecimal, or "" if no content was stored."""
    size: int = 0
    """Size of the response's content on the wire, in bytes, with its content coding."""
    seconds: Seconds = 0.0
    """Seconds from the request to the end of the response, by the clock of `at`."""
    reader: str = ""
    """Network address of the reader, or a stable pseudonym. Empty for requests to origins."""
    connection: str = ""
    """Identifier of the connection, or "" if unknown."""
    version: str = "HTTP/1.1"
    """HTTP version of the request."""
    entrance: str = ""
    """Entrance of a reader's request: gateway, proxy or reverse, or `origin` in a replay. Empty for feedproxy's own
    requests to origins."""
    public: str = ""
    """The address that the reader requested in reverse mode, or "" if it equals the target."""
    raw: bool = False
    """True if the content is stored as received, because its Content-Encoding was wrong."""
    faults: tuple[str, ...] = ()
    failure: str = ""
    """The reason why there was no response, or "" if there was one."""
    is_unsent: bool = False
    """True if the client sent no request: it answered from its own cache, or blocked the request."""

    @property
    def user_agent(self) -> str:
        return self.request.fields.get("user-agent") or ""


class Recording(Struct, frozen=True):
    exchanges: tuple[Exchange, ...]
    contents: Mapping[str, bytes] = field(default_factory=dict)
    until: Instant = 0.0
    """Time when the recording ended, perhaps long after the last exchange, or 0 if unknown."""

    def side(self, side: Side) -> tuple[Exchange, ...]:
        return tuple(exchange for exchange in self.exchanges if exchange.side is side)

    def content(self, exchange: Exchange) -> bytes:
        """Return the decoded content of the response, or the undecoded body if `exchange.raw` is true. Return b"" if no
        content was stored."""
        return self.contents.get(exchange.digest, b"")


def merge_recordings(recordings: Iterable[Recording]) -> Recording:
    """Return one recording of all exchanges, in the order of their times. An exchange that several recordings contain
    counts once."""
    exchanges: Counter[Exchange] = Counter()
    contents: dict[str, bytes] = {}
    until = 0.0
    for recording in recordings:
        # Equal exchanges within one recording are different requests: a virtual clock may stand still.
        exchanges |= Counter(recording.exchanges)
        contents.update(recording.contents)
        until = max(until, recording.until)
    return Recording(tuple(sorted(exchanges.elements(), key=lambda exchange: exchange.at)), contents, until)


def content_digest(content: bytes) -> str:
    """Return the SHA-256 of a content in hexadecimal, or "" for empty content."""
    return hashlib.sha256(content).hexdigest() if content else ""
