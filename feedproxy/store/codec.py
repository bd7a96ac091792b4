"""What is kept of a feed, as bytes and back: docs/reference/store-format.md.

A value is an envelope (envelope.py), a header in JSON, and the bodies as they are. Nothing is pickled:
write access to the store's files must not allow running code.

The header follows the dataclasses: a member stands in it under its own name, unless it has its default. How a
member is read follows from its declared type, so a new member with a default needs neither code here nor a
new version. A member whose type is not known here stops the import, not a reader's request.
"""

import base64
import json
import struct
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, TypeAliasType, get_args, get_origin, get_type_hints

from feedproxy.cache.stored_response import Bodies, Content, Unpacked
from feedproxy.errors import StoreError
from feedproxy.feed.channel import Schedule
from feedproxy.http.message import Fields
from feedproxy.store import envelope
from feedproxy.store.envelope import Damaged
from feedproxy.store.packing.interning import Interner
from feedproxy.store.packing.packed_sequences import PackedSequence
from feedproxy.store.previous_contents import PreviousContents
from feedproxy.store.resource import Resource

_INTERNER = Interner()
_INTERNED_MEMBERS = frozenset({"detail", "edited_by", "media_type", "namespace", "protocol", "rel", "type", "version"})
"""Members whose texts many feeds have in common."""


def dump(resource: Resource) -> bytes:
    """The bytes that `load` reads. Raises StoreError for a value that has no such form."""
    return dump_with_header(resource)[0]


def dump_with_header(resource: Resource) -> tuple[bytes, bytes]:
    """The same, and its header, for `restore`."""
    parts: list[bytes] = []
    places: dict[int, list[int]] = {}
    end = 0

    def bodies_of(content: Content) -> dict[str, object]:
        nonlocal end
        bodies: dict[str, object] = {}
        for coding, body in _bodies_to_write(content):
            if isinstance(body, Unpacked):
                bodies[coding] = [body.coding, body.length]
                continue
            # Variants that share a body share its place, too.
            place = places.get(id(body))
            if place is None:
                place = places[id(body)] = [end, len(body)]
                parts.append(body)
                end += len(body)
            bodies[coding] = place
        return bodies

    def place_of(data: bytes) -> list[int]:
        nonlocal end
        parts.append(data)
        end += len(data)
        return [end - len(data), len(data)]

    header = _header(resource, bodies_of, place_of)
    version = envelope.LATER if resource.previous else envelope.VERSION
    try:
        return envelope.seal_parts(envelope.Kind.RESOURCE, header, *parts, version=version), header
    except struct.error as error:
        raise StoreError(f"cannot be written: {resource.target}: {error}") from error


def header_of(resource: Resource) -> bytes:
    """All of it but its bodies, for `restore`. Raises StoreError for a value that has no such form."""
    return _header(resource, lambda _: {}, lambda _: [])


def load(data: bytes) -> Resource:
    """The resource that `dump` wrote. Raises Damaged or UnknownVersion, both StoreError, and nothing else."""
    return load_with_header(data)[0]


def load_with_header(data: bytes) -> tuple[Resource, bytes]:
    """The same, and its header, for `restore`."""
    header, area = envelope.open_parts(envelope.Kind.RESOURCE, data)
    context = _StoredBodies(area)
    resource = _read(header, context)
    try:
        context.check_complete()
    except ValueError as error:
        raise _invalid_header(error) from error
    return resource, bytes(header)


def restore(header: bytes, bodies: Iterable[Bodies], previous: bytes = b"") -> Resource:
    """The resource that has this header, these bodies, in the order of `Resource.responses`, and previous contents.

    Raises Damaged.
    """
    return _read(header, _GivenBodies(bodies, previous))


def _read(header: bytes | memoryview, context: "_Context") -> Resource:
    try:
        resource: Resource = _read_resource(json.loads(str(header, "utf-8", "surrogatepass")), context)
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError, struct.error) as error:
        raise _invalid_header(error) from error
    return resource


def _invalid_header(error: Exception) -> Damaged:
    return Damaged(f"a stored value has a header that makes no sense: {error}")


# -- writing


