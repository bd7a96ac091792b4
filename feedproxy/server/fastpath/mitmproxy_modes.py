"""The fast path as mitmproxy modes: `front` for gateway and explicit proxy, `frontreverse` for reverse mode."""

import asyncio
import logging
import socket
from typing import Any

from mitmproxy import ctx
from mitmproxy.proxy import layers, mode_servers, mode_specs
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import Layer

from feedproxy.app import get_app
from feedproxy.server.fastpath.client_tls_connection import ReloadingCertificate
from feedproxy.server.fastpath.handoff import HandedOffProtocol, PeerAddress, PeerAwareWriter, hand_off
from feedproxy.server.fastpath.listener import Listener
from feedproxy.server.fastpath.sockets import open_listen_sockets, start_listening
from feedproxy.server.mitm.flow_handler import get_flow_handler
from feedproxy.server.mitm.memory_of_ended_connections import CycleFreeHandler

logger = logging.getLogger("feedproxy")


class FrontMode(mode_specs.RegularMode):
    """The mode of gateway and explicit proxy on the fast path."""

    description = "gateway and proxy"


class FrontReverseMode(mode_specs.ReverseMode):
    """The mode of a reverse proxy for one origin on the fast path."""


class _FastPathInstance[M: mode_specs.ProxyMode](mode_servers.AsyncioServerInstance[M]):
    """Base class of the server instances. An instance listens to clients, and hands to mitmproxy the connections that
    the fast path cannot serve."""

    _listener: Listener
    _tasks: set[asyncio.Task[None]]

    async def listen(self, host: str, port: int) -> list[Any]:
        app = get_app(ctx.master)
        self._tasks = set()
        if app.sockets and self.mode.custom_listen_port is None:
            sockets = list(app.sockets)
            for listen_socket in sockets:
                start_listening(listen_socket)
        else:
            sockets = open_listen_sockets(host, port, reuse_port=app.worker is not None or app.settings.reuse_port)
        for listen_socket in sockets:
            app.listeners.add(listen_socket.getsockname()[1], for_readers=True)
        settings = app.settings
        certificate = (
            ReloadingCertificate(settings.tls_certificate, settings.tls_key) if settings.tls_certificate else None
        )
        handler, timeout = get_flow_handler(app), ctx.options.tcp_timeout
        limits = handler.connection_limiter, handler.unsent_output_limit
        self._listener = Listener(app, sockets, self._hand_off_socket, *limits, timeout, certificate)
        return [self._listener]

    def _hand_off_socket(self, client_socket: socket.socket, peer: PeerAddress, data: bytes) -> None:
        handing_off = hand_off(client_socket, peer, data, self.handle_stream, self._listener.take_back)
        task = asyncio.ensure_future(handing_off)
        self._tasks.add(task)
        task.add_done_callback(self._on_handed_off)

    def _on_handed_off(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("fast path: hand-off failed", exc_info=error)

    async def handle_stream(self, reader: Any, writer: Any = None) -> None:
        protocol = writer.transport.get_protocol()
        protocol_handed_off = protocol if isinstance(protocol, HandedOffProtocol) else None
        if protocol_handed_off is not None and protocol_handed_off.peer.secure:
            writer = PeerAwareWriter(writer, reader, protocol_handed_off.peer)
        handler = CycleFreeHandler(self, reader, writer)
        if protocol_handed_off is not None:
            protocol_handed_off.handler = handler
            handler.client.tls = protocol_handed_off.peer.secure
        await handler.run()
        if protocol_handed_off is not None:
            protocol_handed_off.handler = None


class FrontInstance(_FastPathInstance[FrontMode]):
    """Server instance of FrontMode."""

    def make_top_layer(self, context: Context) -> Layer:
        return layers.modes.HttpProxy(context)


class FrontReverseInstance(_FastPathInstance[FrontReverseMode]):
    """Server instance of FrontReverseMode."""

    def make_top_layer(self, context: Context) -> Layer:
        return layers.modes.ReverseProxy(context)
