"""One exchange as it was recorded: who asked for what, when, and what came back.

A recording has two sides. On the readers' side somebody asks feedproxy (or a replayed origin, which is its readers'
only side); on the origins' side feedproxy asks an origin. Both are the same value. Contents are kept apart, under
their SHA-256: a feed that is asked for a thousand times is the same few contents all week.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from feedproxy.clock import Instant, Seconds
from feedproxy.http.message import Fields, Request, Response


class Side(StrEnum):
    """Who asked."""

    READER = "reader"
    """A reader asked us."""
    ORIGIN = "origin"
    """We asked an origin."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer. Bodies of requests are not kept: feeds are asked for with GET.

    `request.target` is the absolute target URI, whichever form the request line had. What stands in the fields has
    been redacted (redact.py), so Authorization and Cookie tell that they were there, and nothing more.
    """

    side: Side
    at: Instant
    """When the request came; in a replay, by the virtual clock."""
    request: Request
    status: int
    """0 where no answer came."""
    fields: Fields = field(default_factory=Fields)
    """The answer's, as they went over the wire, but those of the hop."""
    reason: str = ""
    digest: str = ""
    """SHA-256 of the answer's content, as hexadecimal digits; empty where there was none, or it was not kept."""
    size: int = 0
    """Bytes of the answer's body on the wire, its content coding included."""
    seconds: Seconds = 0.0
    """From the request to the end of the answer, by the clock that `at` is of."""
    reader: str = ""
    """The reader's address: a stable pseudonym, unless addresses were kept. Empty on the origins' side."""
    connection: str = ""
    """Names the connection: exchanges that share one have the same. Empty where that is not known."""
    version: str = "HTTP/1.1"
    """The request's."""
    entrance: str = ""
    """How it came in: gateway, proxy, reverse; origin where a replay was asked itself. Empty on the origins' side."""
    public: str = ""
    """The target as this reader knows it, where that is another address (reverse)."""
    raw: bool = False
    """The content under `digest` is the body as it came, since its Content-Encoding is not true."""
    faults: tuple[str, ...] = ()
    """In a replay: the faults that had their hands in this answer."""
    failure: str = ""
    """Why no answer came, in words."""

    @property
    def user_agent(self) -> str:
        """What the reader called itself."""
        return self.request.fields.get("user-agent") or ""


@dataclass(frozen=True, slots=True)
class Recording:
    """Exchanges in the order of their instants, and contents by their digest."""

    exchanges: tuple[Exchange, ...]
    contents: Mapping[str, bytes] = field(default_factory=dict)
    until: Instant = 0.0
    """When recording ended, which may be long after the last exchange; 0 where that is not known."""

    def side(self, side: Side) -> tuple[Exchange, ...]:
        """The exchanges of one side."""
        return tuple(each for each in self.exchanges if each.side is side)

    def content(self, exchange: Exchange) -> bytes:
        """The answer's content, decoded unless it is `raw`; empty where there was none, or it was not kept."""
        return self.contents.get(exchange.digest, b"")

    def response(self, exchange: Exchange) -> Response:
        """The answer with its content."""
        return Response(exchange.status, exchange.fields, self.content(exchange), exchange.reason)


def merge_recordings(recordings: Iterable[Recording]) -> Recording:
    """Several files of one recording as one."""
    exchanges: list[Exchange] = []
    contents: dict[str, bytes] = {}
    until = 0.0
    for each in recordings:
        exchanges += each.exchanges
        contents.update(each.contents)
        until = max(until, each.until)
    return Recording(tuple(sorted(exchanges, key=lambda exchange: exchange.at)), contents, until)


def digest_of(content: bytes) -> str:
    """The name that a content is kept under; none has none."""
    return hashlib.sha256(content).hexdigest() if content else ""
