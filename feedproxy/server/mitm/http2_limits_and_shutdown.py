"""Limits on the work and memory for one HTTP/2 connection of a client, and the end of the connection at a shutdown.

In HTTP/2, a few bytes can cause much work: a stream that is opened and reset, a PING, an endless header block.
Therefore frames are counted before they are handled:

* A connection has *points*. A frame without content costs one point, RST_STREAM costs several. Sent content earns
  points. A connection without points is ended with ENHANCE_YOUR_CALM (RFC 9113, section 10.5).
* Header blocks, SETTINGS and frames are limited in size, and in the time within which they must arrive.
* The frames of one read are handled in batches. Other clients are served between two batches.
* Streams that wait for flow control refer to the same bytes if they have the same response, so that many streams take
  the memory of one response. While a streamed response waits, reading from its origin is paused.

The limits protect against rapid reset (CVE-2023-44487), CVE-2019-9511 to CVE-2019-9518, and CONTINUATION floods
(VU#421644).
"""

import struct
import time
from collections import deque
from collections.abc import Callable

import h2.config
import h2.connection
import h2.events
import h2.settings
import h2.stream
from h2.errors import ErrorCodes
from mitmproxy import connection
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http._events import ResponseData
from mitmproxy.proxy.layers.http._http2 import Http2Server, StreamState
from mitmproxy.proxy.layers.http._http_h2 import BufferedH2Connection, SendH2Data

from feedproxy.clock import Seconds
from feedproxy.server.mitm.backpressure import WriteBackpressure
from feedproxy.server.unsent_output_limit import Buffer, buffer_of

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEAD = 9

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, GOAWAY, CONTINUATION = 0, 1, 2, 3, 4, 7, 9
END_STREAM, END_HEADERS = 0x1, 0x4

POINTS = 1_000
"""Points that a connection has at the beginning, and at most. Each frame without content costs points, unless it opens
a stream. A connection that needs more points than it has is ended.

For comparison, Node.js permits 1,000 resets at once.
"""

POINTS_PER_SECOND = 100
"""Points that a connection gains per second. They permit PINGs and other frames without content at this rate."""

RESET_COST = 5
"""Points that RST_STREAM costs its connection. A browser that leaves a page resets up to 100 open streams at once,
which must not use up all points."""

BYTES_PER_POINT = 1_024
"""A client earns a point for each of this many bytes of content that it gets. A frame of 16 KiB earns several times the
cost of the two WINDOW_UPDATEs that it causes."""

FREE_DATA_MIN = 256
"""A DATA frame costs no point if its payload has at least this many bytes, or if it ends its stream."""

FRAME_MAX = 131_072
"""Maximum payload of a frame in bytes, as mitmproxy announces it in SETTINGS_MAX_FRAME_SIZE."""

SETTINGS_MAX = 32
"""Maximum number of settings in one SETTINGS frame."""

GOAWAY_MIN = 8
"""Minimum payload of a GOAWAY frame in bytes: the last stream, and the error code."""

CONTINUATIONS_MAX = 16
"""Maximum number of CONTINUATION frames in one header block. A block of 64 KiB needs four frames of 16 KiB."""

HEADER_TABLE_MAX = 4_096
"""Maximum size of the HPACK table for responses, in bytes (RFC 7541, section 4.2)."""

STREAMS_PER_BATCH = 8
"""One connection opens at most this many streams before other clients are served."""

FRAMES_PER_BATCH = 128
"""At most this many frames of one connection are handled before other clients are served."""

CLOSED_STREAMS_MAX = 1_024
"""At most this many closed streams of one connection are remembered, to distinguish late frames from invalid frames."""

BUFFERED_MAX = 1_048_576
"""If more than this many bytes of a streamed response are buffered, reading from its origin is paused."""

UNSENT_MAX = 262_144
"""A connection with more than this many unsent bytes in its socket gets no further content."""

UNSENT_POLL_INTERVAL: Seconds = 0.01
"""A socket with UNSENT_MAX unsent bytes is checked again after this many seconds. This limits a connection to about 25
MB per second."""


