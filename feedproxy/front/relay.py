"""What came under TLS, to mitmproxy in the open: two ends of a pair of sockets within this process.

mitmproxy's handler wants a socket of its own, and TLS has been taken off here already. So it gets one end of a pair,
and what goes in and out of the other is decrypted and encrypted on the way. Each side waits for the other: no more is
held than one piece in each direction.
"""

import asyncio
import contextlib
import socket
import ssl

PIECE = 65_536


class Relay:
    """Carries bytes between a TLS connection and the near end of a pair, until either ends."""

    def __init__(self, secure: ssl.SSLSocket, near: socket.socket) -> None:
        self._secure = secure
        self._near = near
        self._loop = asyncio.get_running_loop()
        self._inwards = b""
        self._outwards = b""
        self._said = self._heard = False
        near.setblocking(False)
        self._loop.add_reader(secure, self._turn)
        self._loop.add_reader(near, self._turn)

    def _turn(self) -> None:
        """Carry what there is, and wait for what stops it."""
        try:
            self._carry_in()
            self._carry_out()
        except OSError:
            self.end()
            return
        if self._said and not self._outwards:
            self.end()
            return
        self._wait(self._secure, reads=not self._inwards and not self._heard, writes=bool(self._outwards))
        self._wait(self._near, reads=not self._outwards and not self._said, writes=bool(self._inwards))

    def _carry_in(self) -> None:
        while not self._heard or self._inwards:
            if not self._inwards:
                try:
                    self._inwards = self._secure.recv(PIECE)
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    return
                except ssl.SSLZeroReturnError:
                    self._inwards = b""
                if not self._inwards:
                    self._heard = True
                    self._near.shutdown(socket.SHUT_WR)
                    return
            try:
                sent = self._near.send(self._inwards)
            except BlockingIOError:
                return
            self._inwards = self._inwards[sent:]

    def _carry_out(self) -> None:
        while not self._said or self._outwards:
            if not self._outwards:
                try:
                    self._outwards = self._near.recv(PIECE)
                except BlockingIOError:
                    return
                if not self._outwards:
                    self._said = True
                    return
            try:
                sent = self._secure.send(self._outwards)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            self._outwards = self._outwards[sent:]

    def _wait(self, end: socket.socket, *, reads: bool, writes: bool) -> None:
        if reads:
            self._loop.add_reader(end, self._turn)
        else:
            self._loop.remove_reader(end)
        if writes:
            self._loop.add_writer(end, self._turn)
        else:
            self._loop.remove_writer(end)

    def end(self) -> None:
        """Let go of both."""
        for each in (self._secure, self._near):
            if each.fileno() >= 0:
                self._loop.remove_reader(each)
                self._loop.remove_writer(each)
        with contextlib.suppress(OSError, ValueError):
            self._secure.unwrap()
        self._secure.close()
        self._near.close()
