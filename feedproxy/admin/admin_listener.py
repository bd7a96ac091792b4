"""An HTTP listener for operators: authorized routes, with common response fields and one form of errors."""

import asyncio
import functools
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from aiohttp import web

from feedproxy.admin.admin_authorization import CHALLENGE, AdminAuthorization
from feedproxy.admin.request_parameters import UNREADABLE
from feedproxy.errors import CannotListen, FeedproxyError
from feedproxy.http import uri
from feedproxy.web.content_security_policy import admin_page_policy

logger = logging.getLogger(__name__)

BODY_MAX = 65_536
"""Forms of more than this many bytes are refused. A form contains one or two URLs."""

CONNECTIONS_MAX = 256
"""Maximum number of connections. At the limit, a new connection replaces the oldest one without a request in progress.

Each connection takes a file descriptor, which is then not available to the main listener. A browser opens up to six
connections.
"""

STOP_TIMEOUT = 2.0
"""When the listener is closed, unfinished responses have this many seconds to end."""

NO_SUCH_PAGE = "There is no such page at this port. Feed readers connect to the address in the option listen."

HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        # no-referrer is not used, because browsers would then send `Origin: null` with forms of these pages, too.
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Server": "feedproxy",
    }
)

type Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

type Route = tuple[str, str, Handler]
"""A route: method, path and handler."""

type ErrorResponse = Callable[[web.Request, int, str, str, Mapping[str, str]], web.Response]
"""Function that makes the response for an error, from its status, code, message and additional fields."""


def _is_defect(record: logging.LogRecord) -> bool:
    """Return False if aiohttp reports a request that is not valid HTTP, or has content that cannot be decoded. Such a
    request only gets an error response. Return True for all other messages."""
    return record.exc_info is None or not isinstance(record.exc_info[1], UNREADABLE)


_CONNECTIONS_LOGGER = logging.getLogger(f"{__name__}.connections")
_CONNECTIONS_LOGGER.addFilter(_is_defect)


class AdminListener:
    """A listener that serves routes at one address."""

    def __init__(self, routes: Iterable[Route], error_response: ErrorResponse) -> None:
        self._routes = list(routes)
        self._error_response = error_response
        self._authorization: AdminAuthorization | None = None
        self._runner: web.AppRunner | None = None
        self._servers: list[asyncio.Server] = []
        self._in_use: set[web.RequestHandler] = set()
        self.url = ""
        """URL of the started listener, such as `http://127.0.0.1:8081`, or "" before the start."""

    async def start(
        self,
        authorization: AdminAuthorization,
        host: str,
        port: int,
        sockets: Sequence[socket.socket] = (),
        *,
        reuse_port: bool = False,
    ) -> None:
        """Listen on `sockets`, or on host and port if `sockets` is empty. `authorization` checks each request. With
        `reuse_port`, other processes may listen at the same port. Raises CannotListen if the address is in use or not
        permitted."""
        self._authorization = authorization
        runner = web.AppRunner(
            self._application(), access_log=None, logger=_CONNECTIONS_LOGGER, shutdown_timeout=STOP_TIMEOUT
        )
        await runner.setup()
        assert runner.server is not None
        loop, accept = asyncio.get_running_loop(), functools.partial(self._accept, runner.server)
        try:
            for listening_socket in sockets:
                self._servers.append(await loop.create_server(accept, sock=listening_socket))
            if not sockets:
                self._servers.append(await loop.create_server(accept, host, port, reuse_port=reuse_port or None))
        except OSError as error:
            self._stop_listening()
            await runner.cleanup()
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
            failure = f"admin: cannot listen on {uri.join_host_port(host, port)}: {reason}"
            raise CannotListen(f"{failure} (--admin HOST:PORT names another address)") from error
        self._runner = runner
        host, port, *_ = self._servers[0].sockets[0].getsockname()
        self.url = f"http://{uri.join_host_port(host, port)}"

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        self._stop_listening()
        if runner is not None:
            await runner.cleanup()

    def _stop_listening(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()

    def _accept(self, server: web.Server) -> web.RequestHandler:
        """Return the protocol of a new connection. If there are too many connections, close the oldest one without a
        request in progress or, if all have one, the oldest."""
        connections = [connection for connection in server.connections if connection.transport is not None]
        if len(connections) >= CONNECTIONS_MAX:
            unused = (connection for connection in connections if connection not in self._in_use)
            next(unused, connections[0]).force_close()
        return server()

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._handle_authorized], client_max_size=BODY_MAX)
        for method, path, handler in self._routes:
            if method == "GET":
                application.router.add_get(path, handler)
            else:
                application.router.add_route(method, path, handler)
        application.on_response_prepare.append(_add_headers)
        return application

    @web.middleware
    async def _handle_authorized(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Authorize a request and call its handler. Return an error response for a refused or failed request."""
        self._in_use.add(request.protocol)
        try:
            return await self._answer(request, handler)
        finally:
            self._in_use.discard(request.protocol)

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        assert self._authorization is not None
        if denied := self._authorization.refuse(request.method, request.path, request.headers, request.remote or ""):
            extra = {"WWW-Authenticate": CHALLENGE} if denied.status == 401 else {}
            if denied.retry_after:
                extra["Retry-After"] = str(denied.retry_after)
            return self._error_response(request, denied.status, denied.detail, denied.message, extra)
        fields: Mapping[str, str] = {}
        try:
            return await handler(request)
        except FeedproxyError as error:
            status, code, text = error.status_hint, error.detail, str(error)
        except web.HTTPException as error:
            status, code, text = error.status, "admin", f"{error.reason}." if error.status != 404 else NO_SUCH_PAGE
            fields = {name: error.headers[name] for name in ("Allow",) if name in error.headers}
        except Exception:
            logger.exception("admin: request for %s failed", request.path)
            status, code, text = 500, "internal-error", "internal error; see feedproxy's log."
        return self._error_response(request, status, code, text, fields)


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = HEADERS["Server"]
    response.headers.setdefault("Content-Security-Policy", admin_page_policy())
