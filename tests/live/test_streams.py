"""Streams: requests other than GET, and bodies above the buffer, are forwarded unchanged."""

import socket
from collections.abc import Callable

import pytest

from tests.live.origin import Asked, Handler, Origin, until
from tests.live.product import Feedproxy, Seen, ask, raw, read_answer
from tests.waiting import NEVER, PATIENCE

type Ask = Callable[..., Seen]

LARGE = bytes(range(256)) * 2_000


@pytest.fixture(params=["gateway", "proxy"])
def send(request: pytest.FixtureRequest, proxy: Feedproxy, origin: Origin) -> Ask:
    """Return a function that requests a path of the origin by one of the entrances."""

    def asking(path: str, method: str = "GET", **more: object) -> Seen:
        url = origin.url(path)
        if request.param == "gateway":
            return ask(proxy.gateway(url), method, **more)  # type: ignore[arg-type]
        return ask(url, method, through=proxy.address, **more)  # type: ignore[arg-type]

    return asking


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    """Return a path that no other test uses."""
    return "/" + str(request.node.name).replace("[", "/").rstrip("]")


def an_episode(handler: Handler, asked: Asked) -> None:
    """Publish a large file that supports ranges and validation."""
    if asked.fields.get("If-None-Match") == '"episode"':
        handler.say(304, b"", ETag='"episode"')
        return
    if "Range" in asked.fields:
        first, last = (int(each) for each in asked.fields["Range"].removeprefix("bytes=").split("-"))
        handler.say(206, LARGE[first : last + 1], Content_Range=f"bytes {first}-{last}/{len(LARGE)}")
        return
    handler.say(200, LARGE, Content_Type="audio/mpeg", ETag='"episode"', Accept_Ranges="bytes")


def test_ranges_of_an_episode_are_served_from_the_first_request_on(send: Ask, origin: Origin, path: str) -> None:
    origin.stage(path, an_episode)

    for _ in range(2):
        seen = send(path, fields={"range": "bytes=1000-300999"})
        assert (seen.status, seen.body) == (206, LARGE[1_000:301_000])
        assert seen.fields["Content-Range"] == f"bytes 1000-300999/{len(LARGE)}"


def test_known_episode_is_validated_by_the_origin(send: Ask, origin: Origin, path: str) -> None:
    origin.stage(path, an_episode)
    assert send(path).body == LARGE

    seen = send(path, fields={"if_none_match": '"episode"'})

    assert (seen.status, seen.body) == (304, b"")


def test_head_of_an_episode_has_its_size(send: Ask, origin: Origin, path: str) -> None:
    origin.stage(path, an_episode)

    for _ in range(2):
        assert send(path, "HEAD").fields["Content-Length"] == str(len(LARGE))
        assert send(path).body == LARGE


def test_body_of_unknown_size_above_the_buffer_is_streamed(send: Ask, origin: Origin, path: str) -> None:
    def chunked(handler: Handler, _: Asked) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for start in range(0, len(LARGE), 50_000):
            piece = LARGE[start : start + 50_000]
            handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        handler.wfile.write(b"0\r\n\r\n")

    origin.stage(path, chunked)

    assert send(path).body == send(path).body == LARGE


@pytest.mark.parametrize("interim", ["100 Continue", "103 Early Hints"])
def test_interim_response_is_not_taken_for_the_final_one(
    start: Callable[..., Feedproxy], origin: Origin, interim: str
) -> None:
    def first_a_hint(handler: Handler, _: Asked) -> None:
        handler.wfile.write(f"HTTP/1.1 {interim}\r\nLink: </style.css>\r\n\r\n".encode())
        handler.say(200, b"final")

    origin.stage("/interim", first_a_hint)
    proxy = start(drain_timeout=1)

    assert proxy.get(origin.url("/interim")).body == b"final"  # the proxy's own fetches accept it correctly
    seen = ask(proxy.gateway(origin.url("/interim")), "POST", body=b"x")
    assert (seen.status, seen.body) == (200, b"final")


@pytest.mark.parametrize("side", ["origin", "reader"])
def test_trailers_delay_no_response(start: Callable[..., Feedproxy], origin: Origin, side: str) -> None:
    chunked = b"5\r\nfinal\r\n0\r\nX-Sum: 5\r\n\r\n"

    def with_trailers(handler: Handler, _: Asked) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(chunked)

    path = f"/trailers/{side}"
    origin.stage(path, with_trailers if side == "origin" else an_episode)
    proxy = start(drain_timeout=1)
    head = f"POST {proxy.gateway(origin.url(path)).removeprefix(proxy.base)} HTTP/1.1\r\nHost: us\r\n"

    if side == "origin":
        seen = raw(proxy.address, f"{head}Content-Length: 1\r\n\r\nx".encode())
        assert seen.body == b"final"
    else:
        seen = raw(proxy.address, f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunked)
        assert seen.status == 200
        assert origin.asked(path)[0].size == 5
    assert "Traceback" not in proxy.said


def test_truncated_response_is_truncated_for_the_reader(send: Ask, origin: Origin, path: str) -> None:
    def half(handler: Handler, _: Asked) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"half")
        handler.close_connection = True

    origin.stage(path, half)

    with pytest.raises(Exception, match=r"IncompleteRead|reset|aborted"):
        send(path, "POST", body=b"x")