NEVER: Seconds = 1e9
"""More seconds than any connection lasts."""


class DrainNotice(commands.RequestWakeup):
    """A command that gets its reply when the proxy begins to shut down (memory_of_ended_connections.py)."""

    def __init__(self) -> None:
        super().__init__(NEVER)  # mitmproxy's own handler waits for this time, or for the end of the connection


class ExcessiveLoad(Exception):
    """Error for a connection that exceeds a limit."""

    def __init__(self, reason: str, code: ErrorCodes = ErrorCodes.ENHANCE_YOUR_CALM) -> None:
        super().__init__(reason)
        self.code = code


class FrameAllowance:
    """Counter of the frames of a connection. Frames cost the connection points (POINTS). The counter raises
    ExcessiveLoad if the points do not suffice, or if another limit is exceeded.

    The counter reads only the first nine bytes of each frame.
    """

    def __init__(self, head_max: int, now: Seconds) -> None:
        self._head_max = head_max
        self._points = float(POINTS)
        self._since = now
        self._highest = 0
        self._block = self._continuations = 0
        self.in_block = False
        """True while a header block is incomplete."""

    def refill(self, now: Seconds) -> None:
        """Add the points (POINTS_PER_SECOND) for the time since the last call."""
        self._points = min(POINTS, self._points + (now - self._since) * POINTS_PER_SECOND)
        self._since = now

    def earn(self, size: int) -> None:
        """Add the points for `size` bytes of sent content."""
        self._points = min(POINTS, self._points + size / BYTES_PER_POINT)

    def check_size(self, kind: int, length: int) -> None:
        """Check the announced length of a frame in bytes. Raises ExcessiveLoad if the connection exceeds a limit."""
        if length > FRAME_MAX:
            raise ExcessiveLoad(f"a frame of {length} bytes", ErrorCodes.FRAME_SIZE_ERROR)
        if kind == SETTINGS and length > 6 * SETTINGS_MAX:
            raise ExcessiveLoad(f"{length // 6} settings in a frame")
        if kind in (HEADERS, CONTINUATION) and (length if kind == HEADERS else self._block + length) > self._head_max:
            raise ExcessiveLoad("a header block that is too long")

    def count(self, kind: int, flags: int, stream: int, length: int) -> bool:
        """Count a frame. Return True if the frame opens a stream. Raises ExcessiveLoad if a limit is exceeded."""
        if kind == DATA and (length >= FREE_DATA_MIN or flags & END_STREAM):
            return False
        opens_stream = False
        if kind == HEADERS:
            self._block, self._continuations = length, 0
            self.in_block = not flags & END_HEADERS
            opens_stream, self._highest = stream > self._highest, max(stream, self._highest)
            if opens_stream:
                return True  # the limits of streams (SETTINGS_MAX_CONCURRENT_STREAMS) and of resets apply to HEADERS
        elif kind == CONTINUATION:
            self._block += length
            self._continuations += 1
            self.in_block = not flags & END_HEADERS
            if self._continuations > CONTINUATIONS_MAX:
                raise ExcessiveLoad("a header block in too many frames")
        self._points -= RESET_COST if kind == RST_STREAM else 1
        if self._points < 0:
            raise ExcessiveLoad("too many frames without content")
        return opens_stream


