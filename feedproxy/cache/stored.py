"""A stored response: what RFC 9111 needs to know of one (section 3), and the content that is served."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from feedproxy.clock import Instant
from feedproxy.http.message import Fields

CODINGS_MAX = 256
"""Sets of codings that many feeds have in common."""

_CODINGS: dict[tuple[str, ...], tuple[str, ...]] = {}


class Bodies(Mapping[str, bytes]):
    """Bodies by coding; a third of what a dictionary takes, for as few as there are."""

    __slots__ = ("_bodies", "_codings")

    def __init__(self, bodies: Mapping[str, bytes]) -> None:
        codings = tuple(bodies)
        if len(_CODINGS) < CODINGS_MAX:
            codings = _CODINGS.setdefault(codings, codings)
        self._codings = codings
        self._bodies = tuple(bodies.values())

    def __getitem__(self, coding: str) -> bytes:
        for known, body in zip(self._codings, self._bodies, strict=True):
            if known == coding:
                return body
        raise KeyError(coding)

    def __iter__(self) -> Iterator[str]:
        return iter(self._codings)

    def __len__(self) -> int:
        return len(self._codings)

    def __repr__(self) -> str:
        return f"Bodies({dict(self)!r})"


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes readers get, ready-made, by content coding.

    `bodies` maps a coding (`identity`, `gzip`, `br`, `zstd`, or whatever the origin's Content-Encoding said,
    verbatim, where it was left alone) to the coded bytes.
    `tag` is the stem of our own entity tags; None where the content is the origin's own, untouched, and so is
    its ETag.
    `media_type` and `last_modified` replace the origin's fields where they are not None.
    `feed` tells that the content is a feed (of any kind).
    """

    bodies: Mapping[str, bytes]
    tag: str | None = None
    media_type: str | None = None
    last_modified: Instant | None = None
    feed: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.bodies, Bodies):
            object.__setattr__(self, "bodies", Bodies(self.bodies))

    def size(self) -> int:
        """Bytes of all codings together."""
        return sum(len(body) for body in self.bodies.values())


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """One response as it was received, with the times that its age is reckoned from.

    `fields` are the origin's end-to-end fields; Set-Cookie only where it is everybody's (cookies.py).
    `vary_request` are the fields of the request as it went upstream, those only that the response's Vary nominates
    (RFC 9111, section 4.1).
    """

    target: str
    status: int
    fields: Fields
    content: Content
    request_time: Instant
    response_time: Instant
    vary_request: Fields = field(default_factory=Fields)
    own_agent: bool = False
    """Fetched with feedproxy's own User-Agent: then `Vary: User-Agent` is not compared."""
    authorized: bool = False
    """The request carried Authorization (RFC 9111, section 3.5)."""
    invalid: bool = False
    """Invalidated (section 4.4): to be validated before it is used again."""
