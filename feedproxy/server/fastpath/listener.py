"""The listener in front: connections of readers on an epoll of its own, nested in the event loop's.

To the event loop it is one file descriptor that is readable when any reader is. One call then serves all who are
ready, with plain reads and writes on descriptors: no transport, no protocol, no task per connection. A connection that
comes with its request (TCP_DEFER_ACCEPT) and wants no more is accepted, read, answered and closed in one go, and is
never known to the epoll at all. Everything else of the process, fetches and mitmproxy's connections among it, lives
beside it in the same event loop.
"""

import asyncio
import contextlib
import errno
import logging
import os
import select
import socket
from collections.abc import Callable, Sequence

from feedproxy.app import Runtime
from feedproxy.clock import Seconds
from feedproxy.server.fastpath.connection import Reader
from feedproxy.server.fastpath.gc_policy import Garbage
from feedproxy.server.fastpath.handler import Waiter
from feedproxy.server.fastpath.handoff import Peer
from feedproxy.server.fastpath.loop_preemption import serve_between
from feedproxy.server.fastpath.response_cache import Table
from feedproxy.server.fastpath.tls_connection import LOOKED_AT, Certificate, SecureReader
from feedproxy.server.mitm.connection_limits import Crowd, place_of
from feedproxy.server.mitm.http1_patches import error_page
from feedproxy.server.mitm.request_routing import trusts
from feedproxy.upstream.local_failure import Complaints

logger = logging.getLogger("feedproxy")

ROUNDS = 4
"""Times the epoll is asked again before others get their turn: most of a busy turn's cost is the turn itself."""
EVENTS = 256
ACCEPTED = 64
"""Connections accepted at one go, where they queue. Who comes alone costs no second try, which would fail."""
BEAT: Seconds = 1
"""How often time-outs are looked at."""
LINGER: Seconds = 5
"""How long what comes behind the last answer of a connection is thrown away; nginx has the same (lingering_timeout)."""
BREATH: Seconds = 1
"""How long nobody is let in once the process has no file descriptors left."""
SHORT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

IN, OUT, GONE = select.EPOLLIN, select.EPOLLOUT, select.EPOLLHUP | select.EPOLLERR

type HandOver = Callable[[socket.socket, Peer, bytes], None]
"""Gives a connection, where it comes from, and what was read of it, to mitmproxy."""


