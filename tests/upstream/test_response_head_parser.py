"""The head parser returns a Head or raises MalformedResponse, for any bytes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedproxy.upstream.response_head_parser import could_be_http, find_end, parse_head
from feedproxy.upstream.upstream_errors import MalformedResponse

NOISE = st.sampled_from(
    b"\r\n|\n|\r| |\t|:|,|\0|\xe9|X|HTTP/1.1 200 OK|HTTP/1.0 999|Content-Length|Transfer-Encoding|"
    b"chunked|identity|5|-1|0x1|;".split(b"|")
)


@given(st.one_of(st.binary(max_size=200), st.lists(NOISE, max_size=30).map(b"".join)))
def test_any_bytes_are_a_head_or_a_broken_message(data: bytes) -> None:
    try:
        head = parse_head(b"HTTP/1.1 200 OK\r\n" + data + b"\r\n\r\n")
    except MalformedResponse:
        return
    names = [name.lower() for name, _ in head.lines]
    assert names.count(b"content-length") + names.count(b"transfer-encoding") <= 1 + (b"transfer-encoding" in names)
    assert not (b"content-length" in names and b"transfer-encoding" in names)
    assert not re.search(rb"[\0-\x08\x0a-\x1f\x7f]", b"".join(name + value for name, value in head.lines))


@given(st.lists(NOISE, max_size=30).map(b"".join))
def test_head_that_is_written_and_parsed_again_is_equal(data: bytes) -> None:
    try:
        head = parse_head(b"HTTP/1.1 200 OK\r\n" + data + b"\r\n\r\n")
    except MalformedResponse:
        return
    written = b"HTTP/1.%d %d %b\r\n" % (head.minor, head.status, head.reason)
    written += b"".join(b"%b: %b\r\n" % line for line in head.lines) + b"\r\n"
    again = parse_head(written)
    assert (again.status, again.reason, again.lines) == (head.status, head.reason, head.lines)
    assert (again.chunked, again.length) == (head.chunked, head.length)
    assert find_end(written) == len(written)


@given(st.lists(NOISE, max_size=30).map(b"".join))
def test_head_parser_reads_lf_and_crlf_alike(data: bytes) -> None:
    data = data.replace(b"\r", b"")
    seen: list[object] = []
    for text in (data, data.replace(b"\n", b"\r\n")):
        end = b"\r\n" if b"\r" in text or b"\n" not in data else b"\n"
        try:
            seen.append(parse_head(b"HTTP/1.1 200 OK" + end + text + 2 * end))
        except MalformedResponse:
            seen.append(None)
    assert seen[0] == seen[1]


@given(st.text("\r\na", max_size=12).map(str.encode))
def test_head_ends_with_the_first_empty_line(data: bytes) -> None:
    match = re.search(rb"\n\r?\n", data)

    assert find_end(data) == (match.end() if match else 0)


@given(st.binary(max_size=20))
def test_response_head_is_given_up_at_the_first_byte_that_no_status_line_has(data: bytes) -> None:
    assert could_be_http(data) == (b"HTTP/1.".startswith(data[:7]))


@pytest.mark.parametrize(
    ("method", "status", "content"),
    [("GET", 200, True), ("HEAD", 200, False), ("GET", 204, False), ("GET", 304, False), ("GET", 404, True)],
)
def test_response_to_head_and_status_204_and_304_have_no_content(method: str, status: int, content: bool) -> None:
    assert parse_head(b"HTTP/1.1 %d X\r\n\r\n" % status).has_content(method) is content


def test_connection_with_two_framings_or_chunked_http_1_0_is_not_reusable() -> None:
    chunked = b"Transfer-Encoding: chunked\r\n"

    assert parse_head(b"HTTP/1.1 200 OK\r\n" + chunked + b"\r\n").reusable
    assert not parse_head(b"HTTP/1.0 200 OK\r\n" + chunked + b"\r\n").reusable
    assert not parse_head(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n" + chunked + b"\r\n").reusable


@pytest.mark.parametrize(
    ("head", "reusable"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n\r\n", True),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive, close\r\n\r\n", False),
    ],
)
def test_http_version_and_connection_field_determine_whether_connection_is_reusable(
    head: bytes, reusable: bool
) -> None:
    assert parse_head(head).reusable is reusable


@pytest.mark.parametrize("control", [*range(9), *range(11, 32), 127])
@pytest.mark.parametrize("place", ["reason", "value", "name", "status", "version"])
def test_head_parser_replaces_or_rejects_control_characters(place: str, control: int) -> None:
    parts = {"version": "1.1", "status": "200", "reason": "OK", "name": "X-A", "value": "bc"}
    parts[place] = parts[place][:1] + chr(control) + parts[place][1:]
    line = "HTTP/{version} {status} {reason}\r\n{name}: {value}\r\n\r\n".format_map(parts)
    try:
        head = parse_head(line.encode("latin-1"))
    except MalformedResponse:
        assert place in ("name", "status", "version") or chr(control) in "\0\r"
        return
    assert (head.reason if place == "reason" else head.lines[0][1]) in (b"O K", b"b c")


@pytest.mark.parametrize("status", ["099", "600", "999", "20", "2000", "+20", "1e2"])
def test_head_parser_rejects_status_outside_100_to_599(status: str) -> None:
    with pytest.raises(MalformedResponse):
        parse_head(f"HTTP/1.1 {status} OK\r\n\r\n".encode())


@pytest.mark.parametrize("status", [204, 304])
@pytest.mark.parametrize("framing", [b"Content-Length: 5", b"Transfer-Encoding: chunked"])
def test_connection_with_204_or_304_that_announces_content_is_not_reusable(status: int, framing: bytes) -> None:
    assert not parse_head(b"HTTP/1.1 %d X\r\n%b\r\n\r\n" % (status, framing)).reusable
    assert parse_head(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % status).reusable
