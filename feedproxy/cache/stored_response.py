"""A stored response: what RFC 9111 needs to know of one (section 3), and the content that is served."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from feedproxy.clock import Instant
from feedproxy.http import content_coding
from feedproxy.http.message import Fields

CODINGS_MAX = 256
"""Sets of codings that many feeds have in common."""

_CODINGS: dict[tuple[str, ...], tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A body that is not kept: another one, in this coding, stands for it. It has so many bytes."""

    coding: str
    length: int


class Bodies(Mapping[str, bytes]):
    """Bodies by coding; a third of what a dictionary takes, for as few as there are.

    Plain bytes that were left on the disk are unpacked when somebody asks for them, and then kept.
    """

    __slots__ = ("_bodies", "_codings")

    def __init__(self, bodies: Mapping[str, bytes | Unpacked]) -> None:
        codings = tuple(bodies)
        if len(_CODINGS) < CODINGS_MAX:
            codings = _CODINGS.setdefault(codings, codings)
        self._codings = codings
        self._bodies = tuple(bodies.values())

    def __reduce__(self) -> tuple[type["Bodies"], tuple[dict[str, bytes | Unpacked]]]:
        # Made anew by the constructor: what comes from another process is given no say in the members.
        return Bodies, (dict(self.kept),)

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
        self._bodies = tuple([plain if known == name else each for known, each in both])
        return plain

    @property
    def kept(self) -> Iterator[tuple[str, bytes | Unpacked]]:
        """Coding and body, or what stands for it."""
        return zip(self._codings, self._bodies, strict=True)

    @property
    def size(self) -> int:
        """Bytes of all of them, unpacked or not."""
        return sum([each.length if isinstance(each, Unpacked) else len(each) for each in self._bodies])

    def __iter__(self) -> Iterator[str]:
        return iter(self._codings)

    def __len__(self) -> int:
        return len(self._codings)

    def __repr__(self) -> str:
        return f"Bodies({dict(self)!r})"


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes that clients get, by content coding.

    `bodies` maps a coding (`identity`, `gzip`, `br`, `zstd`, or whatever the origin's Content-Encoding said,
    verbatim, where it was left alone) to the coded bytes.
    `tag` is the stem of our own entity tags; None where the content is the origin's own, untouched, and so is
    its ETag.
    `media_type` and `last_modified` replace the origin's fields where they are not None.
    `feed` tells that the content is a feed (of any kind).
    `edited_by` is a digest of the settings that a feed was edited by (refresh/ingest/edit_settings.py); empty for the
    defaults.
    """

    bodies: Mapping[str, bytes]
    """A `Bodies`, whatever was given."""
    tag: str | None = None
    media_type: str | None = None
    last_modified: Instant | None = None
    feed: bool = False
    edited_by: str = ""
    is_dictionary: bool = False
    """The identity body is exactly what an origin sent with Use-As-Dictionary (RFC 9842)."""

    def __post_init__(self) -> None:
        if type(self.bodies) is not Bodies:  # to ask what else it may be takes longer
            object.__setattr__(self, "bodies", Bodies(self.bodies))

    def size(self) -> int:
        """Bytes of all codings together."""
        assert isinstance(self.bodies, Bodies)
        return self.bodies.size


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """One response as it was received, with the times that its age is reckoned from.

    `fields` are the origin's end-to-end fields; Set-Cookie only where it is everybody's (set_cookie.py).
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
    final_target: str | None = None
    """The target that gave it, at the end of redirects; empty where that is `target`, None where it is not known: what
    an earlier feedproxy has stored."""
    key: Fields = field(default_factory=Fields)
    """Fields of one client that the request carried and Vary does not nominate: it answers these only."""
