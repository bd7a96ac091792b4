"""Framing of requests (RFC 9112, section 6). A request that two recipients may frame differently is refused."""

import pytest

from feedproxy.errors import BadRequest
from feedproxy.http.request_validation import read_request


def head(*fields: bytes, version: bytes = b"HTTP/1.1") -> list[bytes]:
    return [b"POST /feed.xml " + version, b"Host: example.com", *fields]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ([b"Content-Length: 3", b"Transfer-Encoding: chunked"], 400),
        ([b"Transfer-Encoding: chunked", b"content-length: 3"], 400),
        ([b"Content-Length: 3", b"Content-Length: 3"], 400),
        ([b"Content-Length: 3", b"Content-Length: 4"], 400),
        ([b"Content-Length: 3, 3"], 400),
        ([b"Content-Length: +3"], 400),
        ([b"Content-Length: -3"], 400),
        ([b"Content-Length: 0x3"], 400),
        ([b"Content-Length: 3_0"], 400),
        ([b"Content-Length:"], 400),
        ([b"Transfer-Encoding: chunked, gzip"], 400),
        ([b"Transfer-Encoding: chunked, chunked"], 400),
        ([b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"], 400),
        ([b"Transfer-Encoding: xchunked"], 400),
        ([b"Transfer-Encoding:"], 400),
        ([b"Transfer-Encoding: gzip, chunked"], 501),
    ],
)
def test_request_with_ambiguous_framing_is_refused(fields: list[bytes], status: int) -> None:
    with pytest.raises(BadRequest) as refused:
        read_request(head(*fields))

    assert refused.value.status_hint == status


def test_transfer_encoding_in_http_1_0_is_refused() -> None:
    """ "A server or client that receives an HTTP/1.0 message containing a Transfer-Encoding header field MUST treat the
    message as if the framing is faulty" -- section 6.1."""
    with pytest.raises(BadRequest):
        read_request(head(b"Transfer-Encoding: chunked", version=b"HTTP/1.0"))


@pytest.mark.parametrize("field", [b"Content-Length: 3", b"Transfer-Encoding: Chunked"])
def test_request_with_one_framing_field_is_read(field: bytes) -> None:
    assert read_request(head(field)).fields[-1] == tuple(field.split(b": "))
