"""Parsing of field values: tokens, lists, quoted strings, and parameters.  RFC 9110, section 5.6

field_lines.py parses whole lines. structured_fields.py parses the stricter grammar of structured fields.
"""

import re
from collections.abc import Callable
from functools import wraps

from feedproxy.http.memoize import memoize_short

_QUOTED_OR_COMMA = re.compile(r'"(?:[^"\\]|\\.)*+("?)|,', re.DOTALL)
_QUOTED_OR_SEMICOLON = re.compile(r'"(?:[^"\\]|\\.)*+("?)|;', re.DOTALL)
_QUOTED_PAIR = re.compile(r"\\(.)", re.DOTALL)
PARSED_MAX = 4096
"""Maximum length of a field value that is parsed, in characters.

A message may have a field of up to 64 KiB. Parsing all of it would delay the responses to other clients. For a longer
value, each parser returns a result that is safe whatever the value says.
"""


def field_parser[Result, TooLong](
    *, too_long: TooLong, entries: int = 4096
) -> Callable[[Callable[[str], Result]], Callable[[str], Result | TooLong]]:
    """Return a decorator for a parser of a field value. The parser must be a pure function.

    The decorated parser returns `too_long` for a value longer than PARSED_MAX. It caches up to `entries` results for
    short values (memoize.py).
    """

    def decorate(parse: Callable[[str], Result]) -> Callable[[str], Result | TooLong]:
        @memoize_short(entries=entries)
        @wraps(parse)
        def parse_limited(value: str) -> Result | TooLong:
            return parse(value) if len(value) <= PARSED_MAX else too_long

        return parse_limited

    return decorate


TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def is_token(value: str) -> bool:
    """Return True if the value is a token (RFC 9110, section 5.6.2)."""
    return TOKEN.fullmatch(value) is not None


def split_list(value: str) -> list[str]:
    """Return the members of a list without empty members and surrounding white space (RFC 9110, section 5.6.1).

    A comma in a quoted string does not separate members. An unclosed quotation mark is an ordinary character.
    """
    return _split(value, ",", _QUOTED_OR_COMMA)


def split_parameters(value: str) -> list[str]:
    """Return the parts of a value between its semicolons. A semicolon in a quoted string does not separate parts."""
    return _split(value, ";", _QUOTED_OR_SEMICOLON)


def _split(value: str, separator: str, pattern: re.Pattern[str]) -> list[str]:
    parts = _outside_quotes(value, separator, pattern) if '"' in value else value.split(separator)
    return [stripped for part in parts if (stripped := part.strip(" \t"))]


def _outside_quotes(value: str, separator: str, pattern: re.Pattern[str]) -> list[str]:
    parts, start = [], 0
    for match in pattern.finditer(value):
        if match[0] == separator:
            parts.append(value[start : match.start()])
            start = match.end()
        elif not match[1]:  # the quotation mark is never closed
            return [*parts, *value[start:].split(separator)]
    return [*parts, value[start:]]


def unquote(value: str) -> str:
    """Return the text of a quoted string (RFC 9110, section 5.6.4). Return other values unchanged."""
    if len(value) < 2 or value[0] != '"' or value[-1] != '"':
        return value
    text = value[1:-1]
    return _QUOTED_PAIR.sub(r"\1", text) if "\\" in text else text


def quote(text: str) -> str:
    """Return the text as a quoted string (RFC 9110, section 5.6.4). Raises ValueError for NUL, CR and LF."""
    if any(character in text for character in "\0\r\n"):
        raise ValueError(f"invalid field value {text!r}: expected no NUL, CR or LF")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def parse_parameters(value: str) -> tuple[str, dict[str, str]]:
    """Return a value in lower case, and its parameters, as in `text/html; charset="x"` (RFC 9110, section 5.6.6).

    Names are in lower case, and values are unquoted. If a name is repeated, the first value counts. A parameter without
    `=` has the value "". Everything after the first PARSED_MAX characters is ignored.
    """
    parts = split_parameters(value[:PARSED_MAX])
    if not parts or value.lstrip(" \t").startswith(";"):
        parts.insert(0, "")
    parameters: dict[str, str] = {}
    for part in parts[1:]:
        name, _, text = part.partition("=")
        parameters.setdefault(name.strip(" \t").lower(), unquote(text.strip(" \t")))
    return parts[0].lower(), parameters


def charset_of(content_type: str | None) -> str | None:
    """Return the parameter `charset` of a Content-Type, or None if the parameter is absent."""
    return _charset_of(content_type) if content_type else None


@memoize_short()
def _charset_of(content_type: str) -> str | None:
    return parse_parameters(content_type)[1].get("charset")
