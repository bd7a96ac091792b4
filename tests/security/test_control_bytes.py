"""No control character is forwarded in any direction (RFC 9110, section 5.5; RFC 9112, sections 2 to 5)."""

import asyncio
import re

import pytest

from tests.security.conftest import bases
from tests.security.wire import LAST_CHUNK, exchange, head_of, raw_origin, status_of
from tests.stages.front import OnFront

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONTROLS = [bytes([code]) for code in [*range(32), 127]]

REQUESTS = {
    "method": b"PO%bST /%b/x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    "target": b"POST /%b/x%by HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    "query": b"GET /%b/x?a%by HTTP/1.1\r\nHost: a\r\n\r\n",
    "version": b"POST /%b/x HTTP/1.%b1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    "name": b"POST /%b/x HTTP/1.1\r\nHost: a\r\nX-%bA: b\r\nContent-Length: 0\r\n\r\n",
    "value": b"POST /%b/x HTTP/1.1\r\nHost: a\r\nX-A: b%bc\r\nContent-Length: 0\r\n\r\n",
    "value of a GET": b"GET /%b/x HTTP/1.1\r\nHost: a\r\nX-A: b%bc\r\n\r\n",
    "Via of a GET": b"GET /%b/x HTTP/1.1\r\nHost: a\r\nVia: 1.1 x%b\r\n\r\n",
    "host": b"POST /%b/x HTTP/1.1\r\nHost: a%bb\r\nContent-Length: 0\r\n\r\n",
    "chunk extension": b"POST /%b/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;a%bb\r\nx\r\n0\r\n\r\n",
    "trailer": b"POST /%b/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-T: b%bc\r\n\r\n",
}
HARMLESS = {
    # A tab is white space in a value (RFC 9110, section 5.6.3) and in a chunk extension.
    *((place, b"\t") for place in ("value", "value of a GET", "Via of a GET", "chunk extension", "trailer")),
}
ENDS_LINE = {
    # A line feed alone may end a line of the head (RFC 9112, section 2.2). The rest is then another line.
    *((place, b"\n") for place in ("name", "value", "value of a GET", "Via of a GET", "host")),
}


def request_with(place: str, base: str, control: bytes) -> bytes:
    shape = REQUESTS[place]
    values = (control, base.encode()) if shape.index(b"%b") < shape.index(b"/") else (base.encode(), control)
    return shape % values


@pytest.mark.parametrize("place", REQUESTS)
async def test_control_character_in_a_request_is_refused_on_every_path(stage: OnFront, place: str) -> None:
    async with raw_origin() as origin:
        for control in CONTROLS:
            if (place, control) in HARMLESS | ENDS_LINE:
                continue
            said = await asyncio.gather(
                *(exchange(base, request_with(place, origin.base, control)) for base in bases(stage).values())
            )
            assert [status_of(each) for each in said] == [400, 400], (control, said)
        received = origin.received
    assert b"\r\n\r\n" not in received or place in ("chunk extension", "trailer")
    assert not re.search(rb"[\0-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)", received)
    assert LAST_CHUNK not in received, "no request is complete"


async def test_folded_line_of_a_request_is_forwarded_with_spaces(stage: OnFront) -> None:
    async with raw_origin() as origin:
        for base in bases(stage).values():
            request = f"POST /{origin.base}/x HTTP/1.1\r\nHost: a\r\nX-A: b\r\n  c\r\n\td\r\nContent-Length: 0\r\n"
            said = await exchange(base, request.encode() + b"Connection: close\r\n\r\n")
            assert status_of(said) == 200
        assert origin.received.count(b"\r\nX-A: b c d\r\n") == 2


@pytest.mark.parametrize(
    ("version", "status"), [("0.9", 505), ("1.2", 505), ("2.0", 505), ("3.0", 505), ("1.10", 400), ("1", 400)]
)
async def test_unknown_http_version_is_refused(stage: OnFront, version: str, status: int) -> None:
    async with raw_origin() as origin:
        for base in bases(stage).values():
            for method in ("POST", "GET"):
                said = await exchange(base, f"{method} /{origin.base}/x HTTP/{version}\r\nHost: a\r\n\r\n".encode())
                assert status_of(said) == status
        assert not origin.received


