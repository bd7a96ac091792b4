"""Listener of the fast path, with an epoll of its own for client connections, nested in the event loop's epoll.

One callback of the event loop serves all ready connections. A connection that arrives with its request
(TCP_DEFER_ACCEPT) and closes after the response is never registered with the epoll.
"""

import asyncio
import contextlib
import errno
import heapq
import logging
import os
import resource
import select
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial

from feedproxy.app import App
from feedproxy.clock import Seconds
from feedproxy.errors import UsageError
from feedproxy.request.forwarded_client_address import is_trusted_proxy
from feedproxy.server.access_record import record_unreadable
from feedproxy.server.client_connection_limit import ConnectionLimiter
from feedproxy.server.fastpath.client_connection import ClientConnection
from feedproxy.server.fastpath.client_tls_connection import (
    CERTIFICATE_CHECK_INTERVAL,
    ReloadingCertificate,
    TlsConnection,
    set_low_water_mark,
)
from feedproxy.server.fastpath.gc_policy import GcScheduler
from feedproxy.server.fastpath.handler import FastPathHandler
from feedproxy.server.fastpath.handoff import PeerAddress
from feedproxy.server.fastpath.loop_preemption import call_between_callbacks
from feedproxy.server.fastpath.template_cache import FastPathCache
from feedproxy.server.mitm.http1_limits_and_corrections import late_head_page
from feedproxy.server.unsent_output_limit import UnsentOutput, UnsentOutputLimit
from feedproxy.upstream.local_resource_exhaustion import DESCRIPTORS_RESERVED, ShortageLog
from feedproxy.upstream.origin_connection_limits import CONNECTIONS

logger = logging.getLogger("feedproxy")

POLLS_PER_CALL = 4
"""One callback of the event loop polls the epoll at most this many times."""
EVENTS_PER_POLL = 256
ACCEPT_BATCH = 64
"""From the second poll of a callback on, at most this many connections are accepted for one event. The first poll
accepts one connection, because usually no second one waits."""
TICK_INTERVAL: Seconds = 1
"""Seconds between two checks of deadlines."""
LINGERING_TIME: Seconds = 5
"""After the last response of a connection, its input is discarded for this many seconds before the connection is
closed."""
ACCEPT_PAUSE: Seconds = 1
"""After the process has run out of file descriptors or memory, it accepts no connection for this many seconds."""
RESERVED = CONNECTIONS.slots + DESCRIPTORS_RESERVED
"""This many file descriptors are kept free of idle client connections, mainly for exchanges with origins. If a new
client's connection gets one of them, idle connections are closed."""
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

IN, OUT, HANGUP = select.EPOLLIN, select.EPOLLOUT, select.EPOLLHUP | select.EPOLLERR

type HandOff = Callable[[socket.socket, PeerAddress, bytes], None]
"""Function that hands a connection to mitmproxy, with the peer's address and the bytes already read."""


