"""HTTP/2 floods through an intercepted tunnel end their own connection and do not affect others.

Well-formed frames come from hyper-h2, all others are written as bytes.
"""

import contextlib
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import pytest
from h2.errors import ErrorCodes
from h2.settings import SettingCodes

from tests.live.origin import Authority, Origin, a_feed, opened, until
from tests.live.product import Feedproxy, ask
from tests.waiting import PATIENCE

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from Linux's /proc")

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9

GROWTH_MAX = 40_000_000
"""Bytes of memory that a flood may add. Without bounds 100,000 resets add 390 MB."""

CPU_MAX = 3.0
"""Seconds of processor time that a flood may cost. On a quiet machine it costs a tenth of this."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


class Tunnel:
    """HTTP/2 to `localhost` through the proxy, which decrypts it."""

    def __init__(self, proxy: Feedproxy, origin: Origin, *, receive_buffer: int = 0) -> None:
        self.authority = origin.url("", secure=True, host="localhost").removeprefix("https://")
        plain = socket.socket()
        plain.settimeout(PATIENCE)
        if receive_buffer:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.connect(proxy.address)
        plain.sendall(f"CONNECT {self.authority} HTTP/1.1\r\nHost: {self.authority}\r\n\r\n".encode())
        assert b" 200 " in plain.recv(4096)
        context = ssl.create_default_context(cafile=proxy.authority)
        context.set_alpn_protocols(["h2"])
        self.wire = context.wrap_socket(plain, server_hostname="localhost")
        assert self.wire.selected_alpn_protocol() == "h2"
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.ended: int | None = None
        """Error code of the received GOAWAY frame, or None without one."""

    def head(self, path: str = "/feed.rss", method: str = "GET", **more: str) -> list[tuple[str, str]]:
        return [
            (":method", method),
            (":scheme", "https"),
            (":authority", self.authority),
            (":path", path),
            *more.items(),
        ]

    def send(self, data: bytes = b"") -> bool:
        """Send what hyper-h2 has queued, then these bytes. Return True if the connection is still open."""
        try:
            self.wire.sendall(self.h2.data_to_send() + data)
        except OSError:
            return False
        return True

    def hear(self, until_event: type[h2.events.Event] | None = None) -> list[h2.events.Event]:
        """Return the events received up to an event of this kind, or to the end."""
        heard: list[h2.events.Event] = []
        while True:
            try:
                data = self.wire.recv(65_536)
            except TimeoutError:
                raise
            except OSError:
                return heard
            if not data:
                return heard
            for event in self.h2.receive_data(data):
                heard.append(event)
                if isinstance(event, h2.events.ConnectionTerminated):
                    self.ended = event.error_code
            if until_event is not None and any(isinstance(each, until_event) for each in heard):
                return heard

    def flood(self, data: Callable[[int], bytes], times: int, batch: int = 50) -> int:
        """Send this number of pieces without reading. Return the number sent before the connection ended."""
        sent = 0
        while sent < times and self.send(b"".join(data(number) for number in range(sent, min(sent + batch, times)))):
            sent += batch
        self.ended = self.goaway()
        return sent

    def goaway(self) -> int | None:
        """Read to the end and return the code of the GOAWAY frame."""
        heard, code = bytearray(), None
        with contextlib.suppress(OSError):
            while data := self.wire.recv(65_536):
                heard += data
        while len(heard) >= 9:
            size = 9 + int.from_bytes(heard[:3])
            if heard[3] == GOAWAY:
                code = int.from_bytes(heard[13:17])
            del heard[:size]
        return code

    def close(self) -> None:
        self.wire.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Origin, Authority]]:
    with opened(tmp_path_factory.mktemp("origin")) as both:
        origin, _ = both
        origin.publish("/feed.rss", a_feed("one"), Cache_Control="max-age=600")
        origin.publish("/large", os.urandom(4_000_000), Cache_Control="max-age=600", Content_Type="audio/mpeg")
        origin.publish("/huge", os.urandom(30_000_000), Cache_Control="max-age=600", Content_Type="audio/mpeg")
        yield both


@pytest.fixture(scope="module")
def origin(made: tuple[Origin, Authority]) -> Origin:
    return made[0]


@pytest.fixture(scope="module")
def proxy(made: tuple[Origin, Authority], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Feedproxy]:
    proxy = Feedproxy(
        tmp_path_factory.mktemp("feedproxy"), authority=made[1].file, intercept="localhost", head_timeout=1
    )
    # created before the measurement: certificates, imports, a first tunnel
    with contextlib.closing(Tunnel(proxy, made[0])) as tunnel:
        tunnel.h2.send_headers(1, tunnel.head(), end_stream=True)
        tunnel.send()
        tunnel.hear(h2.events.StreamEnded)
    yield proxy
    assert proxy.terminate() == 0, proxy.said
    assert "Traceback" not in proxy.said, proxy.said


@pytest.fixture
def tunnel(proxy: Feedproxy, origin: Origin) -> Iterator[Tunnel]:
    with contextlib.closing(Tunnel(proxy, origin)) as made:
        yield made


def memory(proxy: Feedproxy) -> int:
    return int(Path(f"/proc/{proxy.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def work(proxy: Feedproxy) -> float:
    fields = Path(f"/proc/{proxy.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Hits:
    """Requests a feed repeatedly and records the statuses. A response that does not come in time ends the thread."""

    def __init__(self, proxy: Feedproxy, origin: Origin) -> None:
        self.statuses: list[int] = []
        self._url = proxy.gateway(origin.url("/feed.rss"))
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run)
        assert ask(self._url).status == 200

    def _run(self) -> None:
        while not self._stops.is_set():
            self.statuses.append(ask(self._url).status)
            self._stops.wait(0.002)

    def __enter__(self) -> "Hits":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stops.set()
        self._thread.join()


def block(tunnel: Tunnel) -> bytes:
    """Return a header block that does not change the table."""
    encoder = tunnel.h2.encoder
    encoder.header_table_size = 0
    return encoder.encode(tunnel.head())


FLOODS: dict[str, Callable[[Tunnel, int], bytes]] = {
    "rapid reset": lambda tunnel, number: (
        frame(HEADERS, 0x5, 2 * number + 1, block(tunnel)) + frame(RST_STREAM, 0, 2 * number + 1, b"\0\0\0\x08")
    ),
    "PING": lambda _, number: frame(PING, 0, 0, struct.pack(">Q", number)),
    "SETTINGS": lambda _, number: frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65_535 + number % 2)),
    "SETTINGS, empty": lambda *_: frame(SETTINGS, 0, 0),
    "PRIORITY": lambda _, number: frame(PRIORITY, 0, 2 * number + 1, b"\0\0\0\0\x10"),
    "WINDOW_UPDATE": lambda *_: frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1"),
    "unknown frames": lambda *_: frame(0xBB, 0, 0),
    "DATA, empty": lambda tunnel, number: (
        (frame(HEADERS, 0x4, 1, block(tunnel)) if not number else b"") + frame(DATA, 0, 1)
    ),
    "DATA, a byte each": lambda tunnel, number: (
        (frame(HEADERS, 0x4, 1, block(tunnel)) if not number else b"") + frame(DATA, 0, 1, b"x")
    ),
    "CONTINUATION": lambda tunnel, number: (
        frame(CONTINUATION, 0, 1, b"\0\1a\1" + b"b" * 1) if number else frame(HEADERS, 0x1, 1, block(tunnel))
    ),
    "CONTINUATION, empty": lambda tunnel, number: (
        frame(CONTINUATION, 0, 1) if number else frame(HEADERS, 0x1, 1, block(tunnel))
    ),
    "DATA for a stream that was reset": lambda tunnel, number: (
        frame(HEADERS, 0x4, 1, block(tunnel)) + frame(RST_STREAM, 0, 1, b"\0\0\0\x08")
        if not number
        else frame(DATA, 0, 1, b"x" * 16)
    ),
}


@pytest.mark.parametrize("flood", list(FLOODS))
def test_flood_ends_its_connection_and_costs_little(proxy: Feedproxy, origin: Origin, flood: str) -> None:
    times = 20_000
    with contextlib.closing(Tunnel(proxy, origin)) as tunnel, Hits(proxy, origin) as hits:
        held, worked = memory(proxy), work(proxy)
        sent = tunnel.flood(lambda number: FLOODS[flood](tunnel, number), times)
        grown, cost = memory(proxy) - held, work(proxy) - worked

    assert sent < times or tunnel.ended is not None, "the connection was ended"
    assert tunnel.ended in (None, ErrorCodes.ENHANCE_YOUR_CALM), "where it can still be told, it is told why"
    assert grown < GROWTH_MAX, f"{grown / 1e6:.0f} MB"
    assert cost < CPU_MAX, f"{cost:.1f} s, {len(hits.statuses)} hits included"
    assert set(hits.statuses) == {200}


def test_flooding_connections_one_after_another_leave_no_memory(proxy: Feedproxy, origin: Origin) -> None:
    held = memory(proxy)
    for _ in range(6):
        with contextlib.closing(Tunnel(proxy, origin)) as tunnel:
            tunnel.flood(partial(FLOODS["rapid reset"], tunnel), 20_000)

    assert memory(proxy) - held < GROWTH_MAX


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(SETTINGS, 0, 0, struct.pack(">HI", 0xAAAA, 1) * 40), ErrorCodes.ENHANCE_YOUR_CALM),
        (
            frame(HEADERS, 0x1, 1, b"\x82" * 60_000) + frame(CONTINUATION, 0, 1, b"\x82" * 9_000),
            ErrorCodes.ENHANCE_YOUR_CALM,
        ),
        # Refused by their announced length, before their content.
        (b"\xff\xff\xff" + bytes([DATA, 0, 0, 0, 0, 1]), ErrorCodes.FRAME_SIZE_ERROR),
        # A header block that is never completed has `head_timeout`.
        (frame(HEADERS, 0x1, 1, b"\x82"), ErrorCodes.ENHANCE_YOUR_CALM),
        (frame(HEADERS, 0x5, 1, b"\x82")[:7], ErrorCodes.ENHANCE_YOUR_CALM),
    ],
    ids=["40 settings", "a header block of 69 kB", "a frame of 16 MB", "a header block without end", "half a frame"],
)
def test_oversized_or_slow_frames_end_the_connection(tunnel: Tunnel, data: bytes, code: ErrorCodes) -> None:
    tunnel.send(data)

    assert tunnel.goaway() == code


def test_refused_request_is_answered_before_its_content_arrives(tunnel: Tunnel) -> None:
    """A hundred streams could otherwise each keep 64 KiB in memory."""
    tunnel.h2.send_headers(1, [*tunnel.head(method="TRACE"), ("content-length", "60000")])
    tunnel.send()

    heard = tunnel.hear(h2.events.StreamReset)

    (answer,) = (event for event in heard if isinstance(event, h2.events.ResponseReceived))
    assert "405" in map(str, dict(answer.headers).values())


def test_client_that_permits_a_huge_table_gets_a_small_one(tunnel: Tunnel) -> None:
    tunnel.h2.update_settings({SettingCodes.HEADER_TABLE_SIZE: 2**31 - 1})
    tunnel.h2.send_headers(1, tunnel.head(), end_stream=True)
    tunnel.send()
    tunnel.hear(h2.events.StreamEnded)

    assert tunnel.h2.decoder.header_table_size <= 4096


def test_hundred_concurrent_requests_are_answered_repeatedly(tunnel: Tunnel) -> None:
    """A busy client uses many streams, resets some of them, and sends PING and WINDOW_UPDATE frames."""
    answered = 0
    for round_ in range(3):
        streams = [2 * (round_ * 90 + number) + 1 for number in range(90)]
        for stream in streams:
            tunnel.h2.send_headers(stream, tunnel.head(), end_stream=True)
        for stream in streams[::10]:
            tunnel.h2.reset_stream(stream, ErrorCodes.CANCEL)
        tunnel.h2.ping(b"12345678")
        assert tunnel.send()
        wanted = len(streams) - len(streams[::10])
        while wanted:
            for event in tunnel.hear(h2.events.Event):
                if isinstance(event, h2.events.DataReceived) and event.flow_controlled_length:
                    tunnel.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                wanted -= isinstance(event, h2.events.StreamEnded)
                answered += isinstance(event, h2.events.StreamEnded)
                assert not isinstance(event, h2.events.ConnectionTerminated), event
            tunnel.send()

    assert answered == 3 * 81


# -- clients that do not read


def receive(tunnel: Tunnel, wanted: int) -> int:
    """Read the content of one stream with window updates and return its bytes."""
    size = 0
    while size < wanted:
        for event in tunnel.hear(h2.events.Event):
            if isinstance(event, h2.events.DataReceived):
                size += len(event.data)
                if event.flow_controlled_length:
                    tunnel.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            assert not isinstance(event, h2.events.StreamReset | h2.events.ConnectionTerminated), event
        tunnel.send()
    return size


@pytest.mark.parametrize("window", [0, 2**31 - 1], ids=["closed window", "open window, nothing read"])
def test_unread_responses_are_not_copied(proxy: Feedproxy, origin: Origin, window: int) -> None:
    """The test requests 80 responses of 4 MB. Buffers of the system contain some bytes if the window is open."""
    ask(proxy.gateway(origin.url("/large", secure=True, host="localhost")))
    held = memory(proxy)
    with contextlib.closing(Tunnel(proxy, origin, receive_buffer=16_384)) as tunnel:
        tunnel.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        if window:
            tunnel.h2.increment_flow_control_window(2**31 - 1 - 65_535)
        for number in range(80):
            tunnel.h2.send_headers(2 * number + 1, tunnel.head("/large"), end_stream=True)
        tunnel.send()
        until(lambda: quiet(proxy), why="the proxy never comes to rest")
        grown = memory(proxy) - held

    assert grown < GROWTH_MAX, f"{grown / 1e6:.0f} MB"


def quiet(proxy: Feedproxy) -> bool:
    """Return True if the process was nearly idle for a moment."""
    before = work(proxy)
    time.sleep(0.3)
    return work(proxy) - before < 0.1


def test_streamed_response_waits_at_its_origin_until_the_client_reads(proxy: Feedproxy, origin: Origin) -> None:
    with contextlib.closing(Tunnel(proxy, origin)) as tunnel:
        held = memory(proxy)
        tunnel.h2.send_headers(1, tunnel.head("/huge"), end_stream=True)
        tunnel.send()
        tunnel.hear(h2.events.ResponseReceived)
        until(lambda: quiet(proxy), why="the proxy never comes to rest")
        grown = memory(proxy) - held
        size = receive(tunnel, 30_000_000)

    assert size == 30_000_000
    assert grown < GROWTH_MAX // 2, f"{grown / 1e6:.0f} MB"
