"""Handoff of connections from the fast path to mitmproxy, with socket and received bytes, and back."""

import asyncio
import re
import ssl
from pathlib import Path

import pytest

from feedproxy.feed_rules import Rule, Rules
from feedproxy.http.message import Fields, Response
from feedproxy.http.target_uri.target_pattern import TargetPattern
from tests.server.conftest import Front, Opened, until
from tests.server.test_client_tls_connection import make_certificate, trusting

SHAPES = {
    "content-length and chunked": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
    "a length that is none": b"Content-Length: +3\r\n\r\nabc",
    "a field name with a space": b"X-A : b\r\n\r\n",
    "a line that goes on": b"X-A: b\r\n c\r\n\r\n",
    "a bare carriage return": b"X-A: b\rX-B: c\r\n\r\n",
    "a NUL": b"X-A: \x00\r\n\r\n",
    "two hosts": b"Host: other.example\r\n\r\n",
    "an expectation": b"Expect: 100-continue\r\n\r\n",
    "an upgrade": b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
    "a loop": b"Via: 1.1 feedproxy-00000000\r\n\r\n",
    "bare line feeds": b"X-A: b\n\n",
}
LENGTH = re.compile(rb"Connection: close\r\n|(?<=Content-Length: )\d+")

STARTS = {
    "no path": b"GET feed.rss HTTP/1.1\r\nHost: proxy.example\r\n\r\n",
    "HTTP/1.0 without Host": b"GET /x HTTP/1.0\r\n\r\n",
    "another version": b"GET /x HTTP/2.7\r\nHost: proxy.example\r\n\r\n",
    "a space too many": b"GET  /x HTTP/1.1\r\nHost: proxy.example\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "a host that is none": b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "a port that is none": b"GET /http://a.example/ HTTP/1.1\r\nHost: a:99999\r\n\r\n",
    "an empty label": b"GET /http://a.example/ HTTP/1.1\r\nHost: a..b\r\n\r\n",
    "a tilde": b"GET /http://a.example/ HTTP/1.1\r\nHost: ~a\r\n\r\n",
    "userinfo": b"GET /http://a:b@example.com/ HTTP/1.1\r\nHost: proxy.example\r\n\r\n",
    "garbage": b"\x00\x01\x02\r\n\r\n",
    "TRACE": b"TRACE / HTTP/1.1\r\nHost: proxy.example\r\n\r\n",
    "an unknown scheme": b"GET /ftp://example.com/ HTTP/1.1\r\nHost: proxy.example\r\n\r\n",
}


async def _receive_all(base: str, data: bytes, quiet: float, context: ssl.SSLContext | None = None) -> bytes:
    """Return all received bytes and the way the connection ends.

    mitmproxy leaves some unusable connections open; a connection without data for `quiet` seconds counts as such. With
    `context`, the connection uses TLS.
    """
    port, name = int(base.rpartition(":")[2]), "localhost" if context is not None else None
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    writer.write(data)
    said = b""
    try:
        while more := await asyncio.wait_for(reader.read(65_536), quiet):
            said += more
    except TimeoutError:
        said += b"(left open)"
    writer.close()
    return said


@pytest.mark.parametrize("shape", [*SHAPES, *STARTS])
async def test_invalid_or_rare_request_gets_the_same_response_with_and_without_the_fast_path(
    front: Opened, shape: str
) -> None:
    proxy = await front()
    await proxy.warm()

    await _assert_the_same(proxy, shape)

    assert (await (await proxy.line()).ask(proxy.get())).status == 200


@pytest.mark.parametrize("shape", [*SHAPES, *STARTS])
async def test_invalid_or_rare_request_gets_the_same_response_under_tls(
    front: Opened, tmp_path: Path, shape: str
) -> None:
    certificate, key = make_certificate(tmp_path)
    context = trusting(certificate)
    context.set_alpn_protocols(["http/1.1"])
    # Dictionaries are offered in secure contexts only, so responses would differ under TLS.
    proxy = await front(tls_certificate=certificate, tls_key=key, compression_dictionaries="off")

    await _assert_the_same(proxy, shape, context)

    assert b" 200 OK\r\n" in await _receive_all(
        proxy.stage.base, proxy.get("/feed.rss", "Connection: close"), 20, context
    )


