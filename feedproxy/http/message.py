"""HTTP messages as values: fields, request, response.  RFC 9110, sections 5 and 6"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Self

from msgspec import Struct

from feedproxy.http.hop_by_hop import HOP_BY_HOP, hop_by_hop_names

NAMES_MAX = 2048
"""Maximum number of field names with a cached lower-case form."""
NAME_LONGEST = 64
"""Maximum length, in characters, of a field name with a cached lower-case form."""

SHARED_LENGTH_MAX = 128
"""Maximum length, in bytes, of field values that responses share. Each response has its own copy of a longer value."""

_lower = lru_cache(maxsize=NAMES_MAX)(str.lower)


@lru_cache(maxsize=64)
def _set_of(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(str.lower, names))


class Fields:
    """The field lines of a message, in order. Names are case-insensitive (RFC 9110, section 5.1).

    Each character of a value is one byte of the wire (ISO-8859-1), so that fields are forwarded unchanged. Fields are
    immutable: methods return a changed copy.
    """

    __slots__ = ("_lines", "_lowered")

    def __init__(self, lines: Iterable[tuple[str, str]] = ()) -> None:
        self._lines = tuple(lines)
        self._lowered: tuple[str, ...] | None = None

    def _with_lines(self, lines: tuple[tuple[str, str], ...], names: tuple[str, ...]) -> Self:
        """Return Fields with these lines. `names` are their names in lower case."""
        fields = object.__new__(type(self))
        fields._lines, fields._lowered = lines, names
        return fields

    @property
    def _names(self) -> tuple[str, ...]:
        names = self._lowered
        if names is None:
            names = tuple([_lower(name) if len(name) <= NAME_LONGEST else name.lower() for name, _ in self._lines])
            self._lowered = names
        return names

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def __contains__(self, name: str) -> bool:
        return _lower(name) in (self._lowered or self._names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fields) and self._lines == other._lines

    def __hash__(self) -> int:
        return hash(self._lines)

    def __repr__(self) -> str:
        return f"Fields({list(self._lines)!r})"

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[tuple[str, str], ...]]]:
        return type(self), (self._lines,)

    def has_any(self, names: AbstractSet[str]) -> bool:
        """Return True if a line has one of these names, which must be in lower case."""
        return not names.isdisjoint(self._lowered or self._names)

    def get(self, name: str) -> str | None:
        """Return the value of the first line with this name, or None if there is no such line."""
        lowered, names = _lower(name), self._lowered or self._names
        return self._lines[names.index(lowered)][1] if lowered in names else None

    def get_all(self, name: str) -> list[str]:
        """Return the values of all lines with this name, in order, or an empty list."""
        lowered, names = _lower(name), self._lowered or self._names
        count = names.count(lowered)
        if count == 0:
            return []
        if count == 1:
            return [self._lines[names.index(lowered)][1]]
        return [value for key, (_, value) in zip(names, self._lines, strict=True) if key == lowered]

    def combined(self, name: str) -> str | None:
        """Return all values of a field joined by commas (RFC 9110, section 5.3), or None if the field is absent."""
        lowered, names = _lower(name), self._lowered or self._names
        count = names.count(lowered)
        if count == 0:
            return None
        if count == 1:
            return self._lines[names.index(lowered)][1]
        return ", ".join(self.get_all(name))

    def with_field(self, name: str, value: str) -> Self:
        """Return a copy with this line in place of all lines of the same name, at the position of the first, or at the
        end if there is none."""
        lowered, names = _lower(name), self._names
        if lowered not in names:
            return self.with_added(name, value)
        lines, index = self._lines, names.index(lowered)
        if names.count(lowered) == 1:
            return self._with_lines((*lines[:index], (name, value), *lines[index + 1 :]), names)
        others = [line for key, line in zip(names, lines, strict=True) if key != lowered]
        others.insert(index, (name, value))
        return type(self)(others)

    def with_added(self, name: str, value: str) -> Self:
        """Return a copy with one more line at the end."""
        return self._with_lines((*self._lines, (name, value)), (*(self._lowered or self._names), _lower(name)))

    def joined(self, others: "Fields") -> Self:
        """Return a copy with the lines of `others` at the end."""
        if not others._lines:
            return self
        names = (*(self._lowered or self._names), *(others._lowered or others._names))
        return self._with_lines((*self._lines, *others._lines), names)

    def updated(self, others: "Fields") -> Self:
        """Return a copy in which the lines of `others`, at the end, replace all lines of the same names."""
        return self.without_names_of(others).joined(others)

    def without_names_of(self, others: "Fields") -> Self:
        """Return a copy without the lines of all names that occur in `others`."""
        return self.without_any(frozenset(others._lowered or others._names))

    def only(self, names: AbstractSet[str]) -> Self:
        """Return a copy with only the lines of these names, which must be in lower case."""
        return self._at([at for at, name in enumerate(self._lowered or self._names) if name in names])

    def without(self, *names: str) -> Self:
        """Return a copy without the lines of these names."""
        return self.without_any(_set_of(names))

    def end_to_end(self) -> Self:
        """Return a copy without hop-by-hop fields: those in HOP_BY_HOP and those that Connection names."""
        if "connection" not in (self._lowered or self._names):
            return self.without_any(HOP_BY_HOP)
        return self.without_any(hop_by_hop_names(self.get_all("connection")))

    def without_any(self, names: AbstractSet[str]) -> Self:
        """Return a copy without the lines of these names, which must be in lower case."""
        own = self._lowered or self._names
        return self if names.isdisjoint(own) else self._at([at for at, name in enumerate(own) if name not in names])

    def _at(self, positions: list[int]) -> Self:
        lines, names = self._lines, self._names
        return self._with_lines(tuple([lines[at] for at in positions]), tuple([names[at] for at in positions]))


NO_FIELDS = Fields()
"""The fields of a message without field lines."""


class Request(Struct, frozen=True):
    """A request. `target` is the normalised target URI (http/uri.py)."""

    method: str
    target: str
    fields: Fields = NO_FIELDS


class Response(Struct, frozen=True):
    """A response. `body` is the content as transferred, including its content coding."""

    status: int
    fields: Fields = NO_FIELDS
    body: bytes = b""
    reason: str = ""

    def with_fields(self, fields: Fields) -> "Response":
        """Return a copy with `fields` in place of the response's fields."""
        return Response(self.status, fields, self.body, self.reason)
