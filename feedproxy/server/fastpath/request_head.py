"""Parses request heads from bytes: fast, strict, and only plain requests.

Feed readers send the same lines again and again: the kind of a line is determined once and stored. Lines that no
response depends on are left out of the key. Requests with equal keys, from peers of equal trust, differ only in their
User-Agent, in the order of their fields, and in ignored fields.

Only unambiguous heads are parsed here: GET or HEAD, HTTP/1.1, no content, lines that end in CRLF, one Host. All others
are left to mitmproxy's handler (`parse_head` returns None): two parsers that disagree about the end of a request make
request smuggling possible.
"""

import re
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from mitmproxy.net.http import url

from feedproxy.http.message import NAME_LONGEST, Fields
from feedproxy.server.mitm.request_routing import AUTHORITY


class LineKind(IntEnum):
    """The meaning of a line for the response."""

    IGNORED = 0  # no response depends on it, unless Vary names it
    HOST = 1  # part of the key; exactly one
    USER_AGENT = 2
    REQUEST_LINE = 3  # the request line
    CONNECTION_CLOSE = 4
    FORWARDED = 5  # part of the key from a trusted peer, else ignored
    UNCACHEABLE = 6  # the response is not reused
    UNSUPPORTED = 7  # left to mitmproxy
    KEYED = 8  # part of the key; this and all higher numbers, one for each name


KEYED_FIELDS = frozenset(
    [
        "accept",
        "accept-encoding",
        "accept-language",
        "available-dictionary",
        "cache-control",
        "cookie",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-unmodified-since",
        "origin",
        "pragma",
        "sec-fetch-mode",
        "sec-fetch-site",
    ]
)
"""Names of fields that responses depend on. Fields that Vary names beyond them are compared when responses are stored.
"""

_KIND_BY_NAME: dict[str, int] = {
    **{name: LineKind.KEYED + index for index, name in enumerate(sorted(KEYED_FIELDS))},
    "host": LineKind.HOST,
    "user-agent": LineKind.USER_AGENT,
    **dict.fromkeys(["a-im", "authorization", "if-range", "range", "via"], LineKind.UNCACHEABLE),
    **dict.fromkeys(["forwarded", "x-forwarded-for", "x-forwarded-proto"], LineKind.FORWARDED),
    **dict.fromkeys(
        # Fields that frame content or change the protocol are left to mitmproxy.
        ["content-length", "expect", "http2-settings", "transfer-encoding", "upgrade"],
        LineKind.UNSUPPORTED,
    ),
}

_IGNORED, _KEYED, _HOST, _USER_AGENT, _FORWARDED = map(
    int, (LineKind.IGNORED, LineKind.KEYED, LineKind.HOST, LineKind.USER_AGENT, LineKind.FORWARDED)
)
"""The kinds of most lines as plain integers, since enumeration members take twice as long to compare."""

_REQUEST_LINE = re.compile(rb"(?:GET|HEAD) (?:/|http://[0-9A-Za-z.-]+(?::[0-9]{1,5})?/)[!-\[\]-~]* HTTP/1\.1")
"""A request line with a target of visible ASCII, without the backslash, which browsers read as `/`."""
_FIELD_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[\t\x20-\x7e\x80-\xff]*")
_VALUE_BYTES = b"\t" + bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100))
_ABSOLUTE_FORM = re.compile(r"http://([^/]+)(/.*)")

_CLOSE_LINE = b"Connection: close"

_LINES_PER_GENERATION = 4096
"""Lines stored per generation, some 100 bytes each; of two generations the older is dropped."""
_MEMOIZED_LINE_MAX = 1024
"""Bytes of a line that is stored."""


class RequestHead(NamedTuple):
    """A request's head. `key` is what its response depends on; None if the response is not cacheable."""

    lines: list[bytes]
    key: tuple[bytes, ...] | None
    user_agent: bytes
    closes: bool

    @property
    def method(self) -> str:
        return self.lines[0].partition(b" ")[0].decode("ascii")

    @property
    def target(self) -> str:
        """The request target as written."""
        return self.lines[0].split(b" ")[1].decode("ascii")

    @property
    def fields(self) -> Fields:
        """All field lines, in order."""
        pairs = (line.decode("latin-1").split(":", 1) for line in self.lines[1:])
        return Fields((name, value.strip(" \t")) for name, value in pairs)

    def split_absolute_form(self) -> tuple[str, str] | None:
        """Return authority and path of an absolute-form target; None for an origin-form."""
        found = _ABSOLUTE_FORM.fullmatch(self.target)
        return (found[1], found[2]) if found else None


