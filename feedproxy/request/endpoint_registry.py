"""feedproxy's own endpoints on the main listener, below `/-/` (option `endpoint_prefix`)."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from feedproxy.errors import UsageError
from feedproxy.http.message import Request, Response
from feedproxy.request.context import ClientContext

CONTENT_MAX = 65_536
"""A request to an endpoint may have content of at most this many bytes, unless the endpoint has another limit.

If a request is refused, content up to this size is read before the response is sent. While a client waits for a
response, it may send the head of its next request, and at most this many bytes more.
"""

HUB_PATH = "hub"
"""Path of the WebSub hub, relative to the prefix of endpoints."""
CLOUD_PATH = "pleaseNotify"
"""Path for rssCloud registrations by the protocol http-post, relative to the prefix of endpoints."""


class Call(Struct, frozen=True):
    """A request for an endpoint.

    `path` is the part between the prefix and the query, such as `RPC2` or `as/atom/https://example.com/feed.xml`.
    `query` has no question mark. `request.target` has path and query as the client sent them.
    """

    request: Request
    client: ClientContext
    path: str
    query: str = ""
    content: bytes = b""


type Handler = Callable[[Call], Awaitable[Response]]

type ContentLimit = Callable[[str], int]
"""A function that returns the maximum size of a request's content, in bytes, for a path."""


class Endpoint(Struct, frozen=True):
    """An endpoint: its handler, the permitted methods, and the maximum size of a request's content in bytes. `is_list`
    is true for a list of public feeds, which scripts of other web origins may read (option `cors`)."""

    handler: Handler
    methods: tuple[str, ...] = ("GET", "HEAD")
    content_max: int | ContentLimit = CONTENT_MAX
    is_list: bool = False

    def content_limit(self, path: str) -> int:
        """Return the maximum size of a request's content for this path, in bytes."""
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
        is_list: bool = False,
    ) -> None:
        """Add an endpoint at `path`, such as `RPC2` or `as/`. Raises UsageError if `path` has another handler."""
        table = self._by_prefix if path.endswith("/") else self._exact
        present = table.get(path)
        if present is not None and present.handler != handler:
            raise UsageError(f"endpoint {path!r} already has another handler")
        table[path] = Endpoint(handler, methods, content_max, is_list)

    def remove(self, path: str) -> None:
        """Remove the endpoint at `path`, if there is one."""
        (self._by_prefix if path.endswith("/") else self._exact).pop(path, None)

    def find(self, path: str) -> Endpoint | None:
        """Return the endpoint with exactly this path or, if there is none, the endpoint with the longest path above it.

        `path` is the part after the prefix. Return None if no endpoint matches.
        """
        if (exact := self._exact.get(path)) is not None:
            return exact
        prefixes = [prefix for prefix in self._by_prefix if path.startswith(prefix)]
        return self._by_prefix[max(prefixes, key=len)] if prefixes else None
