"""Codec of a resource's stored form (docs/reference/store-format.md): an envelope, a header in JSON, and the bodies.

Nothing is pickled, so that write access to the store's files does not permit running code. Each attribute of the value
classes is a member of the header, unless it has its default. msgspec checks the type of each member.
"""

import json
import struct
from abc import abstractmethod
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from feedproxy.cache.stored_response import Bodies
from feedproxy.errors import StoreError
from feedproxy.http.message import Fields
from feedproxy.store import envelope
from feedproxy.store.envelope import Damaged
from feedproxy.store.packing.interning import Interner
from feedproxy.store.resource import Resource
from feedproxy.store.versions_for_dictionaries import PreviousContents

_INTERNER = Interner()


def dump(resource: Resource) -> bytes:
    """Return the stored form of a resource. Raises StoreError if the resource cannot be encoded."""
    return dump_with_header(resource)[0]


def dump_with_header(resource: Resource, *, block: int = 1) -> tuple[bytes, bytes]:
    """Return the stored form of a resource, and its header for `restore`. Raises StoreError if encoding fails.

    The header is padded with spaces to a multiple of `block` bytes.
    """
    area = _Area()
    header = _header(resource, area)
    header = header.ljust(-(-len(header) // block) * block)
    version = envelope.LATER_VERSION if resource.previous else envelope.VERSION
    try:
        return envelope.seal_parts(envelope.EnvelopeKind.RESOURCE, header, *area.parts, version=version), header
    except struct.error as error:
        raise StoreError(f"cannot be written: {resource.target}: {error}") from error


def header_of(resource: Resource) -> bytes:
    """Return the header for `restore`, without the positions of bodies. Raises StoreError if encoding fails."""
    return _header(resource, None)


def load(data: bytes) -> Resource:
    """Return the resource of a stored form. Raises Damaged if the data was altered, and UnknownVersion for a form that
    this version of feedproxy cannot read."""
    return load_with_header(data)[0]


def load_with_header(data: bytes, target: str = "") -> tuple[Resource, bytes]:
    """Return the resource of a stored form, and its encoded header for `restore`.

    If `target` equals the resource's target, the resource refers to this object, so that memory has the target only
    once. Raises Damaged if the data was altered, and UnknownVersion for an unknown form.
    """
    header, area = envelope.open_parts(envelope.EnvelopeKind.RESOURCE, data)
    context = _StoredBodies(area, target)
    resource = _read(header, context)
    try:
        context.check_complete()
    except ValueError as error:
        raise _invalid_header_error(error) from error
    return resource, bytes(header)


def restore(header: bytes, bodies: Iterable[Bodies], previous: bytes, target: str) -> Resource:
    """Return the resource with this header, these bodies and these previous contents.

    The bodies are in the order of `Resource.responses`. `target` is as for `load_with_header`. Raises Damaged if the
    header does not match the bodies.
    """
    return _read(header, _BodiesInMemory(bodies, previous, target))


def _invalid_header_error(error: Exception) -> Damaged:
    return Damaged(f"invalid header of a stored value: {error}")


# -- writing


class _Area:
    """The bodies of a stored form, with their positions."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._positions: dict[int, list[int]] = {}
        self._end = 0

    def append(self, data: bytes) -> list[int]:
        """Return the position and length of `data`. Variants that share a body also share its position."""
        position = self._positions.get(id(data))
        if position is None:
            position = self._positions[id(data)] = [self._end, len(data)]
            self.parts.append(data)
            self._end += len(data)
        return position


def _header(resource: Resource, area: _Area | None) -> bytes:
    """Add the resource's bodies to `area`, and return the encoded header, which has the positions of the bodies.

    If `area` is None, the header has no bodies and no positions. Raises StoreError if encoding fails.
    """
    try:
        return _write_json(resource, area)
    except (TypeError, ValueError, LookupError, RecursionError, struct.error) as error:
        raise StoreError(f"cannot be written: {resource.target}: {error}") from error


def _write_json(resource: Resource, area: _Area | None) -> bytes:
    encode_value = partial(_encode_value, area)
    try:
        written = msgspec.json.encode(resource, enc_hook=encode_value)
    except (TypeError, ValueError, OverflowError):
        pass  # msgspec refuses integers above 64 bits, and lone surrogates, which titles of JSON feeds may contain
    else:
        if b"null" not in written:
            return written
        # The value may contain an infinite number, which msgspec writes as null.
    plain = msgspec.to_builtins(resource, enc_hook=encode_value)
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"), check_circular=False)
    return text.encode("utf-8", "surrogatepass")


def _encode_value(area: _Area | None, value: object) -> object:
    """Return the JSON value of an object that msgspec cannot encode, such as Fields."""
    if isinstance(value, Fields):
        return tuple(value)
    if isinstance(value, Bodies):
        return {} if area is None else _encode_bodies(area, value)
    if isinstance(value, PreviousContents):
        return [] if area is None else area.append(value.data)
    if isinstance(value, str):  # a subclass, such as the text of an lxml node
        return str(value)
    raise TypeError(f"unsupported type in the store: {type(value)}")


def _encode_bodies(area: _Area, bodies: Bodies) -> dict[str, object]:
    """Add the bodies to `area`, and return the position and length of each, by coding.

    If the gzip body decodes to the decoded body, the decoded body is not added, and its value is `["gzip", length]`.
    This saves four fifths of the bytes.
    """
    to_write = dict(bodies.stored)
    plain = to_write.get("identity")
    if isinstance(plain, bytes) and bodies.is_gzip_of_identity():
        to_write["identity"] = len(plain)
    return {coding: ["gzip", body] if isinstance(body, int) else area.append(body) for coding, body in to_write.items()}


# -- reading


def _read(header: bytes | memoryview, context: "_Context") -> Resource:
    try:
        resource = _read_json(header, context)
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError, OverflowError, struct.error) as error:
        raise _invalid_header_error(error) from error
    _share_values(resource, context.target or resource.target)
    return resource


def _share_values(resource: Resource, target: str) -> None:
    """Make equal values in memory one object. This saves a fifth of the resource's memory.

    The responses share the target, and feeds share their media type, version and schedule.
    """
    share = msgspec.structs.force_setattr
    if resource.target == target:
        share(resource, "target", target)
    for response in resource.responses:
        if response.target == target:
            share(response, "target", target)
        if response.content.media_type is not None:
            share(response.content, "media_type", _INTERNER.text(response.content.media_type))
    if resource.channel is not None:
        share(resource.channel, "version", _INTERNER.text(resource.channel.version))
        share(resource.channel, "schedule", _INTERNER.intern(resource.channel.schedule))


def _read_json(header: bytes | memoryview, context: "_Context") -> Resource:
    try:
        return msgspec.json.decode(header, type=Resource, dec_hook=context.decode_value)
    except msgspec.ValidationError:
        raise
    except ValueError:
        # msgspec reads neither "Infinity" nor lone surrogates.
        plain = json.loads(str(header, "utf-8", "surrogatepass"))
    context.start()  # msgspec may have decoded members before the one that it does not read
    return msgspec.convert(plain, Resource, dec_hook=context.decode_value)


class _Context:
    """The values to which a header refers: the bodies and the previous contents."""

    def __init__(self, target: str) -> None:
        self.target = target

    def decode_value(self, kind: type, value: Any) -> object:
        """Return the object of the class `kind`, which msgspec cannot decode, for its JSON value."""
        if kind is Fields:
            return _read_fields(value)
        if kind is Bodies:
            return self.bodies(value)
        assert kind is PreviousContents
        return PreviousContents(self.previous(value))

    def start(self) -> None:
        """Reset the state, because the header is decoded again from its beginning."""

    @abstractmethod
    def bodies(self, value: Any) -> Bodies:
        """Return the bodies of the next content. `value` describes them in the header."""

    @abstractmethod
    def previous(self, value: Any) -> bytes:
        """Return the previous contents. `value` describes them in the header."""


class _StoredBodies(_Context):
    def __init__(self, area: memoryview, target: str) -> None:
        super().__init__(target)
        self._area = area
        self._bodies: dict[tuple[int, int], bytes] = {}

    def bodies(self, value: Any) -> Bodies:
        bodies: dict[str, bytes | int] = {}
        for coding, (start, length) in value.items():
            if type(start) is str:
                if start not in ("gzip",) or type(value[start][0]) is str:
                    raise ValueError(f"body left out for coding {start!r}: expected a gzip body")
                bodies[_INTERNER.text(coding)] = _integer(length)
                continue
            bodies[_INTERNER.text(coding)] = self._body(_integer(start), _integer(length))
        return Bodies(bodies)

    def previous(self, value: Any) -> bytes:
        start, length = value
        return self._body(_integer(start), _integer(length))

    def _body(self, start: int, length: int) -> bytes:
        body = self._bodies.get((start, length))
        if body is None:
            if not 0 <= start <= start + length <= len(self._area):
                raise ValueError("the position of a body is outside the value")
            body = self._bodies[start, length] = bytes(self._area[start : start + length])
        return body

    def check_complete(self) -> None:
        """Raise ValueError unless the header describes every byte of the stored form."""
        if sum(length for _, length in self._bodies) != len(self._area):
            raise ValueError("the header does not describe every byte")


class _BodiesInMemory(_Context):
    """Context for a header with bodies in memory, in the order of `Resource.responses`."""

    def __init__(self, bodies: Iterable[Bodies], previous: bytes, target: str) -> None:
        super().__init__(target)
        self._bodies = tuple(bodies)[::-1]
        self._previous = previous
        self.start()

    def start(self) -> None:
        self._remaining = list(self._bodies)

    def bodies(self, value: Any) -> Bodies:
        return self._remaining.pop()

    def previous(self, value: Any) -> bytes:
        return self._previous


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"expected int, not {type(value).__name__}")
    return value


def _read_fields(value: Any) -> Fields:
    """Return the field lines in `value`. Raises ValueError for a line break or NUL in a line."""
    lines = [_INTERNER.line(name, line) for name, line in value]
    # "CR, LF, and NUL" (RFC 9110, section 5.5). Characters beyond Latin-1 raise UnicodeEncodeError, a ValueError.
    text = "".join([part for line in lines for part in line]).encode("latin-1")
    if b"\n" in text or b"\r" in text or b"\0" in text:
        raise ValueError("a field line has a line break or NUL")
    return Fields(lines)
