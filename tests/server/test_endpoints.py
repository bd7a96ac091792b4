"""Routing of requests to local endpoints: path, method, size limit and errors."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from feedproxy.clock import ManualClock
from feedproxy.errors import Forbidden, UsageError
from feedproxy.http.message import Fields, Response
from feedproxy.request.endpoint_registry import Call, Endpoints
from tests.server.conftest import until
from tests.stages.play import OnProxy, Proxy
from tests.waiting import PATIENCE


async def echo(call: Call) -> Response:
    """Return the request as text."""
    said = f"{call.request.method} {call.path}?{call.query} {len(call.content)}".encode()
    return Response(200, Fields([("Content-Type", "text/plain")]), said)


async def refuse(_: Call) -> Response:
    """Refuse the request."""
    raise Forbidden("not for you")


@pytest.fixture
async def stage() -> AsyncIterator[OnProxy]:
    """Open a whole proxy with three endpoints."""
    made = OnProxy(ManualClock(1_800_000_000.0), {})
    await made.open()
    made.app.endpoints.add("echo", echo, methods=("GET", "POST"), content_max=100_000)
    made.app.endpoints.add("small", echo, methods=("POST",))
    made.app.endpoints.add("below/", echo)
    made.app.endpoints.add("refuse", refuse)
    yield made
    await made.close()


async def test_large_contents_of_one_client_are_limited_in_total(stage: OnProxy) -> None:
    """A client with 512 connections could otherwise fill the memory."""
    address = ("127.0.0.1", int(stage.base.rpartition(":")[2]))
    head = b"POST /-/echo HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 90000\r\n\r\n"
    held = [await asyncio.open_connection(*address) for _ in range(3)]
    answered = [asyncio.ensure_future(reader.read(20)) for reader, _ in held]
    for _, writer in held:
        writer.write(head)

    done, _ = await asyncio.wait(answered, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)

    assert [answer.result() for answer in done] == [b"HTTP/1.1 503 Service"]
    for _, writer in held:
        writer.write(bytes(90_000))
    answers = await asyncio.wait_for(asyncio.gather(*answered), PATIENCE)
    assert sorted(answer[:12] for answer in answers) == [b"HTTP/1.1 200", b"HTTP/1.1 200", b"HTTP/1.1 503"]
    for _, writer in held:
        writer.close()
    assert (await Proxy(stage).ask("/-/echo", method="POST", body=bytes(90_000))).status == 200


async def test_client_that_disconnects_releases_its_budget_for_content(stage: OnProxy) -> None:
    address = ("127.0.0.1", int(stage.base.rpartition(":")[2]))
    for _ in range(5):
        _, writer = await asyncio.open_connection(*address)
        writer.write(b"POST /-/echo HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 90000\r\n\r\n")
        await until(lambda: stage.app.requests == 1)
        writer.close()
        await until(lambda: stage.app.requests == 0)

    assert (await Proxy(stage).ask("/-/echo", method="POST", body=bytes(90_000))).status == 200


CHUNKED = b"POST /-/echo HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(size: int) -> bytes:
    """Return a chunk of content. A chunk without data is the end of the content."""
    return b"%x\r\n%s\r\n" % (size, bytes(size))


async def test_small_chunked_contents_are_not_limited_in_total(stage: OnProxy) -> None:
    address = ("127.0.0.1", int(stage.base.rpartition(":")[2]))
    held = [await asyncio.open_connection(*address) for _ in range(9)]
    for _, writer in held:
        writer.write(CHUNKED + chunk(1))
    await until(lambda: stage.app.requests == 9)

    for _, writer in held:
        writer.write(chunk(0))

    answers = await asyncio.wait_for(asyncio.gather(*(reader.read(12) for reader, _ in held)), PATIENCE)
    assert answers == [b"HTTP/1.1 200"] * 9
    for _, writer in held:
        writer.close()


async def test_large_chunked_contents_of_one_client_are_limited_in_total(stage: OnProxy) -> None:
    address = ("127.0.0.1", int(stage.base.rpartition(":")[2]))
    held = [await asyncio.open_connection(*address) for _ in range(3)]
    answered = [asyncio.ensure_future(reader.readuntil(b"\r\n\r\n")) for reader, _ in held]
    for _, writer in held:
        writer.write(CHUNKED + chunk(90_000))

    done, _ = await asyncio.wait(answered, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)

    (refusal,) = (answer.result().lower() for answer in done)
    assert refusal.startswith(b"http/1.1 503 ")
    assert b"retry-after: 60\r\n" in refusal
    assert b"detail=busy" in refusal
    for _, writer in held:
        writer.write(chunk(0))
    answers = await asyncio.wait_for(asyncio.gather(*answered), PATIENCE)
    assert sorted(answer[:12] for answer in answers) == [b"HTTP/1.1 200", b"HTTP/1.1 200", b"HTTP/1.1 503"]
    assert (await Proxy(stage).ask("/-/echo", method="POST", body=bytes(90_000))).status == 200
    for _, writer in held:
        writer.close()


async def test_over_long_content_releases_its_budget_while_the_client_stays_connected(stage: OnProxy) -> None:
    address = ("127.0.0.1", int(stage.base.rpartition(":")[2]))
    held = [await asyncio.open_connection(*address) for _ in range(2)]
    for _, writer in held:
        writer.write(CHUNKED + chunk(90_000))
    async with asyncio.timeout(PATIENCE):
        while (await Proxy(stage).ask("/-/echo", method="POST", body=bytes(90_000))).status != 503:
            pass

    for _, writer in held:
        writer.write(chunk(20_000))

    answers = await asyncio.wait_for(asyncio.gather(*(reader.read(12) for reader, _ in held)), PATIENCE)
    assert answers == [b"HTTP/1.1 413"] * 2
    assert (await Proxy(stage).ask("/-/echo", method="POST", body=bytes(90_000))).status == 200
    for _, writer in held:
        writer.close()


async def test_slow_content_releases_its_budget_while_the_client_stays_connected() -> None:
    stage = OnProxy(ManualClock(1_800_000_000.0), {"head_timeout": 1})
    await stage.open()
    stage.app.endpoints.add("echo", echo, methods=("POST",), content_max=100_000)
    address = ("127.0.0.1", int(stage.base.rpartition(":")[2]))
    held = [await asyncio.open_connection(*address) for _ in range(2)]
    for _, writer in held:
        writer.write(CHUNKED + chunk(90_000))

    answers = await asyncio.wait_for(asyncio.gather(*(reader.read(12) for reader, _ in held)), PATIENCE)

    assert answers == [b"HTTP/1.1 408"] * 2
    assert (await Proxy(stage).ask("/-/echo", method="POST", body=bytes(90_000))).status == 200
    for _, writer in held:
        writer.close()
    await stage.close()


async def test_request_under_the_prefix_is_answered_by_its_endpoint(stage: OnProxy) -> None:
    proxy = Proxy(stage)

    seen = await proxy.ask("/-/echo?a=b", method="POST", body=b"x" * 90_000)

    assert (seen.status, seen.body) == (200, b"POST echo?a=b 90000")
    assert seen.cache == "feedproxy"


async def test_endpoint_path_ending_in_a_slash_matches_everything_below_and_target_keeps_its_slashes(
    stage: OnProxy,
) -> None:
    seen = await Proxy(stage).ask("/-/below/https://example.com/a?b=c")

    assert seen.body == b"GET below/https://example.com/a?b=c 0"


async def test_method_not_supported_by_an_endpoint_gets_405_with_allow(stage: OnProxy) -> None:
    seen = await Proxy(stage).ask("/-/small")

    assert (seen.status, seen.fields.get("allow")) == (405, "POST")


async def test_refusal_of_an_endpoint_is_a_problem_document(stage: OnProxy) -> None:
    seen = await Proxy(stage).ask("/-/refuse")

    assert seen.status == 403
    assert b"not for you" in seen.body


async def test_second_endpoint_with_the_same_path_is_an_error() -> None:
    endpoints = Endpoints()
    endpoints.add("echo", echo)
    endpoints.add("echo", echo)

    with pytest.raises(UsageError, match="echo"):
        endpoints.add("echo", refuse)


def test_longest_matching_prefix_selects_the_endpoint() -> None:
    endpoints = Endpoints()
    endpoints.add("as/", echo)
    endpoints.add("as/atom/", refuse)

    found = endpoints.find("as/atom/x")

    assert found is not None
    assert found.handler is refuse
    assert endpoints.find("as") is None
