"""A message as values: fields, request, response (RFC 9110, sections 5 and 6)."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Self

from feedproxy.http import field_packing

HOP_BY_HOP = frozenset(
    {
        # RFC 9110, section 7.6.1, and the names that old software still sends.
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        # RFC 9110, sections 11.7.1 and 11.7.2: credentials for the next hop only.
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-authorization",
    }
)

NAMES_MAX = 2048
"""Names remembered in small letters: those in use are far fewer, and each is then one object."""
NAME_LONGEST = 64
"""Characters of a name that is remembered: strangers may write any."""

_lower = lru_cache(maxsize=NAMES_MAX)(str.lower)


@lru_cache(maxsize=64)
def _set_of(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(str.lower, names))


class Fields:
    """The field lines of a message, in order; names compare without case (RFC 9110, section 5.1).

    Values are str whose characters are the bytes of the wire (ISO-8859-1), so that what is passed on is
    what came. A Fields never changes: every method that seems to change it returns another. What is kept for long is
    packed (field_packing.py), which nobody notices.
    """

    __slots__ = ("_held", "_lowered")

    def __init__(self, lines: Iterable[tuple[str, str]] = ()) -> None:
        self._held: field_packing.Lines | bytes = tuple(lines)
        self._lowered: tuple[str, ...] | None = None

    def _made(self, lines: field_packing.Lines, names: tuple[str, ...]) -> Self:
        """Others, of which the names in small letters are known."""
        made = object.__new__(type(self))
        made._held, made._lowered = lines, names
        return made

    @property
    def _lines(self) -> field_packing.Lines:
        held = self._held
        return held if isinstance(held, tuple) else field_packing.unpack(held)

    @property
    def _names(self) -> tuple[str, ...]:
        """Return the lines' names in small letters; kept once somebody has asked, for he will again."""
        found = self._lowered
        if found is None:
            found = tuple([_lower(name) if len(name) <= NAME_LONGEST else name.lower() for name, _ in self._lines])
            if isinstance(self._held, tuple):
                self._lowered = found
        return found

    def pack(self) -> int:
        """Take less memory from now on, and a little longer to be looked at; the bytes taken."""
        if isinstance(self._held, tuple):
            self._held = field_packing.pack(self._held)
            self._lowered = None
        return field_packing.size(self._held)

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

    def __reduce__(self) -> tuple[type[Self], tuple[field_packing.Lines]]:
        # What is packed is this process's own shorthand: another one is told the lines themselves.
        return type(self), (self._lines,)

    def get(self, name: str) -> str | None:
        """Return the first line's value, or None."""
        wanted, names = _lower(name), self._lowered or self._names
        return self._lines[names.index(wanted)][1] if wanted in names else None

    def get_all(self, name: str) -> list[str]:
        """Return every line's value, in order."""
        wanted, names = _lower(name), self._lowered or self._names
        if wanted not in names:
            return []
        return [value for key, (_, value) in zip(names, self._lines, strict=True) if key == wanted]

    def combined(self, name: str) -> str | None:
        """Return all lines joined by a comma, as RFC 9110, section 5.3, allows for lists; None where absent."""
        wanted, names = _lower(name), self._lowered or self._names
        if wanted not in names:
            return None
        if names.count(wanted) == 1:
            return self._lines[names.index(wanted)][1]
        return ", ".join(self.get_all(name))

    def with_field(self, name: str, value: str) -> Self:
        """Return this name said once, with this value, in the place where it stood first (else at the end)."""
        wanted, names = _lower(name), self._names
        if wanted not in names:
            return self.with_added(name, value)
        lines, place = self._lines, names.index(wanted)
        if names.count(wanted) == 1:
            return self._made((*lines[:place], (name, value), *lines[place + 1 :]), names)
        others = [line for key, line in zip(names, lines, strict=True) if key != wanted]
        others.insert(place, (name, value))
        return type(self)(others)

    def with_added(self, name: str, value: str) -> Self:
        """Return one more line, at the end."""
        return self._made((*self._lines, (name, value)), (*self._names, _lower(name)))

    def without(self, *names: str) -> Self:
        """Return all but these names."""
        return self._without(_set_of(names))

    def end_to_end(self) -> Self:
        """Without the fields of this hop: the fixed ones and those that Connection names."""
        if "connection" not in (self._lowered or self._names):
            return self._without(HOP_BY_HOP)
        named = {
            token.strip().lower() for value in self.get_all("connection") for token in value.split(",") if token.strip()
        }
        # Connection must not name what the message needs for itself: such an option is ignored.
        named -= {"cache-control", "content-length", "content-type", "host", "date", "etag", "vary"}
        return self._without(HOP_BY_HOP | named)

    def _without(self, unwanted: AbstractSet[str]) -> Self:
        names = self._names
        if unwanted.isdisjoint(names):
            return self
        kept = [at for at, name in enumerate(names) if name not in unwanted]
        lines = self._lines
        return self._made(tuple([lines[at] for at in kept]), tuple([names[at] for at in kept]))


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked. `target` is the normalised absolute target URI (http/uri.py)."""

    method: str
    target: str
    fields: Fields = field(default_factory=Fields)


@dataclass(frozen=True, slots=True)
class Response:
    """What is answered. `body` is the content as it stands on the wire, content coding included."""

    status: int
    fields: Fields = field(default_factory=Fields)
    body: bytes = b""
    reason: str = ""

    def with_fields(self, fields: Fields) -> "Response":
        """Return the same response with other fields."""
        return Response(self.status, fields, self.body, self.reason)
