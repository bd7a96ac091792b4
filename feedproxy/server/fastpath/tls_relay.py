"""What came under TLS, to mitmproxy in the open: two ends of a pair of sockets within this process.

mitmproxy's handler wants a socket of its own, and TLS has been taken off here already. So it gets one end of a pair,
and what goes in and out of the other is decrypted and encrypted on the way. Each side waits for the other: no more is
held than one piece in each direction.

When mitmproxy has said its last word, what the reader still sends is thrown away for a while: a connection that ends
with something unread takes the answer from who has not read it yet (RFC 9112, 9.6).
"""

import asyncio
import socket

from feedproxy.clock import Seconds
from feedproxy.server.fastpath.connection import Reader

PIECE = 65_536

SILENCE: Seconds = 5
LINGER: Seconds = 30
"""How long that is done, where nothing comes, and in all; nginx has the same (lingering_timeout, lingering_time)."""


class Relay:
    """Carries bytes between a TLS connection and the near end of a pair, until either ends."""

    def __init__(self, secure: Reader, near: socket.socket) -> None:
        self._secure = secure
        self._plain = socket.socket(fileno=secure.fd)
        self._near = near
        self._loop = asyncio.get_running_loop()
        self._inwards = b""
        self._said = self._heard = False
        self._wasted = False
        self._last: Seconds | None = None
        """Until when it is thrown away; None as long as mitmproxy may have more to say."""
        self._alarm: asyncio.TimerHandle | None = None
        near.setblocking(False)
        self._loop.add_reader(self._plain, self._turn)
        self._loop.add_reader(near, self._turn)

    def _turn(self) -> None:
        """Carry what there is, and wait for what stops it."""
        if self._last is not None:
            self._waste()
            return
        try:
            self._carry_in()
            self._carry_out()
        except OSError:
            self.end()
            return
        if self._said and not self._secure.left:
            self._take_leave()
            return
        waits = bool(self._secure.left)
        self._wait(self._plain, reads=not self._inwards and not self._heard, writes=waits)
        self._wait(self._near, reads=not waits and not self._said, writes=bool(self._inwards))

    def _carry_in(self) -> None:
        while not self._heard or self._inwards:
            if not self._inwards:
                data = self._secure.read()
                if data is None:
                    return
                self._inwards = data
            try:
                if not self._inwards:
                    self._heard = True
                    self._near.shutdown(socket.SHUT_WR)
                    return
                sent = self._near.send(self._inwards)
            except BlockingIOError:
                return
            except OSError:
                # mitmproxy has closed its end, and what it said may still wait to be carried out.
                self._inwards, self._heard = b"", True
                return
            self._inwards = self._inwards[sent:]

    def _carry_out(self) -> None:
        while not self._said:
            if self._secure.left and not self._secure.write_on():
                return
            try:
                data = self._near.recv(PIECE)
            except BlockingIOError:
                return
            self._said = not data
            if data:
                self._secure.write(data, b"")
        if self._secure.left:
            self._secure.write_on()

    def _wait(self, end: socket.socket, *, reads: bool, writes: bool) -> None:
        if reads:
            self._loop.add_reader(end, self._turn)
        else:
            self._loop.remove_reader(end)
        if writes:
            self._loop.add_writer(end, self._turn)
        else:
            self._loop.remove_writer(end)

    def _take_leave(self) -> None:
        """Say that this is the end, and wait for the reader to hear it."""
        self._loop.remove_reader(self._near)
        self._loop.remove_writer(self._near)
        self._loop.remove_writer(self._plain)
        try:
            self._secure.finish()
            self._plain.shutdown(socket.SHUT_WR)
        except OSError:
            self.end()
            return
        self._loop.add_reader(self._plain, self._turn)
        self._last = self._loop.time() + LINGER
        self._alarm = self._loop.call_later(SILENCE, self._look)

    def _waste(self) -> None:
        try:
            self._wasted = bool(self._plain.recv(PIECE))
        except BlockingIOError:
            return
        except OSError:
            self._wasted = False
        if not self._wasted:
            self.end()

    def _look(self) -> None:
        if not self._wasted or (self._last is not None and self._loop.time() > self._last):
            self.end()
            return
        self._wasted = False
        self._alarm = self._loop.call_later(SILENCE, self._look)

    def end(self) -> None:
        """Let go of both."""
        if self._alarm is not None:
            self._alarm.cancel()
        for each in (self._plain, self._near):
            if each.fileno() >= 0:
                self._loop.remove_reader(each)
                self._loop.remove_writer(each)
        self._near.close()
        self._secure.close()
        self._plain.detach()
