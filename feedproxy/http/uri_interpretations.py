"""The addresses that an origin may read in a target URI.

RFC 3986 lets `/secret%2Ffeed`, `//secret/feed` and `/secret;x/feed` be three resources. Many servers read all of them
as `/secret/feed`. Where a rule protects a feed, every reading of a target is compared with it (rules.py); each row of
READERS is one way in which servers read, and rows apply one after the other, in any order.

What has no reading that can be relied on is refused: encoded control characters, which some end a path at, and UTF-8
in more bytes than it takes, which some decode.  (docs/decisions/protected-paths.md)
"""

import re
import unicodedata
from collections.abc import Callable

from feedproxy.errors import BadTarget
from feedproxy.http.memoize import memoised

READINGS_MAX = 96
"""Readings of one target that are compared with rules. No address in use has more than a few."""

_PLAIN = re.compile(r"(?:/[A-Za-z0-9_~!&'()*,=:@-]+(?:\.[A-Za-z0-9_~!&'()*,=:@-]+)*)*/?")
"""A path that every server reads alike."""

_PLAIN_QUERY = re.compile(r"[A-Za-z0-9_~!'()*,/:@$=&-]*")
"""A query that every server reads alike."""

_SUBSCRIPT = re.compile(r"\[[^\]\[]*\]")
_SPACES = re.compile(r"(?:\+|%20|%09|%0[ABCD])+", re.IGNORECASE)
_VISIBLE = re.compile(r"%(2[1-9A-F]|[3-6][0-9A-F]|7[0-9A-E])", re.IGNORECASE)
_CONTROL = re.compile(r"%(?:[01][0-9A-F]|7F)", re.IGNORECASE)
_OVERLONG = re.compile(r"%C[01]%[89AB][0-9A-F]|%E0%[89][0-9A-F]%|%F0%8[0-9A-F]%|%F[89A-F]%[89AB]", re.IGNORECASE)
_OF_IIS = re.compile(r"%u([0-9A-F]{4})", re.IGNORECASE)
_BYTES = re.compile(r"(?:%[89A-F][0-9A-F])+", re.IGNORECASE)
_PARAMETERS = re.compile(r";[^/]*")
_IGNORABLE = re.compile("[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
_TRAILING = re.compile(r"(?<=[^/.])(?:\.|%20|\+)+(?=/|$)")

# What Windows writes for these where a name has to be in a code page of 8 bits.
_BEST_FIT = str.maketrans({"\u2044": "/", "\u2215": "/", "\u29f8": "/", "\u2216": "\\", "\u29f5": "\\"})


def _decoded(path: str) -> str:
    """Once more than it should be, `%2F` and `%25` included: behind a proxy that decodes, twice."""
    return _VISIBLE.sub(lambda found: chr(int(found[1], 16)), path)


def _decoded_as_iis(path: str) -> str:
    return _OF_IIS.sub(lambda found: _encoded(chr(int(found[1], 16))), path)


def _compatible(path: str) -> str:
    """Full-width and other compatible characters as those that they stand for."""
    text = _BYTES.sub(_text, path)
    return path if text is path else _encoded(unicodedata.normalize("NFKC", text.translate(_BEST_FIT)))


def _without_ignorable(path: str) -> str:
    """Zero-width characters and those that only direct how others are shown, left out."""
    text = _BYTES.sub(_text, path)
    return _encoded(_IGNORABLE.sub("", text)) if _IGNORABLE.search(text) else path


def _without_streams(path: str) -> str:
    """`name:stream:$TYPE` as `name`."""
    if ":" not in path or "$" not in path:
        return path
    return "/".join(each.partition(":")[0] if "$" in each else each for each in path.split("/"))


def _text(found: re.Match[str]) -> str:
    try:
        return bytes.fromhex(found[0].replace("%", "")).decode("utf-8")
    except UnicodeDecodeError:
        return found[0]


def _encoded(text: str) -> str:
    return "".join(
        each if "!" <= each <= "~" else "".join(f"%{byte:02X}" for byte in each.encode("utf-8", "surrogatepass"))
        for each in text
    )


def _without_dots(path: str) -> str:
    """Dot segments removed (RFC 3986, section 5.2.4), the merged slashes of others left as they are."""
    if "/." not in path:
        return path
    kept: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == "..":
            if kept:
                kept.pop()
        elif segment != ".":
            kept.append(segment)
    ends_in_slash = path.endswith(("/.", "/..")) and kept != [] and kept[-1] != ""
    return "/" + "/".join(kept) + ("/" if ends_in_slash else "")


READERS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("Werkzeug, gunicorn, PHP; proxies that decode once more", _decoded),
    ("IIS: %u002f", _decoded_as_iis),
    ("IIS, Windows: full-width forms, best fit", _compatible),
    ("IIS, .NET, browsers: a backslash is a slash", lambda path: path.replace("\\", "/")),
    ("nginx (merge_slashes), Werkzeug, Apache", lambda path: re.sub(r"//+", "/", path)),
    ("Tomcat, Jetty and other servlet containers", lambda path: _PARAMETERS.sub("", path)),
    ("every server, after one of the others", _without_dots),
    ("what decodes twice: the path ends where a query begins", lambda path: re.split(r"[?#]", path, maxsplit=1)[0]),
    ("Windows: dots and spaces that end a name", lambda path: _TRAILING.sub("", path)),
    ("NTFS: streams, of any name and type", _without_streams),
    ("HFS+: zero-width characters in names are none", _without_ignorable),
)
"""Who reads so, and what becomes of a path."""


