"""The response parser reads a response from pieces of any size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedproxy.upstream.chunked import ChunkedParser
from feedproxy.upstream.response_parser import ResponseParser
from feedproxy.upstream.upstream_errors import MalformedResponse

HEAD_MAX, CONTENT_MAX = 1000, 5000
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def a_reading(*, has_content: bool = True) -> ResponseParser:
    return ResponseParser(HEAD_MAX, CONTENT_MAX, has_content=has_content, now=lambda: 7.0)


def pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    found, at = [], 0
    for size in sizes:
        found.append(data[at : at + size])
        at += size
    return [*found, data[at:]]


CUTS = st.lists(st.integers(1, 40), max_size=30)


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8), CUTS)
def test_chunks_are_the_same_content_in_whatever_pieces_they_come(parts: list[bytes], cuts: list[int]) -> None:
    coded = b"".join(b"%x;a=b\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\nTrailer: x\r\n\r\n"
    reading = a_reading()
    done = [reading.feed(piece) for piece in pieces(CHUNKED + coded, cuts) if piece]

    assert done[-1]
    assert not any(done[:-1])
    assert reading.content == b"".join(parts)
    assert reading.reusable
    assert reading.at == 7.0


@pytest.mark.parametrize(
    "coded",
    [
        b"5\r\nhelloo\r\n0\r\n\r\n",
        b"5\r\nhello",
        b"5\r\nhello0\r\n\r\n",
        b"-5\r\nhello",
        b"0x5\r\nhello",
        b"+5\r\nhello",
        b" 5\r\nhello",
        b"g\r\n",
        b"\r\n",
        b"5 5\r\nhello",
        b"5\rhello",
        b"1234567890123456\r\n",
        b"5;" + b"x" * 9000,
        b"0\r\n" + b"X: y\r\n" * 200,
    ],
)
def test_chunked_parser_rejects_invalid_chunks(coded: bytes) -> None:
    reading = a_reading()
    try:
        assert not reading.feed(CHUNKED + coded)
    except MalformedResponse:
        return
    with pytest.raises(MalformedResponse):
        reading.end(reset=False)


@given(st.binary(max_size=200), CUTS)
def test_any_bytes_are_chunks_or_broken(data: bytes, cuts: list[int]) -> None:
    chunks = ChunkedParser(100)
    try:
        found = b"".join(b"".join(chunks.feed(piece)) for piece in pieces(data, cuts) if not chunks.done)
    except MalformedResponse:
        return
    assert len(found) <= len(data)


@pytest.mark.parametrize("at", range(5))
def test_chunks_of_a_request_are_invalid_with_a_bare_line_feed(at: int) -> None:
    parts = b"3|abc|0|X-T: a||".split(b"|")
    lines = [part + (b"\n" if number == at else b"\r\n") for number, part in enumerate(parts[:-1])]

    with pytest.raises(MalformedResponse):
        ChunkedParser(100, of_request=True).feed(b"".join(lines))


def test_bytes_after_last_chunk_end_the_connection() -> None:
    reading = a_reading()
    assert reading.feed(CHUNKED + b"0\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert not reading.reusable


def test_body_of_exactly_the_limit_is_read() -> None:
    reading = a_reading()
    assert reading.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000)
    assert not reading.oversized
    assert len(reading.content) == 5000


@pytest.mark.parametrize("head", [b"Content-Length: 5001", b"X: y"])
def test_body_above_the_limit_is_oversized_and_ends_the_connection(head: bytes) -> None:
    reading = a_reading()
    assert reading.feed(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n" + b"x" * 5001)
    assert reading.oversized
    assert not reading.reusable


def test_interim_response_has_no_framing_fields() -> None:
    """Otherwise a client may take the beginning of the final response for content of the interim response."""
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n"
    reading = a_reading()

    assert reading.feed(hints + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    (interim,) = reading.interim
    assert list(interim.fields) == [("Link", "</a>")]


def test_response_without_content_is_complete_with_its_head() -> None:
    reading = a_reading(has_content=False)
    assert reading.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 5001\r\n\r\n")
    assert not reading.oversized
    assert not reading.reusable, "what it tells of may come after all"