async def test_forwarded_requests_and_responses_have_version_1_1(stage: OnFront) -> None:
    async with raw_origin() as origin:
        for base in bases(stage).values():
            for method in ("POST", "GET"):
                said = await exchange(base, f"{method} /{origin.base}/{method} HTTP/1.0\r\n\r\n".encode())
                assert said.startswith(b"HTTP/1.1 200 ")
                assert said.endswith(b"ok")
        assert re.findall(rb"HTTP/1\.\d", origin.received) == [b"HTTP/1.1"] * 4


@pytest.mark.parametrize("method", ["head", "Connect", "HEAd"])
async def test_method_head_or_connect_in_another_case_is_refused(stage: OnFront, method: str) -> None:
    async with raw_origin() as origin:
        for base in bases(stage).values():
            assert (
                status_of(await exchange(base, f"{method} /{origin.base}/ HTTP/1.1\r\nHost: a\r\n\r\n".encode())) == 501
            )
        assert not origin.received


SOME_CONTROLS = [bytes([code]) for code in (0, 1, 7, 8, 9, 10, 11, 13, 27, 127)]
"""Control characters sent over a connection. test_response_head_parser.py tests the parser with all of them."""

RESPONSES = {
    "version": b"HTTP/1.%b1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "status": b"HTTP/1.1 20%b0 OK\r\nContent-Length: 2\r\n\r\nok",
    "reason": b"HTTP/1.1 200 O%bK\r\nContent-Length: 2\r\n\r\nok",
    "name": b"HTTP/1.1 200 OK\r\nX-%bA: b\r\nContent-Length: 2\r\n\r\nok",
    "value": b"HTTP/1.1 200 OK\r\nX-A: b%bSet-Cookie: evil=1\r\nContent-Length: 2\r\n\r\nok",
    "interim": b"HTTP/1.1 103 Early Hints\r\nLink: <%b>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "chunk extension": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a%bb\r\nok\r\n0\r\n\r\n",
    "trailer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: a%bSet-Cookie: b\r\n\r\n",
}


@pytest.mark.parametrize("place", RESPONSES)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_control_character_in_a_response_is_refused_or_replaced_by_a_space(
    stage: OnFront, method: str, place: str
) -> None:
    number = 0

    def answer(_: bytes) -> bytes:
        return RESPONSES[place] % SOME_CONTROLS[number]

    async with raw_origin(answer) as origin:
        for number, control in enumerate(SOME_CONTROLS):
            for base in bases(stage).values():
                path = f"{origin.base}/{number}/{base[-5:]}".encode()
                request = b"%b /%b HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
                said = await exchange(base, request % (method.encode(), path, 0))
                head = head_of(said) if said.count(b"HTTP/1.1 ") == 1 else said
                assert status_of(said) in (200, 502) or place == "interim", (control, said)
                assert not re.search(rb"[\0-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|(?<!\r)\n[^{]", head), said
                if control != b"\n":
                    assert b"\r\nSet-Cookie" not in said


