"""Private addresses are unreachable through every entrance and in every spelling."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.origin import Authority, Origin, a_feed
from tests.live.product import Feedproxy, Seen, ask, raw
from tests.waiting import PATIENCE

HOSTS = (
    "127.0.0.1",
    "localhost",
    "LOCALHOST.",
    "169.254.169.254",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::]",
    "[fd00:ec2::254]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "0.0.0.0",
    "127.1",
    "2130706433",
    "0x7f.0.0.1",
    "0x7f000001",
    "0177.0.0.1",
    "017700000001",
    "10.0.0.1",
    "100.64.0.1",
    "192.168.0.1",
    "%31%32%37.0.0.1",
    "127%2e0%2e0%2e1",
    "①②⑦.0.0.1".encode().decode("latin-1"),
)


@pytest.fixture(scope="module")
def careful(authority: Authority, origin: Origin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Feedproxy]:
    """Run a proxy without --allow-private. The origin's ports are permitted, so only its address is refused."""
    ports = [str(server.server_port) for server in (origin.http, origin.https)]
    more = [
        word
        for port in (*ports, "80")
        for name in ("allow_ports", "connect_ports")
        for word in ("--set", f"{name}={port}")
    ]
    made = Feedproxy(
        tmp_path_factory.mktemp("careful"), *more, allow_private=False, authority=authority.file, intercept="*"
    )
    yield made
    assert made.terminate() == 0, made.said
    assert "Traceback" not in made.said, made.said


@pytest.fixture(autouse=True)
def nothing_arrives(origin: Origin) -> Iterator[None]:
    before = len(origin.log)
    yield
    assert origin.log[before:] == []