async def _assert_the_same(proxy: Front, shape: str, context: ssl.SSLContext | None = None) -> None:
    """Compare the responses of the fast path and of mitmproxy's ordinary listener, which has no TLS."""
    data = STARTS.get(shape) or proxy.get()[:-2] + SHAPES[shape]
    data = data.replace(b"feedproxy-00000000", proxy.stage.service.pseudonym.encode())
    data += proxy.get("/feed.rss", "Connection: close")
    await _receive_all(
        proxy.stage.ordinary, proxy.get("/feed.rss", "Connection: close"), 20
    )  # stored before the comparison

    for quiet in (1, 5, 20):  # on a busy machine, a response may take longer
        bases = {proxy.stage.base: context, proxy.stage.ordinary: None}
        both = await asyncio.gather(*(_receive_all(base, data, quiet, how) for base, how in bases.items()))
        # The fast path sends "Connection: close"; mitmproxy only closes. The scheme https:// is a byte longer.
        said = [
            LENGTH.sub(b"", words.replace(b"https://", b"http://").replace(base.encode(), b"*"))
            for base, words in zip(bases, both, strict=True)
        ]
        if said[0] == said[1]:
            break

    assert said[0] == said[1]


async def test_post_between_two_polls_is_passed_through_and_the_connection_returns(front: Opened) -> None:
    proxy = await front()
    proxy.origin.methods["POST"] = lambda request: Response(201, Fields([("Content-Length", "0")]))
    line = await proxy.warm()
    post = proxy.get("/comments", "Content-Length: 4", method="POST") + b"a=bc"

    for _ in range(3):
        assert (await line.ask(post)).status == 201
        asked = proxy.service_calls
        for _ in range(3):
            assert (await line.ask(proxy.get())).status == 200
        assert proxy.service_calls == asked, "the memo answers again"
    assert len(proxy.listener._connections) == 1


async def test_connection_is_counted_once_before_and_after_a_handoff(front: Opened) -> None:
    proxy = await front()
    line = await proxy.warm()
    assert proxy.stage.app.connections == 1

    await line.ask(proxy.get("/-/nothing"))
    assert proxy.stage.app.connections == 1
    await line.ask(proxy.get())
    await until(lambda: proxy.stage.app.connections == 1)

    line.writer.close()
    await until(lambda: proxy.stage.app.connections == 0)


async def test_explicit_proxy_request_is_answered_by_the_fast_path(front: Opened) -> None:
    proxy = await front()
    request = proxy.get().replace(b"GET /http", b"GET http").replace(b"Host: proxy.example", b"Host: else.example")
    line = await proxy.warm(request)
    asked = proxy.service_calls

    answer = await line.ask(request)

    assert "hit" in answer.cache
    assert proxy.service_calls == asked


async def test_readers_behind_a_load_balancer_are_distinguished(front: Opened) -> None:
    proxy = await front(trusted_proxies=["127.0.0.1"])
    line = await proxy.line()

    for _ in range(4):
        for number in range(3):
            answer = await line.ask(proxy.get("/feed.rss", f"X-Forwarded-For: 192.0.2.{number}"))
            assert answer.status == 200

    assert proxy.stage.service.counts.total(proxy.origin.url("/feed.rss"), proxy.clock.now()) == 3
    assert proxy.service_calls <= 7


async def test_fields_named_by_vary_select_the_response(front: Opened) -> None:
    proxy = await front(site_interval=0)
    proxy.origin.speak(
        lambda request: Response(
            200,
            Fields([("Cache-Control", "max-age=60"), ("Vary", "X-Kind"), ("Content-Type", "text/plain")]),
            (request.fields.get("x-kind") or "none").encode(),
        )
    )
    line = await proxy.line()

    for _ in range(5):
        for kind in ("a", "b"):
            assert (await line.ask(proxy.get("/page", f"X-Kind: {kind}"))).body == kind.encode()
        assert (await line.ask(proxy.get("/page"))).body == b"none"


async def test_authenticated_request_is_not_answered_by_the_fast_path(front: Opened) -> None:
    proxy = await front(site_interval=0, feed_min_interval=0)
    await proxy.warm()
    line = await proxy.line()
    asked = proxy.service_calls

    for _ in range(4):
        await line.ask(proxy.get("/feed.rss", "Authorization: Basic YTpi"))

    assert proxy.service_calls == asked + 4


async def test_request_is_challenged_after_a_rule_made_a_known_target_private(front: Opened) -> None:
    proxy = await front()
    line = await proxy.warm()
    target = proxy.origin.url("/feed.rss")

    proxy.stage.use_rules(Rules([Rule(TargetPattern(target), {"readers": ("alice",)})]))
    asked = proxy.service_calls

    for _ in range(4):
        assert (await line.ask(proxy.get())).status == 401
    assert proxy.service_calls == asked
