"""Structured fields: dictionaries, lists and items.  RFC 9651, which obsoletes RFC 8941

One invalid character makes the whole field invalid.
"""

import base64
import re
from collections.abc import Callable

type Bare = bool | int | float | str | bytes
"""A bare item. A token is a Token, a string is a plain str."""

type Value = Bare | tuple[Bare, ...]
"""The value of a member of a dictionary or list: a bare item, or a tuple for an inner list."""


class Token(str):
    """A token: text without quotation marks (RFC 9651, section 3.3.4)."""

    __slots__ = ()


_KEY = re.compile(r"[a-z*][a-z0-9_\-.*]*")
_BARE = re.compile(
    r"""(?P<decimal>-?[0-9]{1,12}\.[0-9]{1,3}(?![0-9.]))
      | (?P<integer>-?[0-9]{1,15}(?![0-9.]))
      | "(?P<string>(?:[ !#-\[\]-~]|\\["\\])*+)"
      | (?P<token>[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*+)
      | :(?P<bytes>[A-Za-z0-9+/=]*+):
      | \?(?P<boolean>[01])""",
    re.VERBOSE,
)
_COMMA = re.compile(r"[ \t]*,[ \t]*(?=[a-z*])")
_NEXT = re.compile(r"[ \t]*,[ \t]*(?=\S)")
_SEMICOLON = re.compile(r";\ *")
_SPACES = re.compile(r"\ *")


def parse_dictionary(value: str) -> dict[str, Value] | None:
    """Return a dictionary without the parameters of its members, or None if it is invalid (RFC 9651, section 4.2.2). If
    a key is repeated, the last value counts."""
    return _parse(value, _Parser.dictionary)


def parse_list(value: str) -> list[tuple[Value, dict[str, Bare]]] | None:
    """Return the members of a list with their parameters, or None for an invalid list (RFC 9651, section 4.2.1)."""
    return _parse(value, _Parser.list_members)


def parse_item(value: str) -> Bare | None:
    """Return an item without its parameters, or None if the item is invalid (RFC 9651, section 4.2.3)."""
    return _parse(value, _Parser.item)


def _parse[Parsed](value: str, read: Callable[["_Parser"], Parsed]) -> Parsed | None:
    try:
        return read(_Parser(value.strip(" ")))
    except ValueError:
        return None


def string_text(value: str) -> str:
    """Return a string of a structured field (RFC 9651, section 4.1.6). Raises ValueError for non-ASCII characters."""
    if not (value.isascii() and value.isprintable()):
        raise ValueError(f"not printable ASCII: {value!r}")
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


class _Parser:
    """A recursive-descent parser. Its methods advance `at` and raise ValueError for invalid text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        if match := pattern.match(self.text, self.at):
            self.at = match.end()
        return match

    def require(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = self.take(pattern)
        if match is None:
            raise ValueError(f"unexpected text at {self.at}")
        return match

    def skip(self, character: str) -> bool:
        if self.text.startswith(character, self.at):
            self.at += 1
            return True
        return False

    def dictionary(self) -> dict[str, Value]:
        members: dict[str, Value] = {}
        while self.at < len(self.text):
            if members:
                self.require(_COMMA)
            key = self.require(_KEY)[0]
            value: Value = True
            if self.skip("="):
                value = self.inner_list() if self.skip("(") else self.bare()
            self.parameters()
            members[key] = value
        return members

    def list_members(self) -> list[tuple[Value, dict[str, Bare]]]:
        members: list[tuple[Value, dict[str, Bare]]] = []
        while self.at < len(self.text):
            if members:
                self.require(_NEXT)
            members.append((self.inner_list() if self.skip("(") else self.bare(), self.parameters()))
        return members

    def item(self) -> Bare:
        value = self.bare()
        self.parameters()
        if self.at < len(self.text):
            raise ValueError(f"unexpected text at {self.at}")
        return value

    def inner_list(self) -> tuple[Bare, ...]:
        items: list[Bare] = []
        self.take(_SPACES)
        while not self.skip(")"):
            items.append(self.bare())
            self.parameters()
            if not self.require(_SPACES)[0] and not self.text.startswith(")", self.at):
                raise ValueError("items of an inner list must be separated by spaces")
        return tuple(items)

    def parameters(self) -> dict[str, Bare]:
        parameters: dict[str, Bare] = {}
        while self.take(_SEMICOLON):
            key = self.require(_KEY)[0]
            parameters[key] = self.bare() if self.skip("=") else True
        return parameters

    def bare(self) -> Bare:
        match = self.require(_BARE)
        match match.lastgroup:
            case "decimal":
                return float(match[0])
            case "integer":
                return int(match[0])
            case "string":
                return re.sub(r"\\(.)", r"\1", match["string"])
            case "token":
                return Token(match[0])
            case "bytes":
                # Missing padding and pad bits other than zero are accepted (RFC 9651, section 4.2.7).
                encoded = match["bytes"].rstrip("=")
                return base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
            case _:
                return match["boolean"] == "1"
