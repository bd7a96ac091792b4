"""Hop-by-hop fields. A proxy does not forward them.  RFC 9110, section 7.6.1"""

from collections.abc import Iterable

HOP_BY_HOP = frozenset(
    {
        # RFC 9110, section 7.6.1, and names that old software sends.
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        # RFC 9110, sections 11.7.1 and 11.7.2: credentials for the next hop only.
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-authorization",
        # No standard defines it. CGI names it HTTP_PROXY, which HTTP libraries read as the address of a proxy
        # (CVE-2016-5385).
        "proxy",
    }
)

_NEVER_HOP_BY_HOP = frozenset({"cache-control", "content-length", "content-type", "host", "date", "etag", "vary"})
"""Fields that a proxy forwards even if Connection names them, because a message needs them end to end."""


def hop_by_hop_names(connection: Iterable[str]) -> frozenset[str]:
    """Return the names of all hop-by-hop fields of a message, in lower case: those in HOP_BY_HOP, and those in
    `connection` (the values of Connection) that are not in _NEVER_HOP_BY_HOP."""
    listed = {token.strip().lower() for value in connection for token in value.split(",")}
    return HOP_BY_HOP | (listed - _NEVER_HOP_BY_HOP - {""})
