"""A stored response: the metadata that RFC 9111 requires (section 3), and its content."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from feedproxy.clock import Instant
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.coding import bounded_decompression
from feedproxy.http.coding.deflate import zlib
from feedproxy.http.message import NO_FIELDS, Fields

CODINGS_MAX = 256
"""Maximum number of combinations of codings that `Bodies` objects share, to save memory. Few are common."""

_CODINGS: dict[tuple[str, ...], tuple[str, ...]] = {}


class Bodies(Mapping[str, bytes]):
    """The bodies of one content, keyed by content coding, in a third of the memory of a dictionary.

    A body can be given as its length in bytes. Its first access then decodes the gzip body.
    """

    __slots__ = ("_bodies", "_codings", "_is_gzip_of_identity")

    def __init__(self, bodies: Mapping[str, bytes | int]) -> None:
        codings = tuple(bodies)
        if len(_CODINGS) < CODINGS_MAX:
            codings = _CODINGS.setdefault(codings, codings)
        self._codings = codings
        self._bodies = tuple(bodies.values())
        self._is_gzip_of_identity: bool | None = None

    def __reduce__(self) -> tuple[type["Bodies"], tuple[dict[str, bytes | int]]]:
        # Unpickling calls the constructor, so that data of another process cannot set the attributes.
        return Bodies, (dict(self.stored),)

    def __getitem__(self, name: str) -> bytes:
        for coding, body in zip(self._codings, self._bodies, strict=True):
            if coding == name:
                return self._decode(name, body) if isinstance(body, int) else body
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return name in self._codings

    def _decode(self, name: str, length: int) -> bytes:
        plain = bounded_decompression.decode(self["gzip"], "gzip", limit=length)
        both = zip(self._codings, self._bodies, strict=True)
        self._bodies = tuple([plain if coding == name else stored for coding, stored in both])
        return plain

    def length(self, name: str) -> int:
        """Return the length of a body in bytes without decoding it, or 0 if there is no body in this coding."""
        return _length(dict(self.stored).get(name, 0))

    @property
    def stored(self) -> Iterator[tuple[str, bytes | int]]:
        """Yield each coding with its body, or with the length in bytes of a body that is not decoded."""
        return zip(self._codings, self._bodies, strict=True)

    def is_gzip_of_identity(self) -> bool:
        """Return True if the gzip and identity bodies are in memory, and the gzip body decodes to the identity body.

        Only the checksum and the length at the end of the gzip body are compared (RFC 1952, section 2.3.1).
        """
        if self._is_gzip_of_identity is None:
            bodies = dict(self.stored)
            plain, packed = bodies.get("identity"), bodies.get("gzip")
            if not (isinstance(plain, bytes) and isinstance(packed, bytes)):
                return False
            ending = zlib.crc32(plain).to_bytes(4, "little") + len(plain).to_bytes(4, "little")
            self._is_gzip_of_identity = packed[-8:] == ending
        return self._is_gzip_of_identity

    @property
    def size(self) -> int:
        """Return the size of all bodies together, in bytes, even of those that are not decoded."""
        return sum([_length(body) for body in self._bodies])

    def __iter__(self) -> Iterator[str]:
        return iter(self._codings)

    def __len__(self) -> int:
        return len(self._codings)

    def __repr__(self) -> str:
        return f"Bodies({dict(self)!r})"


def _length(body: bytes | int) -> int:
    return body if isinstance(body, int) else len(body)


class Content(Struct, frozen=True, omit_defaults=True):
    """The bytes that clients get, keyed by content coding.

    * Each key of `bodies` is `identity`, `gzip`, `br`, `zstd`, or the origin's Content-Encoding.
    * `tag` is the base of this proxy's entity tags (http/etag.py), or None if clients get the origin's ETag.
    * `media_type` replaces the origin's Content-Type, and `last_modified` its Last-Modified, unless they are None.
    * `feed` is True for a feed of any format.
    * `edited_by` is the digest of the settings with which a feed was edited, or empty for the defaults.
    """

    bodies: Bodies
    tag: str | None = None
    media_type: str | None = None
    last_modified: Instant | None = None
    feed: bool = False
    edited_by: str = ""
    is_dictionary: bool = False
    """True if the identity body is exactly what an origin sent with Use-As-Dictionary (RFC 9842)."""

    @property
    def main_body(self) -> tuple[str, bytes]:
        """Return the body `identity`, or else the first body, with its coding; `identity` and b"" if there is none."""
        label = "identity" if "identity" in self.bodies else next(iter(self.bodies), "identity")
        return label, self.bodies.get(label, b"")

    def size(self) -> int:
        """Return the size of the bodies in all codings together, in bytes."""
        return self.bodies.size


class StoredResponse(Struct, frozen=True, omit_defaults=True):
    """A response as received, with the times from which its age is computed.

    `fields` contains the origin's end-to-end fields, with Set-Cookie only if all clients may get the cookie.
    `vary_request` contains the fields of the upstream request that Vary nominates (RFC 9111, section 4.1).
    """

    target: str
    status: int
    fields: Fields
    content: Content
    request_time: Instant
    response_time: Instant
    vary_request: Fields = NO_FIELDS
    own_agent: bool = False
    """True if the response was fetched with feedproxy's own User-Agent. Vary: User-Agent is then not compared."""
    authorized: bool = False
    """True if the request carried Authorization (RFC 9111, section 3.5)."""
    invalid: bool = False
    """True if the response was invalidated (RFC 9111, section 4.4). Before its next use, feedproxy must validate it."""
    final_target: str | None = None
    """The target that sent the response after redirects, "" without redirects, or None if unknown."""
    key: Fields = NO_FIELDS
    """Client-specific request fields that Vary does not nominate. Only requests with equal fields select the
    response."""
    has_client_language: bool = False
    """True if the request had a client's Accept-Language that is in neither `key` nor `vary_request`."""

    @property
    def no_transform(self) -> bool:
        """Return True if the content must be sent as the origin sent it."""
        # "A proxy MUST NOT transform the content (Section 6.4) of a response message that contains a no-transform
        # cache directive" -- RFC 9110, section 7.7
        return CacheControl.from_fields(self.fields).no_transform
