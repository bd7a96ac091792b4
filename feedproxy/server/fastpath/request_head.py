"""Parser of request heads: fast, strict, and for simple requests only.

The kind of a line (LineKind) says how the line affects the response. Kinds are cached, because feed readers send the
same lines again.

A simple request is a GET or HEAD by HTTP/1.1, without content, with lines that end in CRLF, and with one Host.
mitmproxy parses all other heads. Two parsers that disagree about the end of a request would make request smuggling
possible.
"""

import re
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from mitmproxy.net.http import url

from feedproxy.http.credential_fields import is_credential
from feedproxy.http.message import NAME_LONGEST, Fields
from feedproxy.http.request_validation import FIELDS_MAX, TARGET_MAX
from feedproxy.proxy.repeated_hit import UNREPEATABLE_FIELDS
from feedproxy.request.gateway_hosts import AUTHORITY


class LineKind(IntEnum):
    """Kinds of lines in a request head, by their effect on the response."""

    IGNORED = 0  # no response depends on the line, unless Vary names the field
    HOST = 1  # part of the key; required once
    USER_AGENT = 2
    REQUEST_LINE = 3  # the request line
    CONNECTION_CLOSE = 4
    FORWARDED = 5  # part of the key from a trusted peer, else ignored
    UNCACHEABLE = 6  # the response is not reused
    UNSUPPORTED = 7  # mitmproxy handles the request
    KEYED = 8  # part of the key; each field name has a number from here on


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
"""Names of request fields with values that are part of a request's key. If Vary names another field, only requests with
exactly the same bytes in the whole head get the response."""

_KIND_BY_NAME: dict[str, int] = {
    **{name: LineKind.KEYED + index for index, name in enumerate(sorted(KEYED_FIELDS))},
    "host": LineKind.HOST,
    "user-agent": LineKind.USER_AGENT,
    **dict.fromkeys(UNREPEATABLE_FIELDS, LineKind.UNCACHEABLE),
    **dict.fromkeys(["forwarded", "x-forwarded-for", "x-forwarded-proto"], LineKind.FORWARDED),
    **dict.fromkeys(
        # mitmproxy handles requests with fields that frame content or change the protocol.
        ["content-length", "expect", "http2-settings", "transfer-encoding", "upgrade"],
        LineKind.UNSUPPORTED,
    ),
}

_IGNORED, _KEYED, _HOST, _USER_AGENT, _FORWARDED = map(
    int, (LineKind.IGNORED, LineKind.KEYED, LineKind.HOST, LineKind.USER_AGENT, LineKind.FORWARDED)
)
"""The most frequent kinds of lines, as integers. Integers compare faster than members of an enumeration."""

_REQUEST_LINE = re.compile(rb"(?:GET|HEAD) (?:/|http://[0-9A-Za-z.-]+(?::[0-9]{1,5})?/)[!-\[\]-~]* HTTP/1\.1")
"""Pattern of a request line with a target of visible ASCII characters, except the backslash, which browsers treat as
`/`."""
_FIELD_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[\t\x20-\x7e\x80-\xff]*")
_VALUE_BYTES = b"\t" + bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100))
_ABSOLUTE_FORM = re.compile(r"http://([^/]+)(/.*)")

_CLOSE_LINE = b"Connection: close"

_LINES_PER_GENERATION = 4096
"""Each of the two generations of a LineClassifier has at most this many lines. A line takes about 100 bytes."""
UNIQUE_NAMES_MAX = 4
"""`without_unique_lines` removes the lines of at most this many field names."""
_MEMOIZED_LINE_MAX = 1024
"""A line of more than this many bytes is not cached."""


class RequestHead(NamedTuple):
    """The head of a request.

    `lines` contains the request line and all field lines. `keyed_lines` contains the field lines that affect the
    response. `keyed_lines` is None if no template may answer the request. `closes` is true if the client sent
    `Connection: close`.
    """

    lines: list[bytes]
    keyed_lines: tuple[bytes, ...] | None
    user_agent: bytes
    closes: bool

    @property
    def method(self) -> str:
        return self.lines[0].partition(b" ")[0].decode("ascii")

    @property
    def target(self) -> str:
        """Return the request target as received."""
        return self.lines[0].split(b" ")[1].decode("ascii")

    @property
    def fields(self) -> Fields:
        """Return all field lines in their order."""
        pairs = (line.decode("latin-1").split(":", 1) for line in self.lines[1:])
        return Fields((name, value.strip(" \t")) for name, value in pairs)

    def split_absolute_form(self) -> tuple[str, str] | None:
        """Return authority and path of an absolute-form target, or None for an origin-form target."""
        match = _ABSOLUTE_FORM.fullmatch(self.target)
        return (match[1], match[2]) if match else None