def _header(
    resource: Resource, bodies_of: Callable[[Content], dict[str, object]], place_of: Callable[[bytes], list[int]]
) -> bytes:
    def plain(value: Any) -> object:
        """What JSON has no word for."""
        if isinstance(value, (Fields, PackedSequence)):
            return list(value)
        if isinstance(value, frozenset):
            return sorted(value)
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        if isinstance(value, PreviousContents):
            return place_of(value.data)
        written = {}
        for attribute, name, default in _defaults(type(value)):
            member = getattr(value, attribute)
            if member is not default and member != default:
                written[name] = member
        if isinstance(value, Content):
            written["bodies"] = bodies_of(value)
        return written

    try:
        header = json.dumps(plain(resource), default=plain, ensure_ascii=False, separators=(",", ":"))
        # JSON feeds can bring lone surrogates into a title: what is written must be read back all the same.
        return header.encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, LookupError, RecursionError, struct.error) as error:
        raise StoreError(f"cannot be written: {resource.target}: {error}") from error


def _bodies_to_write(content: Content) -> list[tuple[str, bytes | Unpacked]]:
    """The bodies to be written. What gzip stands for is not: it is four fifths of all that there is to be written.

    gzip ends with the checksum and length of its content (RFC 1952, 2.3.1), so it is certain what it stands for.
    """
    assert isinstance(content.bodies, Bodies)
    kept = dict(content.bodies.stored)
    plain, packed = kept.get("identity"), kept.get("gzip")
    if isinstance(plain, bytes) and isinstance(packed, bytes) and content.tag is not None:
        length = len(plain)
        if packed[-4:] == length.to_bytes(4, "little") and packed[-8:-4] == zlib.crc32(plain).to_bytes(4, "little"):
            kept["identity"] = Unpacked("gzip", length)
    return list(kept.items())


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
"""Names in the stored form that differ from the attributes', by class. The stored form never changes."""

_DEFAULTS: dict[type, tuple[tuple[str, str, Any], ...]] = {}


def _defaults(kind: type) -> tuple[tuple[str, str, Any], ...]:
    """Return a dataclass's members: attribute, stored name and default. Raises TypeError for any other class."""
    known = _DEFAULTS.get(kind)
    if known is None:
        names = _STORED_NAMES.get(kind.__name__, {})
        members = [(member.name, names.get(member.name, member.name), _default(member)) for member in fields(kind)]
        known = _DEFAULTS[kind] = tuple(members)
    return known


def _default(member: Field[Any]) -> Any:
    return member.default if member.default_factory is MISSING else member.default_factory()


# -- reading: every member is checked for its type, so what is loaded is valid or an error


class _Context:
    """What the readers of one value have in common: where its bodies are, and what is there to be shared."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def text(self, text: str) -> str:
        """Equal texts of one value (the target is said by every variant) are one object."""
        return self._texts.setdefault(text, text)

    @abstractmethod
    def bodies(self, value: Any) -> Mapping[str, bytes | Unpacked]:
        """The bodies of the next content, of which the header says this."""

    @abstractmethod
    def previous(self, value: Any) -> bytes:
        """The previous contents, of which the header says this."""


class _StoredBodies(_Context):
    """Bodies that lie in the value's bytes."""

    def __init__(self, area: memoryview) -> None:
        super().__init__()
        self._area = area
        self._bodies: dict[tuple[int, int], bytes] = {}

    def bodies(self, value: Any) -> dict[str, bytes | Unpacked]:
        bodies: dict[str, bytes | Unpacked] = {}
        for coding, (start, length) in value.items():
            if type(start) is str:
                if start not in ("gzip",) or type(value[start][0]) is str:
                    raise ValueError("a body is in a coding that is not kept")
                bodies[_INTERNER.text(coding)] = Unpacked("gzip", _read_integer(length, self))
                continue
            bodies[_INTERNER.text(coding)] = self._body(_read_integer(start, self), _read_integer(length, self))
        return bodies

    def previous(self, value: Any) -> bytes:
        start, length = value
        return self._body(_read_integer(start, self), _read_integer(length, self))

    def _body(self, start: int, length: int) -> bytes:
        """The body at that place; the same object for the same place."""
        body = self._bodies.get((start, length))
        if body is None:
            if not 0 <= start <= start + length <= len(self._area):
                raise ValueError("a body lies outside the value")
            body = self._bodies[start, length] = bytes(self._area[start : start + length])
        return body

    def check_complete(self) -> None:
        """Raises ValueError where the header does not account for every byte."""
        if sum(length for _, length in self._bodies) != len(self._area):
            raise ValueError("bodies are missing or left over")


