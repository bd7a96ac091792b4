"""Failures of requests to origins. The suggested status: 504 for a timeout, 503 for a local failure, otherwise 502."""

import ssl

from feedproxy.errors import FeedproxyError, Overload


class FetchError(FeedproxyError, status=502, detail="fetch-error"):
    """Error for a fetch without a usable response from the origin."""


class Unreachable(FetchError, detail="unreachable"):
    """Error for a failed connection to an origin: name resolution, TCP or TLS failed, or the address is invalid."""


class ParentRefused(Unreachable, detail="parent-proxy"):
    """Error for a parent proxy (`upstream_proxy`) that does not connect to this origin."""


class FetchTimeout(FetchError, status=504, detail="timeout"):
    """Error for a phase of the exchange that exceeded its deadline."""


class MalformedResponse(FetchError, detail="broken-message"):
    """Error for an incomplete or invalid HTTP response (RFC 9112, section 8)."""


class NoNetwork(Overload, detail="no-network"):
    """Error for a machine that can reach neither origins nor name servers."""


class ParentFailed(Overload, detail="parent-proxy"):
    """Error for a parent proxy (`upstream_proxy`) that cannot be reached or used."""


def tls_failure_reason(error: ssl.SSLError) -> str:
    """Return the reason for a failed TLS handshake. For an error that a server with plain HTTP causes, such as "wrong
    version number", the reason names plain HTTP."""
    if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE"):
        return "the server seems to use plain HTTP"
    return str(error.reason or error).replace("_", " ").lower()
