"""An HTTP/2 request in a tunnel reaches an HTTP/1.1 origin unchanged: DATA frames of any size and padding as content
and nothing else, and cookies in one field."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import pytest
import pytest_asyncio

from feedproxy.clock import ManualClock
from tests.security.wire import port_of
from tests.server.test_client_tls_connection import make_certificate
from tests.stages.play import OnProxy
from tests.waiting import PATIENCE

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANSWER = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: v\r\n\r\n"


@dataclass
class Tunnel:
    """A proxy that decrypts, and a TLS origin that speaks HTTP/1.1."""

    stage: OnProxy
    port: int = 0
    connections: list[bytearray] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a request for `/gated` has arrived. Its response waits for `gate`."""
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = bytearray()
        self.connections.append(received)
        answered = 0
        try:
            while data := await reader.read(65_536):
                received += data
                while (end := received.find(b"\r\n\r\n", answered)) >= 0:
                    answered = end + 4
                    if b" /silent " in received:
                        await reader.read()  # no response, until the proxy closes the connection
                    elif b" /gated " in received:
                        self.asked.set()
                        await self.gate.wait()
                        # Later tests count the connections.
                        writer.write(ANSWER.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
                    elif b" /early " in received or received[end - 1 : end] == b"0" or b"chunked" not in received:
                        writer.write(ANSWER)
        except (ConnectionError, ssl.SSLError):
            pass
        writer.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tunnel(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tunnel]:
    folder: Path = tmp_path_factory.mktemp("tls")
    certificate, key = make_certificate(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    made = Tunnel(OnProxy(ManualClock(1_800_000_000.0), {}))
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=context)
    made.port = server.sockets[0].getsockname()[1]
    made.stage.settings = {
        "intercept": ["localhost"],
        "connect_ports": [str(made.port)],
        "confdir": str(folder),
        "ssl_verify_upstream_trusted_ca": certificate,
    }
    await made.stage.open()
    yield made
    await made.stage.close()
    server.close()


@dataclass
class Client:
    """An HTTP/2 connection through the tunnel."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    http2: h2.connection.H2Connection
    seen: list[h2.events.Event] = field(default_factory=list)

    def begin(
        self, port: int, *fields: tuple[str, str], method: str = "POST", path: str = "/x", scheme: str = "https"
    ) -> int:
        stream = self.http2.get_next_available_stream_id()
        head = [(":method", method), (":path", path), (":scheme", scheme), (":authority", f"localhost:{port}")]
        self.http2.send_headers(stream, [*head, *fields])
        return stream

    async def ended(self, stream: int) -> list[h2.events.Event]:
        """Return what was received on a stream after its end."""
        kinds = (h2.events.StreamEnded, h2.events.StreamReset)
        while not any(isinstance(each, kinds) and each.stream_id == stream for each in self.seen):
            self.writer.write(self.http2.data_to_send())
            data = await asyncio.wait_for(self.reader.read(65_536), PATIENCE)
            assert data, "the connection has ended"
            self.seen += self.http2.receive_data(data)
        return [each for each in self.seen if getattr(each, "stream_id", None) == stream]

    async def status(self, stream: int) -> int:
        answers = [each for each in await self.ended(stream) if isinstance(each, h2.events.ResponseReceived)]
        return int(dict(answers[0].headers)[b":status"]) if answers else 0


@asynccontextmanager
async def client_of(tunnel: Tunnel) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(tunnel.stage.base))
    writer.write(f"CONNECT localhost:{tunnel.port} HTTP/1.1\r\nHost: localhost:{tunnel.port}\r\n\r\n".encode())
    assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)).split()[1] == b"200"
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    await writer.start_tls(context, server_hostname="localhost")
    # The library must not reject what a hostile client sends.
    config = h2.config.H2Configuration(
        client_side=True, validate_outbound_headers=False, normalize_outbound_headers=False
    )
    http2 = h2.connection.H2Connection(config)
    http2.initiate_connection()
    writer.write(http2.data_to_send())
    try:
        yield Client(reader, writer, http2)
    finally:
        writer.close()


def unchunked(body: bytes) -> bytes:
    """Return the content of a chunked body. Raises AssertionError if other bytes follow."""
    content = b""
    while True:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            assert body == b"\r\n", "something follows the last chunk"
            return content
        content, body = content + body[:length], body[length + 2 :]


FRAMES: dict[str, Sequence[tuple[bytes, int | None]]] = {
    "one empty": [(b"", None)],
    "an empty one in the middle": [(b"abc", None), (b"", None), (b"def", None)],
    "an empty one first": [(b"", None), (b"abc", None)],
    "an empty one last": [(b"abc", None), (b"", None)],
    "only empty ones": [(b"", None), (b"", None), (b"", None)],
    "empty ones with padding": [(b"a", 255), (b"", 0), (b"", 1), (b"b", 0), (b"", 255), (b"c", 17)],
    "a request in an empty one's place": [(b"abc", None), (b"", None), (b"GET /smuggled HTTP/1.1\r\n\r\n", None)],
    "what looks like the last chunk": [(b"0\r\n\r\n", None), (b"", 3), (b"GET /smuggled HTTP/1.1\r\n\r\n", None)],
    "every size": [(b"x" * size, None if size % 3 else size % 256) for size in (1, 9, 10, 15, 16, 17, 255, 256, 4096)],
}


@pytest.mark.parametrize("shape", FRAMES)
@pytest.mark.parametrize("at_the_end", ["flag", "frame", "trailers"])
async def test_empty_and_padded_frames_are_not_sent_as_a_last_chunk(
    tunnel: Tunnel, shape: str, at_the_end: str
) -> None:
    frames, before = FRAMES[shape], len(tunnel.connections)
    async with client_of(tunnel) as client:
        stream = client.begin(tunnel.port)
        for number, (data, padding) in enumerate(frames):
            is_last = at_the_end == "flag" and number == len(frames) - 1
            client.http2.send_data(stream, data, end_stream=is_last, pad_length=padding)
        if at_the_end == "frame":
            client.http2.end_stream(stream)
        elif at_the_end == "trailers":
            client.http2.send_headers(stream, [("x-sum", "1"), ("x-odd", "a\x07b")], end_stream=True)

        assert await client.status(stream) == 200

    (received,) = tunnel.connections[before:]
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    assert b"\r\ntransfer-encoding: chunked" in head.lower()
    assert unchunked(body) == b"".join(data for data, _ in frames)


async def test_any_number_of_requests_without_content_length_is_answered(tunnel: Tunnel) -> None:
    async with client_of(tunnel) as client:
        for _ in range(8):
            stream = client.begin(tunnel.port, method="OPTIONS")
            client.http2.end_stream(stream)
            assert await client.status(stream) == 200


async def test_reset_together_with_the_request_ends_the_request_at_the_origin(tunnel: Tunnel) -> None:
    async with client_of(tunnel) as client:
        for _ in range(8):  # mitmproxy opens at most five connections to an origin at once
            stream = client.begin(tunnel.port, method="OPTIONS", path="/silent")
            client.http2.end_stream(stream)
            client.http2.reset_stream(stream)
        client.writer.write(client.http2.data_to_send())

        stream = client.begin(tunnel.port, method="OPTIONS")
        client.http2.end_stream(stream)
        assert await client.status(stream) == 200


async def test_response_before_the_end_of_the_content_resets_the_stream_without_an_error(
    tunnel: Tunnel, caplog: pytest.LogCaptureFixture
) -> None:
    async with client_of(tunnel) as client:
        stream = client.begin(tunnel.port, path="/early")
        client.http2.send_data(stream, b"abc")
        assert await client.status(stream) == 200
        while not any(isinstance(each, h2.events.StreamReset) for each in client.seen):
            client.seen += client.http2.receive_data(await asyncio.wait_for(client.reader.read(65_536), PATIENCE))
        (reset,) = (each for each in client.seen if isinstance(each, h2.events.StreamReset))

        # "clients MUST NOT discard responses as a result of receiving such a RST_STREAM" -- RFC 9113, section 8.1
        assert (reset.stream_id, reset.error_code) == (stream, 0)
        after = client.begin(tunnel.port, method="OPTIONS")
        client.http2.end_stream(after)
        assert await client.status(after) == 200
    assert "crashed" not in caplog.text


GRACEFUL = bytes.fromhex("000008 07 00 00000000 00000000 00000000")
"""GOAWAY with NO_ERROR."""


@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
async def test_request_before_a_graceful_goaway_is_answered_and_the_connection_then_ends(
    tunnel: Tunnel, method: str
) -> None:
    tunnel.asked.clear()
    tunnel.gate.clear()
    async with client_of(tunnel) as client:
        stream = client.begin(tunnel.port, method=method, path="/gated")
        client.http2.end_stream(stream)
        client.writer.write(client.http2.data_to_send() + GRACEFUL)
        await asyncio.wait_for(tunnel.asked.wait(), PATIENCE)
        tunnel.gate.set()

        assert await client.status(stream) == 200
        while data := await asyncio.wait_for(client.reader.read(65_536), PATIENCE):
            client.seen += client.http2.receive_data(data)
        assert any(isinstance(each, h2.events.ConnectionTerminated) and not each.error_code for each in client.seen)


@pytest.mark.parametrize(
    "goaway",
    [
        "000008 07 00 00000000 00000000 00000001",
        "000008 07 00 00000001 00000000 00000000",
        "000004 07 00 00000000 00000000",
    ],
    ids=["with an error", "on a stream", "too short"],
)
async def test_other_goaway_ends_the_connection_at_once(tunnel: Tunnel, goaway: str) -> None:
    tunnel.asked.clear()
    tunnel.gate.clear()
    async with client_of(tunnel) as client:
        stream = client.begin(tunnel.port, method="OPTIONS", path="/gated")
        client.http2.end_stream(stream)
        client.writer.write(client.http2.data_to_send())
        await asyncio.wait_for(tunnel.asked.wait(), PATIENCE)
        client.writer.write(bytes.fromhex(goaway))
        while await asyncio.wait_for(client.reader.read(65_536), PATIENCE):
            pass
    tunnel.gate.set()


async def test_content_length_frames_the_content(tunnel: Tunnel) -> None:
    before = len(tunnel.connections)
    async with client_of(tunnel) as client:
        stream = client.begin(tunnel.port, ("content-length", "6"))
        for data in (b"abc", b"", b"def"):
            client.http2.send_data(stream, data)
        client.http2.end_stream(stream)
        assert await client.status(stream) == 200
    (received,) = tunnel.connections[before:]
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    assert re.search(rb"(?i)\r\ncontent-length: 6(\r\n|$)", head)
    assert body == b"abcdef"


@pytest.mark.parametrize(
    "field",
    [
        ("x-a", "b\x01c"),
        ("x-a", "b\x7fc"),
        ("x-a", "b\x1b[31m"),
        ("x\x01a", "b"),
        ("x a", "b"),
        ("", "b"),
        ("content-length", "+0"),
        ("transfer-encoding", "chunked"),
        ("connection", "close"),
        ("host", "a b"),
    ],
)
async def test_invalid_field_does_not_reach_the_origin(tunnel: Tunnel, field: tuple[str, str]) -> None:
    before = len(tunnel.connections)
    async with client_of(tunnel) as client:
        stream = client.begin(tunnel.port, field)
        client.http2.end_stream(stream)
        try:
            assert await client.status(stream) in (0, 400)
        except AssertionError as error:  # HTTP/2 ends the whole connection for some of these
            assert "ended" in str(error)  # noqa: PT017
    assert not tunnel.connections[before:]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PO\x01ST", "/x"),
        ("PO ST", "/x"),
        ("", "/x"),
        ("POST", "/\x01"),
        ("POST", "/a b"),
        ("POST", "x"),
        ("head", "/"),
        ("CONNECT", "/x"),
    ],
)
async def test_invalid_method_or_path_does_not_reach_the_origin(tunnel: Tunnel, method: str, path: str) -> None:
    before = len(tunnel.connections)
    async with client_of(tunnel) as client:
        stream = client.begin(tunnel.port, method=method, path=path)
        client.http2.end_stream(stream)
        try:
            assert await client.status(stream) in (0, 400, 501)
        except AssertionError as error:
            assert "ended" in str(error)  # noqa: PT017
    assert not tunnel.connections[before:]


@pytest.mark.parametrize("pseudo_fields", [{"method": "CONNECT"}, {"scheme": "ftp"}])
async def test_refusal_is_not_a_page_of_mitmproxy(tunnel: Tunnel, pseudo_fields: dict[str, str]) -> None:
    async with client_of(tunnel) as client:
        stream = client.begin(tunnel.port, **pseudo_fields)
        client.http2.end_stream(stream)

        (answer,) = [each for each in await client.ended(stream) if isinstance(each, h2.events.ResponseReceived)]

    assert (b":status", b"400") in answer.headers
    assert (b"cache-status", b"feedproxy; detail=bad-request") in answer.headers


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_cookie_fields_are_joined_for_the_origin(tunnel: Tunnel, method: str) -> None:
    before = len(tunnel.connections)
    async with client_of(tunnel) as client:
        cookies = [("cookie", "a=1"), ("x-other", "1"), ("cookie", "b=2"), ("cookie", "c=\xe9")]
        stream = client.begin(tunnel.port, *cookies, method=method, path="/page")
        client.http2.end_stream(stream)
        assert await client.status(stream) == 200

    received = b"".join(tunnel.connections[before:])
    assert re.findall(rb"(?i)\r\ncookie: (.*)\r", received) == [b"a=1; b=2; c=\xc3\xa9"]