class LineClassifier:
    """Kinds of lines, stored in two generations; the older is dropped when the younger is full."""

    def __init__(self) -> None:
        self._young: dict[bytes, int] = {}
        self._old: dict[bytes, int] = {}
        self.lookup: Callable[[bytes], int | None] = self._young.get

    def kind_of(self, line: bytes) -> int:
        """Return the kind of a line."""
        kind = self._young.get(line)
        return self.classify(line) if kind is None else kind

    def classify(self, line: bytes) -> int:
        """Return the kind of a line that is not in the younger generation."""
        name, _, value = line.partition(b":")
        if _IGNORED_NAMES.get(name) == _IGNORED and not value.translate(None, _VALUE_BYTES):
            return _IGNORED  # often unique: not stored
        kind = self._old.get(line)
        if kind is None:
            kind = int(classify_line(line))
        if len(line) <= _MEMOIZED_LINE_MAX:
            self._young[line] = kind
            if len(self._young) >= _LINES_PER_GENERATION:
                self._old, self._young = self._young, {}
                self.lookup = self._young.get
        return kind


def classify_line(line: bytes) -> int:
    """Return the kind of a line, request line included."""
    found = _FIELD_LINE.fullmatch(line)
    if found is None:
        return LineKind.REQUEST_LINE if _REQUEST_LINE.fullmatch(line) else LineKind.UNSUPPORTED
    lowered, value = found[1].decode("ascii").lower(), line[found.end(1) + 1 :]
    if lowered == "connection":
        return {b"keep-alive": LineKind.IGNORED, b"close": LineKind.CONNECTION_CLOSE}.get(
            value.strip(b" \t").lower(), LineKind.UNSUPPORTED
        )
    if lowered == "host":
        return LineKind.HOST if _is_valid_host(value.strip(b" \t").decode("latin-1")) else LineKind.UNSUPPORTED
    kind = _KIND_BY_NAME.get(lowered, LineKind.IGNORED)
    if kind == LineKind.IGNORED and len(_IGNORED_NAMES) < _IGNORED_NAMES_MAX and len(found[1]) <= NAME_LONGEST:
        _IGNORED_NAMES[found[1]] = _IGNORED
    return kind


def _is_valid_host(value: str) -> bool:
    """Return whether feedproxy and mitmproxy both accept the value; mitmproxy refuses requests with another."""
    try:
        url.parse_authority(value, check=True)
    except ValueError:
        return False
    return AUTHORITY.match(value) is not None


_IGNORED_NAMES: dict[bytes, int] = {}
"""Names, as written, of fields that no response depends on."""
_IGNORED_NAMES_MAX = 512
_CLASSIFIER = LineClassifier()


def parse_head(block: bytes, *, trusted_peer: bool = False) -> RequestHead | None:
    """Return the head in `block`, which ends with the empty line; None if mitmproxy has to handle it.

    `trusted_peer`: the peer is a trusted proxy, and its forwarding fields are part of the key.
    """
    lines = block.split(b"\r\n")
    del lines[-2:]  # the empty line and the rest
    lookup = _CLASSIFIER.lookup
    keyed: list[bytes] = []
    request_line = host = user_agent = b""
    hosts = user_agents = request_lines = last_kind = 0
    closes = is_uncacheable = is_unordered = False
    for line in lines:
        kind = lookup(line)
        if kind is None:
            kind = _CLASSIFIER.classify(line)
        if kind == _IGNORED:
            continue
        if kind >= _KEYED or (kind == _FORWARDED and trusted_peer):
            keyed.append(line)
            if kind < last_kind:
                is_unordered = True
            last_kind = kind
        elif kind == _USER_AGENT:
            user_agent, user_agents = line, user_agents + 1
        elif kind == _HOST:
            host, hosts = line, hosts + 1
        elif kind == LineKind.REQUEST_LINE:
            request_line, request_lines = line, request_lines + 1
        elif kind == LineKind.CONNECTION_CLOSE:
            closes = True
        elif kind == LineKind.UNCACHEABLE:
            is_uncacheable = True
        elif kind == LineKind.UNSUPPORTED:
            return None
    if hosts != 1 or request_lines != 1 or request_line is not lines[0]:
        return None
    if is_unordered:
        # Fields of different names may have any order (RFC 9110, 5.3); those of one name keep theirs.
        keyed.sort(key=_CLASSIFIER.kind_of)
    key = (request_line, host, *keyed, *((_CLOSE_LINE,) if closes else ()))
    return RequestHead(lines, None if is_uncacheable or user_agents > 1 else key, user_agent, closes)
