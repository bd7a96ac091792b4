"""Writer of literals of scripting languages, for programs that must not run code from a feed.

Each literal is a tree of dictionaries, lists, texts, numbers and booleans (model_as_dict.py). Literals of Python, Ruby
and Perl are in ASCII, all others in UTF-8. Texts are escaped, so that they cannot end the literal or start an
interpolation.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from feedproxy.feed.convert.model import Feed
from feedproxy.feed.convert.model_as_dict import Data, to_data

_IN_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_LONGEST = 2**63


def javascript(feed: Feed) -> bytes:
    text = json.dumps(_data(feed), ensure_ascii=False, indent=1)
    return re.sub(r"[<>&\u2028\u2029]", lambda match: _IN_SCRIPT[match[0]], text).encode() + b"\n"


def php(feed: Feed) -> bytes:
    """Return the feed in the form of PHP's serialize(). Lengths are in bytes of UTF-8."""
    pieces: list[bytes] = []
    _serialize(_data(feed), pieces)
    return b"".join(pieces)


def python(feed: Feed) -> bytes:
    """Return the feed as a literal of Python, which `ast.literal_eval` reads."""
    return _literal(_data(feed), _PYTHON).encode("ascii") + b"\n"


def ruby(feed: Feed) -> bytes:
    """Return the feed as a literal of Ruby: a Hash with Strings as keys."""
    return _literal(_data(feed), _RUBY).encode("ascii") + b"\n"


def perl(feed: Feed) -> bytes:
    """Return the feed as a literal of Perl: a reference to a hash, which `do FILE` returns. Booleans are 1 and 0."""
    return _literal(_data(feed), _PERL).encode("ascii") + b"\n"


def _data(feed: Feed) -> Data:
    data = to_data(feed)
    assert isinstance(data, dict)
    data.setdefault("items", [])
    return data


def _serialize(value: Data, pieces: list[bytes]) -> None:
    match value:
        case None:
            pieces.append(b"N;")
        case bool():
            pieces.append(b"b:%d;" % value)
        case int():
            pieces.append(b"i:%d;" % value if -_LONGEST <= value < _LONGEST else b"d:%d;" % value)
        case float():
            pieces.append(f"d:{value!r};".encode())
        case str():
            encoded = value.encode()
            pieces.append(b's:%d:"%s";' % (len(encoded), encoded))
        case list():
            pieces.append(b"a:%d:{" % len(value))
            for at, element in enumerate(value):
                pieces.append(b"i:%d;" % at)
                _serialize(element, pieces)
            pieces.append(b"}")
        case dict():
            pieces.append(b"a:%d:{" % len(value))
            for key, element in value.items():
                _serialize(key, pieces)
                _serialize(element, pieces)
            pieces.append(b"}")


@dataclass(frozen=True, slots=True)
class _Language:
    """The syntax of a language's literals."""

    quote: Callable[[str], str]
    none: str
    true: str
    false: str
    arrow: str
    after: str = ""


def _make_quoter(special: str, escape: Callable[[int], str]) -> Callable[[str], str]:
    """Return a function that quotes a text. A backslash precedes the signs in `special`.

    `escape` returns the form of a character, given by its number, that is not in ASCII.
    """
    escapes = {"\n": "\\n", "\t": "\\t", **{sign: f"\\{sign}" for sign in f'\\"{special}'}}
    pattern = re.compile(rf"[^ -~]|[{re.escape(''.join(escapes))}]")
    return lambda text: f'"{pattern.sub(lambda sign: escapes.get(sign[0]) or escape(ord(sign[0])), text)}"'


_PYTHON = _Language(
    _make_quoter("", lambda number: f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"),
    "None",
    "True",
    "False",
    ": ",
)
# In Ruby, "#" begins an interpolation.
_RUBY = _Language(_make_quoter("#", lambda number: f"\\u{{{number:x}}}"), "nil", "true", "false", " => ")
_PERL = _Language(_make_quoter("$@", lambda number: f"\\x{{{number:x}}}"), "undef", "1", "0", " => ", after=";")


def _literal(value: Data, language: _Language) -> str:
    pieces: list[str] = []
    _write(value, language, pieces, "\n")
    return "".join(pieces) + language.after


def _write(value: Data, language: _Language, pieces: list[str], line: str) -> None:
    match value:
        case None:
            pieces.append(language.none)
        case bool():
            pieces.append(language.true if value else language.false)
        case int() | float():
            pieces.append(repr(value))
        case str():
            pieces.append(language.quote(value))
        case list() if not value:
            pieces.append("[]")
        case list():
            for at, element in enumerate(value):
                pieces.append(("," if at else "[") + line + " ")
                _write(element, language, pieces, line + " ")
            pieces.append(line + "]")
        case dict():
            for at, (key, element) in enumerate(value.items()):
                pieces.append(("," if at else "{") + line + " " + language.quote(key) + language.arrow)
                _write(element, language, pieces, line + " ")
            pieces.append(line + "}" if value else "{}")
