"""Checks of a request's head: request line, Host, and an unambiguous framing of the content.

The functions check RFC 9110, sections 5 and 9.1; RFC 9112, sections 2, 3 and 6; RFC 9113, section 8.3. Invalid requests
raise BadRequest. Ambiguous framing permits request smuggling.
"""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from feedproxy.errors import BadRequest
from feedproxy.http.field_lines import TOKEN, VALUE, Line, parse_field_lines

TARGET_MAX = 8192
"""Maximum length of a request target, in bytes. RFC 9112, section 3, recommends "at a minimum, request-line lengths of
8000 octets"."""
FIELDS_MAX = 500
"""Maximum number of field lines of a request. Each costs about 20 µs. Requests usually have fewer than 50.

A response may have more: only the size of its head is limited (`header_max`).
"""
_TARGET = re.compile(rb"[!-~\x80-\xff]+")
_ABSOLUTE = re.compile(rb"[A-Za-z][0-9A-Za-z+.-]*://")
_ABSOLUTE_WITHOUT_PATH = re.compile(rb"([A-Za-z][0-9A-Za-z+.-]*://[^/?#]*)(\?.*)?")
"""Pattern of an absolute-form with an empty path. The second group is the query."""
_VERSION = re.compile(rb"HTTP/[0-9]\.[0-9]")
HOST_MAX = 255
"""Maximum length of a host name, in bytes (RFC 1035, section 2.3.4)."""
HOST_WITH_PORT_MAX = HOST_MAX + len(":65535")
_HOST = re.compile(
    rb"(?=.{1,%d}\Z)(?:(?:[0-9A-Za-z_-]{1,63}\.)*[0-9A-Za-z_-]{1,63}\.?|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?"
    % HOST_WITH_PORT_MAX
)
"""Pattern of an IP address, or of a host name of at most HOST_MAX bytes, possibly with a port."""
_LENGTH = re.compile(rb"0|[1-9][0-9]{0,17}")

_CASE_MATTERS = (b"HEAD", b"CONNECT")
"""Methods that change the framing of the response. Other spellings such as `head` are refused, because some recipients
take `head` for `HEAD`, although methods are case-sensitive (RFC 9110, section 9.1)."""


class CheckedHead(Struct, frozen=True):
    """The checked head of a request. Fields have their original order and case. Folded lines are joined."""

    method: bytes
    target: bytes
    version: bytes
    fields: tuple[Line, ...]

    @property
    def is_for_whole_server(self) -> bool:
        """Return True for OPTIONS of `*`, or of an absolute-form without path and query (RFC 9112, section 3.2.4)."""
        match = _ABSOLUTE_WITHOUT_PATH.fullmatch(self.target)
        return self.method == b"OPTIONS" and (self.target == b"*" or (match is not None and match[2] is None))

    def lines(self) -> list[bytes]:
        """Return the lines of the head without line ends."""
        start = b" ".join((self.method, self.target, self.version))
        return [start, *(name + b": " + value for name, value in self.fields)]


def read_request(lines: Sequence[bytes]) -> CheckedHead:
    """Return the parsed head of an HTTP/1 request. Raises BadRequest if a line is invalid."""
    parts = lines[0].split(b" ") if lines else []
    if len(parts) != 3:
        raise BadRequest("invalid request line: expected method, one space, target, one space, version")
    method, target, version = parts
    if not _VERSION.fullmatch(version):
        raise BadRequest("invalid request line: expected an HTTP version at its end")
    if version not in (b"HTTP/1.0", b"HTTP/1.1"):
        raise BadRequest("unsupported HTTP version: expected HTTP/1.1 or HTTP/1.0", status=505)
    minor = int(version[-1:])
    check_count(lines[1:])
    fields = parse_field_lines(lines[1:], BadRequest)
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
    return CheckedHead(method, target, version, tuple(fields))


def check_request_line(method: bytes, target: bytes) -> None:
    """Raise BadRequest if method or target is invalid (RFC 9110, section 9.1; RFC 9113, section 8.3.1)."""
    if not TOKEN.fullmatch(method):
        raise BadRequest("invalid method: expected a token")
    if method not in _CASE_MATTERS and method.upper() in _CASE_MATTERS:
        raise BadRequest("unknown method: methods are case-sensitive", status=501)
    if len(target) > TARGET_MAX:
        raise BadRequest(f"the request target is longer than {TARGET_MAX} bytes", status=414)
    if not _TARGET.fullmatch(target):
        raise BadRequest("invalid request target: white space or control characters")


def check_count(lines: Sequence[object]) -> None:
    """Raise BadRequest if a request has too many field lines (RFC 6585, section 5)."""
    if len(lines) > FIELDS_MAX:
        raise BadRequest(f"more than {FIELDS_MAX} field lines", status=431)


def check_fields(fields: Sequence[Line]) -> None:
    """Raise BadRequest if a name or value of a request's field is invalid (RFC 9110, sections 5.1 and 5.5)."""
    check_count(fields)
    for name, value in fields:
        if not TOKEN.fullmatch(name):
            raise BadRequest("invalid field name: expected a token")
        if not VALUE.fullmatch(value):
            raise BadRequest(f"invalid value of the field {name.decode('ascii')}: control characters")


def without_empty_port(fields: Iterable[Line]) -> list[Line]:
    """Return a request's fields with Host in its usual form: a colon without a port is removed.

    The grammar permits an empty port ("port = *DIGIT", RFC 3986, section 3.2.3), but "URI producers and normalizers
    should omit the ":" delimiter" before it (section 3.2).
    """
    return [(name, value.removesuffix(b":") if name.lower() == b"host" else value) for name, value in fields]


def check_host(fields: Iterable[Line], *, required: bool, may_be_empty: bool) -> None:
    """Raise BadRequest if the field Host of a request is invalid (RFC 9112, section 3.2).

    If `required` is True, it must not be missing. If `may_be_empty` is True, it may be empty.
    """
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


def check_framing(fields: Iterable[Line], *, minor: int) -> None:
    """Raise BadRequest for an invalid Transfer-Encoding or Content-Length (RFC 9112, sections 6.1 to 6.3). `minor` is
    the minor version of HTTP/1 in the request line."""
    codings = [value for name, value in fields if name.lower() == b"transfer-encoding"]
    lengths = [value for name, value in fields if name.lower() == b"content-length"]
    if codings and lengths:
        raise BadRequest("both Transfer-Encoding and Content-Length: expected one of them")
    if codings:
        if not minor:
            raise BadRequest("Transfer-Encoding in HTTP/1.0: expected none")
        members = [member.strip(b" \t").lower() for value in codings for member in value.split(b",")]
        # "If any transfer coding other than chunked is applied to a request's content, the sender MUST apply chunked
        # as the final transfer coding"
        if members[-1] != b"chunked" or b"chunked" in members[:-1] or len(codings) > 1:
            raise BadRequest("invalid Transfer-Encoding: expected chunked, once and last")
        if len(members) > 1:
            raise BadRequest("unsupported transfer coding: expected only chunked", status=501)
    elif len(lengths) > 1 or (lengths and not _LENGTH.fullmatch(lengths[0])):
        raise BadRequest("invalid Content-Length: expected one number")
