"""HTTP/1.1 server of a replay, with h11. Faults of the connection (delays, wrong lengths and resets) bypass h11."""

import asyncio
import contextlib
import itertools
import re
import socket
import struct
from collections.abc import Callable, Iterable

import h11

from feedproxy.clock import Clock
from feedproxy.errors import FeedproxyError
from feedproxy.http import uri
from feedproxy.http.date import format_http_date
from feedproxy.http.field_values import is_token
from feedproxy.http.message import Fields, Request
from feedproxy.lab.record.exchange import Exchange, Side
from feedproxy.lab.replay.replay_origin import ReplayOrigin
from feedproxy.lab.replay.replay_response import ReplayRequest, ReplayResponse, reason_phrase

HEAD_MAX = 65_536
_SENDABLE = re.compile(r"\A[\t\x20-\x7e\x80-\xff]*\Z")
"""Pattern of the field values that h11 can send. Other recorded values are dropped."""

BLANKS = b" " * 65_536
"""A piece of blanks. An endless body is continued with such pieces until the connection is reset."""

BODY_PIECES = 8
"""A slow body is sent in this many pieces."""

IDLE_TIMEOUT = 75.0
"""An idle connection is closed after this many seconds of real time, the default of nginx's keepalive_timeout."""

NO_TUNNEL = (
    "A replay speaks plain http and opens no tunnel: ask http:// through this proxy, or the gateway's form, "
    "http://HOST:PORT/https://example.com/feed."
)

type Observer = Callable[[Exchange, bytes], None]
"""Callback for each finished exchange and the body of its response."""


class ReplayListener:
    """Listener that serves a replay. `start` opens it and sets `port`."""

    def __init__(
        self,
        replay: ReplayOrigin,
        clock: Clock,
        *,
        observe: Observer | None = None,
        answered: Callable[[], None] | None = None,
    ) -> None:
        """Create a listener that is not open yet. `observe` is called with each exchange. `answered` is called after
        each response, so that the caller can advance a clock with the requests."""
        self._replay = replay
        self._clock = clock
        self._observe = observe
        self._answered = answered
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._numbers = itertools.count(1)
        self._server: asyncio.Server | None = None
        self.host = ""
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        self._server = await asyncio.start_server(self._serve, host or None, port, limit=HEAD_MAX)
        self.host, self.port, *_ = self._server.sockets[0].getsockname()

    @property
    def url(self) -> str:
        return f"http://{uri.join_host_port(self.host, self.port)}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer, task in list(self._connections.items()):
                task.cancel()
                writer.close()
            await asyncio.gather(*self._connections.values(), return_exceptions=True)
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[writer] = task
        connection = _Connection(reader, writer, str(next(self._numbers)))
        try:
            while (head := await connection.next_request()) is not None:
                if not await self._answer(connection, head):
                    break
        except (OSError, EOFError, TimeoutError):
            pass  # the client has closed the connection
        except h11.LocalProtocolError:
            pass  # the recorded response is invalid in HTTP/1.1
        except h11.RemoteProtocolError as error:
            message = str(error).partition(": bytearray(")[0]  # h11 appends the unreadable line in Python's notation
            await connection.send_error(error.error_status_hint, message, format_http_date(self._clock.now()))
        except asyncio.CancelledError:
            pass  # the listener is being closed
        finally:
            self._connections.pop(writer, None)
            writer.close()

    async def _answer(self, connection: "_Connection", head: Request) -> bool:
        at = self._clock.now()
        if head.method == "CONNECT":
            await connection.send_error(405, NO_TUNNEL, format_http_date(at), [("Allow", "GET, HEAD")])
            return False
        try:
            incoming = self._replay.to_replay_request(head, at)
        except FeedproxyError as error:
            await connection.send_error(400, str(error), format_http_date(at))
            return False
        reply = self._replay.answer(incoming)
        head_only = incoming.request.method == "HEAD"
        try:
            return await connection.send(reply, head_only=head_only)
        finally:
            if self._observe is not None:
                # A manual clock does not advance during a fault's delays.
                seconds = max(self._clock.now() - at, reply.pause + reply.spread)
                body = b"" if head_only else reply.body
                self._observe(_exchange(incoming, reply, connection, len(body), seconds), body)
            if self._answered is not None:
                self._answered()


