"""The endpoints of feedproxy's own that stand on the main listener, under `/-/` (option `endpoint_prefix`).

Whoever offers one adds it to the Runtime's `Endpoints` when it starts; the desk at the entrance finds it, reads the
content up to the endpoint's own cap, and sends what the handler returns. A handler raises FeedproxyError where it
cannot do what was asked, and the reader gets that as a problem document.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from feedproxy.errors import UsageError
from feedproxy.http.message import Request, Response
from feedproxy.request.entrance import ClientContext

CONTENT_MAX = 65_536
"""Bytes of content that a call may have where its endpoint does not say otherwise."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request for an endpoint.

    `path` is what follows the prefix, without the query: `RPC2`, `as/atom/https://example.com/feed.xml`; `query` is
    as it came, without its question mark. `request.target` holds both, as the reader wrote them.
    """

    request: Request
    client: ClientContext
    path: str
    query: str = ""
    content: bytes = b""


type Handler = Callable[[Call], Awaitable[Response]]

type ContentLimit = Callable[[str], int]
"""The bytes of content that a call may have, by its path: who knows a secret may say more than a stranger."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A handler, the methods it takes, and the bytes of content it reads at most."""

    handler: Handler
    methods: tuple[str, ...] = ("GET", "HEAD")
    content_max: int | ContentLimit = CONTENT_MAX

    def content_limit(self, path: str) -> int:
        """Return the bytes of content that a call of this path may have."""
        return self.content_max if isinstance(self.content_max, int) else self.content_max(path)


class Endpoints:
    """The endpoints, by what follows the prefix. A path that ends in a slash stands for all that begins with it."""

    def __init__(self) -> None:
        self._exact: dict[str, Endpoint] = {}
        self._below: dict[str, Endpoint] = {}

    def add(
        self,
        path: str,
        handler: Handler,
        *,
        methods: tuple[str, ...] = ("GET", "HEAD"),
        content_max: int | ContentLimit = CONTENT_MAX,
    ) -> None:
        """Offer `path` (`RPC2`, `as/`). Raises UsageError where somebody else's handler is there already."""
        table = self._below if path.endswith("/") else self._exact
        present = table.get(path)
        if present is not None and present.handler != handler:
            raise UsageError(f"the endpoint {path} is there already")
        table[path] = Endpoint(handler, methods, content_max)

    def remove(self, path: str) -> None:
        """Offer it no longer."""
        (self._below if path.endswith("/") else self._exact).pop(path, None)

    def find(self, path: str) -> Endpoint | None:
        """Return the endpoint for what follows the prefix: the exact one, else the longest that stands above it."""
        if (exact := self._exact.get(path)) is not None:
            return exact
        above = [prefix for prefix in self._below if path.startswith(prefix)]
        return self._below[max(above, key=len)] if above else None
