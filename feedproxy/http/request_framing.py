"""Framing of a request's content. Ambiguous framing permits request smuggling, and is refused.  RFC 9112, section 6"""

import re
from collections.abc import Iterable

from feedproxy.errors import BadRequest

_LENGTH = re.compile(rb"0|[1-9][0-9]{0,17}")


def check_framing(fields: Iterable[tuple[bytes, bytes]], *, minor: int) -> None:
    """Check Transfer-Encoding and Content-Length of a request (RFC 9112, sections 6.1 to 6.3). Raises BadRequest if
    they are invalid.

    `minor` is the minor version of HTTP/1 in the request line.
    """
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