class Listener:
    """Accepts readers on these sockets, and holds their connections."""

    def __init__(
        self,
        runtime: Runtime,
        sockets: Sequence[socket.socket],
        hand_over: HandOver,
        crowd: Crowd,
        idle_timeout: Seconds,
        certificate: Certificate | None = None,
    ) -> None:
        self.sockets = list(sockets)
        self.own = sockets[0].getsockname()
        self._runtime = runtime
        self._give_away = hand_over
        self._crowd = crowd
        self._idle_timeout = idle_timeout
        self._certificate = certificate
        self._loop = asyncio.get_running_loop()
        self._epoll = select.epoll()
        self._doors = {each.fileno(): each for each in self.sockets}
        self._complaints = Complaints()
        self._readers: dict[int, Reader] = {}
        self._due: dict[Reader, tuple[Seconds, bool]] = {}
        """Until when a head has to be whole, or (True) an answer taken on."""
        size = runtime.settings.memory.hits
        first = Table(size)
        self._tables = {False: first, True: Table(size, first)}
        self._waiter = Waiter(runtime, self)
        self._second = self._loop.time()
        self._swept = self._looked = self._second
        for descriptor in self._doors:
            self._epoll.register(descriptor, IN)
        self._loop.add_reader(self._epoll.fileno(), self._ready)
        self._leave_steps = serve_between(self._loop, self._ready)
        self._garbage = Garbage(self._second)
        self._beat = self._loop.call_later(BEAT, self._look_after)

    # -- one turn

    def _ready(self) -> None:
        waiter, readers = self._waiter, self._readers
        for round_ in range(ROUNDS):
            events = self._epoll.poll(0, EVENTS)
            if not events:
                break
            if not round_:
                waiter.begin()
            alone = len(events) == 1
            for descriptor, event in events:
                reader = readers.get(descriptor)
                if reader is None:
                    if descriptor in self._doors:
                        self._accept(self._doors[descriptor], ACCEPTED if round_ else 1)
                        alone = False
                elif reader.task is not None:
                    self._while_waiting(reader, event)
                elif reader.left:
                    self._write_on(reader)
                else:
                    self._read(reader)
            if alone:
                break  # where one asks at a time, nobody has meanwhile
        waiter.teller.flush_soon()

    def _read(self, reader: Reader) -> None:
        if reader.parting:
            self._throw_away(reader)
            return
        try:
            data = reader.read()
        except OSError:
            self.drop(reader)
            return
        if data is None:
            if reader.left:
                self.settle(reader)
            elif reader.shaking or reader.due:
                self._mind(reader)
            return
        if not data:
            self.drop(reader)
            return
        reader.last = self._second
        if reader.held:
            data = reader.held + data
        self._waiter.serve(reader, data)
        if reader.held or reader.due:
            self._mind(reader)

    def _mind(self, reader: Reader) -> None:
        """A head that has begun has to come in time, and so has a handshake."""
        if reader.fd < 0 or reader.left or reader.task is not None:
            return
        begun = reader.held or reader.shaking
        if begun and not reader.due:
            timeout = self._runtime.settings.head_timeout
            if timeout:
                self._due[reader] = (self._loop.time() + timeout, False)
                reader.due = True
        elif reader.due and not begun:
            self._due.pop(reader, None)
            reader.due = False

    def _while_waiting(self, reader: Reader, event: int) -> None:
        if event & GONE:
            task = reader.task
            self.drop(reader)
            if task is not None:
                task.cancel()  # an update that no other waits for may end (refresh/singleflight.py)
        elif not reader.muted:
            # What he sends meanwhile stays with the system until his turn comes.
            reader.muted = True
            self._epoll.modify(reader.fd, 0)

    def _write_on(self, reader: Reader) -> None:
        try:
            if not reader.write_on():
                self._due[reader] = (self._loop.time() + self._runtime.settings.answer_timeout, True)
                return
        except OSError:
            self.drop(reader)
            return
        self._due.pop(reader, None)
        reader.due = False
        if reader.closes:
            self.part(reader)
            return
        self.settle(reader)
        if reader.held:
            self._waiter.serve(reader, reader.held)
            self._mind(reader)

    # -- coming and going

    def _accept(self, door: socket.socket, most: int) -> None:
        for _ in range(most):
            try:
                # socket.accept() makes an object of it, which is half of what a whole connection costs here.
                descriptor, address = door._accept()  # type: ignore[attr-defined]
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in SHORT:
                    self._out_of_breath(error)
                return
            reader = self._welcome(descriptor, address[0])
            if reader is not None:
                self._read(reader)
                if reader.fd >= 0 and not reader.registered:
                    self.settle(reader)

    def _welcome(self, descriptor: int, peer: str) -> Reader | None:
        """Count it, and hold it; None where it is refused."""
        here = self._runtime
        settings = here.settings
        believed = bool(settings.trusted_proxies) and trusts(settings, peer)
        address, table = "" if believed else peer, self._tables[believed]
        reader: Reader
        if not self.sockets or here.draining or here.connections >= settings.max_connections:
            os.close(descriptor)
            return None
        try:
            os.set_blocking(descriptor, False)
            if self._certificate is None:
                reader = Reader(descriptor, peer, address, table)
            else:
                reader = SecureReader(descriptor, peer, address, table, self._certificate.context)
        except OSError:
            return None
        most = settings.max_connections_per_address
        if most and not believed:
            place = place_of(peer)
            if not self._crowd.enter(place, most):
                reader.close()
                return None
            reader.place = place
        here.connections += 1
        reader.last = self._second
        return reader

    def adopt(self, descriptor: int, peer: str, data: bytes) -> None:
        """A connection that mitmproxy is done with comes back, with what has been read of its next request."""
        reader = self._welcome(descriptor, peer)
        if reader is None:
            return
        self._waiter.begin()
        self._waiter.serve(reader, data)
        self._mind(reader)
        if reader.fd >= 0 and not reader.registered:
            self.settle(reader)
        self._waiter.teller.flush_soon()

    def settle(self, reader: Reader) -> None:
        """Wait for what is next: the reader's next bytes, that he takes ours, or the answer."""
        if reader.fd < 0:
            return
        if reader.left and reader not in self._due:
            self._due[reader] = (self._loop.time() + self._runtime.settings.answer_timeout, True)
        wanted = OUT if reader.left else 0 if reader.task is not None else IN
        if not reader.registered:
            self._epoll.register(reader.fd, wanted)
            reader.registered = True
            self._readers[reader.fd] = reader
        elif wanted or reader.muted:  # with a task under way it is muted when he sends something, not before
            self._epoll.modify(reader.fd, wanted)
        reader.muted = wanted == 0 and reader.muted
        if reader.held:
            self._mind(reader)

    def drop(self, reader: Reader) -> None:
        """Let go of a connection, whatever is still to be said."""
        if self._forget(reader):
            reader.close()
            reader.fd = -1
            reader.left = []
            reader.held = b""

    def part(self, reader: Reader) -> None:
        """Let go of a connection behind its last answer.

        "If a server performs an immediate close of a TCP connection, there is a significant risk that the client will
        not be able to read the last HTTP response." -- RFC 9112, section 9.6. So where more has come than was read, its
        sending side is closed first, and what comes is thrown away for a while.
        """
        if reader.fd < 0:
            return
        try:
            if not reader.discard() and not reader.held:
                self.drop(reader)
                return
            reader.shut()
        except OSError:
            self.drop(reader)
            return
        reader.held, reader.parting = b"", True
        self._due[reader] = (self._loop.time() + LINGER, True)
        self.settle(reader)

    def _throw_away(self, reader: Reader) -> None:
        try:
            has_ended = reader.discard() is False
        except OSError:
            has_ended = True
        if has_ended:
            self.drop(reader)

    def hand_over(self, reader: Reader, data: bytes) -> None:
        """Give a connection to mitmproxy, with what was read of it."""
        if self._forget(reader):
            try:
                given = reader.given_away()
            except OSError:
                reader.close()
            else:
                self._give_away(given, Peer(reader.peer, self.own, secure=reader.secure), data)
            reader.fd, reader.held = -1, b""

    def _forget(self, reader: Reader) -> bool:
        if reader.fd < 0:
            return False
        if reader.due or reader.left or reader.parting:
            self._due.pop(reader, None)
        if reader.place:
            self._crowd.leave(reader.place)
        self._runtime.connections -= 1
        if reader.registered:
            del self._readers[reader.fd]
            try:  # noqa: SIM105 (a context manager would cost more than the call)
                self._epoll.unregister(reader.fd)
            except OSError:
                pass
        return True

    def _out_of_breath(self, error: OSError) -> None:
        self._complaints.say(f"no new connections for a moment: {error.strerror}")
        for descriptor in self._doors:
            self._epoll.unregister(descriptor)
        doors, self._doors = self._doors, {}

        def open_again() -> None:
            if self.sockets:
                self._doors = doors
                for descriptor in doors:
                    self._epoll.register(descriptor, IN)

        self._loop.call_later(BREATH, open_again)

    # -- time

    def _look_after(self) -> None:
        self._beat = self._loop.call_later(BEAT, self._look_after)
        self.tend(self._loop.time())

    def tend(self, now: Seconds) -> None:
        """Once a second: whose time is over is let go, and what was put off is done. `now` is the event loop's time."""
        self._second = now
        if self._certificate is not None and self._second - self._looked > LOOKED_AT:
            self._looked = self._second
            try:
                self._certificate.renew()
            except OSError as error:
                logger.warning("tls_certificate: %s; the old one is used on", error)
        for reader, (until, writes) in list(self._due.items()):
            if self._second >= until:
                if not writes:
                    with contextlib.suppress(OSError):
                        reader.write(error_page(408, "The head of this request did not come in time."), b"")
                self.drop(reader)
        if self._second - self._swept > self._idle_timeout / 8:
            self._swept = self._second
            limit = self._second - self._idle_timeout
            for reader in [each for each in self._readers.values() if each.last < limit]:
                if reader.task is None and not reader.left:
                    self.drop(reader)
        self._waiter.tidy(self._tables.values())
        self._garbage.look(now, self._waiter.teller.told)
        self._end_with_the_last()

    def close(self) -> None:
        """Let nobody in any more. Who waits for an answer gets it; who is idle, or done, is let go."""
        if self._epoll.closed:
            return
        self._ready()  # what has been sent by now is answered
        for descriptor, door in self._doors.items():
            self._epoll.unregister(descriptor)
            door.close()
        self.sockets.clear()
        self._doors = {}
        self._waiter.teller.flush()
        for reader in list(self._readers.values()):
            if reader.task is None and not reader.left:
                self.drop(reader)
            else:
                reader.closes = True
        self._end_with_the_last()

    def _end_with_the_last(self) -> None:
        """Let go of the epoll, once nobody can come any more and the last has gone."""
        if not self.sockets and not self._readers and not self._epoll.closed:
            self._waiter.teller.flush()
            self._leave_steps()
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._beat.cancel()
