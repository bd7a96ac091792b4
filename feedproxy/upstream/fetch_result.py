"""The results of an exchange with an origin, in a module that does not import the HTTP client."""

from collections.abc import Coroutine
from typing import Any

from msgspec import Struct

from feedproxy.clock import Instant
from feedproxy.http.message import Fields, Response


class Fetched(Struct, frozen=True):
    """A complete response with its end-to-end fields. Content-Length is included only for HEAD."""

    response: Response
    request_time: Instant
    response_time: Instant
    interim: tuple[Response, ...] = ()
    """The 1xx responses before the final response, except 100 (Continue)."""
    minor: int = 1
    """Minor version of HTTP/1.x in the response."""
    lines: tuple[tuple[bytes, bytes], ...] = ()
    """All field lines of the head, including hop-by-hop fields."""
    framing_anomaly: str = ""
    """The tolerated error in the framing, or "" if there is none."""
    received_size: int | None = None
    """Size of the content as transferred, in bytes. None if it equals the size of the response's `body`."""


class Oversized(Struct, frozen=True):
    """A response with more content than `buffer_max`. Its connection was closed."""

    status: int
    fields: Fields
    interim: tuple[Response, ...] = ()


type PendingFetch = Coroutine[Any, Any, Fetched | Oversized]
"""A fetch to await: the result of the method `fetch` of an HTTP client. A client that wraps another client, and neither
changes the request nor reads the response, returns the fetch of the wrapped client."""
