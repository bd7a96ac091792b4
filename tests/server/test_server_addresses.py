"""The whole proxy behind a parent proxy (`upstream_proxy`): fetches, streams and tunnels."""

import asyncio
import base64
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from mitmproxy.connection import Server
from mitmproxy.proxy import server as server_module
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from feedproxy.clock import ManualClock
from feedproxy.feed_rules import Rule, Rules
from feedproxy.http.target_uri.target_pattern import TargetPattern
from feedproxy.server.mitm import server_addresses
from feedproxy.server.mitm.passthrough import enforce_address_policy
from feedproxy.server.mitm.server_addresses import ParentProxyHost, install
from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.parent_proxy import Parent
from tests.server.conftest import NOON, Answer, Line
from tests.stages.play import OnProxy
from tests.upstream.parents import a_parent
from tests.upstream.raw import OK, RawOrigin, origin
from tests.upstream.test_tls_probe import Authority

HOST = "feeds.example.com"
PASSWORD = "s3cret-of-the-parent"

type Opened = Callable[..., Awaitable[OnProxy]]


async def here(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


@pytest.fixture
async def proxy() -> AsyncIterator[Opened]:
    opened: list[OnProxy] = []

    async def open_with(**settings: Any) -> OnProxy:
        stage = OnProxy(ManualClock(NOON), {"connect_ports": ["1-65535"], **settings})
        await stage.open()
        opened.append(stage)
        for policy in (stage.app.parts.policy, stage.app.parts.connect_policy):
            policy._lookup = here
        return stage

    yield open_with
    for stage in opened:
        await stage.close()


async def say(stage: OnProxy, data: bytes, *, head_only: bool = False) -> Answer:
    line = Line(*await asyncio.open_connection("127.0.0.1", int(stage.base.rpartition(":")[2])))
    try:
        await line.say(data)
        return await line.hear(head_only=head_only)
    finally:
        line.writer.close()


def a_post(raw: RawOrigin, *, gateway: bool = False) -> bytes:
    target = raw.url("/form", HOST)
    return (
        f"POST {'/' if gateway else ''}{target} HTTP/1.1\r\nHost: proxy.example\r\nContent-Length: 0\r\n\r\n".encode()
    )


@pytest.mark.parametrize("scheme", ["http", "socks5"])
@pytest.mark.parametrize("gateway", [False, True])
async def test_fetches_and_streamed_requests_go_through_the_parent(
    proxy: Opened, scheme: str, gateway: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    encoded = base64.b64encode(f"feedproxy:{PASSWORD}".encode())
    async with origin(OK) as raw, a_parent(scheme, user="feedproxy", password=PASSWORD) as played:
        stage = await proxy(upstream_proxy=f"{scheme}://feedproxy:{PASSWORD}@127.0.0.1:{played.port}")
        got = await say(stage, a_post(raw, gateway=gateway).replace(b"POST", b"GET"))
        posted = await say(stage, a_post(raw, gateway=gateway))
        assert (got.body, posted.body, posted.status) == (b"ok", b"ok", 200)
        assert len(played.asked) == 2
        assert [head.split(b" HTTP")[0] for head in raw.heads] == [b"GET /form", b"POST /form"]
        for head in raw.heads:
            assert encoded not in head
        if scheme == "http":
            assert played.asked[1] == raw.url("/form", HOST)
            assert played.heads[1].count(encoded) == 1
    assert PASSWORD not in caplog.text
    assert encoded.decode() not in caplog.text


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_streamed_https_is_verified_end_to_end(proxy: Opened, scheme: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pem = tmp_path / "authority.pem"
    pem.write_bytes(authority._certificate.public_bytes(serialization.Encoding.PEM))
    wrong, right = authority.serving("other.example.com"), authority.serving(HOST)
    async with origin(OK, tls=right) as raw, origin(OK, tls=wrong) as other, a_parent(scheme) as played:
        stage = await proxy(
            upstream_proxy=f"{scheme}://127.0.0.1:{played.port}", ssl_verify_upstream_trusted_ca=str(pem)
        )
        posted = await say(stage, a_post(raw, gateway=True))
        refused = await say(stage, a_post(other, gateway=True))
        assert (posted.status, posted.body) == (200, b"ok")
        assert refused.status == 502
        assert other.heads == []
        assert len(played.asked) == 2


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_connect_goes_through_the_parent(proxy: Opened, scheme: str) -> None:
    async with origin(OK) as raw, a_parent(scheme) as played:
        stage = await proxy(upstream_proxy=f"{scheme}://127.0.0.1:{played.port}")
        line = Line(*await asyncio.open_connection("127.0.0.1", int(stage.base.rpartition(":")[2])))
        await line.say(f"CONNECT {HOST}:{raw.port} HTTP/1.1\r\nHost: {HOST}:{raw.port}\r\n\r\n".encode())
        assert (await line.hear(head_only=True)).status == 200
        assert (await line.ask(b"GET /inside HTTP/1.1\r\nHost: x\r\n\r\n")).body == b"ok"
        line.writer.close()
        assert played.asked == [f"{HOST if scheme == 'http' else '127.0.0.1'}:{raw.port}"]
        assert raw.heads == [b"GET /inside HTTP/1.1\r\nHost: x\r\n\r\n"]


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_no_request_bypasses_a_parent_that_is_down(proxy: Opened, scheme: str) -> None:
    async with origin(OK) as raw:
        async with a_parent(scheme) as played:
            pass
        stage = await proxy(upstream_proxy=f"{scheme}://127.0.0.1:{played.port}")
        for request in (a_post(raw), a_post(raw, gateway=True), a_post(raw).replace(b"POST", b"GET")):
            answer = await say(stage, request)
            assert answer.status in (502, 503)
            assert "detail=parent-proxy" in answer.cache
            assert b"upstream_proxy" in answer.body
        line = Line(*await asyncio.open_connection("127.0.0.1", int(stage.base.rpartition(":")[2])))
        await line.say(f"CONNECT {HOST}:{raw.port} HTTP/1.1\r\nHost: {HOST}:{raw.port}\r\n\r\n".encode())
        await line.hear(head_only=True)
        await line.say(b"GET /inside HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await line.ended()
        assert raw.connections == 0


async def test_challenge_of_the_parent_is_not_forwarded(proxy: Opened) -> None:
    async with origin(OK) as raw, a_parent(user="feedproxy", password="right") as played:
        stage = await proxy(upstream_proxy=f"http://feedproxy:wrong@127.0.0.1:{played.port}")
        for request in (a_post(raw), a_post(raw).replace(b"POST", b"GET")):
            answer = await say(stage, request, head_only=True)
            assert answer.status in (502, 503)
            assert "detail=parent-proxy" in answer.cache
            assert "proxy-authenticate" not in answer.fields
        assert raw.connections == 0


async def test_rule_overrides_the_parent(proxy: Opened) -> None:
    async with origin(OK) as raw, a_parent() as played, a_parent("socks5") as other:
        stage = await proxy(upstream_proxy=f"http://127.0.0.1:{played.port}")
        pattern = TargetPattern
        stage.use_rules(
            Rules(
                [
                    Rule(pattern("direct.example.com"), {"upstream_proxy": "direct"}),
                    Rule(pattern("empty.example.com"), {"upstream_proxy": ""}),
                    Rule(pattern("other.example.com"), {"upstream_proxy": f"socks5://127.0.0.1:{other.port}"}),
                ]
            )
        )
        for host in ("direct.example.com", "empty.example.com", "other.example.com", "feeds.example.com"):
            for method in (b"GET", b"POST"):
                request = a_post(raw).replace(HOST.encode(), host.encode()).replace(b"POST", method)
                assert (await say(stage, request)).body == b"ok"
        assert (len(raw.heads), len(played.asked), len(other.asked)) == (8, 2, 2)


@pytest.mark.parametrize("request_line", ["GET http://inside.example.com/ HTTP/1.1", "POST http://10.0.0.1/ HTTP/1.1"])
@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_private_target_is_refused_before_the_parent_is_contacted(
    proxy: Opened, scheme: str, request_line: str
) -> None:
    async with a_parent(scheme) as played:
        stage = await proxy(upstream_proxy=f"{scheme}://127.0.0.1:{played.port}", allow_private=False)
        for line in (request_line, "CONNECT inside.example.com:443 HTTP/1.1", "CONNECT 10.0.0.1:443 HTTP/1.1"):
            answer = await say(stage, f"{line}\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
            assert answer.status in (403, 502)
        assert played.connections == 0


# -- the address check where mitmproxy selects its own targets (addons/origin.py alone)


@pytest.mark.parametrize(
    ("scheme", "address", "tls", "refusal"),
    [
        ("http", ("feeds.example.com", 443), True, None),
        ("socks5", ("feeds.example.com", 80), False, None),
        ("http", ("feeds.example.com", 80), False, "addons/entrance.py is required for a request through"),
        ("http", ("10.0.0.1", 443), True, "not a public address"),
        ("socks5", ("feeds.example.com", 25), False, "port 25"),
    ],
)
async def test_address_check_uses_the_parent_or_refuses(
    scheme: str, address: tuple[str, int], tls: bool, refusal: str | None
) -> None:
    async def public(host: str, port: int) -> list[str]:
        return ["93.184.216.34"]

    install()
    server = Server(address=address)
    server.tls = tls
    data = ServerConnectionHookData(server, client=None)  # type: ignore[arg-type]
    parent = Parent(scheme, "proxy.example.com", 3128)

    await enforce_address_policy(data, AddressPolicy(lookup=public), lambda target: parent)

    if refusal is None:
        assert server.error is None
        assert isinstance(server.address[0], ParentProxyHost)  # type: ignore[index]
        assert server.address != (
            "proxy.example.com",
            3128,
        )  # distinct from the address of the parent's own pages
        assert server.sni == "feeds.example.com"
        await enforce_address_policy(
            data, AddressPolicy(lookup=public), lambda target: parent
        )  # when the connection is opened again
        assert server.error is None
    else:
        assert refusal in (server.error or "")


async def test_incompatible_mitmproxy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "asyncio", asyncio)
    server = Server(address=("feeds.example.com", 443))
    data = ServerConnectionHookData(server, client=None)  # type: ignore[arg-type]

    await enforce_address_policy(
        data, AddressPolicy(lookup=here), lambda target: Parent("http", "proxy.example.com", 3128)
    )

    assert "this version of mitmproxy cannot connect through" in (server.error or "")


async def test_connection_without_an_answer_ends_after_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    install()
    monkeypatch.setattr(server_addresses, "CONNECT_TIMEOUT", 0.01)
    monkeypatch.setattr(asyncio, "open_connection", connect)

    with pytest.raises(OSError, match=re.escape("no connection after 0.01 s")):
        await vars(server_module)["asyncio"].open_connection("192.0.2.1", 80)
