"""The grammar of a message's head: request line, status code, and field lines.

The functions check RFC 9110, sections 5 and 9.1; RFC 9112, sections 2 to 5; RFC 9113, sections 8.2 and 8.3. Invalid
requests raise BadRequest. In responses, harmless mistakes are corrected, and other mistakes raise MalformedResponse.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from feedproxy.errors import BadRequest, FeedproxyError, MalformedResponse
from feedproxy.http.request_framing import check_framing

type Line = tuple[bytes, bytes]
"""The name and the value of a field, as bytes."""

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = re.compile(rb"[!-~\x80-\xff]+")
"""Pattern of a target without white space and control characters."""
_ABSOLUTE = re.compile(rb"[A-Za-z][0-9A-Za-z+.-]*://")
_ABSOLUTE_WITHOUT_PATH = re.compile(rb"([A-Za-z][0-9A-Za-z+.-]*://[^/?#]*)(\?.*)?")
"""Pattern of an absolute-form with an empty path. The second group is the query."""
_VALUE = re.compile(rb"[\t -~\x80-\xff]*")
"""Pattern of a field value: visible ASCII, space, tab, and obs-text (RFC 9110, section 5.5)."""
_NAME_TEXT = re.compile(_TOKEN.pattern.decode("ascii"))
_VALUE_TEXT = re.compile("[\t -~\x80-\xff]*")
_VERSION = re.compile(rb"HTTP/[0-9]\.[0-9]")
_HOST = re.compile(
    rb"(?=.{1,261}\Z)(?:(?:[0-9A-Za-z_-]{1,63}\.)*[0-9A-Za-z_-]{1,63}\.?|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?"
)
"""Pattern of a host name of at most 255 bytes or an IP address, with an optional port."""
_CONTROLS = bytes.maketrans(bytes([*range(1, 9), *range(11, 32), 127]), b" " * 30)

_WHOLE = re.compile(
    rb"HTTP/1\.1 [1-5][0-9]{2} [\t -~\x80-\xff]*\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]++:[\t -~\x80-\xff]*+\r\n)*+\r\n"
)

_CASE_MATTERS = (b"HEAD", b"CONNECT")
"""Methods that change the framing of the response. Other spellings such as `head` are refused.

Methods are case-sensitive (RFC 9110, section 9.1), but some recipients take `head` for `HEAD`.
"""


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The checked head of a request. Fields have their original order and case. Folded lines are joined."""

    method: bytes
    target: bytes
    version: bytes
    fields: tuple[Line, ...]

    @property
    def is_for_whole_server(self) -> bool:
        """Return True for OPTIONS with `*`, or with an absolute-form without path and query (RFC 9112, section
        3.2.4)."""
        match = _ABSOLUTE_WITHOUT_PATH.fullmatch(self.target)
        return self.method == b"OPTIONS" and (self.target == b"*" or (match is not None and match[2] is None))

    def lines(self) -> list[bytes]:
        """Return the lines of the head without line ends."""
        start = b" ".join((self.method, self.target, self.version))
        return [start, *(name + b": " + value for name, value in self.fields)]


def read_request(lines: Sequence[bytes]) -> RequestHead:
    """Parse the lines of an HTTP/1 request's head, and return the head. Raises BadRequest if a line is invalid."""
    parts = lines[0].split(b" ") if lines else []
    if len(parts) != 3:
        raise BadRequest("invalid request line: expected method, one space, target, one space, version")
    method, target, version = parts
    if not _VERSION.fullmatch(version):
        raise BadRequest("invalid request line: expected an HTTP version at its end")
    if version not in (b"HTTP/1.0", b"HTTP/1.1"):
        raise BadRequest("unsupported HTTP version: expected HTTP/1.1 or HTTP/1.0", status=505)
    minor = int(version[-1:])
    fields = field_lines(lines[1:], BadRequest)
    check_request_line(method, target)
    fields = without_empty_port(fields)
    has_authority = method == b"CONNECT" or _ABSOLUTE.match(target) is not None
    if not has_authority and not target.startswith(b"/") and (method, target) != (b"OPTIONS", b"*"):
        raise BadRequest("invalid request target: expected a path or an absolute URI")
    check_host(fields, required=minor == 1, may_be_empty=has_authority)
    check_framing(fields, minor=minor)
    if (match := _ABSOLUTE_WITHOUT_PATH.fullmatch(target)) is not None and match[2]:
        # "If the target URI's path component is empty, the client MUST send "/" as the path within the origin-form" --
        # RFC 9112, section 3.2.1. mitmproxy would take the query for a part of the authority.
        target = match[1] + b"/" + match[2]
    return RequestHead(method, target, version, tuple(fields))


