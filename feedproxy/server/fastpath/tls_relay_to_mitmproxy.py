"""Relay of a decrypted TLS connection to mitmproxy, over a socket pair within this process.

In each direction, the relay reads further bytes only when the bytes of the previous read are sent. After mitmproxy's
last byte, it discards further input from the client, because closing a connection with unread input can destroy the
response (RFC 9112, section 9.6).
"""

import asyncio
import socket

from feedproxy.clock import Seconds
from feedproxy.server.fastpath.client_connection import ClientConnection
from feedproxy.server.mitm.http1_limits_and_corrections import LINGERING_TIME

READ_SIZE = 65_536

LINGERING_QUIET_TIME: Seconds = 5
"""The relay closes the connection after this many seconds without input, as in nginx (lingering_timeout)."""


class TlsRelay:
    """Relay that copies bytes between a TLS connection and one end of a socket pair, until one of them closes."""

    def __init__(self, tls: ClientConnection, pair_socket: socket.socket) -> None:
        self._tls = tls
        self._client_socket = socket.socket(fileno=tls.fd)
        self._pair_socket = pair_socket
        self._loop = asyncio.get_running_loop()
        self._inbound = b""
        self._upstream_eof = self._client_eof = False
        self._discarded = False
        self._lingering_until: Seconds | None = None
        """Time of the loop until which the relay discards the client's input. None while mitmproxy can still send."""
        self._timer: asyncio.TimerHandle | None = None
        pair_socket.setblocking(False)
        self._loop.add_reader(self._client_socket, self._pump)
        self._loop.add_reader(pair_socket, self._pump)

    def _pump(self) -> None:
        """Copy available bytes in both directions, and register for the events that unblock the remaining bytes."""
        if self._lingering_until is not None:
            self._discard()
            return
        try:
            self._pump_in()
            self._pump_out()
        except OSError:
            self.close()
            return
        if self._upstream_eof and not self._tls.unsent:
            self._half_close()
            return
        is_blocked = bool(self._tls.unsent)
        self._update_interest(self._client_socket, reads=not self._inbound and not self._client_eof, writes=is_blocked)
        self._update_interest(
            self._pair_socket, reads=not is_blocked and not self._upstream_eof, writes=bool(self._inbound)
        )

    def _pump_in(self) -> None:
        while not self._client_eof or self._inbound:
            if not self._inbound:
                data = self._tls.read()
                if data is None:
                    return
                self._inbound = data
            try:
                if not self._inbound:
                    self._client_eof = True
                    self._pair_socket.shutdown(socket.SHUT_WR)
                    return
                sent = self._pair_socket.send(self._inbound)
            except BlockingIOError:
                return
            except OSError:
                # mitmproxy has closed its end. Its last bytes may still have to be copied.
                self._inbound, self._client_eof = b"", True
                return
            self._inbound = self._inbound[sent:]

    def _pump_out(self) -> None:
        while not self._upstream_eof:
            if self._tls.unsent and not self._tls.send_unsent():
                return
            try:
                data = self._pair_socket.recv(READ_SIZE)
            except BlockingIOError:
                return
            self._upstream_eof = not data
            if data:
                self._tls.write(data, b"")
        if self._tls.unsent:
            self._tls.send_unsent()

    def _update_interest(self, end: socket.socket, *, reads: bool, writes: bool) -> None:
        if reads:
            self._loop.add_reader(end, self._pump)
        else:
            self._loop.remove_reader(end)
        if writes:
            self._loop.add_writer(end, self._pump)
        else:
            self._loop.remove_writer(end)

    def _half_close(self) -> None:
        """Send close_notify to the client, and discard input until the client closes the connection."""
        self._loop.remove_reader(self._pair_socket)
        self._loop.remove_writer(self._pair_socket)
        self._loop.remove_writer(self._client_socket)
        try:
            self._tls.send_close()
            self._client_socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()
            return
        self._loop.add_reader(self._client_socket, self._pump)
        self._lingering_until = self._loop.time() + LINGERING_TIME
        self._timer = self._loop.call_later(LINGERING_QUIET_TIME, self._check_lingering)

    def _discard(self) -> None:
        try:
            self._discarded = bool(self._client_socket.recv(READ_SIZE))
        except BlockingIOError:
            return
        except OSError:
            self._discarded = False
        if not self._discarded:
            self.close()

    def _check_lingering(self) -> None:
        if not self._discarded or (self._lingering_until is not None and self._loop.time() > self._lingering_until):
            self.close()
            return
        self._discarded = False
        self._timer = self._loop.call_later(LINGERING_QUIET_TIME, self._check_lingering)

    def close(self) -> None:
        """Close both connections."""
        if self._timer is not None:
            self._timer.cancel()
        for end in (self._client_socket, self._pair_socket):
            if end.fileno() >= 0:
                self._loop.remove_reader(end)
                self._loop.remove_writer(end)
        self._pair_socket.close()
        self._tls.close()
        self._client_socket.detach()
