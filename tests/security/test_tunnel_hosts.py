"""Requests in a decrypted tunnel are for the tunnel's host alone, and OPTIONS may be for the server as a whole."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import pytest
import pytest_asyncio

from feedproxy.clock import ManualClock
from tests.security.conftest import NOON, bases
from tests.security.wire import OK, RawOrigin, exchange, head_of, port_of, raw_origin, status_of
from tests.server.test_client_tls_connection import make_certificate
from tests.stages.front import OnFront
from tests.waiting import PATIENCE

NO_CONTENT = ["Content-Length: 0"]

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Tunnels:
    """A proxy that decrypts tunnels to a TLS origin on this machine."""

    def __init__(self, stage: OnFront, origin: RawOrigin) -> None:
        self.stage = stage
        self.origin = origin

    async def connect(self, *protocols: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection within a tunnel, under TLS."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(self.stage.base))
        authority = f"localhost:{self.origin.port}"
        writer.write(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        assert status_of(await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)) == 200
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(list(protocols or ["http/1.1"]))
        await writer.start_tls(context, server_hostname="localhost")
        return reader, writer

    async def ask(self, start: str, *fields: str) -> bytes:
        """Send the head of a request in a new tunnel, and return the response."""
        reader, writer = await self.connect()
        writer.write("\r\n".join([start, *fields, "Connection: close", "", ""]).encode())
        said = await asyncio.wait_for(reader.read(), PATIENCE)
        writer.close()
        return said


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tunnels(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tunnels]:
    folder: Path = tmp_path_factory.mktemp("tls")
    certificate, key = make_certificate(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2", "http/1.1"])  # the raw origin would not understand HTTP/2
    origin = RawOrigin(lambda _: OK)
    server = await asyncio.start_server(origin.serve, "127.0.0.1", 0, ssl=context)
    origin.port = server.sockets[0].getsockname()[1]
    settings = {"intercept": ["localhost"], "connect_ports": [str(origin.port)], "site_interval": 0}
    settings |= {"confdir": str(folder), "ssl_verify_upstream_trusted_ca": certificate}
    stage = OnFront(ManualClock(NOON), settings)
    await stage.open()
    yield Tunnels(stage, origin)
    await stage.close()
    server.close()
    for writer in origin.writers:
        writer.close()


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("host", ["localhost:{port}", "LOCALHOST:{port}", "localhost"])
async def test_request_for_the_host_of_the_tunnel_is_answered(tunnels: Tunnels, method: str, host: str) -> None:
    said = await tunnels.ask(f"{method} /own HTTP/1.1", f"Host: {host.format(port=tunnels.origin.port)}", *NO_CONTENT)

    assert status_of(said) == 200


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("/x", "other.example"),
        ("/x", "localhost:1"),
        ("/x", "localhost.other.example:{port}"),
        ("/x", "127.0.0.1:{port}"),
        ("/x", "[::1]:{port}"),
        ("https://other.example:{port}/x", "localhost:{port}"),
    ],
)
async def test_request_for_another_host_is_misdirected(tunnels: Tunnels, method: str, target: str, host: str) -> None:
    port, before = tunnels.origin.port, len(tunnels.origin.received)

    said = await tunnels.ask(
        f"{method} {target.format(port=port)} HTTP/1.1", f"Host: {host.format(port=port)}", *NO_CONTENT
    )

    assert status_of(said) == 421
    assert b"detail=wrong-host" in head_of(said)
    assert len(tunnels.origin.received) == before


async def test_authority_of_an_absolute_form_takes_the_place_of_host(tunnels: Tunnels) -> None:
    said = await tunnels.ask(f"GET https://localhost:{tunnels.origin.port}/absolute HTTP/1.1", "Host: other.example")

    assert status_of(said) == 200
    assert f"GET /absolute HTTP/1.1\r\nHost: localhost:{tunnels.origin.port}\r\n".encode() in tunnels.origin.received


@pytest.mark.parametrize(
    ("authority", "host", "status"),
    [
        ("localhost:{port}", "", "200"),
        ("localhost:{port}", "localhost:{port}", "200"),
        ("other.example", "", "421"),
        ("localhost:{port}", "other.example", "malformed"),
        ("", "other.example", "421"),
    ],
)
async def test_authority_of_an_http2_request_is_checked(
    tunnels: Tunnels, authority: str, host: str, status: str
) -> None:
    reader, writer = await tunnels.connect("h2")
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, validate_outbound_headers=False))
    client.initiate_connection()
    named = [(":authority", authority), ("host", host)]
    lines = [(name, value.format(port=tunnels.origin.port)) for name, value in named if value]
    head = [(":method", "GET"), (":path", "/h2"), (":scheme", "https")]
    client.send_headers(1, [*head, *sorted(lines)], end_stream=True)
    writer.write(client.data_to_send())
    seen = "malformed"  # the connection ends without a response
    while data := await asyncio.wait_for(reader.read(65_536), PATIENCE):
        for event in client.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                seen = dict(event.headers or [])[b":status"].decode()
                writer.close()
    writer.close()

    assert seen == status


@pytest.mark.parametrize(
    ("method", "framing"),
    [("OPTIONS", []), ("DELETE", []), ("POST", [b"content-length: 0"]), ("PUT", [b"content-length: 0"])],
)
async def test_http2_request_without_content_is_forwarded_without_chunks(
    tunnels: Tunnels, method: str, framing: list[bytes]
) -> None:
    reader, writer = await tunnels.connect("h2")
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    client.initiate_connection()
    authority, path = f"localhost:{tunnels.origin.port}", f"/without-content/{method}"
    head = [(":method", method), (":path", path), (":scheme", "https"), (":authority", authority)]
    client.send_headers(1, head, end_stream=True)
    writer.write(client.data_to_send())
    seen = b""
    while not seen and (data := await asyncio.wait_for(reader.read(65_536), PATIENCE)):
        for event in client.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                seen = dict(event.headers or [])[b":status"]
    writer.close()

    (asked,) = (request for request in tunnels.origin.connections if f" {path} ".encode() in request)
    names = (b"content-length", b"transfer-encoding")
    sent, _, content = bytes(asked).lower().partition(b"\r\n\r\n")
    assert seen == b"200"
    assert [line for line in sent.split(b"\r\n") if line.startswith(names)] == framing
    assert content == b""


@pytest.mark.parametrize("protocols", [["h2"], ["h2", "http/1.1"], ["http/1.1"]])
async def test_origin_is_offered_http1_whatever_the_client_of_a_tunnel_offers(
    tunnels: Tunnels, protocols: list[str]
) -> None:
    """HTTP/2 of an origin has no limits on frames, and mitmproxy drops a response in progress at a GOAWAY."""
    reader, writer = await tunnels.connect(*protocols)
    authority, path = f"localhost:{tunnels.origin.port}", f"/offers/{len(protocols)}{protocols[0]}"
    if "h2" in protocols:
        client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        client.initiate_connection()
        head = [(":method", "DELETE"), (":path", path), (":scheme", "https"), (":authority", authority)]
        client.send_headers(1, head, end_stream=True)
        writer.write(client.data_to_send())
    else:
        writer.write(f"DELETE {path} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
    while f"DELETE {path} HTTP/1.1\r\n".encode() not in tunnels.origin.received:
        assert await asyncio.wait_for(reader.read(65_536), PATIENCE)
    writer.close()


async def test_options_for_the_whole_server_is_forwarded_in_a_tunnel(tunnels: Tunnels) -> None:
    said = await tunnels.ask("OPTIONS * HTTP/1.1", f"Host: localhost:{tunnels.origin.port}")

    assert status_of(said) == 200
    assert b"OPTIONS * HTTP/1.1\r\n" in tunnels.origin.received


async def test_options_for_a_whole_server_is_forwarded_by_the_explicit_proxy(stage: OnFront) -> None:
    async with raw_origin() as origin:
        for target in (origin.base, f"{origin.base}/"):
            head = f"OPTIONS {target} HTTP/1.1\r\nHost: {target[7:].rstrip('/')}\r\nConnection: close\r\n\r\n"
            assert status_of(await exchange(stage.base, head.encode())) == 200

    assert [bytes(each).partition(b" HTTP")[0] for each in origin.connections] == [b"OPTIONS *", b"OPTIONS /"]


@pytest.mark.parametrize(("host", "status"), [("127.0.0.1", 200), ("other.site", 421)])
async def test_options_for_the_whole_gateway_is_answered_by_it(stage: OnFront, host: str, status: int) -> None:
    said = await exchange(stage.base, f"OPTIONS * HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())

    assert status_of(said) == status
    assert (b"\r\nallow: GET, HEAD, POST" in said or b"\r\nAllow: GET, HEAD, POST" in said) == (status == 200)


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_absolute_form_with_a_query_and_no_path_is_forwarded_with_a_path(stage: OnFront, method: str) -> None:
    async with raw_origin() as origin:
        for base in bases(stage).values():
            head = f"{method} {origin.base}?{method}={port_of(base)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            assert status_of(await exchange(base, head.encode())) == 200
            assert f"{method} /?{method}={port_of(base)} HTTP/1.1\r\n".encode() in origin.received


async def test_options_for_the_whole_server_is_forwarded_in_reverse_mode() -> None:
    async with raw_origin() as origin:
        stage = OnFront(ManualClock(NOON), {"upstream": origin.base})
        await stage.open()
        try:
            said = await exchange(stage.base, b"OPTIONS * HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n")
        finally:
            await stage.close()

        assert status_of(said) == 200
        assert origin.received.startswith(b"OPTIONS * HTTP/1.1\r\n")
