"""Codec of a resource's stored form (docs/reference/store-format.md): an envelope, a header in JSON, and the bodies.

Nothing is pickled, because write access to the store's files must not permit running code. Each member of the
dataclasses is a member of the header, unless it has its default value. The declared type of a member determines how the
member is read. An unsupported type raises TypeError on import.
"""

import base64
import json
import struct
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, TypeAliasType, get_args, get_origin, get_type_hints

import msgspec

from feedproxy.cache.stored_response import Bodies, Content
from feedproxy.errors import StoreError
from feedproxy.feed.channel import Schedule
from feedproxy.http.message import Fields
from feedproxy.store import envelope
from feedproxy.store.envelope import Damaged
from feedproxy.store.packing.interning import Interner
from feedproxy.store.resource import Resource
from feedproxy.store.versions_for_dictionaries import PreviousContents

_INTERNER = Interner()
_INTERNED_MEMBERS = frozenset({"detail", "edited_by", "media_type", "namespace", "protocol", "rel", "type", "version"})
"""Members with texts that many feeds share. Equal texts are one object in memory."""


def dump(resource: Resource) -> bytes:
    """Return the stored form of a resource. Raises StoreError if the resource cannot be encoded."""
    return dump_with_header(resource)[0]


def dump_with_header(resource: Resource, *, block: int = 1) -> tuple[bytes, bytes]:
    """Return the stored form of a resource, and its header for `restore`. Raises StoreError if the resource cannot be
    encoded.

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
    """Return the header for `restore`, without the positions of bodies. Raises StoreError if the resource cannot be
    encoded."""
    return _header(resource, None)


def load(data: bytes) -> Resource:
    """Return the resource of a stored form. Raises Damaged if the data was altered, and UnknownVersion if this version
    of feedproxy cannot read its form."""
    return load_with_header(data)[0]


def load_with_header(data: bytes, target: str = "") -> tuple[Resource, bytes]:
    """Return the resource of a stored form, and the encoded header of this form, from which `restore` restores the
    resource.

    If `target` equals the resource's target, the resource refers to the object `target`, so that memory has the target
    only once.
    Raises Damaged if the data was altered, and UnknownVersion if this version of feedproxy cannot read its form.
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


def _read(header: bytes | memoryview, context: "_Context") -> Resource:
    try:
        resource: Resource = _read_resource(_read_json(header), context)
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError, OverflowError, struct.error) as error:
        raise _invalid_header_error(error) from error
    return resource


def _invalid_header_error(error: Exception) -> Damaged:
    return Damaged(f"invalid header of a stored value: {error}")


# -- JSON


def _read_json(header: bytes | memoryview) -> Any:
    try:
        return msgspec.json.decode(header)
    except ValueError:
        return json.loads(str(header, "utf-8", "surrogatepass"))  # msgspec reads neither "Infinity" nor lone surrogates


def _write_json(value: object) -> bytes:
    try:
        written = msgspec.json.encode(value)
    except (TypeError, ValueError):
        pass  # msgspec refuses lone surrogates, which titles of JSON feeds may contain, and subclasses of str
    else:
        if b"null" not in written:
            return written
        # The value may contain an infinite number, which msgspec writes as null.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), check_circular=False)
    return text.encode("utf-8", "surrogatepass")


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
    """Return the encoded header. The bodies are added to `area`. If it is None, the header contains no positions."""
    try:
        return _write_json(_write_resource(resource, area))
    except (TypeError, ValueError, LookupError, RecursionError, struct.error) as error:
        raise StoreError(f"cannot be written: {resource.target}: {error}") from error


def _write_bodies(content: Content, area: _Area | None) -> dict[str, object]:
    if area is None:
        return {}
    return {
        coding: ["gzip", body] if isinstance(body, int) else area.append(body)
        for coding, body in _bodies_to_write(content)
    }


def _bodies_to_write(content: Content) -> list[tuple[str, bytes | int]]:
    """Return the bodies to write, by coding.

    The decoded body is omitted if the gzip body decodes to it, which saves four fifths of the bytes.
    """
    assert isinstance(content.bodies, Bodies)
    to_write = dict(content.bodies.stored)
    if content.tag is not None and content.bodies.is_gzip_of_identity():
        to_write["identity"] = len(content.bodies["identity"])
    return list(to_write.items())


_STORED_NAMES: Mapping[str, Mapping[str, str]] = {
    "Resource": {
        "relocation": "sighting",
        "pending_format_change": "new_shape",
        "last_push": "heard",
        "push_lease_expires": "promised",
        "first_seen": "known",
        "backfill_pending": "undated",
        "fencing_token": "fence",
        "version_records": "editions",
        "delta_bases": "versions",
    },
    "Relocation": {"kind": "ending"},
    "Failures": {"by_origin": "asked"},
}
"""Names in the stored form that differ from attribute names. Never change them: existing stores contain them."""

