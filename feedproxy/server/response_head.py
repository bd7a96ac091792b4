"""Encoding of response heads, for mitmproxy's flows and for the fast path."""

from mitmproxy.net.http import status_codes

from feedproxy.http.message import Fields


def encode_head(status: int, fields: Fields, reason: str = "") -> bytes:
    """Return status line and fields as bytes. Raises UnicodeEncodeError for characters outside Latin-1."""
    phrase = reason or status_codes.RESPONSES.get(status, "")
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields])
    return f"HTTP/1.1 {status} {phrase}\r\n{lines}\r\n".encode("latin-1")
