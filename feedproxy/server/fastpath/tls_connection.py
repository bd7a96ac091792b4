"""TLS on the listener in front: for publishers whose readers come to it directly.

OpenSSL works on two buffers in memory, and what goes in and out of them is read and written by this connection, on the
same epoll as all others: so a request is one read and one write, whatever its records are, and what ends a connection
(the answer, and that it was the last) goes out in one piece. HTTP/1.1 is offered alone (ALPN): what answers here speaks
nothing else, and who is handed over goes on over a pair of plain sockets (tls_relay.py). Sessions are taken up again by
tickets, which are each process's own.
"""

import contextlib
import os
import socket
import ssl
from copy import copy
from pathlib import Path
from typing import Any

from feedproxy.clock import Seconds
from feedproxy.errors import UsageError
from feedproxy.server.fastpath.connection import Reader
from feedproxy.server.fastpath.tls_relay import Relay

RECORD = 16_384
"""Bytes of a TLS record at most."""

TAKEN = 2 * RECORD
"""Bytes read at one go. All that is in them is decrypted at once: no epoll would tell of what were left."""

PORTION = 131_072
"""Bytes encrypted at one go. What is encrypted is this connection's alone, where the answer itself is everybody's: of a
large one, no more is held for a slow reader."""

PORTIONS = 8
"""So many at one go, however fast they are taken: a millisecond. Then it is others' turn."""

LOOKED_AT: Seconds = 60
"""How often the files are looked at: who renews a certificate needs not start anything anew."""


class Certificate:
    """A certificate with its key, from files that may be renewed."""

    def __init__(self, certificate: str, key: str) -> None:
        """Raises UsageError where they are no certificate and its key. An empty `key`: it stands in the same file."""
        self._certificate = Path(certificate).expanduser()
        self._key = Path(key).expanduser() if key else None
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        self.context.options |= ssl.OP_NO_RENEGOTIATION
        self.context.num_tickets = 1  # a reader makes one connection at a time
        self._loaded = self._times()
        try:
            self._load()
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"tls_certificate: {certificate}: {error.strerror or error}") from error

    def renew(self) -> None:
        """Take over files that have changed. Raises OSError where they are wrong; then the old ones count on."""
        times = self._times()
        if times != self._loaded:
            self._loaded = times
            self._load()

    def _load(self) -> None:
        self.context.load_cert_chain(self._certificate, self._key, password=lambda: "")

    def _times(self) -> list[float]:
        times = []
        for each in filter(None, (self._certificate, self._key)):
            with contextlib.suppress(OSError):
                times.append(each.stat().st_mtime)
        return times


class SecureReader(Reader):
    """A connection under TLS. Its handshake goes on with every byte that comes, until it is done."""

    __slots__ = ("_come", "_ended", "_go", "_rest", "_tls", "shaking")

    secure = True

    def __init__(self, fd: int, peer: str, address: str, table: Any, context: ssl.SSLContext) -> None:
        super().__init__(fd, peer, address, table)
        self._come, self._go = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._come, self._go, server_side=True)
        self.shaking, self._ended = True, False
        self._rest = memoryview(b"")
        """What of an answer is not encrypted yet; as long as there is any, something is `left`."""

    def read(self) -> bytes | None:
        try:
            taken = os.read(self.fd, TAKEN)
        except BlockingIOError:
            return None
        if not taken:
            return b""
        self._come.write(taken)
        if self.shaking:
            self._shake()
        return self._decrypted() if not self.shaking and (self._come.pending or self._tls.pending()) else None

    def _shake(self) -> None:
        """Go on with the handshake. Raises OSError where it fails; the other side has been told why."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self._send_off()
            raise
        else:
            self.shaking = False
            if self._come.pending:
                return  # the request is there already: the ticket goes with its answer
            # At once: a reader's system may hold his request back until his Finished is acknowledged (RFC 9293, 3.7.4).
        self._send_off()

    def _decrypted(self) -> bytes | None:
        """All that has come as a whole; b"" for the end. Raises OSError."""
        data = b""
        try:
            while more := self._tls.read(self._come.pending or RECORD):
                data += more
                if not self._come.pending and not self._tls.pending():
                    return data
        except ssl.SSLWantReadError:
            return data or None
        except ssl.SSLZeroReturnError:
            pass
        return data

    def write(self, head: bytes, body: bytes) -> bool:
        if len(body) > PORTION:
            self._tls.write(head)
            self._rest = memoryview(body)
            return self._send_off() and self.write_on()
        self._tls.write(head + body)
        if self.closes:
            self._say_the_end()
        return self._send_off()

    def write_on(self) -> bool:
        for more in range(PORTIONS - 1, -1, -1):
            if self.left and not super().write_on():
                return False
            if not self._rest:
                return True
            portion, self._rest = self._rest[:PORTION], self._rest[PORTION:]
            self._tls.write(portion)
            if self.closes and not self._rest:
                self._say_the_end()
            if more:
                self._send_off()
            else:
                self.left = [self._go.read()]
        return False

    def _say_the_end(self) -> None:
        """Tell the other side that no more will come; it need not answer."""
        if not self.shaking and not self._ended:
            self._ended = True
            with contextlib.suppress(ssl.SSLError):  # it has not answered yet
                self._tls.unwrap()

    def _send_off(self) -> bool:
        """Send what OpenSSL has for the other side; False where that does not take all of it now. Raises OSError."""
        going = self._go.read()
        if not going:
            return not self.left
        if self.left:
            self.left.append(going)
            return False
        try:
            sent = os.write(self.fd, going)
        except BlockingIOError:
            sent = 0
        if sent < len(going):
            self.left = [memoryview(going)[sent:]]
            return False
        return True

    def finish(self) -> bool:
        self._say_the_end()
        return self._send_off()

    def given_away(self) -> socket.socket:
        """The far end of a pair, behind which TLS goes on. Raises OSError."""
        near, far = socket.socketpair()
        Relay(copy(self), near)  # this one is the listener's, who forgets its descriptor
        return far

    def close(self) -> None:
        if not self._ended and not self.left and not self._rest:
            with contextlib.suppress(OSError):
                self.finish()
        super().close()