_DEFAULTS: dict[type, tuple[tuple[str, str, Any], ...]] = {}


def _defaults(kind: type) -> tuple[tuple[str, str, Any], ...]:
    """Return the members of a dataclass: attribute, stored name and default. Raises TypeError for other classes."""
    cached = _DEFAULTS.get(kind)
    if cached is None:
        names = _STORED_NAMES.get(kind.__name__, {})
        members = [(member.name, names.get(member.name, member.name), _default(member)) for member in fields(kind)]
        cached = _DEFAULTS[kind] = tuple(members)
    return cached


def _default(member: Field[Any]) -> Any:
    return member.default if member.default_factory is MISSING else member.default_factory()


type _Encoder = Callable[[Any, _Area | None], Any]


def _encoder(kind: Any) -> _Encoder | None:
    """Return the function that converts a value of a declared type to a JSON value, or None if it already is one."""
    if isinstance(kind, TypeAliasType):
        return _encoder(kind.__value__)
    if kind is Fields:
        return lambda value, area: list(value)
    if kind is bytes:
        return lambda value, area: base64.b64encode(value).decode()
    if kind is PreviousContents:
        return lambda value, area: [] if area is None else area.append(value.data)
    if isinstance(kind, UnionType) and NoneType in get_args(kind):
        (encode_value,) = (_encoder(option) for option in get_args(kind) if option is not NoneType)
        return encode_value and (lambda value, area: None if value is None else encode_value(value, area))
    if get_origin(kind) is frozenset:
        return lambda value, area: sorted(value)
    if get_origin(kind) is tuple:
        encode_item = _encoder(get_args(kind)[0])
        return encode_item and (lambda value, area: [encode_item(item, area) for item in value])
    return _dataclass_encoder(kind) if is_dataclass(kind) else None


def _dataclass_encoder(kind: Any) -> _Encoder:
    """Return a function that converts an instance of the dataclass to a dictionary without members that have their
    default value.

    The function is generated, with one statement per member, because a loop takes twice as long.
    """
    hints = get_type_hints(kind)
    scope: dict[str, Any] = {"write_bodies": _write_bodies}
    statements = ["written = {}"]
    for number, (attribute, name, default) in enumerate(_defaults(kind)):
        written = "value"
        if kind is Content and attribute == "bodies":
            written = "write_bodies(instance, area)"
        elif (encode_member := _encoder(hints[attribute])) is not None:
            scope[f"encode_{number}"] = encode_member
            written = f"encode_{number}(value, area)"
        scope[f"default_{number}"] = default
        statements += [
            f"value = instance.{attribute}",
            f"if value is not default_{number} and value != default_{number}: written[{name!r}] = {written}",
        ]
    source = "def encode(instance, area):\n    " + "\n    ".join([*statements, "return written"])
    exec(source, scope)  # noqa: S102 -- the source contains only the names of members
    encode: _Encoder = scope["encode"]
    return encode


_write_resource = _dataclass_encoder(Resource)


# -- reading: the type of every member is checked, so a loaded value is valid


class _Context:
    def __init__(self, target: str) -> None:
        self._texts = {target: target}

    def text(self, text: str) -> str:
        """Return the same object for equal texts, so that a stored resource contains each text once in memory.

        The target, for example, occurs in each variant.
        """
        return self._texts.setdefault(text, text)

    @abstractmethod
    def bodies(self, value: Any) -> Mapping[str, bytes | int]:
        """Return the bodies of the next content. `value` is their description in the header."""

    @abstractmethod
    def previous(self, value: Any) -> bytes:
        """Return the previous contents. `value` is their description in the header."""


class _StoredBodies(_Context):
    def __init__(self, area: memoryview, target: str) -> None:
        super().__init__(target)
        self._area = area
        self._bodies: dict[tuple[int, int], bytes] = {}

    def bodies(self, value: Any) -> dict[str, bytes | int]:
        bodies: dict[str, bytes | int] = {}
        for coding, (start, length) in value.items():
            if type(start) is str:
                if start not in ("gzip",) or type(value[start][0]) is str:
                    raise ValueError(f"body left out for coding {start!r}: expected a gzip body")
                bodies[_INTERNER.text(coding)] = _read_integer(length, self)
                continue
            bodies[_INTERNER.text(coding)] = self._body(_read_integer(start, self), _read_integer(length, self))
        return bodies

    def previous(self, value: Any) -> bytes:
        start, length = value
        return self._body(_read_integer(start, self), _read_integer(length, self))

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
    """Context of decoding a header with bodies that are already in memory, in the order of `Resource.responses`."""

    def __init__(self, bodies: Iterable[Bodies], previous: bytes, target: str) -> None:
        super().__init__(target)
        self._remaining = list(bodies)[::-1]
        self._previous = previous

    def bodies(self, value: Any) -> Bodies:
        return self._remaining.pop()

    def previous(self, value: Any) -> bytes:
        return self._previous


