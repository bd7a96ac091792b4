"""Host names of IDNA 2008 in requests for the explicit proxy, in CONNECT, and as the proxy's own name."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from feedproxy.clock import ManualClock
from feedproxy.server.mitm import international_names
from tests.security.conftest import NOON, bases
from tests.security.wire import exchange, head_of, port_of, raw_origin, status_of
from tests.stages.front import OnFront
from tests.steps import steps
from tests.waiting import PATIENCE

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAME = "xn--strae-oqa.example"
"""A name with `ß`, which IDNA 2003 does not have."""

NAMES = (NAME, "xn--bcher-kva.example", "xn--a")
"""Names of IDNA 2008, of both versions, and of neither."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[OnFront]:
    async def lookup(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"] if host in NAMES else []

    made = OnFront(ManualClock(NOON), {"site_interval": 0, "connect_ports": ["1025-65535"]})
    await made.open()
    for policy in (made.app.parts.policy, made.app.parts.connect_policy):
        policy._lookup = lookup
    yield made
    await made.close()


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("name", NAMES)
async def test_request_reaches_the_origin(stage: OnFront, name: str, method: str) -> None:
    for path, base in bases(stage).items():
        async with raw_origin() as origin:
            host = f"{name}:{origin.port}"
            lines = [f"{method} http://{host}/{port_of(base)} HTTP/1.1", f"Host: {host}", "Connection: close"]
            if method == "POST":
                lines.append("Content-Length: 0")

            said = await exchange(base, "\r\n".join([*lines, "", ""]).encode())

            assert status_of(said) == 200, path
            assert f"\r\nhost: {host}\r\n".encode() in head_of(origin.received).lower() + b"\r\n"


@pytest.mark.parametrize("name", NAMES)
async def test_tunnel_reaches_the_origin(stage: OnFront, name: str) -> None:
    async with raw_origin() as origin:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(stage.base))
        host = f"{name}:{origin.port}"
        writer.write(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        answer = await asyncio.wait_for(reader.readuntil(b"ok"), PATIENCE)
        writer.close()

    assert status_of(head) == status_of(answer) == 200


@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
async def test_proxy_answers_to_its_own_name(stage: OnFront, method: str) -> None:
    for path, base in bases(stage).items():
        said = await exchange(base, f"{method} / HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n".encode())

        assert status_of(said) == (200 if method == "GET" else 405), path


@pytest.mark.parametrize(
    ("authority", "parsed"),
    [
        (b"xn--bcher-kva.example:80", ("bücher.example", 80)),
        (b"xn--strae-oqa.example", (NAME, None)),
        ("xn--strae-oqa.example:8080", (NAME, 8080)),
        (b"xn--a", ("xn--a", None)),
    ],
)
async def test_authority_is_decoded_if_possible(authority: str | bytes, parsed: tuple[str, int | None]) -> None:
    international_names.install()

    assert international_names.parse_authority(authority, check=True) == parsed


@pytest.mark.parametrize(
    "authority", [b"xn--a b", b"xn--a/x", b"xn--a:99999", b"a@xn--a", b"xn--a..b", b"xn--a:x", b""]
)
async def test_invalid_authority_is_refused(authority: bytes) -> None:
    international_names.install()

    with pytest.raises(ValueError):
        international_names.parse_authority(authority, check=True)


async def test_oversized_name_is_refused_without_decoding() -> None:
    international_names.install()
    host = ("é" * 60 + ".") * 500

    def refuse() -> None:
        for name in (host, host.encode("utf-8")):
            assert not international_names.is_valid_host(name)
            assert international_names.parse_authority(name, check=False) == (host, None)

    assert steps(refuse) < 100
    with pytest.raises(ValueError, match="authority of 60500 bytes"):
        international_names.parse_authority(host.encode("utf-8"), check=True)


async def test_longest_name_is_accepted() -> None:
    international_names.install()
    name = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])

    assert international_names.parse_authority(f"{name}:65535".encode(), check=True) == (name, 65535)
