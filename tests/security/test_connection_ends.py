"""Messages and connections that end early or late: nothing is lost, and nothing crashes."""

import asyncio
import re
import socket

import pytest

from tests.security.conftest import bases
from tests.security.wire import LAST_CHUNK, exchange, port_of, raw_origin, status_of
from tests.stages.front import OnFront
from tests.waiting import PATIENCE

pytestmark = pytest.mark.asyncio(loop_scope="module")


# -- a client that closes its sending side


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("path", ["fast path", "mitmproxy"])
async def test_client_that_closes_its_sending_side_gets_its_response(stage: OnFront, version: str, path: str) -> None:
    base = bases(stage)[path]
    async with raw_origin() as origin:
        for number, (method, content) in enumerate([("GET", b""), ("POST", b"abc"), ("HEAD", b""), ("GET", b"")]):
            start = f"{method} /{origin.base}/{number}/{version}/{path[0]} HTTP/{version}\r\nHost: a\r\n"
            length = b"Content-Length: %d\r\n" % len(content) if content else b""
            for _ in range(2):  # the second GET is a hit
                said = await exchange(base, start.encode() + length + b"\r\n" + content, half_close=True)
                assert status_of(said) == 200, said
                assert said.endswith(b"\r\n\r\n" if method == "HEAD" else b"\r\n\r\nok")
    for own in ("/", "/-/nothing"):
        said = await exchange(base, f"GET {own} HTTP/{version}\r\nHost: a\r\n\r\n".encode(), half_close=True)
        assert status_of(said) in (200, 404)


async def test_pipeline_before_the_end_of_the_sending_side_is_answered_completely(stage: OnFront) -> None:
    async with raw_origin() as origin:
        for base in bases(stage).values():
            get = f"GET /{origin.base}/pipeline HTTP/1.1\r\nHost: a\r\n\r\n".encode()
            post = f"POST /{origin.base}/pipeline HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx".encode()
            said = await exchange(base, get + post + get + post + get[:-2], half_close=True)
            assert said.count(b"HTTP/1.1 200 OK") == 4, said


