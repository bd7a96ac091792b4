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
from feedproxy.server.mitm.request_routing import HOST


class Kind(IntEnum):
    """What a line is to the answer."""

    IDLE = 0  # no answer depends on it, but where Vary nominates it
    HOST = 1  # part of the key, and there once
    AGENT = 2
    START = 3  # the request line
    CLOSES = 4
    FORWARDED = 5  # part of the key where the peer is believed, else idle
    ALONE = 6  # makes the answer this request's own: it is not repeated
    ODD = 7  # not for us
    KEPT = 8  # part of the key; this and all above, one for each name


KEPT = frozenset(
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

_KINDS: dict[str, int] = {
    **{name: Kind.KEPT + place for place, name in enumerate(sorted(KEPT))},
    "host": Kind.HOST,
    "user-agent": Kind.AGENT,
    **dict.fromkeys(["a-im", "authorization", "if-range", "range", "via"], Kind.ALONE),
    **dict.fromkeys(["forwarded", "x-forwarded-for", "x-forwarded-proto"], Kind.FORWARDED),
    **dict.fromkeys(
        # They frame content, or change the protocol; these are mitmproxy's to understand.
        ["content-length", "expect", "http2-settings", "transfer-encoding", "upgrade"],
        Kind.ODD,
    ),
}

_IDLE, _KEPT, _HOST, _AGENT, _FORWARDED = map(int, (Kind.IDLE, Kind.KEPT, Kind.HOST, Kind.AGENT, Kind.FORWARDED))
"""Most lines are one of these; a member of an enumeration takes twice as long to compare."""

_START = re.compile(rb"(?:GET|HEAD) (?:/|http://[0-9A-Za-z.-]+(?::[0-9]{1,5})?/)[!-\[\]-~]* HTTP/1\.1")
"""Only visible ASCII is permitted in a request target, and the backslash is one that browsers read as `/`."""
_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[\t\x20-\x7e\x80-\xff]*")
_IN_VALUES = b"\t" + bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100))
_ABSOLUTE = re.compile(r"http://([^/]+)(/.*)")

_CLOSE = b"Connection: close"

_REMEMBERED = 4096
"""Lines per generation; of two generations, the older is given up. A line is some 100 bytes."""
_LONGEST = 1024
"""Bytes of a line that is remembered."""


class Head(NamedTuple):
    """A request's head. `key` is what its answer depends on; None where it is this request's own."""

    lines: list[bytes]
    key: tuple[bytes, ...] | None
    agent: bytes
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

    def absolute(self) -> tuple[str, str] | None:
        """Authority and path of an absolute-form; None of an origin-form."""
        found = _ABSOLUTE.fullmatch(self.target)
        return (found[1], found[2]) if found else None


class Lines:
    """What lines mean, remembered within bounds: two generations, of which the older goes when the younger is full."""

    def __init__(self) -> None:
        self._young: dict[bytes, int] = {}
        self._old: dict[bytes, int] = {}
        self.known: Callable[[bytes], int | None] = self._young.get

    def kind(self, line: bytes) -> int:
        """What a line is."""
        kind = self._young.get(line)
        return self.learn(line) if kind is None else kind

    def learn(self, line: bytes) -> int:
        """The kind of a line that is not among the young."""
        name, _, value = line.partition(b":")
        if _NAMES.get(name) == _IDLE and not value.translate(None, _IN_VALUES):
            return _IDLE  # often unlike any other: what is never met again is not worth its place
        kind = self._old.get(line)
        if kind is None:
            kind = int(kind_of(line))
        if len(line) <= _LONGEST:
            self._young[line] = kind
            if len(self._young) >= _REMEMBERED:
                self._old, self._young = self._young, {}
                self.known = self._young.get
        return kind


def kind_of(line: bytes) -> int:
    """What a line is, request line included."""
    found = _LINE.fullmatch(line)
    if found is None:
        return Kind.START if _START.fullmatch(line) else Kind.ODD
    lowered, value = found[1].decode("ascii").lower(), line[found.end(1) + 1 :]
    if lowered == "connection":
        return {b"keep-alive": Kind.IDLE, b"close": Kind.CLOSES}.get(value.strip(b" \t").lower(), Kind.ODD)
    if lowered == "host":
        return Kind.HOST if _is_host(value.strip(b" \t").decode("latin-1")) else Kind.ODD
    kind = _KINDS.get(lowered, Kind.IDLE)
    if kind == Kind.IDLE and len(_NAMES) < _NAMES_MAX and len(found[1]) <= NAME_LONGEST:
        _NAMES[found[1]] = _IDLE
    return kind


def _is_host(value: str) -> bool:
    """Whether this is a host for us, and for mitmproxy, which would refuse the request if it were none."""
    try:
        url.parse_authority(value, check=True)
    except ValueError:
        return False
    return HOST.match(value) is not None


_NAMES: dict[bytes, int] = {}
"""Names, as they are written, of fields that no answer depends on."""
_NAMES_MAX = 512
_LINES = Lines()


def read(block: bytes, *, believed: bool = False) -> Head | None:
    """The head whose bytes these are, empty line included; None where it is not for us.

    `believed`: the peer is a load balancer of ours, and what it forwards is part of the key.
    """
    lines = block.split(b"\r\n")
    del lines[-2:]  # the empty line, and what is behind it
    known = _LINES.known
    kept: list[bytes] = []
    start = host = agent = b""
    hosts = agents = starts = last = 0
    closes = alone = mixed = False
    for line in lines:
        kind = known(line)
        if kind is None:
            kind = _LINES.learn(line)
        if kind == _IDLE:
            continue
        if kind >= _KEPT or (kind == _FORWARDED and believed):
            kept.append(line)
            if kind < last:
                mixed = True
            last = kind
        elif kind == _AGENT:
            agent, agents = line, agents + 1
        elif kind == _HOST:
            host, hosts = line, hosts + 1
        elif kind == Kind.START:
            start, starts = line, starts + 1
        elif kind == Kind.CLOSES:
            closes = True
        elif kind == Kind.ALONE:
            alone = True
        elif kind == Kind.ODD:
            return None
    if hosts != 1 or starts != 1 or start is not lines[0]:
        return None
    if mixed:
        # Fields of different names come in any order (RFC 9110, 5.3); those of one name stay as they came.
        kept.sort(key=_LINES.kind)
    key = (start, host, *kept, *((_CLOSE,) if closes else ()))
    return Head(lines, None if alone or agents > 1 else key, agent, closes)