class BoundedConnection(BufferedH2Connection):
    """hyper-h2's state of a connection, with limits on header blocks, remembered closed streams, and unsent output.
    Content that waits for flow control is not copied: all streams share the bytes of the response."""

    MAX_CLOSED_STREAMS = CLOSED_STREAMS_MAX
    is_choked = False
    """True while content waits for space in the socket (UNSENT_MAX), and not for flow control."""
    _written = 0

    def __init__(self, config: h2.config.H2Configuration, head_max: int, unsent: Callable[[], int]) -> None:
        """Set the limit of a header block. `unsent` returns the bytes that the client's socket has not accepted yet."""
        super().__init__(config)
        self._unsent = unsent
        self.decoder.max_header_list_size = head_max
        self.local_settings.max_header_list_size = head_max
        self.local_settings.acknowledge()

    def unsent_size(self, stream_id: int) -> int:
        """Return the number of unsent bytes of a stream."""
        return sum(len(piece.data) for piece in self.stream_buffers.get(stream_id, ()))

    def unsent_buffers(self) -> tuple[Buffer, ...]:
        """Return the objects in memory that contain content of waiting streams."""
        return tuple([buffer_of(piece.data) for pieces in self.stream_buffers.values() for piece in pieces])

    def data_to_send(self, amount: int | None = None) -> bytes:
        self._written = 0
        return super().data_to_send(amount)

    def send_data(
        self, stream_id: int, data: bytes | memoryview, end_stream: bool = False, pad_length: int | None = None
    ) -> None:
        assert pad_length is None
        self.stream_buffers[stream_id].append(SendH2Data(memoryview(data), end_stream))  # type: ignore[arg-type]
        self._send_buffered(stream_id)

    def stream_window_updated(self, stream_id: int) -> bool:
        stream = self.streams.get(stream_id)
        states = h2.stream.StreamState.OPEN, h2.stream.StreamState.HALF_CLOSED_REMOTE
        if stream is None or stream.state_machine.state not in states:
            self.stream_buffers.pop(stream_id, None)
            self.stream_trailers.pop(stream_id, None)
            return False
        return self._send_buffered(stream_id)

    def _send_buffered(self, stream_id: int) -> bool:
        """Send as much of a stream's buffer as flow control permits. Return True if content was sent."""
        pieces, sent = self.stream_buffers.get(stream_id), False
        while pieces:
            data, end_stream = pieces.popleft()
            sendable_size = min(self.local_flow_control_window(stream_id), self.max_outbound_frame_size)
            if data and sendable_size > 0 and self._written + self._unsent() > UNSENT_MAX:
                sendable_size, self.is_choked = 0, True
            if data and sendable_size <= 0:
                pieces.appendleft(SendH2Data(data, end_stream))
                return sent
            batch, rest = data[:sendable_size], data[sendable_size:]
            if rest:
                pieces.appendleft(SendH2Data(rest, end_stream))
            # hyper-h2 also accepts a memoryview
            h2.connection.H2Connection.send_data(self, stream_id, batch, end_stream and not rest)
            self._written += len(batch)
            sent = True
        self.stream_buffers.pop(stream_id, None)
        if (trailers := self.stream_trailers.pop(stream_id, None)) is not None:
            self.send_headers(stream_id, trailers, end_stream=True)
        return sent


