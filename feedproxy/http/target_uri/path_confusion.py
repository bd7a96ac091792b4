"""Interpretations of a target URI by different servers.

According to RFC 3986, `/secret%2Ffeed`, `//secret/feed` and `/secret;x/feed` are three resources, but many servers
interpret all of them as `/secret/feed`. A rule that protects a feed is therefore compared with all interpretations.

A path with an unpredictable interpretation is refused: it contains encoded control characters, at which some servers
end the path, or overlong UTF-8, which some servers decode (docs/decisions/protected-paths.md).
"""

import re
import unicodedata
from collections.abc import Callable

from feedproxy.errors import BadTarget
from feedproxy.http.memoize import memoize_short

INTERPRETATIONS_MAX = 96
"""Maximum number of interpretations of a target. A target with more is refused."""

_PLAIN = re.compile(r"(?:/[A-Za-z0-9_~!&'()*,=:@-]+(?:\.[A-Za-z0-9_~!&'()*,=:@-]+)*)*/?")
"""Pattern of paths that no interpretation by a server (INTERPRETERS) changes."""

_PLAIN_QUERY = re.compile(r"[A-Za-z0-9_~!'()*,/:@$=&-]*")
"""Pattern of queries without characters that servers interpret differently."""

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

# In 8-bit code pages, Windows replaces these characters with similar ones.
_BEST_FIT = str.maketrans({"\u2044": "/", "\u2215": "/", "\u29f8": "/", "\u2216": "\\", "\u29f5": "\\"})


def _decode(path: str) -> str:
    """Return the path with all visible ASCII decoded, as by some servers, including `%2F` and `%25`.

    RFC 3986, section 6.2.2.2, permits decoding only for unreserved characters.
    """
    return _VISIBLE.sub(lambda match: chr(int(match[1], 16)), path)


def _decode_as_iis(path: str) -> str:
    return _OF_IIS.sub(lambda match: _encode(chr(int(match[1], 16))), path)


def _replace_compatible(path: str) -> str:
    """Return the path with compatibility characters, such as full-width letters, replaced by their equivalents."""
    text = _BYTES.sub(_text, path)
    return path if text is path else _encode(unicodedata.normalize("NFKC", text.translate(_BEST_FIT)))


def _without_ignorable(path: str) -> str:
    """Return the path without zero-width characters and direction marks, which some file systems ignore."""
    text = _BYTES.sub(_text, path)
    return _encode(_IGNORABLE.sub("", text)) if _IGNORABLE.search(text) else path


def _without_streams(path: str) -> str:
    """Return the path with `name` in place of each `name:stream:$TYPE` (an alternate data stream of NTFS)."""
    if ":" not in path or "$" not in path:
        return path
    return "/".join(segment.partition(":")[0] if "$" in segment else segment for segment in path.split("/"))


def _text(match: re.Match[str]) -> str:
    try:
        return bytes.fromhex(match[0].replace("%", "")).decode("utf-8")
    except UnicodeDecodeError:
        return match[0]


def _encode(text: str) -> str:
    return "".join(
        char if "!" <= char <= "~" else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        for char in text
    )


def _without_dots(path: str) -> str:
    """Return the path without dot segments (RFC 3986, section 5.2.4). Repeated slashes remain."""
    if "/." not in path:
        return path
    remaining: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == "..":
            if remaining:
                remaining.pop()
        elif segment != ".":
            remaining.append(segment)
    ends_in_slash = path.endswith(("/.", "/..")) and remaining != [] and remaining[-1] != ""
    return "/" + "/".join(remaining) + ("/" if ends_in_slash else "")


INTERPRETERS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("Werkzeug, gunicorn, PHP; proxies that decode once more", _decode),
    ("IIS: %u002f", _decode_as_iis),
    ("IIS, Windows: full-width forms, best fit", _replace_compatible),
    ("IIS, .NET, browsers: a backslash is a slash", lambda path: path.replace("\\", "/")),
    ("nginx (merge_slashes), Werkzeug, Apache", lambda path: re.sub(r"//+", "/", path)),
    ("Tomcat, Jetty and other servlet containers", lambda path: _PARAMETERS.sub("", path)),
    ("every server, after one of the others", _without_dots),
    (
        "servers that decode twice: the path ends where a query begins",
        lambda path: re.split(r"[?#]", path, maxsplit=1)[0],
    ),
    ("Windows: dots and spaces at the end of a name are removed", lambda path: _TRAILING.sub("", path)),
    ("NTFS: streams with any name and type", _without_streams),
    ("HFS+: zero-width characters in names are removed", _without_ignorable),
)
"""Transformations that some servers apply to a path, each with the names of these servers."""


@memoize_short(longest=2048)
def interpretations(target: str) -> tuple[str, ...]:
    """Return all interpretations of a normalised target URI, first the URI itself. Raises BadTarget if an
    interpretation is unpredictable, or if there are more than INTERPRETATIONS_MAX."""
    start = target.index("/", target.index("://") + 3)
    origin, (path, mark, query) = target[:start], target[start:].partition("?")
    paths = _paths(path)
    queries = [mark + variant for variant in _queries(query)]
    return tuple(
        dict.fromkeys(
            f"{origin}{path_part}{query_part.replace('?', '&', 1) if '?' in path_part else query_part}"
            for query_part in queries
            for path_part in paths
        )
    )


def _queries(query: str) -> tuple[str, ...]:
    """Return the forms in which servers can read a query: unchanged, decoded once or repeatedly, parsed by PHP."""
    if _PLAIN_QUERY.fullmatch(query):
        return (query,)
    once = _decode(query)
    decoded = (query, once, _replace_compatible(_decode_as_iis(_decode(once))))
    return tuple(dict.fromkeys((*decoded, *map(as_php, decoded))))


def as_php(query: str) -> str:
    """Return a query as PHP reads it: `a.b[]=+x` becomes `a_b=x`.

    Dots and spaces in a name become `_`. Subscripts (`[…]`), spaces around names and values, and everything after an
    encoded NUL in a name or value are left out.
    """
    read = []
    for pair in re.split("[&;]", query):
        name, equals, value = (_SPACES.sub(" ", part.partition("%00")[0]).strip(" ") for part in pair.partition("="))
        name = re.sub("[. ]", "_", _SUBSCRIPT.sub("", name))
        read.append(name + equals + value.replace(" ", "%20"))
    return "&".join(read)


def _paths(path: str) -> tuple[str, ...]:
    if _PLAIN.fullmatch(path):
        return (path,)
    interpreted_paths = {path: None}
    pending = [path]
    while pending:
        current = pending.pop()
        if _CONTROL.search(current) or _OVERLONG.search(current):
            raise BadTarget(
                "the path has encoded control characters or overlong UTF-8, which servers interpret differently"
            )
        for _, read in INTERPRETERS:
            interpreted = read(current) or "/"
            if interpreted not in interpreted_paths:
                interpreted_paths[interpreted] = None
                pending.append(interpreted)
        if len(interpreted_paths) > INTERPRETATIONS_MAX:
            raise BadTarget(f"servers may interpret the path in more than {INTERPRETATIONS_MAX} ways")
    return tuple(interpreted_paths)


def fully_decoded(text: str) -> str:
    """Return a path or query with all visible ASCII characters decoded, for comparisons."""
    while (decoded := _replace_compatible(_decode(text))) != text:
        text = decoded
    return text