@pytest.mark.parametrize("status", [b"099", b"600", b"999", b"2000", b"20", b"-200", b"+200", b"2x0"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_invalid_status_code_is_a_failure_of_the_origin(stage: OnFront, method: str, status: bytes) -> None:
    async with raw_origin(b"HTTP/1.1 %b OK\r\nContent-Length: 2\r\n\r\nok" % status) as origin:
        request = f"{method} /{origin.base}/x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        for base in bases(stage).values():
            assert status_of(await exchange(base, request.encode())) == 502


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
@pytest.mark.parametrize("framing", [b"Content-Length: 5", b"Transfer-Encoding: chunked"])
async def test_204_and_304_are_sent_without_framing_fields(stage: OnFront, status: bytes, framing: bytes) -> None:
    async with raw_origin(b"HTTP/1.1 %b\r\n%b\r\n\r\n" % (status, framing)) as origin:
        for base in bases(stage).values():
            request = f"POST /{origin.base}/x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            said = await exchange(base, request.encode())
            assert status_of(said) == int(status[:3])
            assert not re.search(rb"(?i)\r\n(content-length|transfer-encoding):", said)


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 1\r\nTransfer-Encoding: chunked",
        b"Content-Length: 1\r\nContent-Length: 1",
        b"Content-Length: 1, 1",
        b"Content-Length: +1",
        b"Content-Length: -1",
        b"Content-Length: 0x1",
        b"Content-Length: 1 1",
        b"Content-Length: ",
        b"Content-Length : 1",
        b" Content-Length: 1",
        b": 1",
        b"Transfer-Encoding: chunked, chunked",
        b"Transfer-Encoding: chunked, identity",
        b"Transfer-Encoding: xchunked",
        b"Transfer-Encoding: identity",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: ",
        b"Transfer-Encoding: ,chunked",
        b"Transfer-Encoding: \x0bchunked",
        b"Host: b",
        b"no colon",
    ],
)
async def test_request_with_ambiguous_framing_is_refused(stage: OnFront, fields: bytes) -> None:
    async with raw_origin() as origin:
        for base in bases(stage).values():
            for method in (b"POST", b"GET"):
                start = b"%b /%b/x HTTP/1.1\r\nHost: a\r\n" % (method, origin.base.encode())
                said = await exchange(base, start + fields + b"\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n")
                assert status_of(said) in (400, 501), said
                assert said.count(b"HTTP/1.1 ") == 1
        assert not origin.received


@pytest.mark.parametrize(
    "host",
    [
        b"",
        b"Host:\r\n",
        b"Host: :\r\n",
        b"Host: a::\r\n",
        b"Host: a b\r\n",
        b"Host: a/b\r\n",
        b"Host: u@a\r\n",
        b"Host: a:x\r\n",
    ],
)
async def test_request_without_exactly_one_host_is_refused(stage: OnFront, host: bytes) -> None:
    async with raw_origin() as origin:
        for base in bases(stage).values():
            for method in (b"POST", b"GET"):
                start = b"%b /%b/x HTTP/1.1\r\n" % (method, origin.base.encode())
                assert status_of(await exchange(base, start + host + b"Content-Length: 0\r\n\r\n")) == 400
        assert not origin.received


@pytest.mark.parametrize("host", [b"a:", b"[::1]:", b"127.0.0.1:"])
async def test_host_with_an_empty_port_is_accepted(stage: OnFront, host: bytes) -> None:
    """ "port = *DIGIT" -- RFC 3986, section 3.2.3"""
    async with raw_origin(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as origin:
        for base in bases(stage).values():
            for method in (b"POST", b"GET"):
                start = b"%b /%b/x HTTP/1.1\r\nHost: %b\r\n" % (method, origin.base.encode(), host)
                said = await exchange(base, start + b"Content-Length: 0\r\nConnection: close\r\n\r\n")
                assert status_of(said) == 200
        assert b"\r\nHost: %b\r\n" % origin.base.encode().partition(b"//")[2] in origin.received


@pytest.mark.parametrize("name", [b"CHUNKED", b"Chunked", b" chunKed \t"])
async def test_transfer_coding_is_sent_in_lower_case(stage: OnFront, name: bytes) -> None:
    """Recipients that compare it with case (contrary to RFC 9112, section 7) would split messages differently."""
    content = b"1\r\nx\r\n0\r\n\r\n"
    async with raw_origin(b"HTTP/1.1 200 OK\r\nTransfer-Encoding:%b\r\n\r\n%b" % (name, content)) as origin:
        for base in bases(stage).values():
            start = b"POST /%b/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" % origin.base.encode()
            said = await exchange(base, start + b"Transfer-Encoding: %b\r\n\r\n" % name + content)
            assert b"\r\nTransfer-Encoding: chunked\r\n" in said
        assert origin.received.count(b"\r\nTransfer-Encoding: chunked\r\n") == 2
