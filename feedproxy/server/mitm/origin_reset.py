"""Reading of an origin's response after the origin has reset the connection.

An origin that refuses an upload responds at once, and resets the connection if further content arrives (RFC 9112,
section 9.6). asyncio would drop the connection at the failed write, together with the response. Here, a failed write
only ends writing.
"""

import asyncio
import os

READ_SIZE = 65_536


class DrainOnReset(asyncio.Protocol):
    """Wrapper of a StreamReaderProtocol that treats a lost connection as the end of input, not as an error."""

    def __init__(self, transport: asyncio.Transport, streams: asyncio.Protocol) -> None:
        self._socket = transport.get_extra_info("socket")
        self._streams = streams
        self._is_paused = self._eof = False

    def data_received(self, data: bytes) -> None:
        self._streams.data_received(data)

    def eof_received(self) -> bool | None:
        self._eof = True
        return self._streams.eof_received()

    def pause_writing(self) -> None:
        self._is_paused = True
        self._streams.pause_writing()

    def resume_writing(self) -> None:
        self._is_paused = False
        self._streams.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and not self._eof:
            while data := self._read():
                self._streams.data_received(data)
        if not self._eof:
            self._streams.eof_received()
        if self._is_paused:
            self._streams.resume_writing()  # wakes waiting writers

    def _read(self) -> bytes:
        """Return the unread bytes in the kernel's buffer."""
        try:
            return os.read(self._socket.fileno(), READ_SIZE)
        except OSError:
            return b""


def drain_on_reset(writer: object) -> None:
    """Make received data readable after a failed write to an origin."""
    transport = getattr(writer, "transport", None)
    if not isinstance(transport, asyncio.Transport) or transport.is_closing():
        return
    streams = transport.get_protocol()
    if isinstance(streams, asyncio.StreamReaderProtocol):
        transport.set_protocol(DrainOnReset(transport, streams))
