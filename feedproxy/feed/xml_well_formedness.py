"""Well-formedness of XML 1.0: a check of documents (section 2.1), and the removal of characters that are not allowed
(section 2.2).

The check has a limit of the depth, because expat has none, and takes 128 bytes for each open element.
"""

import re
from collections.abc import Callable
from xml.parsers.expat import ExpatError, ParserCreate

type IsWellFormed = Callable[[bytes], bool]
type OnStart = Callable[[str, dict[str, str]], None]

_NESTED_MAX = 10_000
"""Maximum number of open elements of a well-formed document. The limit of libxml2 is 256."""

_COUNTED = 64 * 1024

_NOT_ALLOWED = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Pattern of characters that XML does not allow, not even as references. Lone surrogates are among them."""


class _TooDeep(Exception):
    """Exception that ends the parsing of a document with more than _NESTED_MAX open elements."""


def is_well_formed(data: bytes, on_start: OnStart | None = None) -> bool:
    """Return True if a document in UTF-8 is well-formed, and not nested too deeply.

    `on_start` is called with the name and the attributes of each start tag. Its exceptions are passed on.
    """
    parser, depth = ParserCreate("utf-8"), 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _NESTED_MAX:
            raise _TooDeep
        if on_start is not None:
            on_start(name, attributes)

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    if on_start is not None or _may_be_deep(data):
        parser.StartElementHandler, parser.EndElementHandler = start, end
    try:
        parser.Parse(data, True)
    except (ExpatError, _TooDeep):
        return False
    return True


def remembering_check() -> IsWellFormed:
    """Return a variant of `is_well_formed` that keeps the result for the last document."""
    last: tuple[bytes, bool] | None = None

    def check(data: bytes) -> bool:
        nonlocal last
        if last is None or last[0] is not data:
            last = data, is_well_formed(data)
        return last[1]

    return check


def _may_be_deep(data: bytes) -> bool:
    """Return True if more than _NESTED_MAX elements can be open at once, judging by the number of tags."""
    depth = 0
    for at in range(0, len(data), _COUNTED):
        counted = data[at : at + _COUNTED].count
        depth += counted(b"<") - 2 * counted(b"</") - counted(b"/>") - counted(b"<!")
        if depth > _NESTED_MAX:
            return True
        depth = max(0, depth)
    return False


def valid_text(text: str) -> str:
    """Return the text without characters that XML does not allow."""
    return _NOT_ALLOWED.sub("", text)
