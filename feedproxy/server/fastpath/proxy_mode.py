"""The listener in front as a mode of mitmproxy's: `front` for gateway and explicit proxy, `frontreverse` for reverse.

mitmproxy finds modes, and those who serve them, by their classes alone. It starts and stops these like its own, and its
handler serves what is handed over. What is leaned on is checked beforehand (compatibility.py).
"""

import asyncio
import logging
import socket
from typing import Any

from mitmproxy import ctx
from mitmproxy.proxy import layers, mode_servers, mode_specs
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import Layer

from feedproxy.app import runtime
from feedproxy.server.fastpath.handoff import Handed, Peer, Writer, hand_over
from feedproxy.server.fastpath.listener import Listener
from feedproxy.server.fastpath.sockets import listening, ready
from feedproxy.server.fastpath.tls_connection import Certificate
from feedproxy.server.mitm.connection_teardown import Handler
from feedproxy.server.mitm.flow_handler import desk

logger = logging.getLogger("feedproxy")


class FrontMode(mode_specs.RegularMode):
    """Gateway and explicit proxy, answered in front."""

    description = "gateway and proxy"


class FrontReverseMode(mode_specs.ReverseMode):
    """In front of one origin, answered in front of that."""


class _InFront[M: mode_specs.ProxyMode](mode_servers.AsyncioServerInstance[M]):
    """What both have in common: how they listen, and how what they cannot answer is served."""

    _listener: Listener
    _tasks: set[asyncio.Task[None]]

    async def listen(self, host: str, port: int) -> list[Any]:
        here = runtime(ctx.master)
        self._tasks = set()
        if here.sockets and self.mode.custom_listen_port is None:
            sockets = list(here.sockets)
            for each in sockets:
                ready(each)
        else:
            sockets = listening(host, port, reuse_port=here.seat is not None or here.settings.reuse_port)
        for each in sockets:
            here.listeners.add(each.getsockname()[1], for_readers=True)
        settings = here.settings
        certificate = Certificate(settings.tls_certificate, settings.tls_key) if settings.tls_certificate else None
        crowd, timeout = desk(here).crowd, ctx.options.tcp_timeout
        self._listener = Listener(here, sockets, self._hand_over, crowd, timeout, certificate)
        return [self._listener]

    def _hand_over(self, given: socket.socket, peer: Peer, data: bytes) -> None:
        going = hand_over(given, peer, data, self.handle_stream, self._listener.adopt)
        task = asyncio.ensure_future(going)
        self._tasks.add(task)
        task.add_done_callback(self._handed_over)

    def _handed_over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a connection could not be handed over", exc_info=error)

    async def handle_stream(self, reader: Any, writer: Any = None) -> None:
        protocol = writer.transport.get_protocol()
        handed = protocol if isinstance(protocol, Handed) else None
        if handed is not None and handed.peer.secure:
            writer = Writer(writer, reader, handed.peer)
        handler = Handler(ctx.master, reader, writer, ctx.options, self.mode)  # type: ignore[no-untyped-call]
        handler.layer = self.make_top_layer(handler.layer.context)
        if handed is not None:
            handed.handler = handler
            handler.client.tls = handed.peer.secure
        with self.manager.register_connection(handler.client.id, handler):
            await handler.handle_client()
        handler.take_apart()
        if handed is not None:
            handed.handler = None


class FrontInstance(_InFront[FrontMode]):
    """Serves FrontMode."""

    def make_top_layer(self, context: Context) -> Layer:
        return layers.modes.HttpProxy(context)


class FrontReverseInstance(_InFront[FrontReverseMode]):
    """Serves FrontReverseMode."""

    def make_top_layer(self, context: Context) -> Layer:
        return layers.modes.ReverseProxy(context)
