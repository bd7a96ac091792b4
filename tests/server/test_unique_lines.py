"""A head without its unique lines is parsed alike, or is not recognized."""

from hypothesis import example, given
from hypothesis import strategies as st

from feedproxy.server.fastpath.request_head import parse_head, without_unique_lines

NAMES = (b"X-Request-Id", b"Traceparent", b"x-b3")
START = b"GET /feed.rss HTTP/1.1\r\nHost: feeds.example\r\n"

lines = st.sampled_from(
    [
        b"User-Agent: reader/1",
        b"Accept: */*",
        b"Accept-Encoding: gzip",
        b'If-None-Match: "x"',
        b"Connection: close",
        b"Content-Length: 3",
        b"A-IM: feed",
        b"X-Request-Id:",
        b"X-Request-Id: \xff",
        b"X-Request-Id: 7\n",
        b"X-Request-Id: 7\r",
        b"X-Request-Id : 7",
        b" folded",
        b"",
        *(name + b": %d" % number for name in NAMES for number in (1, 2, 345)),
    ]
)
noise = st.sampled_from([b"", b"", b"", b"\r\n", b"\n", b"\r", b"X-Request-Id: 9\r\n", b"\r\nX-Request-Id: 9", b"\0"])


def learn() -> None:
    """Show the parser new values of the fields, as in operation."""
    for number in range(3):
        assert parse_head(START + b"".join(name + b": a%d\r\n" % number for name in NAMES) + b"\r\n") is not None


@given(st.lists(lines, max_size=8), noise, st.integers(0, 200))
@example([b"", b"X-Request-Id: 1"], b"", 0)
@example([b"X-Request-Id: 1"], b"\r\nX-Request-Id: 9", 200)
def test_head_without_unique_lines_is_parsed_alike(fields: list[bytes], inserted: bytes, at: int) -> None:
    learn()
    data = START + b"".join(line + b"\r\n" for line in fields) + b"\r\n"
    data = data[:at] + inserted + data[at:]

    shorter = without_unique_lines(data)

    if shorter is data:
        return
    # Bytes looked up in the table are always one complete head.
    assert data.find(b"\r\n\r\n") == len(data) - 4
    assert shorter.find(b"\r\n\r\n") == len(shorter) - 4
    whole, rest = parse_head(data), parse_head(shorter)
    assert (whole is None) == (rest is None)
    if whole is not None and rest is not None:
        assert (whole.keyed_lines, whole.user_agent, whole.closes) == (rest.keyed_lines, rest.user_agent, rest.closes)


def test_lines_of_ignored_fields_with_unique_values_are_removed() -> None:
    learn()

    assert without_unique_lines(START + b"X-Request-Id: 5\r\nTraceparent: 6\r\n\r\n") == START + b"\r\n"
    assert without_unique_lines(START + b"\r\nX-Request-Id: 5\r\n\r\n") == START + b"\r\nX-Request-Id: 5\r\n\r\n"
