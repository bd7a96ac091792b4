"""The results of an exchange with an origin.

Helper processes import this module. It therefore does not import the HTTP client.
"""

from dataclasses import dataclass

from feedproxy.clock import Instant
from feedproxy.http.message import Fields, Response


@dataclass(frozen=True, slots=True)
class Fetched:
    """A complete response with its end-to-end fields. Content-Length is included only for HEAD."""

    response: Response
    request_time: Instant
    response_time: Instant
    interim: tuple[Response, ...] = ()
    """The 1xx responses before this response, except 100, which is hop-by-hop."""
    minor: int = 1
    """Minor version of HTTP/1.x in the response."""
    lines: tuple[tuple[bytes, bytes], ...] = ()
    """All field lines of the head, including hop-by-hop fields."""
    framing_anomaly: str = ""
    """The error in the framing that was tolerated, or "" if there was none."""
    received_size: int | None = None
    """Size of the content as transferred, in bytes, if `body` was decoded afterwards. Otherwise it is None, and `body`
    has the transferred size."""


@dataclass(frozen=True, slots=True)
class Oversized:
    """A response with more content than `buffer_max`. Its connection was closed."""

    status: int
    fields: Fields
    interim: tuple[Response, ...] = ()
