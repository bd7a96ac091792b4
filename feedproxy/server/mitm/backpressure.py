"""Readers who ask and do not read: what waits to be sent is bounded, and is not kept for longer than its reader.

mitmproxy writes an answer as soon as it is made, whether or not the one before has been read, and when it lets go of a
connection, what still waits to be sent on it waits for as long as the other side likes. A single connection could so
take all memory there is: asking costs a hundred bytes, the answer megabytes.
"""

import asyncio
from typing import Any

from feedproxy.clock import Seconds
from feedproxy.server.mitm.origin_reset import drain_on_reset

LINGERING_TIME: Seconds = 30
"""How long the rest of an answer may take after mitmproxy has let go of the connection."""


class WriteBackpressure:
    """The writers of the connections held, by client id."""

    def __init__(self) -> None:
        self._writers: dict[str, asyncio.StreamWriter] = {}
        self._handlers: dict[str, Any] = {}

    def on_client_connected(self, client: Any, proxyserver: Any) -> None:
        """A reader has come; `proxyserver` is mitmproxy's addon of that name."""
        handler = proxyserver.connections.get(client.id) if proxyserver is not None else None
        writer = handler.transports[client].writer if handler is not None else None
        if isinstance(writer, asyncio.StreamWriter):
            self._writers[client.id] = writer
            self._handlers[client.id] = handler

    def on_server_connected(self, client: Any, server: Any) -> None:
        """A connection to an origin is there, and nothing has been written to it."""
        handler = self._handlers.get(client.id)
        connection = handler.transports.get(server) if handler is not None else None
        if connection is not None:
            drain_on_reset(connection.writer)

    def unsent(self, client: Any) -> int:
        """Bytes written to a client that its system has not taken yet."""
        writer = self._writers.get(client.id)
        return writer.transport.get_write_buffer_size() if writer is not None else 0

    def set_reading_paused(self, client: Any, server: Any, paused: bool) -> None:
        """Stop reading from a server on behalf of a client; or go on."""
        handler = self._handlers.get(client.id)
        connection = handler.transports.get(server) if handler is not None else None
        transport = getattr(connection.writer, "transport", None) if connection is not None else None
        if isinstance(transport, asyncio.Transport):
            if paused:
                transport.pause_reading()
            else:
                transport.resume_reading()

    async def wait_drained(self, client: str, seconds: Seconds) -> bool:
        """Wait until the reader has what was sent before, but for a buffer full; whether he has, after `seconds`."""
        if (writer := self._writers.get(client)) is None:
            return True
        try:
            await asyncio.wait_for(writer.drain(), seconds)
        except (TimeoutError, OSError):
            return False
        return True

    def still_reads(self, client: Any) -> bool:
        """Whether a client that has closed its sending side may still read: it has not reset the connection."""
        writer = self._writers.get(client.id)
        return writer is not None and not writer.is_closing()

    def on_client_disconnected(self, client: str) -> None:
        """mitmproxy has let go of the connection."""
        self._handlers.pop(client, None)
        writer = self._writers.pop(client, None)
        if writer is None:
            return
        # Where it is told to end a connection just when it begins to take in what was read, mitmproxy forgets to.
        writer.close()
        if writer.transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(LINGERING_TIME, writer.transport.abort)
