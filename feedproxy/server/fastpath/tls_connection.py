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
from feedproxy.server.fastpath.connection import ClientConnection
from feedproxy.server.fastpath.tls_relay import TlsRelay

RECORD_MAX = 16_384
"""Bytes of a TLS record at most."""

READ_SIZE = 2 * RECORD_MAX
"""Bytes read at one go. All that is in them is decrypted at once: no epoll would tell of what were left."""

ENCRYPT_BATCH = 131_072
"""Bytes encrypted at one go. What is encrypted is this connection's alone, where the answer itself is everybody's: of a
large one, no more is held for a slow reader."""

BATCHES_PER_WRITE = 8
"""So many at one go, however fast they are taken: a millisecond. Then it is others' turn."""

CERTIFICATE_CHECK_INTERVAL: Seconds = 60
"""How often the files are looked at: who renews a certificate needs not start anything anew."""


class ReloadingCertificate:
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
        self._loaded = self._modification_times()
        try:
            self._load()
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"tls_certificate: {certificate}: {error.strerror or error}") from error

    def update_volatile_fields(self) -> None:
        """Take over files that have changed. Raises OSError where they are wrong; then the old ones count on."""
        times = self._modification_times()
        if times != self._loaded:
            self._loaded = times
            self._load()

    def _load(self) -> None:
        self.context.load_cert_chain(self._certificate, self._key, password=lambda: "")

    def _modification_times(self) -> list[float]:
        times = []
        for path in filter(None, (self._certificate, self._key)):
            with contextlib.suppress(OSError):
                times.append(path.stat().st_mtime)
        return times


class TlsConnection(ClientConnection):
    """A connection under TLS. Its handshake goes on with every byte that comes, until it is done."""

    __slots__ = ("_close_sent", "_incoming", "_outgoing", "_tls", "_unencrypted", "handshake_pending")

    secure = True

    def __init__(self, fd: int, peer: str, address: str, table: Any, context: ssl.SSLContext) -> None:
        super().__init__(fd, peer, address, table)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.handshake_pending, self._close_sent = True, False
        self._unencrypted = memoryview(b"")
        """What of an answer is not encrypted yet; as long as there is any, something is `left`."""

    def read(self) -> bytes | None:
        try:
            received = os.read(self.fd, READ_SIZE)
        except BlockingIOError:
            return None
        if not received:
            return b""
        self._incoming.write(received)
        if self.handshake_pending:
            self._handshake()
        return (
            self._decrypt() if not self.handshake_pending and (self._incoming.pending or self._tls.pending()) else None
        )

    def _handshake(self) -> None:
        """Go on with the handshake. Raises OSError where it fails; the other side has been told why."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self._send_outgoing()
            raise
        else:
            self.handshake_pending = False
            if self._incoming.pending:
                return  # the request is there already: the ticket goes with its answer
            # At once: a reader's system may hold his request back until his Finished is acknowledged (RFC 9293, 3.7.4).
        self._send_outgoing()

    def _decrypt(self) -> bytes | None:
        """All that has come as a whole; b"" for the end. Raises OSError."""
        data = b""
        try:
            while chunk := self._tls.read(self._incoming.pending or RECORD_MAX):
                data += chunk
                if not self._incoming.pending and not self._tls.pending():
                    return data
        except ssl.SSLWantReadError:
            return data or None
        except ssl.SSLZeroReturnError:
            pass
        return data

    def write(self, head: bytes, body: bytes) -> bool:
        if len(body) > ENCRYPT_BATCH:
            self._tls.write(head)
            self._unencrypted = memoryview(body)
            return self._send_outgoing() and self.send_unsent()
        self._tls.write(head + body)
        if self.closes:
            self._close_tls()
        return self._send_outgoing()

    def send_unsent(self) -> bool:
        for batches_left in range(BATCHES_PER_WRITE - 1, -1, -1):
            if self.unsent and not super().send_unsent():
                return False
            if not self._unencrypted:
                return True
            batch, self._unencrypted = self._unencrypted[:ENCRYPT_BATCH], self._unencrypted[ENCRYPT_BATCH:]
            self._tls.write(batch)
            if self.closes and not self._unencrypted:
                self._close_tls()
            if batches_left:
                self._send_outgoing()
            else:
                self.unsent = [self._outgoing.read()]
        return False

    def _close_tls(self) -> None:
        """Tell the other side that no more will come; it need not answer."""
        if not self.handshake_pending and not self._close_sent:
            self._close_sent = True
            with contextlib.suppress(ssl.SSLError):  # it has not answered yet
                self._tls.unwrap()

    def _send_outgoing(self) -> bool:
        """Send what OpenSSL has for the other side; False where that does not take all of it now. Raises OSError."""
        outgoing = self._outgoing.read()
        if not outgoing:
            return not self.unsent
        if self.unsent:
            self.unsent.append(outgoing)
            return False
        try:
            sent = os.write(self.fd, outgoing)
        except BlockingIOError:
            sent = 0
        if sent < len(outgoing):
            self.unsent = [memoryview(outgoing)[sent:]]
            return False
        return True

    def send_close(self) -> bool:
        self._close_tls()
        return self._send_outgoing()

    def detach_socket(self) -> socket.socket:
        """The far end of a pair, behind which TLS goes on. Raises OSError."""
        near, far = socket.socketpair()
        TlsRelay(copy(self), near)  # this one is the listener's, who forgets its descriptor
        return far

    def close(self) -> None:
        if not self._close_sent and not self.unsent and not self._unencrypted:
            with contextlib.suppress(OSError):
                self.send_close()
        super().close()
