"""Framing of a response.  RFC 9112, sections 6.1 to 6.3 and 9.3

The module decides whether Transfer-Encoding or Content-Length determines the end of the content, which contradictions
are tolerated, and whether the connection persists.
"""

import re

from feedproxy.http.field_lines import TOKEN, Line
from feedproxy.upstream.upstream_errors import MalformedResponse

_DIGITS = re.compile(rb"[0-9]{1,18}")
_TRANSFER_CODINGS = (b"chunked", b"gzip", b"deflate", b"compress")
_CLOSE: Line = (b"Connection", b"close")


def frame_message(
    lines: tuple[Line, ...], minor: int, codings: list[bytes], lengths: list[bytes]
) -> tuple[tuple[Line, ...], bool, bool, int | None]:
    """Return four values that say how the end of the message is found (RFC 9112, sections 6.1 to 6.3):

    * the field lines, without framing fields that have no effect, such as Content-Length beside Transfer-Encoding
    * True if the connection is reusable
    * True if the content is chunked
    * the length of the content in bytes, or None if the content is chunked or ends with the connection

    `codings` and `lengths` are the members of Transfer-Encoding and Content-Length in `lines`. Raises MalformedResponse
    for unsupported transfer codings, and for contradictory or invalid lengths.
    """
    if codings == [b"identity"]:  # servers of RFC 2616's time send it; it has no effect
        lines, codings = _without(lines, b"transfer-encoding"), []
    if codings:
        if codings != [b"chunked"]:
            if not all(TOKEN.fullmatch(coding) for coding in codings) or any(
                name in coding for coding in codings for name in _TRANSFER_CODINGS
            ):
                raise MalformedResponse(f"unsupported transfer codings {b', '.join(codings)[:60]!r}: expected chunked")
            # "If a Transfer-Encoding header field is present in a response and the chunked transfer coding is not the
            # final encoding, the message body length is determined by reading the connection until it is closed" --
            # section 6.3. A name that resembles no transfer coding is taken for a mistake of the origin: the content is
            # not coded.
            lines = (*_without(_without(lines, b"transfer-encoding"), b"content-length"), _CLOSE)
            return lines, False, False, None
        # "the Transfer-Encoding overrides the Content-Length. Such a message might indicate an attempt to
        # perform request smuggling": the chunks are read, and the connection is not reused.
        return _without(lines, b"content-length"), not lengths and minor > 0, True, None
    if not lengths:
        return lines, True, False, None
    if len(set(lengths)) > 1 or not _DIGITS.fullmatch(lengths[0]):
        raise MalformedResponse(f"invalid Content-Length {b', '.join(lengths)[:60]!r}: expected one number")
    if len(lengths) > 1:
        position = next(at for at, (name, _) in enumerate(lines) if name.lower() == b"content-length")
        one = (lines[position][0], lengths[0])
        lines = (*lines[:position], one, *_without(lines[position + 1 :], b"content-length"))
    return lines, True, False, int(lengths[0])


def is_persistent(lines: tuple[Line, ...], minor: int) -> bool:
    """Return True if HTTP/1.`minor` and the field Connection in `lines` permit another request on the connection."""
    options = members(lines, b"connection")
    # "If the received protocol is HTTP/1.0, the "keep-alive" connection option is present ..." -- section 9.3
    return b"close" not in options and (minor > 0 or b"keep-alive" in options)


def find_framing_error(codings: list[bytes], lengths: list[bytes]) -> str:
    """Return the error that makes the end of the message ambiguous, or "" if there is none."""
    if codings and lengths:
        return "both Transfer-Encoding and Content-Length"
    if len(lengths) > 1:
        return "several Content-Length fields"
    return "a Transfer-Encoding other than chunked" if codings and codings != [b"chunked"] else ""


def members(lines: tuple[Line, ...], name: bytes) -> list[bytes]:
    """Return the members of all lines with this name, in lower case. `name` is in lower case."""
    values = [value for line_name, value in lines if line_name.lower() == name]
    return [member.strip(b" \t").lower() for value in values for member in value.split(b",")]


def _without(lines: tuple[Line, ...], name: bytes) -> tuple[Line, ...]:
    return tuple(line for line in lines if line[0].lower() != name)
