"""Policy for content codings: undeclared codings, the codings in which a feed is stored, and their levels."""

from collections.abc import Mapping

from feedproxy.http import content_negotiation
from feedproxy.http.coding import content_coding
from feedproxy.settings import Settings

LEVELS = {"gzip": 6, "br": 5, "zstd": 6}
"""Compression level of each coding. Above these levels, the time grows faster than the size falls."""


def undeclared_coding(body: bytes, media_type: str | None) -> str | None:
    """Return the coding of a body that the origin has compressed without Content-Encoding. Clients could not read such
    a body. Return None if the body is not compressed, or if it has another media type than text, XML or JSON."""
    declared = (media_type or "").lower()
    is_text = not declared or any(word in declared for word in ("xml", "json", "text"))
    return content_coding.sniff(body) if is_text else None


def compression_level(name: str, settings: Settings) -> int:
    """Return the compression level of a coding, or 0 if the option `codings` does not offer the coding."""
    return LEVELS.get(name, 0) if name in settings.codings else 0


def preferred_coding(accept_encoding: str | None, settings: Settings) -> str | None:
    """Return the offered coding that a client prefers, or None if the client prefers content without coding."""
    offered = [name for name in content_coding.CODINGS if compression_level(name, settings)]
    chosen = content_negotiation.choose_coding(accept_encoding, [*offered, "identity"])
    return None if chosen == "identity" else chosen


def satisfies(accept_encoding: str | None, bodies: Mapping[str, bytes]) -> bool:
    """Return whether one of these bodies has a coding that the client prefers to identity."""
    available = [name for name in content_coding.CODINGS if name in bodies]
    return content_negotiation.choose_coding(accept_encoding, [*available, "identity"]) != "identity"


def encode_if_smaller(identity: bytes, name: str, level: int) -> bytes | None:
    """Return the content in this coding, or None if it would not be smaller."""
    body = content_coding.encode(identity, name, level)
    return body if len(body) < len(identity) else None
