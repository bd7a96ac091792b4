"""A request's head, read from bytes with as little work as will do, and strictly.

Readers send the same lines again and again: what a line means for an answer is found out once and remembered. Lines
that no answer depends on are left out of the *key*; two requests with one key, from peers we believe alike, differ in
nothing but their User-Agent, the order of their fields, and in what nobody looks at.

Only what is plain beyond doubt is read here: a GET or HEAD of HTTP/1.1 without content, lines that end in CRLF, one
Host. Everything else, wrong or merely rare, is not refused but left to the reader that knows it all (`read` gives
None): two opinions about where a request ends are what smuggling is made of.
"""

import re
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from mitmproxy.net.http import url

from feedproxy.http.message import NAME_LONGEST, Fields
from feedproxy.server.mitm.request_routing import AUTHORITY


class LineKind(IntEnum):
    """What a line is to the answer."""

    IGNORED = 0  # no answer depends on it, but where Vary nominates it
    HOST = 1  # part of the key, and there once
    USER_AGENT = 2
    REQUEST_LINE = 3  # the request line
    CONNECTION_CLOSE = 4
    FORWARDED = 5  # part of the key where the peer is believed, else idle
    UNCACHEABLE = 6  # makes the answer this request's own: it is not repeated
    UNSUPPORTED = 7  # not for us
    KEYED = 8  # part of the key; this and all above, one for each name


KEYED_FIELDS = frozenset(
    [
        "accept",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "cookie",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-unmodified-since",
        "origin",
        "pragma",
    ]
)
"""Names of fields that answers depend on. What Vary nominates beyond them is looked at where answers are kept."""

_KIND_BY_NAME: dict[str, int] = {
    **{name: LineKind.KEYED + index for index, name in enumerate(sorted(KEYED_FIELDS))},
    "host": LineKind.HOST,
    "user-agent": LineKind.USER_AGENT,
    **dict.fromkeys(["a-im", "authorization", "if-range", "range", "via"], LineKind.UNCACHEABLE),
    **dict.fromkeys(["forwarded", "x-forwarded-for", "x-forwarded-proto"], LineKind.FORWARDED),
    **dict.fromkeys(
        # They frame content, or change the protocol; these are mitmproxy's to understand.
        ["content-length", "expect", "http2-settings", "transfer-encoding", "upgrade"],
        LineKind.UNSUPPORTED,
    ),
}

_IGNORED, _KEYED, _HOST, _USER_AGENT, _FORWARDED = map(
    int, (LineKind.IGNORED, LineKind.KEYED, LineKind.HOST, LineKind.USER_AGENT, LineKind.FORWARDED)
)
"""Most lines are one of these; a member of an enumeration takes twice as long to compare."""

_REQUEST_LINE = re.compile(rb"(?:GET|HEAD) (?:/|http://[0-9A-Za-z.-]+(?::[0-9]{1,5})?/)[!-\[\]-~]* HTTP/1\.1")
"""Only visible ASCII is permitted in a request target, and the backslash is one that browsers read as `/`."""
_FIELD_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[\t\x20-\x7e\x80-\xff]*")
_VALUE_BYTES = b"\t" + bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100))
_ABSOLUTE_FORM = re.compile(r"http://([^/]+)(/.*)")

_CLOSE_LINE = b"Connection: close"

_LINES_PER_GENERATION = 4096
"""Lines per generation; of two generations, the older is given up. A line is some 100 bytes."""
_MEMOIZED_LINE_MAX = 1024
"""Bytes of a line that is remembered."""


class RequestHead(NamedTuple):
    """A request's head. `key` is what its answer depends on; None where it is this request's own."""

    lines: list[bytes]
    key: tuple[bytes, ...] | None
    user_agent: bytes
    closes: bool

    @property
    def method(self) -> str:
        return self.lines[0].partition(b" ")[0].decode("ascii")

    @property
    def target(self) -> str:
        """The request target, as it stands."""
        return self.lines[0].split(b" ")[1].decode("ascii")

    @property
    def fields(self) -> Fields:
        """All field lines, in order."""
        pairs = (line.decode("latin-1").split(":", 1) for line in self.lines[1:])
        return Fields((name, value.strip(" \t")) for name, value in pairs)

    def split_absolute_form(self) -> tuple[str, str] | None:
        """Authority and path of an absolute-form; None of an origin-form."""
        found = _ABSOLUTE_FORM.fullmatch(self.target)
        return (found[1], found[2]) if found else None


class LineClassifier:
    """What lines mean, remembered within bounds: two generations, of which the older goes when the younger is full."""

    def __init__(self) -> None:
        self._young: dict[bytes, int] = {}
        self._old: dict[bytes, int] = {}
        self.lookup: Callable[[bytes], int | None] = self._young.get

    def kind_of(self, line: bytes) -> int:
        """What a line is."""
        kind = self._young.get(line)
        return self.classify(line) if kind is None else kind

    def classify(self, line: bytes) -> int:
        """The kind of a line that is not among the young."""
        name, _, value = line.partition(b":")
        if _IGNORED_NAMES.get(name) == _IGNORED and not value.translate(None, _VALUE_BYTES):
            return _IGNORED  # often unlike any other: what is never met again is not worth its place
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
    """What a line is, request line included."""
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
    """Whether this is a host for us, and for mitmproxy, which would refuse the request if it were none."""
    try:
        url.parse_authority(value, check=True)
    except ValueError:
        return False
    return AUTHORITY.match(value) is not None


_IGNORED_NAMES: dict[bytes, int] = {}
"""Names, as they are written, of fields that no answer depends on."""
_IGNORED_NAMES_MAX = 512
_CLASSIFIER = LineClassifier()


def parse_head(block: bytes, *, trusted_peer: bool = False) -> RequestHead | None:
    """The head whose bytes these are, empty line included; None where it is not for us.

    `believed`: the peer is a load balancer of ours, and what it forwards is part of the key.
    """
    lines = block.split(b"\r\n")
    del lines[-2:]  # the empty line, and what is behind it
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
        # Fields of different names come in any order (RFC 9110, 5.3); those of one name stay as they came.
        keyed.sort(key=_CLASSIFIER.kind_of)
    key = (request_line, host, *keyed, *((_CLOSE_LINE,) if closes else ()))
    return RequestHead(lines, None if is_uncacheable or user_agents > 1 else key, user_agent, closes)