class _GivenBodies(_Context):
    """Bodies that are in memory, in their order; what the header says of where they lay is passed over."""

    def __init__(self, bodies: Iterable[Bodies], previous: bytes) -> None:
        super().__init__()
        self._left = list(bodies)[::-1]
        self._previous = previous

    def bodies(self, value: Any) -> Bodies:
        return self._left.pop()

    def previous(self, value: Any) -> bytes:
        return self._previous


type _Read = Callable[[Any, _Context], Any]


def _require(kind: type, *others: type) -> _Read:
    permitted = (kind, *others)

    def read(value: Any, context: _Context) -> Any:
        if type(value) not in permitted:
            raise TypeError(f"{kind.__name__} expected, {type(value).__name__} found")
        return value

    return read


_read_list = _require(list)
_read_integer = _require(int)


def _read_text(value: Any, context: _Context) -> str:
    if type(value) is not str:
        raise TypeError(f"str expected, {type(value).__name__} found")
    return context.text(value)


def _read_common_text(value: Any, context: _Context) -> str | None:
    return None if value is None else _INTERNER.text(value)


def _read_fields(value: Any, context: _Context) -> Fields:
    """Field lines. Raises ValueError for one that would be two: others may write to the store's files and to Redis."""
    lines = [_INTERNER.line(name, line) for name, line in _read_list(value, context)]
    # "CR, LF, and NUL" (RFC 9110, section 5.5), and what is no byte, which cannot be encoded here.
    text = "".join([part for line in lines for part in line]).encode("latin-1")
    if b"\n" in text or b"\r" in text or b"\0" in text:
        raise ValueError("a field line has a line break or NUL")
    return Fields(lines)


def _read_bytes(value: Any, context: _Context) -> bytes:
    return base64.b64decode(value, validate=True)


def _read_bodies(value: Any, context: _Context) -> Mapping[str, bytes | Unpacked]:
    return context.bodies(value)


_SIMPLE: Mapping[Any, _Read] = {
    str: _read_text,
    int: _read_integer,
    float: _require(float, int),
    bool: _require(bool),
    bytes: _read_bytes,
    Fields: _read_fields,
    Mapping[str, bytes]: _read_bodies,
    PreviousContents: lambda value, context: PreviousContents(context.previous(value)),
}


def _reader(kind: Any) -> _Read:
    """How a value of that declared type is read."""
    if isinstance(kind, TypeAliasType):
        return _reader(kind.__value__)
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if isinstance(kind, UnionType) and NoneType in get_args(kind):
        (some,) = (_reader(each) for each in get_args(kind) if each is not NoneType)
        return lambda value, context: None if value is None else some(value, context)
    if get_origin(kind) in (tuple, frozenset, Sequence):
        make, each = frozenset if get_origin(kind) is frozenset else tuple, _reader(get_args(kind)[0])
        return lambda value, context: make([each(one, context) for one in _read_list(value, context)])
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return lambda value, context: kind(value)
    if is_dataclass(kind):
        return _dataclass_reader(kind)
    raise TypeError(f"the store has no form for {kind}")


def _dataclass_reader(kind: Any) -> _Read:
    hints = get_type_hints(kind)
    readers = {
        name: (
            attribute,
            _read_common_text
            if name in _INTERNED_MEMBERS and hints[attribute] in (str, str | None)
            else _reader(hints[attribute]),
        )
        for attribute, name, _ in _defaults(kind)
    }
    # One object for all that leave it out, where the class itself would make one for each.
    unsaid = {
        attribute: default
        for attribute, _, default in _defaults(kind)
        if is_dataclass(default) or isinstance(default, Fields)
    }

    def read(plain: Any, context: _Context) -> Any:
        members: dict[str, Any] = dict(unsaid)
        for name, value in plain.items():
            # A member that is not known was added by a later feedproxy, which reads its absence well, too.
            if name in readers:
                attribute, read_member = readers[name]
                members[attribute] = read_member(value, context)
        made = kind(**members)
        # Thousands of feeds have the same few schedules.
        return _INTERNER.value(made) if kind is Schedule else made

    return read


_read_resource = _reader(Resource)