class Listener:
    """Owner of the client connections that arrive on the listening sockets `sockets`."""

    def __init__(
        self,
        app: App,
        sockets: Sequence[socket.socket],
        hand_off_socket: HandOff,
        limiter: ConnectionLimiter,
        unsent_output_limit: UnsentOutputLimit,
        idle_timeout: Seconds,
        certificate: ReloadingCertificate | None,
    ) -> None:
        self.sockets = list(sockets)
        self.local_address = sockets[0].getsockname()
        self._app = app
        self._hand_off_socket = hand_off_socket
        self._limiter = limiter
        self._unsent_output_limit = unsent_output_limit
        unsent_output_limit.sources.append(self._unsent_outputs)
        self._idle_timeout = idle_timeout
        self._certificate = certificate
        self._loop = asyncio.get_running_loop()
        self._epoll = select.epoll()
        self._listen_sockets = {connection.fileno(): connection for connection in self.sockets}
        self._shortage_log = ShortageLog()
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # With a low limit, clients keep half of the descriptors.
        self._reserved_from = max(limit - RESERVED, limit // 2) if limit != resource.RLIM_INFINITY else sys.maxsize
        """Lowest file descriptor at which a new client connection causes idle connections to be closed (RESERVED)."""
        self._connections: dict[int, ClientConnection] = {}
        self._deadlines: dict[ClientConnection, tuple[Seconds, bool]] = {}
        """For each connection, its deadline by the loop's clock, and a flag: True while a response is sent or input is
        discarded, False while a request head or a handshake arrives."""
        size = app.settings.memory.hits
        first = FastPathCache(size)
        self._caches = {False: first, True: FastPathCache(size, first)}
        self._handler = FastPathHandler(app, self)
        self._now = self._loop.time()
        self._idle_checked = self._certificate_checked = self._now
        for descriptor, listen_socket in self._listen_sockets.items():
            self._epoll.register(descriptor, IN)
            if certificate is not None:
                set_low_water_mark(listen_socket)
        self._loop.add_reader(self._epoll.fileno(), self._on_readable)
        self._stop_preempting = call_between_callbacks(self._loop, self._on_readable)
        self._gc = GcScheduler(self._now)
        self._timer = self._loop.call_later(TICK_INTERVAL, self._on_timer)

    # -- one batch of events

    def _on_readable(self) -> None:
        handler, connections = self._handler, self._connections
        for poll_number in range(POLLS_PER_CALL):
            events = self._epoll.poll(0, EVENTS_PER_POLL)
            if not events:
                break
            if not poll_number:
                handler.start_iteration()
            is_single_event = len(events) == 1
            for descriptor, event in events:
                connection = connections.get(descriptor)
                if connection is None:
                    if descriptor in self._listen_sockets:
                        self._accept(self._listen_sockets[descriptor], ACCEPT_BATCH if poll_number else 1)
                        is_single_event = False
                elif connection.task is not None:
                    self._on_event_during_task(connection, event)
                elif connection.unsent:
                    self._send_unsent(connection)
                else:
                    self._read(connection)
            if is_single_event:
                break  # after a single event, another poll would hardly find a second one
        handler.access_logger.schedule_flush()

    def _read(self, connection: ClientConnection) -> None:
        if connection.lingering:
            self._discard(connection)
            return
        try:
            data = connection.read()
        except OSError:
            self.close_connection(connection)
            return
        if data is None:
            if connection.unsent:
                self.update_interest(connection)
            elif connection.handshake_pending or connection.has_deadline:
                self._update_header_deadline(connection)
            return
        if not data:
            self.close_connection(connection)
            return
        connection.last_read = self._now
        if connection.unparsed:
            data = connection.unparsed + data
        self._handler.handle_bytes(connection, data)
        if connection.unparsed or connection.has_deadline:
            self._update_header_deadline(connection)

    def _update_header_deadline(self, connection: ClientConnection) -> None:
        """Set the deadline of a request head or handshake that has begun, or clear it if none has begun."""
        if connection.fd < 0 or connection.unsent or connection.task is not None:
            return
        is_incomplete = connection.unparsed or connection.handshake_pending
        if is_incomplete and not connection.has_deadline:
            timeout = self._app.settings.head_timeout
            if timeout:
                self._deadlines[connection] = (self._loop.time() + timeout, False)
                connection.has_deadline = True
        elif connection.has_deadline and not is_incomplete:
            self._deadlines.pop(connection, None)
            connection.has_deadline = False

    def _on_event_during_task(self, connection: ClientConnection, event: int) -> None:
        if event & HANGUP:
            task = connection.task
            self.close_connection(connection)
            if task is not None:
                task.cancel()  # a refresh for no other request may be cancelled (refresh/request_collapsing.py)
        elif not connection.read_paused:
            # Input stays in the kernel's buffer until the response is sent.
            connection.read_paused = True
            self._epoll.modify(connection.fd, 0)

    def _send_unsent(self, connection: ClientConnection) -> None:
        try:
            if not connection.send_unsent():
                self._deadlines[connection] = (self._loop.time() + self._app.settings.answer_timeout, True)
                return
        except OSError:
            self.close_connection(connection)
            return
        self._deadlines.pop(connection, None)
        connection.has_deadline = False
        if connection.closes:
            self.lingering_close(connection)
            return
        self.update_interest(connection)
        if connection.unparsed:
            self._handler.handle_bytes(connection, connection.unparsed)
            self._update_header_deadline(connection)

    # -- accepting and closing

    def _accept(self, listen_socket: socket.socket, count: int) -> None:
        for _ in range(count):
            try:
                # socket.accept() creates a socket object, which takes half the time of a whole connection.
                descriptor, address = listen_socket._accept()  # type: ignore[attr-defined]
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in EXHAUSTED:
                    if self._close_idle():
                        continue
                    self._pause_accepting(error)
                return
            connection = self._register(descriptor, address[0])
            if connection is not None:
                self._read(connection)
                if connection.fd >= 0 and not connection.registered:
                    self.update_interest(connection)

    def _register(self, descriptor: int, peer: str) -> ClientConnection | None:
        """Count a new connection and return it. Return None if a limit or a shutdown refuses the connection, or if it
        has failed already. At `max_connections`, or with few free descriptors, idle connections are closed first."""
        app = self._app
        settings = app.settings
        is_trusted = bool(settings.trusted_proxies) and is_trusted_proxy(settings, peer)
        address, cache = "" if is_trusted else peer, self._caches[is_trusted]
        connection: ClientConnection
        if descriptor >= self._reserved_from:
            self._close_idle()
        is_full = app.connections >= settings.max_connections
        if not self.sockets or app.draining or (is_full and not self._close_idle()):
            os.close(descriptor)
            return None
        try:
            os.set_blocking(descriptor, False)
            if self._certificate is None:
                connection = ClientConnection(descriptor, peer, address, cache)
            else:
                connection = TlsConnection(descriptor, peer, address, cache, self._certificate.context)
                if not settings.head_timeout:
                    connection.remove_low_water_mark()  # without a deadline, `tick` would never remove the mark
        except OSError:
            return None
        if not self._limiter.acquire(connection, peer, settings):
            connection.close()
            return None
        app.connections += 1
        connection.last_read = self._now
        return connection

    def take_back(self, descriptor: int, peer: str, data: bytes) -> None:
        """Register a connection that mitmproxy returns. `data` contains the first bytes of the next request."""
        connection = self._register(descriptor, peer)
        if connection is None:
            return
        self._handler.start_iteration()
        self._handler.handle_bytes(connection, data)
        self._update_header_deadline(connection)
        if connection.fd >= 0 and not connection.registered:
            self.update_interest(connection)
        self._handler.access_logger.schedule_flush()

    def update_interest(self, connection: ClientConnection) -> None:
        """Register the connection for its next event: input, room for output, or a disconnect while its task runs."""
        if connection.fd < 0:
            return
        connection.has_read_all = False  # more input may arrive before the next read
        if connection.unsent and connection not in self._deadlines:
            self._deadlines[connection] = (self._loop.time() + self._app.settings.answer_timeout, True)
            self._unsent_output_limit.check_soon()
        events_wanted = OUT if connection.unsent else 0 if connection.task is not None else IN
        if not connection.registered:
            self._epoll.register(connection.fd, events_wanted)
            connection.registered = True
            self._connections[connection.fd] = connection
        elif events_wanted or connection.read_paused:  # while a task runs, reading is paused at the first input
            self._epoll.modify(connection.fd, events_wanted)
        connection.read_paused = events_wanted == 0 and connection.read_paused
        if connection.unparsed:
            self._update_header_deadline(connection)

    def close_connection(self, connection: ClientConnection) -> None:
        """Close a connection at once. Unsent output is discarded."""
        if self._unregister(connection):
            connection.close()
            connection.fd = -1
            connection.unsent = []
            connection.unparsed = b""

    def lingering_close(self, connection: ClientConnection) -> None:
        """Close a connection after its last response: at once if all input is read.

        Otherwise, at first shut down only the sending side, and discard input for LINGERING_TIME seconds. An immediate
        close could destroy the response (RFC 9112, section 9.6).
        """
        if connection.fd < 0:
            return
        try:
            if not connection.unparsed and (connection.has_read_all or not connection.has_unread_input()):
                self.close_connection(connection)
                return
            connection.half_close()
        except OSError:
            self.close_connection(connection)
            return
        connection.unparsed, connection.lingering = b"", True
        self._deadlines[connection] = (self._loop.time() + LINGERING_TIME, True)
        self.update_interest(connection)

    def _discard(self, connection: ClientConnection) -> None:
        try:
            has_ended = connection.discard() is False
        except OSError:
            has_ended = True
        if has_ended:
            self.close_connection(connection)

    def hand_off(self, connection: ClientConnection, data: bytes) -> None:
        """Hand a connection and the bytes already read to mitmproxy."""
        if self._unregister(connection):
            try:
                client_socket = connection.detach_socket()
            except OSError:
                connection.close()
            else:
                self._hand_off_socket(
                    client_socket, PeerAddress(connection.peer, self.local_address, secure=connection.secure), data
                )
            connection.fd, connection.unparsed = -1, b""

    def _unregister(self, connection: ClientConnection) -> bool:
        if connection.fd < 0:
            return False
        if connection.has_deadline or connection.unsent or connection.lingering:
            self._deadlines.pop(connection, None)
        self._limiter.release(connection)
        self._app.connections -= 1
        if connection.registered:
            del self._connections[connection.fd]
            try:  # noqa: SIM105 (a context manager would cost more than the call)
                self._epoll.unregister(connection.fd)
            except OSError:
                pass
        return True

    def _unsent_outputs(self) -> list[UnsentOutput]:
        return [
            UnsentOutput(connection.peer, connection.unsent_buffers(), partial(self.close_connection, connection))
            for connection in self._deadlines
            if connection.unsent and connection.fd >= 0
        ]

    def _close_idle(self) -> bool:
        """Close the connections that have been idle for longest: one in 32 of the idle connections, at least one. A
        connection with unread input stays open. Return False if none is closed."""
        idle = [
            connection
            for connection in self._connections.values()
            if connection.task is None
            and not (connection.unsent or connection.unparsed or connection.handshake_pending or connection.lingering)
        ]
        # With a fixed number, the search would cost more per new connection, the more connections are idle.
        oldest = heapq.nsmallest(max(1, len(idle) // 32), idle, key=lambda connection: connection.last_read)
        # A request may have arrived that is not read yet.
        closing = [connection for connection in oldest if not connection.has_unread_input()]
        for connection in closing:
            self.close_connection(connection)
        return bool(closing)

    def _pause_accepting(self, error: OSError) -> None:
        self._shortage_log.warn(f"listener: accept paused for {ACCEPT_PAUSE:g} s: {error.strerror}")
        for descriptor in self._listen_sockets:
            self._epoll.unregister(descriptor)
        listen_sockets, self._listen_sockets = self._listen_sockets, {}

        def resume() -> None:
            if self.sockets:
                self._listen_sockets = listen_sockets
                for descriptor in listen_sockets:
                    self._epoll.register(descriptor, IN)

        self._loop.call_later(ACCEPT_PAUSE, resume)

    # -- time

    def _on_timer(self) -> None:
        self._timer = self._loop.call_later(TICK_INTERVAL, self._on_timer)
        self.tick(self._loop.time())

    def tick(self, now: Seconds) -> None:
        """Close connections that are past their deadline or idle for too long, and run housekeeping. `now` is the
        loop's time."""
        self._now = now
        if self._certificate is not None and self._now - self._certificate_checked > CERTIFICATE_CHECK_INTERVAL:
            self._certificate_checked = self._now
            if self._certificate.has_changed:
                self.reload_certificate()
        for connection, (until, is_writing) in list(self._deadlines.items()):
            if self._now >= until:
                if not is_writing and not connection.handshake_pending:
                    page = late_head_page()
                    record_unreadable(self._app, None, 408, page)
                    with contextlib.suppress(OSError):
                        connection.write(page, b"")
                self.close_connection(connection)
            elif connection.handshake_pending:
                with contextlib.suppress(OSError):
                    connection.remove_low_water_mark()  # the client may have ended the handshake without a request
        if self._now - self._idle_checked > self._idle_timeout / 8:
            self._idle_checked = self._now
            limit = self._now - self._idle_timeout
            for connection in [connection for connection in self._connections.values() if connection.last_read < limit]:
                if connection.task is None and not connection.unsent:
                    self.close_connection(connection)
        self._handler.run_housekeeping(self._caches.values())
        self._gc.maybe_collect(now, self._handler.access_logger.batch.written_count)
        self._close_when_idle()

    def reload_certificate(self) -> None:
        """Load the certificate again for new connections, and log the result. If the files are invalid, the previous
        certificate stays in use."""
        if self._certificate is None:
            return
        try:
            self._certificate.reload()
        except UsageError as error:
            logger.error("listener: certificate not loaded, keeping the previous one: %s", error)
        else:
            logger.info("listener: certificate loaded: %s", self._certificate.name)

    def close(self) -> None:
        """Stop accepting, and close idle connections. All other connections are closed after their response."""
        if self._epoll.closed:
            return
        self._on_readable()  # answer the requests that have arrived
        for descriptor, listen_socket in self._listen_sockets.items():
            self._epoll.unregister(descriptor)
            listen_socket.close()
        self.sockets.clear()
        self._listen_sockets = {}
        self._handler.access_logger.batch.flush()
        for connection in list(self._connections.values()):
            if connection.task is None and not connection.unsent:
                self.close_connection(connection)
            else:
                connection.closes = True
        self._close_when_idle()

    def _close_when_idle(self) -> None:
        """Close the epoll when no socket listens and no connection is open."""
        if not self.sockets and not self._connections and not self._epoll.closed:
            self._handler.access_logger.batch.flush()
            self._stop_preempting()
            self._unsent_output_limit.sources.remove(self._unsent_outputs)
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._timer.cancel()
            for cache in self._caches.values():
                cache.body_files.close()
