"""TLS on the listener in front: for publishers whose readers come to it directly.

Python's own SSLSocket, non-blocking, on the same epoll: one handshake costs what OpenSSL costs, and a request a read
and a write more than without. HTTP/1.1 is offered alone (ALPN): what answers here speaks nothing else, and who is
handed over goes on over a pair of plain sockets (relay.py). Sessions are taken up again by tickets, which are each
process's own.
"""

import contextlib
import socket
import ssl
from pathlib import Path
from typing import Any

from feedproxy.clock import Seconds
from feedproxy.errors import UsageError
from feedproxy.front.reader import Reader
from feedproxy.front.relay import Relay

RECORD = 16_384
"""Bytes of a TLS record at most: less at one go would leave some where no epoll tells of them."""

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

    __slots__ = ("_shaken", "socket")

    secure = True

    def __init__(self, fd: int, peer: str, address: str, table: Any, context: ssl.SSLContext) -> None:
        """Raises OSError."""
        super().__init__(fd, peer, address, table)
        plain = socket.socket(fileno=fd)
        plain.setblocking(False)
        self.socket = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        self._shaken = False

    def read(self) -> bytes | None:
        try:
            if not self._shaken:
                self.socket.do_handshake()
                self._shaken = True
            return self.socket.recv(RECORD)
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLWantWriteError:
            self.left = [b""]  # there is something to be sent, and only OpenSSL has it
            return None
        except ssl.SSLZeroReturnError:
            return b""

    def write(self, head: bytes, body: bytes) -> bool:
        whole = head + body
        try:
            sent = self.socket.send(whole)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            sent = 0
        if sent == len(whole):
            return True
        self.left = [memoryview(whole)[sent:]]
        return self.write_on()

    def write_on(self) -> bool:
        try:
            if not self._shaken:
                self.socket.do_handshake()
                self._shaken = True
                self.left = []
            while self.left:
                rest = memoryview(self.left[0])
                sent = self.socket.send(rest)
                self.left = [rest[sent:]] if sent < len(rest) else []
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        return True

    def given_away(self) -> socket.socket:
        """The far end of a pair, behind which TLS goes on. Raises OSError."""
        near, far = socket.socketpair()
        Relay(self.socket, near)
        return far

    def close(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            if self._shaken:
                self.socket.unwrap()  # says that this is the end, and does not wait for the other side to say so
        self.socket.close()
