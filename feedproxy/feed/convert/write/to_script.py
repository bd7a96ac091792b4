"""Writer of literals of scripting languages, for programs that must not run code from a feed.

A literal is a tree of dictionaries, lists, texts, numbers and booleans (model_as_dict.py). Literals of Python, Ruby and
Perl are in ASCII, those of PHP in UTF-8. Escaped texts cannot end the literal or start an interpolation.
"""

import json
import re
from collections.abc import Callable

from msgspec import Struct

from feedproxy.feed.convert.model import Feed
from feedproxy.feed.convert.model_as_dict import Data, to_data

_IN_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_LONGEST = 2**63


def javascript(feed: Feed) -> bytes:
    text = json.dumps(_data(feed), ensure_ascii=False, indent=1)
    return re.sub(r"[<>&\u2028\u2029]", lambda match: _IN_SCRIPT[match[0]], text).encode() + b"\n"


def php(feed: Feed) -> bytes:
    """Return the feed in the form of PHP's serialize(). Lengths are in bytes of UTF-8."""
    return _serialize(_data(feed))


def python(feed: Feed) -> bytes:
    """Return the feed as a literal of Python, which `ast.literal_eval` reads."""
    return _literal(_data(feed), _PYTHON).encode("ascii") + b"\n"


def ruby(feed: Feed) -> bytes:
    """Return the feed as a literal of Ruby: a Hash with Strings as keys."""
    return _literal(_data(feed), _RUBY).encode("ascii") + b"\n"


def perl(feed: Feed) -> bytes:
    """Return the feed as a literal of Perl: a reference to a hash, which `do FILE` returns. Booleans are 1 and 0."""
    return _literal(_data(feed), _PERL).encode("ascii") + b";\n"


def _data(feed: Feed) -> Data:
    data = to_data(feed)
    assert isinstance(data, dict)
    data.setdefault("items", [])
    return data


def _serialize(value: Data) -> bytes:
    match value:
        case None:
            return b"N;"
        case bool():
            return b"b:%d;" % value
        case int():
            return b"i:%d;" % value if -_LONGEST <= value < _LONGEST else b"d:%d;" % value
        case float():
            return f"d:{value!r};".encode()
        case str():
            encoded = value.encode()
            return b's:%d:"%s";' % (len(encoded), encoded)
        case list() | dict():
            # PHP's arrays have keys. Those of a list are the numbers from 0.
            pairs = enumerate(value) if isinstance(value, list) else value.items()
            elements = b"".join(_serialize(key) + _serialize(element) for key, element in pairs)
            return b"a:%d:{%s}" % (len(value), elements)


class _Language(Struct, frozen=True):
    quote: Callable[[str], str]
    none: str
    true: str
    false: str
    arrow: str


def _make_quoter(special: str, escape: Callable[[int], str]) -> Callable[[str], str]:
    """Return a function that quotes a text, with a backslash before each of the characters in `special`. `escape` takes
    the code point of a character that is not printable ASCII, and returns its escaped form."""
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
_PERL = _Language(_make_quoter("$@", lambda number: f"\\x{{{number:x}}}"), "undef", "1", "0", " => ")


def _literal(value: Data, language: _Language, line: str = "\n") -> str:
    """Return a value as a literal. `line` is a line break with the indentation of the value."""
    inner = f"{line} "
    match value:
        case None:
            return language.none
        case bool():
            return language.true if value else language.false
        case int() | float():
            return repr(value)
        case str():
            return language.quote(value)
        case list():
            elements = [f"{inner}{_literal(element, language, inner)}" for element in value]
            return f"[{','.join(elements)}{line}]" if value else "[]"
        case dict():
            elements = [
                f"{inner}{language.quote(key)}{language.arrow}{_literal(element, language, inner)}"
                for key, element in value.items()
            ]
            return f"{{{','.join(elements)}{line}}}" if value else "{}"
