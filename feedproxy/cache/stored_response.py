"""A stored response: its metadata for RFC 9111 (section 3), and the content that is served."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from feedproxy.clock import Instant
from feedproxy.http import content_coding
from feedproxy.http.message import Fields

CODINGS_MAX = 256
"""Interned tuples of codings, at most. Most feeds share a few; unusual Content-Encoding values could be any number."""

_CODINGS: dict[tuple[str, ...], tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The place of a body that is not stored. It is decoded from the body in `coding`, and has `length` bytes."""

    coding: str
    length: int


class Bodies(Mapping[str, bytes]):
    """Bodies by coding, in a third of a dictionary's memory.

    A body that was left out on disk is decoded at the first access, and then kept.
    """

    __slots__ = ("_bodies", "_codings")

    def __init__(self, bodies: Mapping[str, bytes | Unpacked]) -> None:
        codings = tuple(bodies)
        if len(_CODINGS) < CODINGS_MAX:
            codings = _CODINGS.setdefault(codings, codings)
        self._codings = codings
        self._bodies = tuple(bodies.values())

    def __reduce__(self) -> tuple[type["Bodies"], tuple[dict[str, bytes | Unpacked]]]:
        # Unpickling calls the constructor, so that data of another process cannot set the attributes.
        return Bodies, (dict(self.stored),)

    def __getitem__(self, name: str) -> bytes:
        for known, body in zip(self._codings, self._bodies, strict=True):
            if known == name:
                return self._unpack(name, body) if isinstance(body, Unpacked) else body
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return name in self._codings

    def _unpack(self, name: str, body: Unpacked) -> bytes:
        plain = content_coding.decode(self[body.coding], body.coding, limit=body.length)
        both = zip(self._codings, self._bodies, strict=True)
        self._bodies = tuple([plain if known == name else stored for known, stored in both])
        return plain

    @property
    def stored(self) -> Iterator[tuple[str, bytes | Unpacked]]:
        """Return pairs of a coding and its body, or the Unpacked in its place."""
        return zip(self._codings, self._bodies, strict=True)

    @property
    def size(self) -> int:
        """Return the bytes of all bodies together, once decoded."""
        return sum([body.length if isinstance(body, Unpacked) else len(body) for body in self._bodies])

    def __iter__(self) -> Iterator[str]:
        return iter(self._codings)

    def __len__(self) -> int:
        return len(self._codings)

    def __repr__(self) -> str:
        return f"Bodies({dict(self)!r})"


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes that clients get, by content coding.

    `bodies` maps a coding (`identity`, `gzip`, `br`, `zstd`, or the origin's Content-Encoding verbatim if the content
    is unchanged) to the coded bytes.
    `tag` is the base of this proxy's entity tags; None if content and ETag are the origin's, unchanged.
    `media_type` and `last_modified` replace the origin's fields where they are not None.
    `feed`: the content is a feed (of any kind).
    `edited_by` is a digest of the settings that a feed was edited by (refresh/ingest/edit_settings.py); empty for the
    defaults.
    """

    bodies: Mapping[str, bytes]
    """A `Bodies`, to which any other mapping is converted."""
    tag: str | None = None
    media_type: str | None = None
    last_modified: Instant | None = None
    feed: bool = False
    edited_by: str = ""
    is_dictionary: bool = False
    """The identity body is exactly what an origin sent with Use-As-Dictionary (RFC 9842)."""

    def __post_init__(self) -> None:
        if type(self.bodies) is not Bodies:  # faster than isinstance
            object.__setattr__(self, "bodies", Bodies(self.bodies))

    def size(self) -> int:
        """Return the bytes of all codings together."""
        assert isinstance(self.bodies, Bodies)
        return self.bodies.size


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """One response as it was received, with the times that its age is computed from.

    `fields` are the origin's end-to-end fields; Set-Cookie only if it is for all clients (set_cookie.py).
    `vary_request` are the fields of the upstream request that the response's Vary nominates (RFC 9111, section 4.1).
    """

    target: str
    status: int
    fields: Fields
    content: Content
    request_time: Instant
    response_time: Instant
    vary_request: Fields = field(default_factory=Fields)
    own_agent: bool = False
    """It was fetched with feedproxy's own User-Agent: then `Vary: User-Agent` is not compared."""
    authorized: bool = False
    """The request carried Authorization (RFC 9111, section 3.5)."""
    invalid: bool = False
    """It was invalidated (section 4.4), and must be validated before it is used again."""
    final_target: str | None = None
    """The target at the end of redirects that sent it; empty if that is `target`, None if unknown: in responses that
    an earlier version stored."""
    key: Fields = field(default_factory=Fields)
    """Client-specific fields of the request that Vary does not nominate: only equal ones select this response."""