def check_request_line(method: bytes, target: bytes) -> None:
    """Check method and target of a request (RFC 9110, section 9.1; RFC 9113, section 8.3.1). Raises BadRequest if one
    of them is invalid."""
    if not _TOKEN.fullmatch(method):
        raise BadRequest("invalid method: expected a token")
    if method not in _CASE_MATTERS and method.upper() in _CASE_MATTERS:
        raise BadRequest("unknown method: methods are case-sensitive", status=501)
    if not _TARGET.fullmatch(target):
        raise BadRequest("invalid request target: white space or control characters")


def check_fields(fields: Iterable[Line]) -> None:
    """Check names and values of a request's fields (RFC 9110, sections 5.1 and 5.5). Raises BadRequest if one of them
    is invalid."""
    for name, value in fields:
        if not _TOKEN.fullmatch(name):
            raise BadRequest("invalid field name: expected a token")
        if not _VALUE.fullmatch(value):
            raise BadRequest(f"invalid value of the field {name.decode('ascii')}: control characters")


def without_empty_port(fields: Iterable[Line]) -> list[Line]:
    """Return a request's fields with Host in its usual form: without a colon that no port follows.

    "port = *DIGIT" -- RFC 3986, section 3.2.3. "URI producers and normalizers should omit the ":" delimiter"
    """
    return [(name, value.removesuffix(b":") if name.lower() == b"host" else value) for name, value in fields]


def check_host(fields: Iterable[Line], *, required: bool, may_be_empty: bool) -> None:
    """Check the field Host of a request (RFC 9112, section 3.2). Raises BadRequest if the field is invalid."""
    # "A server MUST respond with a 400 (Bad Request) status code to any HTTP/1.1 request message that lacks a Host
    # header field and to any request message that contains more than one Host header field line or a Host header
    # field with an invalid field value."
    hosts = [value for name, value in fields if name.lower() == b"host"]
    if len(hosts) > 1:
        raise BadRequest("more than one Host field: expected one")
    if not hosts:
        if required:
            raise BadRequest("missing Host field: expected one")
    elif not (may_be_empty and not hosts[0]) and not is_host(hosts[0]):
        raise BadRequest("invalid Host: expected a host with an optional port")


def is_host(value: bytes) -> bool:
    """Return True if the value is a host, with or without a port."""
    match = _HOST.fullmatch(value)
    return match is not None and int(match[1] or 0) <= 65_535


def field_lines(lines: Iterable[bytes], error: Callable[[str], FeedproxyError]) -> list[Line]:
    """Return the names and values of field lines.

    An invalid line raises `error`: BadRequest for a request, MalformedResponse for a response. In a response, white
    space before the colon is removed, and control characters except NUL and bare CR become spaces.
    """
    of_response = error is MalformedResponse
    parsed: list[Line] = []
    for line in lines:
        if line[:1] in {b" ", b"\t"}:
            # "replace each received obs-fold with one or more SP octets" -- RFC 9112, section 5.2
            if not parsed:
                raise error("white space before the first field line")
            name, value = parsed[-1]
            parsed[-1] = name, (value + b" " + _value(line, of_response, error)).strip(b" ")
            continue
        name, colon, value = line.partition(b":")
        if of_response:
            # "A proxy MUST remove any such whitespace from a response message" (before the colon) -- section 5.1
            name = name.rstrip(b" \t")
        if not colon or not _TOKEN.fullmatch(name):
            raise error(f"invalid field line {line[:60]!r}: expected a name, a colon and a value")
        parsed.append((name, _value(value, of_response, error)))
    return parsed


def _value(value: bytes, of_response: bool, error: Callable[[str], FeedproxyError]) -> bytes:
    if of_response:
        return replace_controls(value)
    if not _VALUE.fullmatch(value):
        raise error("invalid field value: control characters")
    return value.strip(b" \t")


def replace_controls(value: bytes) -> bytes:
    """Return a response's field value or reason phrase with control characters replaced by spaces.

    Raises MalformedResponse for NUL and CR.
    """
    # "CR, LF, or NUL ... either reject the message or replace" -- RFC 9110, section 5.5. A NUL or a bare
    # CR suggests an attack, and is rejected. Other control characters are replaced.
    if b"\0" in value or b"\r" in value or b"\n" in value:
        raise MalformedResponse("invalid field value: NUL or bare CR")
    return value.translate(_CONTROLS).strip(b" \t")


def is_field_line(line: bytes) -> bool:
    """Return True if the bytes are one field line without a line end."""
    name, colon, value = line.partition(b":")
    return bool(colon) and _TOKEN.fullmatch(name) is not None and _VALUE.fullmatch(value) is not None


def is_field(name: str, value: str) -> bool:
    """Return True if name and value are valid for a field. Each character stands for one byte."""
    return _NAME_TEXT.fullmatch(name) is not None and _VALUE_TEXT.fullmatch(value) is not None


def is_status(status: int) -> bool:
    """Return True if the number is a status code (RFC 9110, section 15)."""
    return 100 <= status <= 599


def is_well_formed(head: bytes) -> bool:
    """Return True if the bytes are the complete head of one HTTP/1.1 response, including its empty line."""
    return _WHOLE.fullmatch(head) is not None
