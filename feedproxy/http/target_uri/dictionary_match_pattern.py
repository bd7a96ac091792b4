"""Patterns of the URL Pattern Standard, as in `match` of Use-As-Dictionary.  RFC 9842, section 2.1.1

In path and query, these are supported: literal characters, `*`, `\\` followed by a literal character, and literals in
braces. A pattern with any other syntax matches no URL.
"""

import re
from collections.abc import Sequence

from feedproxy.http import uri
from feedproxy.http.memoize import memoize_short

type _Parts = tuple[str, ...]
"""The literal texts of a pattern, in order. A wildcard stands between two of them."""

_TOKEN = re.compile(
    r"(?P<escaped>\\[!-~])|\{(?P<group>(?:\\[!-~]|[^\\{}*():?#+\x00-\x20\x7f])*)\}|(?P<any>\*)|(?P<sign>[^\\{}():?#+*])",
    re.DOTALL,
)


def covers(pattern: str, base: str, target: str) -> bool:
    """Return True if a pattern, relative to the URL `base`, matches the URL `target`. Both URLs are normalised.

    URLs of different origins never match (RFC 9842, section 2.2.2).
    """
    origin = uri.origin_of(base)
    if uri.origin_of(target) != origin or "#" in target:
        return False
    parsed = _parse(pattern.removeprefix(origin) if pattern.startswith(origin + "/") else pattern)
    if parsed is None:
        return False
    path, query = parsed
    base_path = base.removeprefix(origin).partition("?")[0]
    if path is None:
        path = (base_path,)
    elif not path[0].startswith("/"):
        path = (base_path[: base_path.rindex("/") + 1] + path[0], *path[1:])
    target_path, _, target_query = target.removeprefix(origin).partition("?")
    # If the pattern has no query, any query matches.
    return matches_glob(path, target_path) and (query is None or matches_glob(query, target_query))


@memoize_short(entries=1024)
def _parse(pattern: str) -> tuple[_Parts | None, _Parts | None] | None:
    """Return the parts of a pattern's path and query, or None if the pattern has unsupported syntax.

    A missing path or query is None.
    """
    if not pattern:
        return None
    path, at = _read_parts(pattern, 0)
    if at == len(pattern):
        return path, None
    if pattern[at] != "?" or _is_modifier(pattern, at):
        return None
    query, end = _read_parts(pattern, at + 1)
    return (path if at else None, query) if end == len(pattern) else None


def _read_parts(pattern: str, at: int) -> tuple[_Parts, int]:
    """Return the parts of a pattern from the position `at`, and the position of the first unsupported character."""
    parts = [""]
    while (match := _TOKEN.match(pattern, at)) is not None and not _is_modifier(pattern, at):
        at = match.end()
        if match["any"] is not None:
            parts.append("")
        elif match["group"] is not None:
            parts[-1] += re.sub(r"\\(.)", r"\1", match["group"])
        else:
            parts[-1] += match[0][-1]
    return tuple(parts), at


def _is_modifier(pattern: str, at: int) -> bool:
    """Return True if the character at the position `at` repeats the preceding group, or makes the group optional."""
    if pattern[at] not in "?+*" or at == 0 or pattern[at - 1] not in "*}":
        return False
    # An odd number of backslashes escapes the end of the group.
    start = at - 1
    while start > 0 and pattern[start - 1] == "\\":
        start -= 1
    return (at - 1 - start) % 2 == 0


def matches_glob(parts: Sequence[str], text: str) -> bool:
    """Return True if a text consists of these literals in order, with any text between two of them."""
    if len(parts) == 1:
        return text == parts[0]
    first, *middle, last = parts
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    at, end = len(first), len(text) - len(last)
    for literal in middle:
        position = text.find(literal, at, end)
        if position < 0:
            return False
        at = position + len(literal)
    return True