def _exchange(
    incoming: ReplayRequest, reply: ReplayResponse, connection: "_Connection", size: int, seconds: float
) -> Exchange:
    return Exchange(
        side=Side.READER,
        at=incoming.at,
        request=incoming.request,
        status=reply.status,
        fields=reply.fields,
        reason=reply.reason,
        size=size + connection.blanks_sent,
        seconds=seconds,
        reader=connection.peer,
        connection=connection.name,
        version=connection.version,
        entrance=str(incoming.form),
        faults=reply.faults,
    )


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str) -> None:
        self._reader = reader
        self._writer = writer
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_MAX)
        self.name = name
        self.version = "HTTP/1.1"
        self.blanks_sent = 0
        peer = writer.get_extra_info("peername")
        self.peer = str(peer[0]) if peer else ""

    async def next_request(self) -> Request | None:
        if self._h11.our_state is h11.DONE:
            if self._h11.their_state is not h11.DONE:
                return None
            self._h11.start_next_cycle()
        head: Request | None = None
        while True:
            match self._h11.next_event():
                case h11.NEED_DATA:
                    if self._h11.they_are_waiting_for_100_continue:
                        self._write(self._h11.send(h11.InformationalResponse(status_code=100, headers=[])))
                    async with asyncio.timeout(IDLE_TIMEOUT):
                        self._h11.receive_data(await self._reader.read(HEAD_MAX))
                case h11.Request() as event:
                    self.version = f"HTTP/{event.http_version.decode()}"
                    lines = [
                        (name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers.raw_items()
                    ]
                    head = Request(event.method.decode(), event.target.decode("latin-1"), Fields(lines))
                case h11.EndOfMessage():
                    return head
                case h11.ConnectionClosed() | h11.PAUSED:
                    return None

    async def send(self, reply: ReplayResponse, *, head_only: bool) -> bool:
        if reply.pause:
            await asyncio.sleep(reply.pause)
        has_body = reply.status not in (204, 304) and reply.status >= 200
        sends_body = has_body and not head_only
        lines = [(name, value.strip()) for name, value in reply.fields if is_token(name) and _SENDABLE.search(value)]
        if has_body and not reply.blanks:
            lines.append(("Content-Length", str(len(reply.body) + reply.surplus)))
        if sends_body and (reply.surplus or reply.reset):
            lines.append(("Connection", "close"))
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in lines]
        reason = reply.reason.encode("latin-1", "replace")
        self._write(self._h11.send(h11.Response(status_code=reply.status, headers=headers, reason=reason)))
        if sends_body:
            await self._send_body(reply)
        if reply.reset or (sends_body and reply.blanks):
            return self._reset()
        if sends_body and reply.surplus:
            return False
        self._write(self._h11.send(h11.EndOfMessage()))
        await self._writer.drain()
        return self._h11.our_state is h11.DONE

    async def _send_body(self, reply: ReplayResponse) -> None:
        """Send a body, with its faults: slowly, truncated, with a wrong length, or followed by blanks."""
        body = reply.body[: len(reply.body) // 2] if reply.reset else reply.body
        size = max(1, -(-len(body) // BODY_PIECES)) if reply.spread else max(1, len(body))
        for at in range(0, len(body), size):
            if reply.spread:
                await self._writer.drain()
                await asyncio.sleep(reply.spread / BODY_PIECES)
            piece = body[at : at + size]
            self._write(piece if reply.surplus or reply.reset else self._h11.send(h11.Data(data=piece)))
        await self._writer.drain()
        while self.blanks_sent < reply.blanks:
            self._write(self._h11.send(h11.Data(data=BLANKS)))
            await self._writer.drain()
            self.blanks_sent += len(BLANKS)

    async def send_error(self, status: int, message: str, date: str, extra: Iterable[tuple[str, str]] = ()) -> None:
        body = f"{message}\n".encode("latin-1", "replace")
        fields = Fields([("Date", date), ("Content-Type", "text/plain"), *extra, ("Connection", "close")])
        with contextlib.suppress(h11.LocalProtocolError, OSError):
            await self.send(ReplayResponse(status, fields, body, reason_phrase(status)), head_only=False)

    def _write(self, data: bytes | None) -> None:
        if data:
            self._writer.write(data)

    def _reset(self) -> bool:
        """Reset the connection (TCP RST), as if the server had crashed. Return False: the connection cannot be
        reused."""
        if (plain := self._writer.get_extra_info("socket")) is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        return False
