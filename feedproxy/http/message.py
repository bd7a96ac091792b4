"""A message as values: fields, request, response (RFC 9110, sections 5 and 6)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Self

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


class Fields:
    """The field lines of a message, in order; names compare without case (RFC 9110, section 5.1).

    Values are str whose characters are the bytes of the wire (ISO-8859-1), so that what is passed on is
    what came. A Fields never changes: every method that seems to change it returns another.
    """

    __slots__ = ("_lines",)

    def __init__(self, lines: Iterable[tuple[str, str]] = ()) -> None:
        self._lines: tuple[tuple[str, str], ...] = tuple(lines)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def __contains__(self, name: str) -> bool:
        wanted = name.lower()
        return any(key.lower() == wanted for key, _ in self._lines)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fields) and self._lines == other._lines

    def __hash__(self) -> int:
        return hash(self._lines)

    def __repr__(self) -> str:
        return f"Fields({list(self._lines)!r})"

    def get(self, name: str) -> str | None:
        """The first line's value, or None."""
        wanted = name.lower()
        for key, value in self._lines:
            if key.lower() == wanted:
                return value
        return None

    def get_all(self, name: str) -> list[str]:
        """Every line's value, in order."""
        wanted = name.lower()
        return [value for key, value in self._lines if key.lower() == wanted]

    def combined(self, name: str) -> str | None:
        """All lines joined by a comma, as RFC 9110, section 5.3, allows for lists; None where absent."""
        values = self.get_all(name)
        return ", ".join(values) if values else None

    def with_field(self, name: str, value: str) -> Self:
        """This name said once, with this value, in the place where it stood first (else at the end)."""
        wanted, lines, placed = name.lower(), [], False
        for key, old in self._lines:
            if key.lower() != wanted:
                lines.append((key, old))
            elif not placed:
                lines.append((name, value))
                placed = True
        if not placed:
            lines.append((name, value))
        return type(self)(lines)

    def with_added(self, name: str, value: str) -> Self:
        """One more line, at the end."""
        return type(self)((*self._lines, (name, value)))

    def without(self, *names: str) -> Self:
        """All but these names."""
        unwanted = {name.lower() for name in names}
        return type(self)(line for line in self._lines if line[0].lower() not in unwanted)

    def end_to_end(self) -> Self:
        """Without the fields of this hop: the fixed ones and those that Connection names."""
        named = {
            token.strip().lower() for value in self.get_all("connection") for token in value.split(",") if token.strip()
        }
        # Connection must not name what the message needs for itself: such an option is ignored.
        named -= {"cache-control", "content-length", "content-type", "host", "date", "etag", "vary"}
        unwanted = HOP_BY_HOP | named
        return type(self)(line for line in self._lines if line[0].lower() not in unwanted)


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
        """The same response with other fields."""
        return replace(self, fields=fields)
