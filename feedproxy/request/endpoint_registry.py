"""feedproxy's own endpoints on the main listener, below `/-/` (option `endpoint_prefix`).

A feature adds its endpoints to the App's `Endpoints` when it starts. For each request, the content is read up to the
endpoint's limit, and the handler's response is sent. If a handler raises FeedproxyError, the client gets a problem
document.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from feedproxy.errors import UsageError
from feedproxy.http.message import Request, Response
from feedproxy.request.context import ClientContext

CONTENT_MAX = 65_536
"""Maximum size of a request's content, in bytes. An endpoint may have another limit."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request for an endpoint.

    `path` is the part after the prefix without the query, such as `RPC2` or `as/atom/https://example.com/feed.xml`.
    `query` is unchanged, without its question mark. `request.target` has path and query as the client sent them.
    """

    request: Request
    client: ClientContext
    path: str
    query: str = ""
    content: bytes = b""


type Handler = Callable[[Call], Awaitable[Response]]

type ContentLimit = Callable[[str], int]
"""A function that returns the maximum size of a request's content, in bytes, for the path of the request. The maximum
may be higher for a path that contains a valid secret."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The handler of an endpoint, the methods that it accepts, and the maximum size of a request's content in bytes."""

    handler: Handler
    methods: tuple[str, ...] = ("GET", "HEAD")
    content_max: int | ContentLimit = CONTENT_MAX

    def content_limit(self, path: str) -> int:
        """Return the maximum size of the content of a request for this path, in bytes."""
        return self.content_max if isinstance(self.content_max, int) else self.content_max(path)


class Endpoints:
    """The endpoints, keyed by the path after the prefix. A path that ends in a slash covers all paths below it."""

    def __init__(self) -> None:
        self._exact: dict[str, Endpoint] = {}
        self._by_prefix: dict[str, Endpoint] = {}

    def add(
        self,
        path: str,
        handler: Handler,
        *,
        methods: tuple[str, ...] = ("GET", "HEAD"),
        content_max: int | ContentLimit = CONTENT_MAX,
    ) -> None:
        """Add an endpoint at `path`, such as `RPC2` or `as/`. Raises UsageError if the path has another handler."""
        table = self._by_prefix if path.endswith("/") else self._exact
        present = table.get(path)
        if present is not None and present.handler != handler:
            raise UsageError(f"endpoint {path!r} already has another handler")
        table[path] = Endpoint(handler, methods, content_max)

    def remove(self, path: str) -> None:
        """Remove the endpoint at `path`."""
        (self._by_prefix if path.endswith("/") else self._exact).pop(path, None)

    def find(self, path: str) -> Endpoint | None:
        """Return the endpoint for a path after the prefix, or None if there is no endpoint for it.

        An endpoint with exactly this path is preferred. Otherwise, the endpoint with the longest path above it is
        returned.
        """
        if (exact := self._exact.get(path)) is not None:
            return exact
        prefixes = [prefix for prefix in self._by_prefix if path.startswith(prefix)]
        return self._by_prefix[max(prefixes, key=len)] if prefixes else None