class LineClassifier:
    """Cache of the kinds of lines, in two generations. When the younger generation is full, the older one is
    dropped."""

    def __init__(self) -> None:
        self._young: dict[bytes, int] = {}
        self._old: dict[bytes, int] = {}
        self.lookup: Callable[[bytes], int | None] = self._young.get
        self.unique_starts: tuple[bytes, ...] = ()
        """Beginnings (`\\r\\nName:`) of lines of ignored fields that had several values. The last found is first."""

    def kind_of(self, line: bytes) -> int:
        """Return the kind of a line (LineKind)."""
        kind = self._young.get(line)
        return self.classify(line) if kind is None else kind

    def classify(self, line: bytes) -> int:
        """Return the kind (LineKind) of a line that is not in the younger generation of the cache."""
        name, colon, value = line.partition(b":")
        if colon and _IGNORED_NAMES.get(name) == _IGNORED and not value.translate(None, _VALUE_BYTES):
            self._record_unique(name)
            return _IGNORED  # often unique: not cached
        kind = self._old.get(line)
        if kind is None:
            kind = int(classify_line(line))
        if len(line) <= _MEMOIZED_LINE_MAX:
            self._young[line] = kind
            if len(self._young) >= _LINES_PER_GENERATION:
                self._old, self._young = self._young, {}
                self.lookup = self._young.get
        return kind

    def _record_unique(self, name: bytes) -> None:
        start = b"\r\n%b:" % name
        if start not in self.unique_starts:
            self.unique_starts = (start, *self.unique_starts[: UNIQUE_NAMES_MAX - 1])


def classify_line(line: bytes) -> int:
    """Return the kind (LineKind) of a field line or request line."""
    match = _FIELD_LINE.fullmatch(line)
    if match is None:
        is_request_line = len(line) <= TARGET_MAX and _REQUEST_LINE.fullmatch(line) is not None
        return LineKind.REQUEST_LINE if is_request_line else LineKind.UNSUPPORTED
    lowered, value = match[1].decode("ascii").lower(), line[match.end(1) + 1 :]
    if lowered == "connection":
        return {b"keep-alive": LineKind.IGNORED, b"close": LineKind.CONNECTION_CLOSE}.get(
            value.strip(b" \t").lower(), LineKind.UNSUPPORTED
        )
    if lowered == "host":
        return LineKind.HOST if _is_valid_host(value.strip(b" \t").decode("latin-1")) else LineKind.UNSUPPORTED
    kind = _KIND_BY_NAME.get(lowered, LineKind.UNCACHEABLE if is_credential(lowered) else LineKind.IGNORED)
    if kind == LineKind.IGNORED and len(_IGNORED_NAMES) < _IGNORED_NAMES_MAX and len(match[1]) <= NAME_LONGEST:
        _IGNORED_NAMES[match[1]] = _IGNORED
    return kind


def _is_valid_host(value: str) -> bool:
    """Return True if a Host value is valid for both feedproxy and mitmproxy."""
    try:
        url.parse_authority(value, check=True)
    except ValueError:
        return False
    return AUTHORITY.fullmatch(value) is not None


_IGNORED_NAMES: dict[bytes, int] = {}
"""Cache of the names of fields that do not affect responses, with capital and small letters as received."""
_IGNORED_NAMES_MAX = 512
_CLASSIFIER = LineClassifier()


def without_unique_lines(block: bytes) -> bytes:
    """Return the head `block` without the lines in `unique_starts` (LineClassifier): lines of fields that do not affect
    the response, and that had several values in earlier requests. If `block` is not exactly one head, return it
    unchanged."""
    if block.find(b"\r\n\r\n") != len(block) - 4:
        return block
    for start in _CLASSIFIER.unique_starts:
        at = block.find(start)
        if at >= 0:
            end = block.find(b"\r\n", at + 2)
            if not block[at + len(start) : end].translate(None, _VALUE_BYTES):
                block = block[:at] + block[end:]
    return block


def parse_head(block: bytes, *, trusted_peer: bool = False) -> RequestHead | None:
    """Return the head in `block`, which ends with an empty line, or None if mitmproxy must handle the request. The
    forwarding fields of a trusted proxy (`trusted_peer`) are part of the key."""
    lines = block.split(b"\r\n")
    del lines[-2:]  # the empty line and the end of the block
    if len(lines) > FIELDS_MAX:
        return None
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
        # The order of fields with different names has no meaning (RFC 9110, section 5.3). Fields with the same name
        # keep their order.
        keyed.sort(key=_CLASSIFIER.kind_of)
    keyed_lines = None if is_uncacheable or user_agents > 1 else (host, *keyed, *((_CLOSE_LINE,) if closes else ()))
    return RequestHead(lines, keyed_lines, user_agent, closes)
