"""TLS on the fast path, for installations in which no other server terminates TLS for feedproxy.

OpenSSL works on memory buffers. Only HTTP/1.1 is offered (ALPN). Sessions are resumed by tickets, each valid only for
the process that issued it (docs/decisions/tls-sessions-per-worker.md).
"""

import contextlib
import os
import socket
import ssl
from copy import copy
from typing import Any

from feedproxy import option_files
from feedproxy.clock import Seconds
from feedproxy.errors import UsageError
from feedproxy.server.fastpath.client_connection import ClientConnection
from feedproxy.server.fastpath.tls_relay_to_mitmproxy import TlsRelay
from feedproxy.server.unsent_output_limit import Buffer, buffer_of

RECORD_MAX = 16_384
"""Maximum size of a TLS record in bytes (RFC 8446, section 5.1)."""

READ_SIZE = 2 * RECORD_MAX
"""Maximum bytes per read. Each read decrypts all its bytes, because epoll reports only bytes in the socket, and not
bytes that OpenSSL keeps."""

ENCRYPT_BATCH = 131_072
"""This many bytes are encrypted at a time, and at most this many encrypted bytes wait for one slow client."""

BATCHES_PER_WRITE = 8
"""One client gets at most this many batches (ENCRYPT_BATCH) before other connections are served. To encrypt and send
them takes about a millisecond."""

LOW_WATER_MARK = 81
"""During the handshake, the kernel reports a connection as readable only when this many bytes of input have arrived
(SO_RCVLOWAT).

The last handshake messages of a TLS 1.3 client have at most 80 bytes. The kernel therefore reports the connection only
when the following request has arrived, too.
"""

EXPECTED_PEM = "expected a certificate, and here or in tls_key its key without a passphrase, in PEM form"

CERTIFICATE_CHECK_INTERVAL: Seconds = 60
"""Seconds between two checks whether the certificate files have changed."""


