"""Hand-off of connections to mitmproxy, and their return.

A connection without TLS returns to the fast path when its next request arrives while mitmproxy handles no request of
the connection. The descriptor is then duplicated: the connection of mitmproxy's handler ends, while the client's
connection stays open.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from mitmproxy.proxy.layers import ClientTLSLayer
from mitmproxy.proxy.layers.http import HttpLayer
from mitmproxy.proxy.layers.http._http1 import Http1Server
from msgspec import Struct


class PeerAddress(Struct, frozen=True):
    """The peer's address and the local address of a connection. `secure` is true if the client uses TLS: mitmproxy's
    socket is then one end of a socket pair, which has no network addresses."""

    address: str
    local_address: tuple[Any, ...]
    secure: bool = False


class PeerAwareWriter(asyncio.StreamWriter):
    """A StreamWriter that reports the given addresses of the client instead of the socket's own."""

    def __init__(self, writer: asyncio.StreamWriter, reader: asyncio.StreamReader, peer: PeerAddress) -> None:
        protocol = writer.transport.get_protocol()
        super().__init__(writer.transport, protocol, reader, asyncio.get_running_loop())
        self._peer = peer
        self._original_writer = writer  # referenced, because its finalizer would close the connection

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername":
            return (self._peer.address, 0)
        return self._peer.local_address if name == "sockname" else super().get_extra_info(name, default)


type TakeBack = Callable[[int, str, bytes], None]
type HandleStream = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class HandedOffProtocol(asyncio.StreamReaderProtocol):
    """The protocol of a connection that mitmproxy's handler serves until the connection returns to the fast path."""

    def __init__(
        self, stream: asyncio.StreamReader, handle: HandleStream, peer: PeerAddress, take_back: TakeBack
    ) -> None:
        super().__init__(stream, handle)
        self.peer = peer
        self._stream = stream
        self._take_back = take_back
        self._socket_transport: asyncio.Transport | None = None
        self.handler: Any = None
        """mitmproxy's ConnectionHandler, or None before it is created."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._socket_transport = transport
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        transport = self._socket_transport
        if transport is None or transport.is_closing() or data[:1] not in (b"G", b"H") or not self._is_idle(transport):
            super().data_received(data)
            return
        try:
            descriptor = os.dup(transport.get_extra_info("socket").fileno())
        except OSError:  # no free descriptor: the connection stays with mitmproxy
            super().data_received(data)
            return
        transport.abort()
        self._take_back(descriptor, self.peer.address, data)

    def _is_idle(self, transport: asyncio.Transport) -> bool:
        """Return True if the connection has no TLS, mitmproxy waits for its next request, and all output is sent."""
        if self.peer.secure:
            return False  # TLS continues behind the socket pair, so that the connection cannot return
        if self.handler is None or self._stream._buffer or transport.get_write_buffer_size():  # type: ignore[attr-defined]
            return False
        return is_idle(self.handler)


def is_idle(handler: Any) -> bool:
    """Return True if a handler speaks HTTP/1 without TLS and has no request in progress."""
    layers = handler.layer.context.layers
    if any(isinstance(layer, ClientTLSLayer) for layer in layers):
        return False
    http_layers = [layer for layer in layers if isinstance(layer, HttpLayer)]
    if len(http_layers) != 1 or http_layers[0].streams:
        return False
    server = http_layers[0].connections.get(handler.client)
    if not isinstance(server, Http1Server):
        return False
    return server.state == server.read_headers and server.request is None and not server.buf


async def hand_off(
    client_socket: socket.socket, peer: PeerAddress, data: bytes, handle: HandleStream, take_back: TakeBack
) -> None:
    """Let mitmproxy's `handle` continue a connection from which `data` has been read. `take_back` is called at the
    client's next request, if mitmproxy has finished all earlier requests of the connection."""
    loop = asyncio.get_running_loop()
    stream = asyncio.StreamReader(loop=loop)
    stream.feed_data(data)
    client_socket.setblocking(False)
    with contextlib.suppress(OSError):  # the client may have disconnected
        await loop.connect_accepted_socket(lambda: HandedOffProtocol(stream, handle, peer, take_back), client_socket)