def test_origin_that_closes_the_connection_gets_an_error_page(send: Ask, origin: Origin, path: str) -> None:
    origin.stage(path, lambda handler, _: setattr(handler, "close_connection", True))

    seen = send(path, "POST", body=b"x")

    assert seen.status == 502
    assert "detail=" in seen.cache
    assert b"mitmproxy" not in seen.body


def test_reader_that_disconnects_during_a_stream_leaves_no_state(
    start: Callable[..., Feedproxy], origin: Origin
) -> None:
    proxy = start(drain_timeout=NEVER)
    origin.stage("/left", an_episode)
    for head in (
        f"POST /{origin.url('/left')} HTTP/1.1\r\nHost: us\r\nContent-Length: 100000\r\n\r\nhalf",
        f"GET /{origin.url('/left')} HTTP/1.1\r\nHost: us\r\n\r\n",
        "GET /http",
    ):
        with socket.create_connection(proxy.address) as wire:
            wire.sendall(head.encode())
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # by a reset
    assert proxy.get(origin.url("/left")).status == 200

    assert proxy.terminate() == 0

    assert "Traceback" not in proxy.said


def test_many_requests_of_one_connection_are_answered_in_order(proxy: Feedproxy, origin: Origin) -> None:
    for number in range(5):
        origin.publish(f"/order/{number}", str(number).encode(), Content_Type="text/plain")
    with socket.create_connection(proxy.address, timeout=PATIENCE) as wire:
        for number in (0, 1, 2, 3, 4, 0):
            method = "POST" if number % 2 else "GET"
            more = "Content-Length: 1\r\n\r\nx" if number % 2 else "\r\n"
            wire.sendall(f"{method} /{origin.url(f'/order/{number}')} HTTP/1.1\r\nHost: us\r\n{more}".encode())
            assert read_answer(wire).body == str(number).encode()


def test_any_number_of_requests_to_a_named_host_is_streamed_over_one_connection(
    proxy: Feedproxy, origin: Origin
) -> None:
    """mitmproxy opens at most five connections to an origin at once for a client."""
    origin.publish("/named", b"posted", Content_Type="text/plain")
    target = origin.url("/named").replace("127.0.0.1", "localhost")
    with socket.create_connection(proxy.address, timeout=PATIENCE) as wire:
        for _ in range(8):
            wire.sendall(f"POST {target} HTTP/1.1\r\nHost: us\r\nContent-Length: 1\r\n\r\nx".encode())
            assert read_answer(wire).body == b"posted"


def test_pipelined_requests_are_answered_in_order(proxy: Feedproxy, origin: Origin) -> None:
    for number in range(3):
        origin.publish(f"/pipeline/{number}", f"<{number}>".encode(), Content_Type="text/plain")
    lines = [f"GET /{origin.url(f'/pipeline/{number}')} HTTP/1.1\r\nHost: us\r\n" for number in range(3)]
    with socket.create_connection(proxy.address, timeout=PATIENCE) as wire:
        wire.sendall("\r\n".join([*lines[:2], lines[2] + "Connection: close\r\n\r\n"]).encode())
        received = b""
        while piece := wire.recv(65_536):
            received += piece

    assert [received.index(f"<{number}>".encode()) for number in range(3)] == sorted(
        received.index(f"<{number}>".encode()) for number in range(3)
    )


def test_connection_stays_open_after_a_response_without_content(proxy: Feedproxy, origin: Origin) -> None:
    origin.publish("/empty", b"", 204)
    with socket.create_connection(proxy.address, timeout=PATIENCE) as wire:
        for _ in range(2):
            wire.sendall(f"GET /{origin.url('/empty')} HTTP/1.1\r\nHost: us\r\n\r\n".encode())
            seen = read_answer(wire)
            assert seen.status == 204
            assert "Content-Length" not in seen.fields


@pytest.mark.parametrize("framing", ["Content-Length: 7\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n7\r\n", "\r\n"])
def test_content_of_205_is_not_streamed(proxy: Feedproxy, origin: Origin, framing: str) -> None:
    def reset(handler: Handler, _: Asked) -> None:
        ending = "\r\n0\r\n\r\n" if "chunked" in framing else ""
        handler.wfile.write(f"HTTP/1.1 205 Reset Content\r\nConnection: close\r\n{framing}content{ending}".encode())
        handler.close_connection = True

    origin.stage("/reset", reset)
    with socket.create_connection(proxy.address, timeout=PATIENCE) as wire:
        wire.sendall(f"POST /{origin.url('/reset')} HTTP/1.1\r\nHost: us\r\nContent-Length: 1\r\n\r\nx".encode())
        received = b""
        while piece := wire.recv(65_536):
            received += piece

    head, _, rest = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 205 ")
    assert b"content-length: 0" in head.lower()
    assert b"transfer-encoding" not in head.lower()
    assert rest == b""


def test_streamed_responses_are_logged(proxy: Feedproxy, origin: Origin) -> None:
    origin.publish("/logged", b"thanks", Content_Type="text/plain")

    ask(proxy.gateway(origin.url("/logged")), "POST", body=b"x", fields={"user_agent": "Poster/1"})

    assert "fwd=method" in until(lambda: next((each for each in proxy.said.splitlines() if "Poster/1" in each), ""))