class ReloadingCertificate:
    """A certificate and its key, reloaded when their files change."""

    def __init__(self, certificate: str, key: str) -> None:
        """Load the certificate. If `key` is empty, the file `certificate` contains the key. Raises UsageError if the
        files are invalid."""
        self.name = certificate
        self._certificate = option_files.expand(certificate)
        self._key = option_files.expand(key) if key else None
        self.reload()

    @property
    def has_changed(self) -> bool:
        """Return True if the files have changed since the last attempt to load them."""
        return self._change_times() != self._loaded

    def reload(self) -> None:
        """Load the files. Raises UsageError if the files are invalid. The previous certificate then stays in use."""
        self._loaded = self._change_times()
        for option, path in (("tls_certificate", self._certificate), ("tls_key", self._key)):
            if path is not None:
                try:
                    option_files.read(path)  # OpenSSL would wait for a pipe
                except OSError as error:
                    raise UsageError(f"{option}: {path}: {error.strerror or error}") from error
        try:
            self.context = self._load()
        except ssl.SSLError as error:
            # For most mistakes, OpenSSL states only "PEM lib".
            reason = "its key belongs to another certificate" if error.reason == "KEY_VALUES_MISMATCH" else EXPECTED_PEM
            raise UsageError(f"tls_certificate: {self.name}: {reason}") from error
        except OSError as error:
            raise UsageError(f"tls_certificate: {self.name}: {error.strerror or error}") from error

    def _load(self) -> ssl.SSLContext:
        """Return a new context with the certificate and the key. Raises OSError if the files cannot be read or are
        invalid.

        The context in use is not changed: an invalid key would leave it with the new certificate and no key.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 1  # a feed reader opens one connection at a time
        context.load_cert_chain(self._certificate, self._key, password=lambda: "")
        return context

    def _change_times(self) -> list[int]:
        times = []
        for path in filter(None, (self._certificate, self._key)):
            with contextlib.suppress(OSError):
                times.append(path.stat().st_ctime_ns)  # also changes with the mode
        return times


_NOTHING = memoryview(b"")


def set_low_water_mark(listen_socket: socket.socket) -> None:
    """Set LOW_WATER_MARK for all connections that this socket accepts. A refusal by the system is ignored."""
    with contextlib.suppress(OSError):
        listen_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, LOW_WATER_MARK)


class TlsConnection(ClientConnection):
    """A TLS connection. Input advances its handshake until the handshake is complete."""

    __slots__ = (
        "_close_sent",
        "_has_low_water_mark",
        "_incoming",
        "_outgoing",
        "_tls",
        "_unencrypted",
        "handshake_pending",
    )

    secure = True

    def __init__(self, fd: int, peer: str, address: str, table: Any, context: ssl.SSLContext) -> None:
        super().__init__(fd, peer, address, table)
        self._has_low_water_mark = True
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.handshake_pending, self._close_sent = True, False
        self._unencrypted = _NOTHING
        """The part of a response that is not encrypted yet. While it is not empty, `unsent` is not empty either."""

    def read(self) -> bytes | None:
        try:
            received = os.read(self.fd, READ_SIZE)
        except BlockingIOError:
            return None
        if not received:
            return b""
        self.has_read_all = len(received) < READ_SIZE
        self._incoming.write(received)
        if self.handshake_pending:
            self._handshake()
        if self.handshake_pending or not (self._incoming.pending or self._tls.pending()):
            return None
        data = self._decrypt()
        if self._has_low_water_mark and not (data and data.endswith(b"\r\n\r\n")):
            self.remove_low_water_mark()  # the rest of the request may be short
        return data

    def remove_low_water_mark(self) -> None:
        if self._has_low_water_mark:
            self._set_option(socket.SOL_SOCKET, socket.SO_RCVLOWAT)
            self._has_low_water_mark = False

    def _set_option(self, level: int, option: int) -> None:
        client_socket = self._borrow_socket()
        try:
            with contextlib.suppress(OSError):
                client_socket.setsockopt(level, option, 1)
        finally:
            client_socket.detach()

    def _handshake(self) -> None:
        """Continue the handshake. If it fails, an alert is sent. Raises OSError if the connection has failed."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            if self._has_low_water_mark:
                if self._outgoing.pending:
                    self._send_outgoing()
                    # A client's system may delay the request until its Finished is acknowledged (RFC 9293,
                    # section 3.7.4). Acknowledge it at once, because it is read together with the request.
                    self._set_option(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
                else:
                    self.remove_low_water_mark()  # the rest of an incomplete message may be short
        except ssl.SSLError:
            self._send_outgoing()
            raise
        else:
            self.handshake_pending = False
            if self._incoming.pending:
                return  # the request has arrived already: the ticket is sent with its response
            self.remove_low_water_mark()
        self._send_outgoing()

    def _decrypt(self) -> bytes | None:
        """Return all input that can be decrypted: None if there is none yet, and b"" at the end of input. Raises
        OSError if the connection has failed."""
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
        if self._has_low_water_mark and not self.closes:
            self.remove_low_water_mark()
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
            if not self._unencrypted:
                self._unencrypted = _NOTHING  # an empty part of the response would keep the whole response in memory
            if self.closes and not self._unencrypted:
                self._close_tls()
            if batches_left:
                self._send_outgoing()
            else:
                self.unsent = [self._outgoing.read()]
        return False

    def unsent_buffers(self) -> tuple[Buffer, ...]:
        return (*super().unsent_buffers(), *([buffer_of(self._unencrypted)] if self._unencrypted else []))

    def _close_tls(self) -> None:
        """Send close_notify, without waiting for the client's close_notify."""
        if not self.handshake_pending and not self._close_sent:
            self._close_sent = True
            with contextlib.suppress(ssl.SSLError):  # the client has not sent its own close_notify yet
                self._tls.unwrap()

    def _send_outgoing(self) -> bool:
        """Send the output of OpenSSL. Return False if a part of it remains unsent. Raises OSError if the connection has
        failed."""
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
        """Return one end of a socket pair. A TlsRelay copies between the TLS connection and the other end. Raises
        OSError if no file descriptor is free."""
        self.remove_low_water_mark()
        near, far = socket.socketpair()
        TlsRelay(copy(self), near)  # the listener keeps this object, and clears its descriptor
        return far

    def close(self) -> None:
        if not self._close_sent and not self.unsent and not self._unencrypted:
            with contextlib.suppress(OSError):
                self.send_close()
        super().close()
