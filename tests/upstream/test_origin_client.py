"""Fetches: one request yields one complete response, or an error with its reason."""

import asyncio
import gc
import gzip
import json
import warnings
import weakref
from pathlib import Path
from typing import Any

import pytest

from feedproxy.errors import BadTarget, FeedproxyError, Forbidden
from feedproxy.settings import Settings
from feedproxy.upstream.connection_pool import OriginProtocol
from feedproxy.upstream.fetch_result import Fetched, Oversized
from feedproxy.upstream.origin_client import FetchLimits
from feedproxy.upstream.origin_connection_limits import Limit
from feedproxy.upstream.upstream_errors import FetchTimeout, MalformedResponse, Unreachable
from tests.upstream.raw import (
    LIMITS,
    NOON,
    OK,
    Played,
    RawOrigin,
    a_fetcher,
    a_get,
    a_policy,
    fetch_once,
    origin,
    play,
    until,
)
from tests.waiting import PATIENCE


def fetched(result: Fetched | Oversized) -> Fetched:
    assert isinstance(result, Fetched)
    return result


def response(body: bytes = b"", *lines: bytes, status: bytes = b"200 OK") -> bytes:
    return b"\r\n".join([b"HTTP/1.1 " + status, *lines, b"Content-Length: %d" % len(body), b"", body])


async def body_of(*script: bytes) -> bytes:
    return fetched(await fetch_once(*script)).response.body


# -- what goes out


async def test_request_head_has_host_and_given_fields_in_order_and_case() -> None:
    lines = (("X-B", "1"), ("accept", "*/*"), ("X-b", ""), ("User-Agent", "feedproxy/1"), ("X-Tab", "a\tb"))

    def inspect(raw: RawOrigin) -> None:
        assert raw.heads == [
            b"GET /feed?a=%C3%A9&b=%2f;x HTTP/1.1\r\n"
            + b"Host: 127.0.0.1:%d\r\nX-B: 1\r\naccept: */*\r\nX-b: \r\n" % raw.port
            + b"User-Agent: feedproxy/1\r\nX-Tab: a\tb\r\n\r\n"
        ]

    await fetch_once(OK, path="/feed?a=%C3%A9&b=%2f;x", lines=lines, inspect=inspect)