type _Decoder = Callable[[Any, _Context], Any]


def _require(kind: type, *others: type) -> _Decoder:
    permitted = (kind, *others)

    def read(value: Any, context: _Context) -> Any:
        if type(value) not in permitted:
            raise TypeError(f"expected {kind.__name__}, not {type(value).__name__}")
        return value

    return read


_read_list = _require(list)
_read_integer = _require(int)


def _read_text(value: Any, context: _Context) -> str:
    if type(value) is not str:
        raise TypeError(f"expected str, not {type(value).__name__}")
    return context.text(value)


def _read_common_text(value: Any, context: _Context) -> str | None:
    return None if value is None else _INTERNER.text(value)


def _read_fields(value: Any, context: _Context) -> Fields:
    """Return the field lines in `value`. Raises ValueError for a line break or NUL in a line."""
    lines = [_INTERNER.line(name, line) for name, line in _read_list(value, context)]
    # "CR, LF, and NUL" (RFC 9110, section 5.5). Characters beyond Latin-1 raise UnicodeEncodeError, a ValueError.
    text = "".join([part for line in lines for part in line]).encode("latin-1")
    if b"\n" in text or b"\r" in text or b"\0" in text:
        raise ValueError("a field line has a line break or NUL")
    return Fields(lines)


def _read_bytes(value: Any, context: _Context) -> bytes:
    return base64.b64decode(value, validate=True)


def _read_bodies(value: Any, context: _Context) -> Mapping[str, bytes | int]:
    return context.bodies(value)


_SIMPLE: Mapping[Any, _Decoder] = {
    str: _read_text,
    int: _read_integer,
    float: _require(float, int),
    bool: _require(bool),
    bytes: _read_bytes,
    Fields: _read_fields,
    Mapping[str, bytes]: _read_bodies,
    PreviousContents: lambda value, context: PreviousContents(context.previous(value)),
}


def _plain_types(kind: Any) -> frozenset[type]:
    """Return the Python types of JSON values that need no decoding for a member of the declared type `kind`.

    The result is empty if every value has to be decoded.
    """
    if isinstance(kind, TypeAliasType):
        return _plain_types(kind.__value__)
    return frozenset({int: (int,), float: (float, int), bool: (bool,)}.get(kind, ()))


def _decoder(kind: Any) -> _Decoder:
    """Return the function that decodes a value of a declared type. Raises TypeError for unsupported types."""
    if isinstance(kind, TypeAliasType):
        return _decoder(kind.__value__)
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if isinstance(kind, UnionType) and NoneType in get_args(kind):
        (decode_value,) = (_decoder(option) for option in get_args(kind) if option is not NoneType)
        return lambda value, context: None if value is None else decode_value(value, context)
    if get_origin(kind) in (tuple, frozenset):
        make, (item_kind, *_) = frozenset if get_origin(kind) is frozenset else tuple, get_args(kind)
        if plain_types := _plain_types(item_kind):
            return _sequence_decoder(make, plain_types)
        decode_item = _decoder(item_kind)
        return lambda value, context: make([decode_item(item, context) for item in _read_list(value, context)])
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return lambda value, context: kind(value)
    if is_dataclass(kind):
        return _dataclass_decoder(kind)
    raise TypeError(f"unsupported type in the store: {kind}")


def _sequence_decoder(make: Callable[[Iterable[Any]], Any], plain_types: frozenset[type]) -> _Decoder:
    """Return the function that checks a list of JSON values against `plain_types`, and passes the list to `make`."""

    def read(value: Any, context: _Context) -> Any:
        items = _read_list(value, context)
        if not plain_types.issuperset(map(type, items)):
            raise TypeError(f"expected only {', '.join(sorted(kind.__name__ for kind in plain_types))}")
        # An integer that is too large for a float would fail later, when instants are compared.
        return make(map(float, items) if float in plain_types else items)

    return read


def _dataclass_decoder(kind: Any) -> _Decoder:
    hints = get_type_hints(kind)
    decoders = {
        name: (
            attribute,
            _plain_types(hints[attribute]),
            _read_common_text
            if name in _INTERNED_MEMBERS and hints[attribute] in (str, str | None)
            else _decoder(hints[attribute]),
        )
        for attribute, name, _ in _defaults(kind)
    }

    def read(plain: Any, context: _Context) -> Any:
        members: dict[str, Any] = {}
        for name, value in plain.items():
            # An unknown member was written by a later version of feedproxy, in which it has a default.
            if name in decoders:
                attribute, plain_types, decode_member = decoders[name]
                members[attribute] = value if type(value) in plain_types else decode_member(value, context)
        return kind(**members)

    def read_interned(plain: Any, context: _Context) -> Any:
        return _INTERNER.value(repr(plain), lambda: read(plain, context))

    # Thousands of feeds have the same few schedules.
    return read_interned if kind is Schedule else read


_read_resource = _decoder(Resource)