class BoundedServer(Http2Server):
    """mitmproxy's HTTP/2 layer for clients, with the limits of this module."""

    h2_conn: BoundedConnection

    def __init__(
        self,
        context: Context,
        backpressure: WriteBackpressure,
        server_of: Callable[[int], connection.Server | None],
        *,
        head_max: int,
        head_timeout: Seconds,
    ) -> None:
        """Set the limits. `server_of` returns the server that sends the response of a stream, or None if there is no
        such stream."""
        super().__init__(context)
        self._backpressure = backpressure
        self._server_of = server_of
        self._head_timeout = head_timeout
        self.h2_conn = BoundedConnection(self.h2_conf, head_max, lambda: backpressure.unsent(self.context.client))
        backpressure.add_http2_buffers(self.context.client, self.h2_conn.unsent_buffers)
        self._allowance = FrameAllowance(head_max, time.monotonic())
        self._received = bytearray()
        """Received bytes that are not handled yet. They begin at the start of a frame."""
        self._frames: deque[tuple[int, bool]] = deque()
        """For each complete frame in `_received`: its length in bytes, and True if the frame opens a stream."""
        self._counted = 0
        self._preface = len(PREFACE)
        self._next_batch: commands.RequestWakeup | None = None
        self._deadline_timer: commands.RequestWakeup | None = None
        self._partial_since: Seconds | None = None
        self._poll_timer: commands.RequestWakeup | None = None
        self._paused_servers: dict[int, connection.Server] = {}
        self._drain_notice = DrainNotice()
        self._is_draining = False

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if isinstance(event, events.DataReceived):
            yield from self._receive(event.data)
        elif isinstance(event, events.Wakeup):
            yield from self._on_wakeup(event.command)
        else:
            yield from super()._handle_event(event)
            if isinstance(event, events.Start):
                yield self._drain_notice
            elif isinstance(event, ResponseData):
                self._allowance.earn(len(event.data))
                self._pause_server(event.stream_id)
            yield from self._schedule_poll()
        if self._is_draining and not self._received and self._handle_event != self.done:
            yield from self._go_away_if_idle()

    def _on_wakeup(self, timer: commands.Command) -> layer.CommandGenerator[None]:
        if timer is self._next_batch:
            self._next_batch = None
            yield from self._handle_batch()
        elif timer is self._deadline_timer:
            self._deadline_timer = None
            yield from self._check_deadline()
        elif timer is self._poll_timer:
            self._poll_timer = None
            yield from self._send_more()
        elif timer is self._drain_notice:
            self._is_draining = True

    def _receive(self, data: bytes) -> layer.CommandGenerator[None]:
        self._received += data
        self._allowance.refill(time.monotonic())
        try:
            self._count()
        except ExcessiveLoad as error:
            yield from self._end_connection(str(error), error.code)
            return
        if self._next_batch is None:
            yield from self._handle_batch()

    def _count(self) -> None:
        """Find and count the complete frames that were received. Raises ExcessiveLoad if the connection exceeds a
        limit."""
        received, offset = self._received, self._counted
        if self._preface:
            if len(received) < self._preface:
                return  # hyper-h2 refuses an invalid connection preface when it is complete
            offset, self._preface = self._preface, 0
            self._frames.append((offset, False))
        while len(received) - offset >= FRAME_HEAD:
            payload_length, kind, flags, stream = struct.unpack_from(
                ">IBBI", b"\0" + received[offset : offset + FRAME_HEAD]
            )
            self._allowance.check_size(kind, payload_length)
            size = FRAME_HEAD + payload_length
            if len(received) - offset < size:
                break
            opens_stream = self._allowance.count(kind, flags, stream & 0x7FFFFFFF, payload_length)
            if self._is_graceful_end(received[offset : offset + min(size, FRAME_HEAD + GOAWAY_MIN)]):
                self._is_draining = True
                del received[offset : offset + size]
                continue
            self._frames.append((size, opens_stream))
            offset += size
            if not self._allowance.in_block:
                self._partial_since = None
        self._counted = offset

    def _is_graceful_end(self, frame: bytearray) -> bool:
        """Return True for a GOAWAY frame without an error. `frame` is the beginning of a complete frame."""
        # "GOAWAY allows an endpoint to gracefully stop accepting new streams while still finishing processing of
        # previously established streams." -- RFC 9113, section 6.8. hyper-h2 would send nothing more.
        if len(frame) < FRAME_HEAD + GOAWAY_MIN or frame[3] != GOAWAY or self._allowance.in_block:
            return False
        stream, error = frame[5:FRAME_HEAD], frame[FRAME_HEAD + 4 :]
        return not any(stream) and not any(error)

    def _handle_batch(self) -> layer.CommandGenerator[None]:
        """Handle a batch of complete frames, and schedule the next batch for the next iteration of the event loop."""
        size = frames = streams = 0
        while self._frames and frames < FRAMES_PER_BATCH and streams < STREAMS_PER_BATCH:
            length, opens_stream = self._frames.popleft()
            size, frames, streams = size + length, frames + 1, streams + opens_stream
        if size:
            batch = bytes(memoryview(self._received)[:size])
            del self._received[:size]
            self._counted -= size
            handle = self._handle_event  # the connection's end replaces it
            yield from super()._handle_event(events.DataReceived(self.conn, batch))
            if self._handle_event != handle:
                return
            self.h2_conn.encoder.header_table_size = min(self.h2_conn.encoder.header_table_size, HEADER_TABLE_MAX)
            self._resume_servers()
            yield from self._schedule_poll()
        if self._frames:
            self._next_batch = commands.RequestWakeup(0)
            yield self._next_batch
        yield from self._update_deadline()

    def handle_h2_event(self, event: h2.events.Event) -> layer.CommandGenerator[bool]:
        if isinstance(event, h2.events.StreamReset):
            # mitmproxy forgets a stream before its reset if both the end of the request and the reset arrive at once.
            self.streams.setdefault(event.stream_id, StreamState.HEADERS_RECEIVED)
        return (yield from super().handle_h2_event(event))

    # -- deadlines

    def _update_deadline(self) -> layer.CommandGenerator[None]:
        # Frames that wait to be handled have arrived completely.
        partial = self._received[self._counted : self._counted + FRAME_HEAD]
        is_incomplete = (
            bool(self._preface) or self._allowance.in_block or (len(partial) > 0 and partial[3:4] != bytes([DATA]))
        )
        if not is_incomplete or not self._head_timeout:
            self._partial_since = None
            return
        if self._partial_since is None:
            self._partial_since = time.monotonic()
        if self._deadline_timer is None:
            self._deadline_timer = commands.RequestWakeup(self._head_timeout)
            yield self._deadline_timer

    def _check_deadline(self) -> layer.CommandGenerator[None]:
        if self._partial_since is None:
            return
        remaining = self._partial_since + self._head_timeout - time.monotonic()
        if remaining > 0.001:
            self._deadline_timer = commands.RequestWakeup(remaining)
            yield self._deadline_timer
        else:
            yield from self._end_connection("a header block that did not come in time", ErrorCodes.ENHANCE_YOUR_CALM)

    # -- backpressure

    def _pause_server(self, stream_id: int) -> None:
        if self.h2_conn.unsent_size(stream_id) > BUFFERED_MAX and (server := self._server_of(stream_id)) is not None:
            self._paused_servers[stream_id] = server
            self._backpressure.set_reading_paused(self.context.client, server, True)

    def _resume_servers(self) -> None:
        for stream_id in [
            paused_stream
            for paused_stream in self._paused_servers
            if self.h2_conn.unsent_size(paused_stream) <= BUFFERED_MAX // 2
        ]:
            self._backpressure.set_reading_paused(self.context.client, self._paused_servers.pop(stream_id), False)

    def _schedule_poll(self) -> layer.CommandGenerator[None]:
        """Schedule another check of a full socket, because asyncio has no event for free space in a socket's buffer."""
        if self.h2_conn.is_choked and self._poll_timer is None:
            self._poll_timer = commands.RequestWakeup(UNSENT_POLL_INTERVAL)
            yield self._poll_timer

    def _send_more(self) -> layer.CommandGenerator[None]:
        self.h2_conn.is_choked = False
        self.h2_conn.connection_window_updated()
        if data := self.h2_conn.data_to_send():
            yield commands.SendData(self.conn, data)
        self._resume_servers()
        yield from self._schedule_poll()

    def _go_away_if_idle(self) -> layer.CommandGenerator[None]:
        """At a shutdown, and after the client's GOAWAY, close the connection if no request is in progress. Some
        clients, such as hyper-h2, would drop a response in progress after GOAWAY."""
        if self.h2_conn.open_inbound_streams == 0:
            # "Endpoints SHOULD always send a GOAWAY frame before closing a connection" -- RFC 9113, section 6.8
            self.h2_conn.close_connection()
            yield commands.SendData(self.conn, self.h2_conn.data_to_send())
            yield from self.close_connection("the proxy is shutting down")

    def _end_connection(self, reason: str, code: ErrorCodes) -> layer.CommandGenerator[None]:
        self._received.clear()
        self._frames.clear()
        self._counted = 0
        yield from self.protocol_error(f"HTTP/2: {reason}", code)