async def test_client_that_closes_its_sending_side_during_processing_gets_its_response(stage: OnFront) -> None:
    for base in bases(stage).values():
        stage.origin.gate = asyncio.Event()
        before = stage.origin.requests
        stage.origin.publish(f"/slow{base[-5:]}", b"here", content_type="text/plain")
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(base))
        target = f"/{stage.origin.base}/slow{base[-5:]}"
        writer.write(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        await stage.origin.asked(before + 1)
        writer.write_eof()
        await asyncio.sleep(0.05)
        stage.origin.gate.set()
        stage.origin.gate = None
        assert (await asyncio.wait_for(reader.read(), PATIENCE)).endswith(b"here")
        writer.close()


# -- empty lines before a request


@pytest.mark.parametrize("empty", [b"\r\n", b"\n", b"\r\n\r\n\r\n"])
async def test_empty_lines_before_a_request_are_skipped(stage: OnFront, empty: bytes) -> None:
    request = b"GET /robots.txt HTTP/1.1\r\nHost: a\r\n\r\n"
    last = request[:-2] + b"Connection: close\r\n\r\n"
    for base in bases(stage).values():
        for pieces in ([empty + last], [empty, last], [empty + request + empty + last], [request, empty, last]):
            said = await exchange(base, *pieces)
            assert said.count(b"HTTP/1.1 200 OK") == len(b"".join(pieces).split(b"GET")) - 1, (pieces, said)


async def test_empty_lines_alone_get_400(stage: OnFront) -> None:
    for base in bases(stage).values():
        assert status_of(await exchange(base, b"\r\n" * 1_000)) == 400


# -- an origin that takes the content of a request for a request


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize("is_chunked", [False, True])
async def test_connection_to_an_origin_ends_after_a_request_with_content(
    stage: OnFront, method: str, is_chunked: bool
) -> None:
    heads: list[list[bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append([])
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                heads[-1].append(head)
                if b" /hidden " not in head:  # the response to the hidden request comes later
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    hidden = b"GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"
    content = b"%x\r\n%b\r\n0\r\n\r\n" % (len(hidden), hidden) if is_chunked else hidden
    framing = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {len(hidden)}"
    attack = f"{method} /{origin}/attack HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n".encode() + content
    later = f"POST /{origin}/later HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
    for base in bases(stage).values():
        said = await exchange(base, attack, later)
        assert said.count(b"HTTP/1.1 200 OK") == 2, said
    server.close()

    with_later = [connection for connection in heads if any(b" /later " in head for head in connection)]
    assert [len(connection) for connection in with_later] == [1] * len(bases(stage)), heads


# -- excess data from an origin

DOUBTFUL = {
    "204 with a length": ("GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 70\r\n\r\n"),
    "204 with chunks": ("GET", b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "304 with a length": ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 70\r\n\r\n"),
    "304 with chunks": ("GET", b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "HEAD with a length": ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 70\r\n\r\n"),
    "HEAD with chunks": ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "both framings": ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
}


@pytest.mark.parametrize("shape", DOUBTFUL)
@pytest.mark.parametrize("streams", [False, True], ids=["fetched", "streamed"])
async def test_response_with_forbidden_or_ambiguous_framing_ends_its_connection(
    stage: OnFront, shape: str, *, streams: bool
) -> None:
    """Later data could otherwise be taken for the next response."""
    method, answer = DOUBTFUL[shape]
    streams = streams or method == "HEAD"  # HEAD is fetched by GET
    if streams and method == "GET":
        method = "POST"
    for name, base in bases(stage).items():
        async with raw_origin(answer) as origin:
            content = b"Content-Length: 1\r\n\r\nx" if streams else b"\r\n"
            requests = [
                f"{method} /{origin.base}/{name[0]}{number} HTTP/1.1\r\nHost: a\r\n".encode() + content
                for number in range(2)
            ]
            last = requests[1].replace(b"Host: a\r\n", b"Host: a\r\nConnection: close\r\n")
            await exchange(base, requests[0] + last)
            assert len([each for each in origin.connections if each]) == 2, origin.connections


# -- a response before the content of its request

REFUSALS = {
    "with a length": b"HTTP/1.1 501 Not Implemented\r\nContent-Length: 4\r\n\r\nnone",
    "with chunks": b"HTTP/1.1 501 Not Implemented\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nnone\r\n0\r\n\r\n",
    "and ends": b"HTTP/1.1 501 Not Implemented\r\nConnection: close\r\n\r\nnone",
    "without content": b"HTTP/1.1 204 No Content\r\n\r\n",
}


@pytest.mark.parametrize("shape", REFUSALS)
async def test_response_before_the_content_of_its_request_is_forwarded_completely(
    stage: OnFront, shape: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with raw_origin(REFUSALS[shape]) as origin:
        for base in bases(stage).values():
            for rest in ([], [b"3\r\nabc\r\n"], [b"3\r\nabc\r\n"] * 5 + [b"0\r\n\r\n"], [b"0\r\n\r\n"]):
                start = f"PATCH /{origin.base}/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                start += "Connection: close\r\n\r\n" if b"0\r\n\r\n" in rest else "\r\n"
                said = await exchange(base, start.encode() + b"3\r\nabc\r\n", *rest)
                assert said.count(b"HTTP/1.1 ") == 1, said
                assert status_of(said) in (501, 204)
                assert b"none" in said or status_of(said) == 204
                assert re.search(rb"(?i)\r\nconnection: close\r\n", said)
            get = f"GET /{stage.origin.base}/nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            assert status_of(await exchange(base, get.encode())) == 404
    assert not [record for record in caplog.records if record.exc_info]


async def test_response_during_a_large_upload_reaches_the_client(stage: OnFront) -> None:
    """The client continues to send, as most do, and reads afterwards."""
    async with raw_origin(REFUSALS["with a length"]) as origin:
        for base in bases(stage).values():
            start = f"PUT /{origin.base}/x HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n"
            said = await exchange(base, start.encode(), *([bytes(300_000)] * 10))
            assert status_of(said) == 501
            assert said.endswith(b"none")
        assert all(len(received) < 3_000_000 for received in origin.connections)


def refuse(door: socket.socket, ending: str) -> None:
    """Answer two requests at once and close their connections with unread content, which causes a reset."""
    door.settimeout(PATIENCE)
    for _ in range(2):
        connection, _ = door.accept()
        with connection:
            while b"\r\n\r\n" not in connection.recv(65_536):
                pass
            connection.sendall(REFUSALS["with a length"])
            if ending == "sending side first":
                connection.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("ending", ["at once", "sending side first"])
@pytest.mark.parametrize("framing", ["Transfer-Encoding: chunked", "Content-Length: 60000"])
async def test_response_before_a_reset_reaches_the_client(stage: OnFront, ending: str, framing: str) -> None:
    piece = bytes(3_000)
    if "chunked" in framing:
        piece = b"%x\r\n%b\r\n" % (len(piece), piece)
    with socket.create_server(("127.0.0.1", 0)) as door:
        origin = asyncio.create_task(asyncio.to_thread(refuse, door, ending))
        for base in bases(stage).values():
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(base))
            target = f"http://127.0.0.1:{door.getsockname()[1]}/x"
            writer.write(f"PUT /{target} HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n".encode())
            for _ in range(19):
                writer.write(piece)
                await asyncio.sleep(0.0005)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
            assert status_of(head) == 501, head
            assert await asyncio.wait_for(reader.readexactly(4), PATIENCE) == b"none"
            writer.close()
        await origin


# -- truncated content


async def test_truncated_request_content_is_refused_and_incomplete_for_the_origin(stage: OnFront) -> None:
    async with raw_origin(b"") as origin:
        for base in bases(stage).values():
            start = f"POST /{origin.base}/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
            for rest in (b"zz\r\n", b"3\r\nabcd\r\n", b"3\nabc\r\n", b"0\r\nno colon\r\n\r\n", b"1;" + b"a" * 9_000):
                said = await exchange(base, start.encode(), rest)
                assert status_of(said) == 400, (rest, said)
        assert LAST_CHUNK not in origin.received