async def test_request_head_without_fields_has_host_only() -> None:
    def inspect(raw: RawOrigin) -> None:
        assert raw.heads == [b"GET /feed HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % raw.port]

    await fetch_once(OK, inspect=inspect)


@pytest.mark.parametrize(
    "tag", ['"x"', 'W/"x"', "unquoted", '"a", W/"b",c', "'x'", '"caf\xe9"', '"caf\xc3\xa9"', '"\xff\x80"']
)
async def test_request_condition_is_sent_byte_for_byte(tag: str) -> None:
    def inspect(raw: RawOrigin) -> None:
        assert b"\r\nIf-None-Match: " + tag.encode("latin-1") + b"\r\n" in raw.heads[0]

    await fetch_once(b"HTTP/1.1 304 Not Modified\r\n\r\n", lines=(("If-None-Match", tag),), inspect=inspect)


async def test_request_omits_hop_by_hop_and_content_fields() -> None:
    lines = tuple(
        (name, "x")
        for name in (
            "Host",
            "Connection",
            "TE",
            "Transfer-Encoding",
            "Content-Length",
            "Expect",
            "Upgrade",
            "Trailer",
        )
    )

    def inspect(raw: RawOrigin) -> None:
        assert raw.heads[0] == b"GET /feed HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nX-Kept: 1\r\n\r\n" % raw.port

    await fetch_once(OK, lines=(*lines, ("X-Kept", "1")), inspect=inspect)


@pytest.mark.parametrize("line", [("X", "a\r\nInjected: 1"), ("X\n", "1"), ("X", "\0"), ("X", "\u20ac"), ("", "x")])
async def test_request_with_invalid_field_is_rejected_before_connecting(line: tuple[str, str]) -> None:
    async with origin(OK) as raw, a_fetcher() as fetcher:
        with pytest.raises(BadTarget):
            await fetcher.fetch(a_get(raw.url(), line))
        assert raw.connections == 0


@pytest.mark.parametrize(
    "target",
    [
        "ftp://example.com/",
        "http:///x",
        "/x",
        "",
        "http://[::1/",
        "http://h:99999/",
        "http://h/\xe9",
        "http://h:x/",
    ],
)
async def test_request_with_invalid_target_is_rejected(target: str) -> None:
    async with a_fetcher() as fetcher:
        with pytest.raises(BadTarget):
            await fetcher.fetch(a_get(target))


@pytest.mark.parametrize("host", ["xn--a.example", "xn--0.example", "xn---.example", "xn--fa-hia.example"])
async def test_name_that_is_no_international_name_is_resolved_as_it_is(host: str) -> None:
    resolved: list[str] = []

    async def lookup(name: str, port: int) -> list[str]:
        resolved.append(name)
        return ["127.0.0.1"]

    async with origin(OK) as raw, a_fetcher(policy=a_policy(lookup=lookup)) as fetcher:
        result = fetched(await fetcher.fetch(a_get(f"http://{host}:{raw.port}/")))

    assert result.response.status == 200
    assert resolved == [host]
    assert b"\r\nHost: %b:" % host.encode() in raw.heads[0]


async def test_request_method_other_than_get_and_head_is_rejected() -> None:
    async with a_fetcher() as fetcher:
        with pytest.raises(BadTarget):
            await fetcher.fetch(a_get("http://127.0.0.1/", method="POST"))


# -- what comes in


async def test_response_fields_keep_order_case_and_bytes_without_hop_by_hop_fields() -> None:
    answer = (
        b"HTTP/1.1 200 Tr\xe8s bien\r\nX-B: caf\xe9 \xc3\xa9 \xff\r\nx-a:1\r\nX-B:  two \t\r\n"
        b"Connection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n"
        b"Set-Cookie: a=1\r\nset-cookie: b=2\r\nContent-Length: 2\r\n\r\nok"
    )

    got = fetched(await fetch_once(answer))

    assert list(got.response.fields) == [
        ("X-B", "caf\xe9 \xc3\xa9 \xff"), ("x-a", "1"), ("X-B", "two"),
        ("Set-Cookie", "a=1"), ("set-cookie", "b=2"),
    ]  # fmt: skip
    assert (got.response.status, got.response.reason, got.response.body) == (200, "Tr\xe8s bien", b"ok")
    assert (got.request_time, got.response_time) == (NOON, NOON)


async def test_response_body_with_content_coding_is_not_decoded() -> None:
    coded = gzip.compress(b"<rss/>")

    got = fetched(await fetch_once(response(coded, b"Content-Encoding: gzip")))

    assert got.response.body == coded
    assert got.response.fields.get("content-encoding") == "gzip"


async def test_interim_responses_are_skipped_whole_or_in_pieces() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"

    assert await body_of(interim + OK) == b"ok"
    assert fetched(await fetch_once(play(interim[:9], interim[9:30], interim[30:], OK))).response.body == b"ok"
    got = fetched(await fetch_once(interim + b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n"))
    assert (got.response.status, list(got.response.fields)) == (304, [("ETag", "x")])


async def test_interim_responses_without_end_are_malformed() -> None:
    with pytest.raises(MalformedResponse, match="more than 19 interim responses"):
        await fetch_once(b"HTTP/1.1 100 Continue\r\n\r\n" * 5000)


async def test_switch_of_protocols_is_malformed() -> None:
    with pytest.raises(MalformedResponse, match="101"):
        await fetch_once(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n\0\0")


async def test_chunked_body_is_read_and_its_trailers_dropped() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: CHUNKED\r\nTrailer: X-T\r\n\r\n"

    got = fetched(await fetch_once(head + b"3;ext=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nX-T: 1\r\nDigest: y\r\n\r\n"))

    assert (got.response.body, list(got.response.fields)) == (b"abc0123456789", [])


@pytest.mark.parametrize("size", [1, 2, 7])
async def test_response_that_arrives_in_small_pieces_is_read_completely(size: int) -> None:
    answer = b"HTTP/1.1 200 OK\r\nX-Y: z\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n2\r\nef\r\n0\r\n\r\n"
    pieces = [answer[at : at + size] for at in range(0, len(answer), size)]

    got = fetched(await fetch_once(play(*pieces)))

    assert (got.response.body, list(got.response.fields)) == (b"abcdef", [("X-Y", "z")])


async def test_body_without_length_ends_with_the_connection() -> None:
    for start in (b"HTTP/1.0 200 OK", b"HTTP/1.1 200 OK"):
        got = fetched(await fetch_once(play(start + b"\r\nA: b\r\n\r\n", b"<rss/>", then="close")))
        assert got.response.body == b"<rss/>"


async def test_body_without_length_that_ends_in_a_reset_is_malformed() -> None:
    async with origin(play(b"HTTP/1.1 200 OK\r\n\r\n<rss>", then="hold")) as raw, a_fetcher() as fetcher:
        task = asyncio.ensure_future(fetcher.fetch(a_get(raw.url())))
        await until(lambda: bool(fetcher._open))
        protocol: Any = next(iter(fetcher._open))
        await until(lambda: protocol._reading is not None and protocol._reading.head is not None)
        protocol.connection_lost(ConnectionResetError("reset"))
        with pytest.raises(MalformedResponse):
            await task


@pytest.mark.parametrize("then", ["keep", "close"])
async def test_response_304_has_no_body_and_bytes_after_it_end_the_connection(then: str) -> None:
    not_modified = b'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\nContent-Length: 10\r\n\r\n'
    forged = response(b"forged")
    for pieces in ([not_modified + forged], [not_modified, forged], [not_modified + b"<rss>garbage</rss>"]):
        async with origin(play(*pieces, then=then), OK) as raw, a_fetcher() as fetcher:
            first = fetched(await fetcher.fetch(a_get(raw.url())))
            second = fetched(await fetcher.fetch(a_get(raw.url())))
            assert (first.response.status, first.response.body) == (304, b"")
            assert list(first.response.fields) == [("ETag", '"a"')]
            assert second.response.body == b"ok"
            assert raw.connections == 2


@pytest.mark.parametrize("surplus", [b"garbage", response(b"forged"), b"\r\n\r\nGET / HTTP/1.1\r\n\r\n"])
async def test_response_bytes_after_content_length_are_not_the_next_response(surplus: bytes) -> None:
    right = response(b"right", b"X: 1")
    for pieces in ([right + surplus], [right, surplus], [right[:-2], right[-2:] + surplus]):
        async with origin(play(*pieces), OK) as raw, a_fetcher() as fetcher:
            assert fetched(await fetcher.fetch(a_get(raw.url()))).response.body == b"right"
            assert fetched(await fetcher.fetch(a_get(raw.url()))).response.body == b"ok"


async def test_response_before_its_request_is_discarded() -> None:
    async with origin(play(OK, b"", b"", response(b"poison")), OK) as raw, a_fetcher() as fetcher:
        await fetcher.fetch(a_get(raw.url()))
        await until(lambda: not fetcher._open)
        assert fetched(await fetcher.fetch(a_get(raw.url()))).response.body == b"ok"


async def test_response_to_head_has_no_body_and_keeps_content_length() -> None:
    async with origin(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n") as raw, a_fetcher() as fetcher:
        for _ in range(2):
            got = fetched(await fetcher.fetch(a_get(raw.url(), method="HEAD")))
            assert (got.response.body, got.response.fields.get("content-length")) == (b"", "99999999")
        assert raw.connections == 2, "what it tells of may come after all"


async def test_status_of_an_unknown_code_passes_and_one_beyond_599_is_broken() -> None:
    got = fetched(await fetch_once(response(b"x", status=b"599 Request denied")))
    assert (got.response.status, got.response.reason) == (599, "Request denied")

    # RFC 9110, section 15: "values outside the range 100..599 are invalid".
    with pytest.raises(MalformedResponse):
        await fetch_once(response(b"x", status=b"999 Request denied"))


async def test_redirects_are_not_followed_and_cookies_not_kept() -> None:
    moved = response(b"", b"Location: /elsewhere", b"Set-Cookie: a=1; Path=/", status=b"301 Moved")
    async with origin(moved, OK) as raw, a_fetcher() as fetcher:
        got = fetched(await fetcher.fetch(a_get(raw.url())))
        await fetcher.fetch(a_get(raw.url()))
        assert (got.response.status, got.response.fields.get("location")) == (301, "/elsewhere")
        assert b"cookie" not in raw.heads[1].lower()


LENIENT = {
    "a folded line is unfolded": (b"X: a\r\n  b\r\n\tc\r\n", [("X", "a b c")]),
    "bare LF ends a line": (b"X: a\nY: b\n", [("X", "a"), ("Y", "b")]),
    "white space before the colon goes": (b"X \t: a\r\n", [("X", "a")]),
    "an empty value stays": (b"X:\r\n", [("X", "")]),
    "control characters become spaces": (b"X: a\x01b\x7fc\r\n", [("X", "a b c")]),
    "one length said twice is one length": (b"Content-Length: 2\r\nContent-length: 2, 2\r\n", []),
    "transfer coding identity means nothing": (b"Transfer-Encoding: identity\r\nX: a\r\n", [("X", "a")]),
}


@pytest.mark.parametrize(("lines", "expected"), LENIENT.values(), ids=LENIENT)
async def test_head_parser_accepts_tolerable_heads(lines: bytes, expected: list[tuple[str, str]]) -> None:
    length = b"" if b"Content" in lines else b"Content-Length: 2\r\n"

    got = fetched(await fetch_once(b"HTTP/1.1 200 OK\r\n" + lines + length + b"\r\nok"))

    assert (list(got.response.fields), got.response.body) == (expected, b"ok")


async def test_head_parser_accepts_bare_line_feeds() -> None:
    assert await body_of(b"\r\nHTTP/1.1 200 OK\nContent-Length: 2\n\nok") == b"ok"


async def test_chunked_body_with_content_length_is_read_by_chunks_and_ends_the_connection() -> None:
    both = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
    async with origin(both) as raw, a_fetcher() as fetcher:
        for _ in range(2):
            got = fetched(await fetcher.fetch(a_get(raw.url())))
            assert (got.response.body, list(got.response.fields)) == (b"ab", [])
        assert raw.connections == 2


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BROKEN = {
    "nothing at all": b"",
    "HTTP/0.9": b"<rss version='2.0'>" + b" " * 4000,
    "one byte": b"H",
    "shoutcast": b"ICY 200 OK\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/2 status line": b"HTTP/2 200\r\nContent-Length: 0\r\n\r\n",
    "HTTP/2.0 status line": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "status of two digits": b"HTTP/1.1 20 OK\r\n\r\n",
    "status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
    "status 099": b"HTTP/1.1 099 OK\r\n\r\n",
    "TLS on the port": b"\x15\x03\x01\x00\x02\x02\x46",
    "end within the status line": b"HTTP/1.1 20",
    "end within the head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "end after a 100": b"HTTP/1.1 100 Continue\r\n\r\n",
    "short body": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
    "no body at all": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
    "two lengths in one line": b"HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nabc",
    "length with sign": b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab",
    "negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nab",
    "hexadecimal length": b"HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nab",
    "empty length": b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nab",
    "length beyond all numbers": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nab",
    "digits of another script": "HTTP/1.1 200 OK\r\nContent-Length: ２\r\n\r\nab".encode(),
    "unknown transfer coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "obfuscated chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked with vertical tab": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chu\x0bnked\r\n\r\n0\r\n\r\n",
    "no colon": b"HTTP/1.1 200 OK\r\nnonsense\r\nContent-Length: 0\r\n\r\n",
    "no name": b"HTTP/1.1 200 OK\r\n: x\r\nContent-Length: 0\r\n\r\n",
    "name with space": b"HTTP/1.1 200 OK\r\nX Y: x\r\nContent-Length: 0\r\n\r\n",
    "name with other letters": b"HTTP/1.1 200 OK\r\nX\xe9: x\r\nContent-Length: 0\r\n\r\n",
    "fold before any line": b"HTTP/1.1 200 OK\r\n X: x\r\nContent-Length: 0\r\n\r\n",
    "NUL in a value": b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n",
    "bare CR in a value": b"HTTP/1.1 200 OK\r\nX: a\rContent-Length: 5\r\nContent-Length: 0\r\n\r\n",
    "chunk size zz": CHUNKED + b"zz\r\nab\r\n0\r\n\r\n",
    "negative chunk size": CHUNKED + b"-1\r\nab\r\n0\r\n\r\n",
    "chunk size beyond all numbers": CHUNKED + b"fffffffffffffffffffff\r\nab",
    "chunk longer than its size": CHUNKED + b"2\r\nabcd\r\n0\r\n\r\n",
    "chunks without end": CHUNKED + b"2\r\nab\r\n",
    "cut in the last chunk": CHUNKED + b"2\r\nab\r\n0\r\n",
    "cut in a chunk": CHUNKED + b"ff\r\nab",
    "cut in a size": CHUNKED + b"f",
    "no chunk": CHUNKED,
}  # fmt: skip


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN)
async def test_incomplete_message_is_an_error_and_fetched_once(answer: bytes) -> None:
    async with origin(play(answer, then="close")) as raw, a_fetcher() as fetcher:
        with pytest.raises(MalformedResponse):
            await fetcher.fetch(a_get(raw.url()))
        assert len(raw.heads) == 1


async def test_head_above_header_max_is_malformed() -> None:
    def sized(value: int) -> bytes:
        return response(b"ok", b"X: " + b"x" * value)

    limits = FetchLimits(header_max=20_000)

    assert len(fetched(await fetch_once(sized(19_900), limits=limits)).response.fields.get("x") or "") == 19_900
    with pytest.raises(MalformedResponse, match="20000 bytes"):
        await fetch_once(sized(20_001), limits=limits)
    with pytest.raises(MalformedResponse, match="20000 bytes"):
        await fetch_once(play(b"HTTP/1.1 200 OK\r\n", *[b"X: 1\r\n"] * 10_000, then="hold"), limits=limits)
    with pytest.raises(MalformedResponse):
        await fetch_once(play(b"HTTP/1.1 200 OK\r\nX: ", b"x" * 50_000, then="hold"), limits=limits)


async def test_head_with_many_small_fields_below_header_max_is_read() -> None:
    got = fetched(await fetch_once(response(b"ok", *[b"X-%d: 1" % each for each in range(2000)])))

    assert len(got.response.fields) == 2000


# -- caps


async def test_body_with_length_above_buffer_max_is_oversized_before_it_arrives() -> None:
    answer = play(b"HTTP/1.1 200 OK\r\nETag: x\r\nContent-Length: 101\r\n\r\n", then="hold")

    got = await fetch_once(answer, limits=FetchLimits(buffer_max=100))

    assert isinstance(got, Oversized)
    assert (got.status, list(got.fields)) == (200, [("ETag", "x")])


@pytest.mark.parametrize("head", [b"Transfer-Encoding: chunked\r\n", b""])
async def test_body_without_length_is_oversized_above_buffer_max(head: bytes) -> None:
    pieces = [b"64\r\n" + b"x" * 100 + b"\r\n"] * 3
    answer = play(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n", *pieces, then="hold")
    async with origin(answer, OK) as raw, a_fetcher(FetchLimits(buffer_max=250)) as fetcher:
        assert isinstance(await fetcher.fetch(a_get(raw.url())), Oversized)
        assert fetched(await fetcher.fetch(a_get(raw.url()))).response.body == b"ok"


async def test_body_of_exactly_buffer_max_is_fetched() -> None:
    body = b"x" * 3_000_000

    got = fetched(await fetch_once(response(body), limits=FetchLimits(buffer_max=len(body))))

    assert got.response.body == body


# -- deadlines


SLOW = {
    "first byte": (play(b"", then="hold"), FetchLimits(first_byte=0.05)),
    "within the head": (play(b"HTTP/1.1 200 OK\r\nX", then="hold"), FetchLimits(first_byte=0.05)),
    "after a 100": (play(b"HTTP/1.1 100 Continue\r\n\r\n", then="hold"), FetchLimits(first_byte=0.05)),
    "body": (
        play(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", then="hold"),
        FetchLimits(first_byte=0.05),
    ),
    "body without length": (play(b"HTTP/1.1 200 OK\r\n\r\nab", then="hold"), FetchLimits(first_byte=0.05)),
    "whole": (play(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", then="hold"), FetchLimits(total=0.05)),
}


@pytest.mark.parametrize(("answer", "limits"), SLOW.values(), ids=SLOW)
async def test_timeout_of_slow_response_leaves_no_connection(answer: Played, limits: FetchLimits) -> None:
    async with origin(answer) as raw, a_fetcher(limits) as fetcher:
        with pytest.raises(FetchTimeout):
            await fetcher.fetch(a_get(raw.url()))
        await asyncio.sleep(0)
        assert len(fetcher._open) == 0


async def test_timeout_of_name_lookup_is_fetch_timeout() -> None:
    async def never(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    async with a_fetcher(FetchLimits(connect=0.05), policy=a_policy(lookup=never)) as fetcher:
        with pytest.raises(FetchTimeout, match="no connection"):
            await fetcher.fetch(a_get("http://slow.example/"))


# -- connections


async def test_five_fetches_use_one_connection() -> None:
    async with origin(OK) as raw, a_fetcher() as fetcher:
        for _ in range(5):
            await fetcher.fetch(a_get(raw.url()))
        assert raw.connections == 1
        assert len(fetcher._open) == 1
    assert len(fetcher._open) == 0


async def test_pooled_connection_closed_before_first_byte_is_retried_once() -> None:
    async with origin(OK, play(then="close"), OK) as raw, a_fetcher() as fetcher:
        await fetcher.fetch(a_get(raw.url()))
        got = fetched(await fetcher.fetch(a_get(raw.url())))
        assert got.response.body == b"ok"
        assert (len(raw.heads), raw.connections) == (3, 2)


async def test_repeated_request_uses_no_other_pooled_connection() -> None:
    """The origin has restarted: it closes each pooled connection when the next request arrives."""
    async with origin(OK, OK, OK, play(then="close"), OK) as raw, a_fetcher() as fetcher:
        await asyncio.gather(*(fetcher.fetch(a_get(raw.url())) for _ in range(3)))
        got = fetched(await fetcher.fetch(a_get(raw.url())))
        assert got.response.body == b"ok"
        assert (len(raw.heads), raw.connections) == (5, 4)
        assert len(fetcher._open) == 1


async def test_fresh_connection_closed_before_first_byte_is_not_retried() -> None:
    async with origin(play(then="close")) as raw, a_fetcher() as fetcher:
        with pytest.raises(MalformedResponse):
            await fetcher.fetch(a_get(raw.url()))
        assert len(raw.heads) == 1


async def test_pooled_connection_closed_after_first_byte_is_not_retried() -> None:
    async with origin(OK, play(b"HTTP/1.1", then="close")) as raw, a_fetcher() as fetcher:
        await fetcher.fetch(a_get(raw.url()))
        with pytest.raises(MalformedResponse):
            await fetcher.fetch(a_get(raw.url()))
        assert len(raw.heads) == 2


async def test_connection_reset_is_malformed() -> None:
    for answer in (play(then="reset"), play(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na", then="reset")):
        with pytest.raises(MalformedResponse):
            await fetch_once(answer)


async def test_port_without_listener_is_unreachable() -> None:
    async with origin(OK) as raw:
        url = raw.url()
    async with a_fetcher() as fetcher:
        with pytest.raises(Unreachable, match=r"^127\.0\.0\.1:\d+ cannot be reached: Connection refused$"):
            await fetcher.fetch(a_get(url))


async def test_connections_to_one_host_are_limited() -> None:
    limits = FetchLimits(per_host=Limit(2))
    async with origin(OK) as raw, a_fetcher(limits) as fetcher:
        await asyncio.gather(*(fetcher.fetch(a_get(raw.url())) for _ in range(20)))
        assert raw.connections <= 2


async def test_fetcher_closes_at_once_and_releases_everything() -> None:
    gc.collect()  # what other tests left behind is not ours
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with origin(OK, play(then="hold")) as raw:
            fetcher = a_fetcher()
            await fetcher.fetch(a_get(raw.url()))
            waiting = asyncio.ensure_future(fetcher.fetch(a_get(raw.url())))
            await until(lambda: len(raw.heads) == 2)
            async with asyncio.timeout(PATIENCE):
                await fetcher.close()
                with pytest.raises(FeedproxyError):
                    await waiting
            assert len(fetcher._open) == 0
            with pytest.raises(Unreachable):
                await fetcher.fetch(a_get(raw.url()))
            await fetcher.close()
        del waiting, fetcher
        gc.collect()


async def test_closed_connection_is_freed_without_garbage_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    connections: list[weakref.ref[OriginProtocol]] = []

    def connection_made(connection: OriginProtocol, transport: asyncio.BaseTransport) -> None:
        connections.append(weakref.ref(connection))
        made(connection, transport)

    made = OriginProtocol.connection_made
    monkeypatch.setattr(OriginProtocol, "connection_made", connection_made)
    gc.disable()
    try:
        async with origin(play(response(b"hi", b"Connection: close"))) as raw, a_fetcher() as fetcher:
            await fetcher.fetch(a_get(raw.url()))
            await until(lambda: connections[0]() is None)
    finally:
        gc.enable()


async def test_cancelled_fetch_leaves_no_connection() -> None:
    async with (
        origin(play(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na", then="hold")) as raw,
        a_fetcher() as fetcher,
    ):
        waiting = asyncio.ensure_future(fetcher.fetch(a_get(raw.url())))
        await until(lambda: bool(raw.heads))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(0)
        assert len(fetcher._open) == 0


# -- addresses


async def test_private_address_is_refused_as_literal_as_name_and_by_port() -> None:
    async def lookup(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with origin(OK) as raw:
        strict = a_policy(allow_private=False, lookup=lookup)
        async with a_fetcher(policy=strict) as fetcher:
            for host in (
                "127.0.0.1",
                "inside.example",
                "[::ffff:127.0.0.1]",
                "localhost",
                "127.1",
                "0x7f000001",
            ):
                with pytest.raises(Unreachable if host == "inside.example" else Forbidden):
                    await fetcher.fetch(a_get(raw.url(host=host)))
        async with a_fetcher(policy=a_policy(allow_private=False, networks=("127.0.0.0/8",), ports=("80",))) as fetcher:
            with pytest.raises(Forbidden, match="port"):
                await fetcher.fetch(a_get(raw.url()))
        assert raw.connections == 0


async def test_dns_rebinding_does_not_reach_private_address() -> None:
    answers = [["8.8.8.8", "127.0.0.1"], ["127.0.0.1"]]
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return answers[min(len(asked), len(answers)) - 1]

    async with origin(OK) as raw:
        limits = FetchLimits(connect=0.1)
        strict = a_policy(allow_private=False, lookup=rebinding)
        async with a_fetcher(limits, policy=strict) as fetcher:
            with pytest.raises((FetchTimeout, Unreachable)):  # only 8.8.8.8 is tried, and is not there
                await fetcher.fetch(a_get(raw.url(host="rebind.example")))
            assert asked == ["rebind.example"]  # one answer, checked and connected to
            with pytest.raises(Unreachable):
                await fetcher.fetch(a_get(raw.url(host="rebind.example")))
        assert raw.connections == 0


async def test_connection_uses_the_checked_address() -> None:
    async def elsewhere(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with origin(OK) as raw, a_fetcher(policy=a_policy(lookup=elsewhere)) as fetcher:
        got = fetched(await fetcher.fetch(a_get(raw.url(host="feeds.example"))))
        assert got.response.body == b"ok"
        assert b"Host: feeds.example:%d" % raw.port in raw.heads[0]


async def test_exempt_upstream_is_exempt_from_the_address_check_only() -> None:
    async def lookup(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    strict = a_policy(allow_private=False, ports=("80",), lookup=lookup)
    big = response(b"x" * 200)
    async with (
        origin(OK, OK, big, b"HTTP/0.9") as raw,
        a_fetcher(FetchLimits(buffer_max=100), policy=strict) as fetcher,
    ):
        for host in ("127.0.0.1", "upstream.example"):
            assert (
                fetched(await fetcher.fetch(a_get(raw.url(host=host)), skip_address_check=True)).response.body == b"ok"
            )
        assert isinstance(await fetcher.fetch(a_get(raw.url()), skip_address_check=True), Oversized)
        with pytest.raises(MalformedResponse):
            await fetcher.fetch(a_get(raw.url()), skip_address_check=True)


async def test_exempt_connection_is_not_reused_for_checked_request() -> None:
    async def lookup(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with origin(OK) as raw:
        strict = a_policy(allow_private=False, lookup=lookup)
        async with a_fetcher(policy=strict) as fetcher:
            await fetcher.fetch(a_get(raw.url(host="upstream.example")), skip_address_check=True)
            with pytest.raises(Unreachable):
                await fetcher.fetch(a_get(raw.url(host="upstream.example")))


def test_fetch_limits_come_from_settings() -> None:
    limits = FetchLimits.from_settings(Settings(connect_timeout=1, fetch_timeout=4, header_max=4, buffer_max=5))

    assert (limits.connect, limits.first_byte, limits.total, limits.header_max, limits.buffer_max) == (
        1,
        2,
        4,
        4,
        5,
    )


# -- the corpus


async def test_hostile_response_of_corpus_yields_response_or_error(corpus: Path) -> None:
    cases = {case["id"]: case for case in json.loads((corpus / "hostile.json").read_text())}
    expected_broken = {
        "cl-too-long", "cl-too-long-after-good", "chunked-cut", "chunked-bad-size",
        "duplicate-content-length", "close-at-once", "close-in-headers", "http09", "header-huge",
        "status-999",
    }  # fmt: skip
    broken = set()
    for path in sorted((corpus / "hostile" / "raw").glob("*.http")):
        name = path.name.removesuffix(".http").removesuffix(".prime")
        case = cases.get(name, {})
        close = case.get("close_after", False) and ".prime" not in path.name
        async with (
            origin(play(path.read_bytes(), then="close" if close else "keep")) as raw,
            a_fetcher(LIMITS) as fetcher,
        ):
            try:
                got = await fetcher.fetch(a_get(raw.url()))
            except MalformedResponse:
                broken.add(name)
            else:
                assert isinstance(got, Fetched | Oversized)
    assert broken == expected_broken


async def test_interim_responses_other_than_100_are_returned_with_the_response() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\nConnection: y\r\nY: 1\r\n\r\n"

    got = fetched(await fetch_once(interim + OK))

    assert [(each.status, list(each.fields)) for each in got.interim] == [(103, [("Link", "</x>")])]


async def test_body_with_unknown_transfer_coding_ends_with_the_connection() -> None:
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: sparkling\r\nContent-Length: 1\r\n\r\nall of it"

    got = fetched(await fetch_once(play(answer, then="close")))

    assert got.response.body == b"all of it"
    assert "transfer-encoding" not in got.response.fields