def is_refused(seen: Seen) -> None:
    assert seen.status in (400, 403), (seen.status, seen.body)
    if "mitmproxy" not in seen.fields.get("Server", ""):  # such a target is refused before the proxy's own page
        assert "detail=" in seen.cache
        assert seen.fields["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("entrance", ["gateway", "proxy"])
def test_private_address_is_refused(careful: Feedproxy, origin: Origin, entrance: str, method: str, host: str) -> None:
    for target in (
        f"http://{host}:{origin.http.server_port}/secret",
        f"https://{host}:{origin.https.server_port}/secret",
    ):
        path, name = (f"/{target}", "us") if entrance == "gateway" else (target, host.replace("%", ""))
        content = b"Content-Length: 3\r\n\r\nx=1" if method == "POST" else b"\r\n"
        head = f"{method} {path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n".encode("latin-1")

        seen = raw(careful.address, head + content, method)

        is_refused(seen)


@pytest.mark.parametrize("host", HOSTS)
def test_tunnel_to_a_private_address_is_refused(careful: Feedproxy, origin: Origin, host: str) -> None:
    authority = f"{host}:{origin.https.server_port}"

    seen = raw(
        careful.address, f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode("latin-1"), "CONNECT"
    )

    assert seen.status in (400, 403), seen.body


def test_host_field_does_not_bypass_the_address_check(careful: Feedproxy, origin: Origin) -> None:
    """The target counts, not the Host field. The proxy's own Host with a path is the gateway."""
    port = origin.http.server_port
    for head in (
        f"GET http://127.0.0.1:{port}/secret HTTP/1.1\r\nHost: example.com\r\n\r\n",
        f"GET http://localhost:{port}/secret HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n",
    ):
        is_refused(raw(careful.address, head.encode()))
    seen = raw(careful.address, f"GET /secret HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    assert seen.status == 404


def test_port_that_allow_ports_lacks_is_refused(careful: Feedproxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        for target in (f"/http://127.0.0.1:{port}/", f"http://127.0.0.1:{port}/"):
            is_refused(raw(careful.address, f"GET {target} HTTP/1.1\r\nHost: us\r\n\r\n".encode()))
        for port_number in (port, 22, 25):
            head = f"CONNECT example.com:{port_number} HTTP/1.1\r\nHost: example.com\r\n\r\n"
            assert raw(careful.address, head.encode(), "CONNECT").status == 403


class TestByRedirect:
    """A permitted origin redirects to forbidden addresses. 169.254.169.254 is forbidden even with --allow-private."""

    @pytest.fixture(autouse=True)
    def nothing_arrives(self) -> None:
        """Do nothing: here the origin is contacted."""

    @pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
    @pytest.mark.parametrize(
        "place", ["http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/", "http://0xa9.254.169.254/"]
    )
    def test_redirect_to_a_forbidden_address_is_not_followed(
        self, proxy: Feedproxy, origin: Origin, code: int, place: str
    ) -> None:
        path = f"/leads/{code}/{place.count('f')}{len(place)}"
        origin.publish(path, b"", code, Location=place)

        seen = proxy.get(origin.url(path))

        assert seen.status in (301, 302, 303, 307, 308, 403), (seen.status, seen.body)
        assert "meta-data" not in seen.body.decode() or seen.status == 403

    def test_redirect_to_a_port_below_1024_is_not_followed(self, proxy: Feedproxy, origin: Origin) -> None:
        origin.publish("/leads/ssh", b"", 302, Location="http://127.0.0.1:22/")

        assert proxy.get(origin.url("/leads/ssh")).status in (302, 403)

    def test_metadata_service_is_refused_even_if_private_addresses_are_permitted(self, proxy: Feedproxy) -> None:
        for target in ("http://169.254.169.254/", "http://[fd00:ec2::254]/", "http://0xa9fea9fe/"):
            assert proxy.get(target).status in (400, 403)
            assert ask(proxy.gateway(target), "POST", body=b"x").status in (400, 403)

    def test_feed_that_moves_to_a_forbidden_address_keeps_its_copy(self, proxy: Feedproxy, origin: Origin) -> None:
        origin.publish("/kept.rss", a_feed("kept"), Cache_Control="max-age=0")
        assert proxy.get(origin.url("/kept.rss")).status == 200

        origin.publish("/kept.rss", b"", 301, Location="http://169.254.169.254/feed.rss")
        seen = proxy.get(origin.url("/kept.rss"))

        assert (seen.status, seen.body.count(b"<title>kept</title>")) == (200, 1)
        assert "detail=" in seen.cache


def test_tunnel_carries_requests_to_its_address_only(proxy: Feedproxy, origin: Origin) -> None:
    """Plain HTTP inside a tunnel is not parsed: its bytes go to the checked address."""
    port = origin.http.server_port
    with socket.create_connection(proxy.address, timeout=PATIENCE) as wire:
        wire.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        assert b" 200 " in wire.recv(1_000)
        wire.sendall(b"GET http://169.254.169.254/ HTTP/1.1\r\nHost: 169.254.169.254\r\nConnection: close\r\n\r\n")
        received = b""
        while piece := wire.recv(65_536):
            received += piece
    assert received.startswith(b"HTTP/1.1 404")  # the origin's own response
    assert b"Via" not in received
    origin.log.pop()


def test_intercepted_tunnel_reaches_its_own_address_only(proxy: Feedproxy, origin: Origin, tmp_path: Path) -> None:
    import ssl

    context = ssl.create_default_context(cafile=proxy.authority)
    with socket.create_connection(proxy.address, timeout=PATIENCE) as plain:
        authority = f"localhost:{origin.https.server_port}"
        plain.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        assert b" 200 " in plain.recv(1_000)
        with context.wrap_socket(plain, server_hostname="localhost") as wire:
            wire.sendall(
                b"POST https://169.254.169.254/x HTTP/1.1\r\nHost: 169.254.169.254\r\n"
                b"Content-Length: 1\r\nConnection: close\r\n\r\nx"
            )
            received = b""
            while piece := wire.recv(65_536):
                received += piece
    status = int(received.split()[1])
    assert status == 421, received[:300]
    assert not [each for each in origin.log if each.path == "/x"]