@memoised(longest=2048)
def readings(target: str) -> tuple[str, ...]:
    """Return every reading of a normalised target URI, itself first.

    Raises BadTarget where none of them can be relied on, or where there are too many.
    """
    start = target.index("/", target.index("://") + 3)
    origin, (path, mark, query) = target[:start], target[start:].partition("?")
    found = _paths(path)
    queries = [mark + each for each in _queries(query)]
    return tuple(
        dict.fromkeys(
            f"{origin}{each}{rest.replace('?', '&', 1) if '?' in each else rest}" for rest in queries for each in found
        )
    )


def _queries(query: str) -> tuple[str, ...]:
    """Return a query as it is, decoded once, decoded more; and what PHP takes each of these for."""
    if _PLAIN_QUERY.fullmatch(query):
        return (query,)
    once = _decoded(query)
    decoded = (query, once, _compatible(_decoded_as_iis(_decoded(once))))
    return tuple(dict.fromkeys((*decoded, *map(as_php, decoded))))


def as_php(query: str) -> str:
    """Return a query as PHP and Express read it, values trimmed: `a.b[]=+x` is `a_b=x`, and a name ends at NUL."""
    read = []
    for each in re.split("[&;]", query):
        name, equals, value = (_SPACES.sub(" ", part.partition("%00")[0]).strip(" ") for part in each.partition("="))
        name = re.sub("[. ]", "_", _SUBSCRIPT.sub("", name))
        read.append(name + equals + value.replace(" ", "%20"))
    return "&".join(read)


def _paths(path: str) -> tuple[str, ...]:
    if _PLAIN.fullmatch(path):
        return (path,)
    found = {path: None}
    todo = [path]
    while todo:
        here = todo.pop()
        if _CONTROL.search(here) or _OVERLONG.search(here):
            raise BadTarget("a path with encoded control characters, or with overlong UTF-8, can be read in many ways")
        for _, read in READERS:
            there = read(here) or "/"
            if there not in found:
                found[there] = None
                todo.append(there)
        if len(found) > READINGS_MAX:
            raise BadTarget("a path that can be read in so many ways is not compared with rules")
    return tuple(found)


def fully_decoded(text: str) -> str:
    """Return a path or query with all that is visible ASCII decoded, for comparison alone."""
    while (decoded := _compatible(_decoded(text))) != text:
        text = decoded
    return text
