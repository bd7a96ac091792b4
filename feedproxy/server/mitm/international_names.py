"""International host names in requests to mitmproxy.

mitmproxy decodes A-labels (`xn--…`) by IDNA 2003, and answers 400 if this fails, as for names with `ß`, `ς` or a
zero-width joiner, which exist only in IDNA 2008. Here, it accepts such a name in its encoded form.

mitmproxy decodes names of any length, in about 10 µs for each character that is not ASCII. Here, it refuses names of
more than 255 characters.
"""

from typing import Any

from mitmproxy.net import check
from mitmproxy.net.http import url

from feedproxy.http.request_validation import HOST_MAX, HOST_WITH_PORT_MAX, is_host

_is_decodable_host: Any = check.is_valid_host
_parse_decodable_authority: Any = url.parse_authority


def install() -> None:
    """Replace two functions of mitmproxy by those of this module."""
    replaced: Any = url
    check.is_valid_host = replaced.is_valid_host = is_valid_host
    replaced.parse_authority = parse_authority


def is_valid_host(host: str | bytes) -> bool:
    """Return True if this host is valid: not too long, and either decodable by mitmproxy or a name in encoded form."""
    if len(host) > HOST_MAX:
        return False
    name = _as_bytes(host)
    return _is_decodable_host(host) or (_has_a_label(name) and b":" not in name and is_host(name))


def parse_authority(authority: str | bytes, check: bool) -> tuple[str, int | None]:
    """Return host and port of an authority. The port is None if it is missing or empty. If the authority is invalid,
    raise ValueError or, if `check` is false, return the authority as host."""
    text = _as_bytes(authority)
    if text.endswith(b":"):
        authority = text = text[:-1]
    if len(authority) > HOST_WITH_PORT_MAX:
        if check:
            raise ValueError(f"authority of {len(text)} bytes: expected at most {HOST_WITH_PORT_MAX}")
        return text.decode("utf-8", "surrogateescape"), None
    try:
        parsed: tuple[str, int | None] = _parse_decodable_authority(authority, check=True)
    except ValueError:
        if not (_has_a_label(text) and is_host(text)):
            parsed = _parse_decodable_authority(authority, check=check)
        else:
            name, _, port = text.decode("ascii").partition(":")
            parsed = name, int(port) if port else None
    return parsed


def _has_a_label(host: bytes) -> bool:
    return b"xn--" in host.lower()


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
