"""Interim responses (1xx) reach the reader whose request was forwarded, and no other (RFC 9110, section 15.2)."""

import asyncio

import pytest

from feedproxy.clock import ManualClock
from feedproxy.http.target_uri.gateway_path import gateway_path
from tests.stages.play import OnProxy
from tests.upstream.raw import origin, play
from tests.waiting import PATIENCE

HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"
PAGE = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 2\r\n\r\nok"


async def ask(port: int, target: str, version: bytes = b"1.1") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET %b HTTP/%b\r\nHost: x\r\nConnection: close\r\n\r\n" % (target.encode(), version))
    answer = await reader.read()
    writer.close()
    return answer


async def test_first_reader_gets_early_hints_and_a_hit_has_none() -> None:
    proxy = OnProxy(ManualClock(1_795_176_000.0), {})
    await proxy.open()
    try:
        async with origin(play(HINTS + PAGE)) as raw:
            port = int(proxy.base.rsplit(":", 1)[1])

            first = await ask(port, raw.url())
            second = await ask(port, raw.url())

        assert first.startswith(b"HTTP/1.1 103 ")
        assert b"rel=preload\r\n" in first
        assert first.count(b"\r\n\r\nHTTP/1.1 200 OK\r\n") == 1
        assert second.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"preload" not in second
    finally:
        await proxy.close()


async def test_http_1_0_client_gets_no_interim_response() -> None:
    proxy = OnProxy(ManualClock(1_795_176_000.0), {})
    await proxy.open()
    try:
        async with origin(play(HINTS + PAGE)) as raw:
            answer = await ask(int(proxy.base.rsplit(":", 1)[1]), raw.url(), b"1.0")
        assert b" 103 " not in answer
        assert answer.endswith(b"\r\n\r\nok")
    finally:
        await proxy.close()


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
FRAMED_HINTS = HINTS.replace(b"\r\n\r\n", b"\r\nContent-Length: 9\r\nConnection: x-a\r\nX-A: 1\r\n\r\n")


async def post(port: int, target: str, version: bytes = b"1.1") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    fields = b"Host: x\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx"
    writer.write(b"POST %b HTTP/%b\r\n%b" % (target.encode(), version, fields))
    answer = await asyncio.wait_for(reader.read(), PATIENCE)
    writer.close()
    return answer


@pytest.mark.parametrize(("version", "through_gateway"), [(b"1.1", False), (b"1.1", True), (b"1.0", False)])
async def test_client_of_a_streamed_request_gets_early_hints(version: bytes, through_gateway: bool) -> None:
    """Links in the gateway's responses would lead to the gateway, and HTTP/1.0 defines no 1xx responses."""
    proxy = OnProxy(ManualClock(1_795_176_000.0), {})
    await proxy.open()
    try:
        async with origin(play(CONTINUE + FRAMED_HINTS, HINTS, PAGE)) as raw:
            target = gateway_path(raw.url()) if through_gateway else raw.url()
            answer = await post(int(proxy.base.rsplit(":", 1)[1]), target, version)
    finally:
        await proxy.close()

    forwarded = 0 if through_gateway or version == b"1.0" else 2
    assert answer.count(HINTS) == forwarded
    assert answer.removeprefix(HINTS * forwarded).startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\nok")


async def test_early_hints_are_sent_before_the_final_response_arrives() -> None:
    is_final = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HINTS)
        await is_final.wait()
        writer.write(PAGE)
        writer.close()

    proxy = OnProxy(ManualClock(1_795_176_000.0), {})
    await proxy.open()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.base.rsplit(":", 1)[1]))
        target = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/feed"
        writer.write(f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())

        hints = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        is_final.set()
        final = await asyncio.wait_for(reader.readuntil(b"\r\n\r\nok"), PATIENCE)
        writer.close()
    finally:
        server.close()
        await proxy.close()

    assert hints == HINTS
    assert final.startswith(b"HTTP/1.1 200 OK\r\n")
