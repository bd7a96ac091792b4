"""Interim responses (1xx) reach the reader whose request was forwarded, and no other (RFC 9110, section 15.2)."""

import asyncio

from feedproxy.clock import ManualClock
from tests.stages.play import OnProxy
from tests.upstream.raw import origin, play

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
