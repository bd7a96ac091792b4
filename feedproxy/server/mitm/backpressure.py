"""Backpressure for clients that send requests without reading responses: their unsent output is limited.

mitmproxy writes a response even if the client has not read the previous response. A single connection could therefore
take all memory.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from feedproxy.clock import Seconds
from feedproxy.server.mitm.origin_reset import drain_on_reset
from feedproxy.server.unsent_output_limit import Buffer, UnsentOutput

UNSENT_OUTPUT_TIME: Seconds = 30
"""After mitmproxy has closed a connection, the unsent part of its response is sent for at most this many seconds."""


class WriteBackpressure:
    """Limiter of the unsent output of client connections. It can pause reading from an origin. After the end of a
    connection, it discards output that is still unsent after UNSENT_OUTPUT_TIME seconds."""

    def __init__(self) -> None:
        self._writers: dict[str, asyncio.StreamWriter] = {}
        self._handlers: dict[str, Any] = {}
        self._peers: dict[str, str] = {}
        self._ended_writers: dict[str, asyncio.StreamWriter] = {}
        """Writers with unsent output, after mitmproxy has closed their connections."""
        self._http2_buffers: dict[str, Callable[[], tuple[Buffer, ...]]] = {}

    def on_client_connected(self, client: Any, proxyserver: Any) -> None:
        """Store a client's writer. `proxyserver` is mitmproxy's addon of that name."""
        handler = proxyserver.connections.get(client.id) if proxyserver is not None else None
        writer = handler.transports[client].writer if handler is not None else None
        if isinstance(writer, asyncio.StreamWriter):
            self._writers[client.id] = writer
            self._handlers[client.id] = handler
            self._peers[client.id] = client.peername[0] if client.peername else ""  # the client may be gone

    def on_server_connected(self, client: Any, server: Any) -> None:
        """Prepare a new connection to an origin, so that the origin's response can be read after a failed write
        (origin_reset.py)."""
        handler = self._handlers.get(client.id)
        connection = handler.transports.get(server) if handler is not None else None
        if connection is not None:
            drain_on_reset(connection.writer)

    def add_http2_buffers(self, client: Any, unsent_buffers: Callable[[], tuple[Buffer, ...]]) -> None:
        """Let `unsent_outputs` include the output that waits for flow control in a client's HTTP/2 connection."""
        if client.id in self._writers:
            self._http2_buffers[client.id] = unsent_buffers

    def unsent_outputs(self) -> Iterator[UnsentOutput]:
        """Yield the unsent output of all connections."""
        for writers, close in ((self._writers, self.abort), (self._ended_writers, self._abort_ended)):
            for client, writer in list(writers.items()):
                size = writer.transport.get_write_buffer_size()
                buffers = self._http2_buffers[client]() if client in self._http2_buffers else ()
                if size or buffers:
                    yield UnsentOutput(self._peers[client], ((id(writer), size), *buffers), partial(close, client))

    def unsent(self, client: Any) -> int:
        """Return the number of bytes that wait in the write buffer of a client's connection."""
        writer = self._writers.get(client.id)
        return writer.transport.get_write_buffer_size() if writer is not None else 0

    def set_reading_paused(self, client: Any, server: Any, paused: bool) -> None:
        """Pause or resume reading from an origin on behalf of a client."""
        handler = self._handlers.get(client.id)
        connection = handler.transports.get(server) if handler is not None else None
        transport = getattr(connection.writer, "transport", None) if connection is not None else None
        if isinstance(transport, asyncio.Transport):
            if paused:
                transport.pause_reading()
            else:
                transport.resume_reading()

    async def wait_drained(self, client: str, seconds: Seconds) -> bool:
        """Wait at most `seconds` until the unsent output fits the write buffer. Return False if it still does not
        fit."""
        if (writer := self._writers.get(client)) is None:
            return True
        try:
            await asyncio.wait_for(writer.drain(), seconds)
        except (TimeoutError, OSError):
            return False
        return True

    def still_reads(self, client: Any) -> bool:
        """Return True if a client that has closed its sending side can still read: its writer is open."""
        writer = self._writers.get(client.id)
        return writer is not None and not writer.is_closing()

    def abort(self, client: str) -> None:
        """Close a client's connection at once. Unsent output is discarded."""
        if (writer := self._writers.get(client)) is not None:
            writer.transport.abort()

    def on_client_disconnected(self, client: str) -> None:
        """Limit the time for unsent output, after mitmproxy has closed the connection."""
        self._handlers.pop(client, None)
        self._http2_buffers.pop(client, None)
        writer = self._writers.pop(client, None)
        if writer is None:
            return
        # If the connection ends while mitmproxy begins to handle its input, mitmproxy may leave the socket open.
        writer.close()
        if writer.transport.get_write_buffer_size():
            self._ended_writers[client] = writer
            asyncio.get_running_loop().call_later(UNSENT_OUTPUT_TIME, self._abort_ended, client)
        else:
            self._peers.pop(client, None)

    def _abort_ended(self, client: str) -> None:
        """Discard the unsent output of a connection that mitmproxy has closed."""
        self._peers.pop(client, None)
        if (writer := self._ended_writers.pop(client, None)) is not None:
            writer.transport.abort()
