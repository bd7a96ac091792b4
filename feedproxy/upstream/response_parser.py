"""Incremental parser for one response: heads, framing, content.  RFC 9112, section 6"""

from collections.abc import Callable

from feedproxy.clock import Instant
from feedproxy.http.message import Fields, Response
from feedproxy.upstream.chunked import ChunkedParser
from feedproxy.upstream.response_head_parser import ResponseHead, could_be_http, find_end, parse_head
from feedproxy.upstream.upstream_errors import MalformedResponse

HEADS_MAX = 20
"""A response may have at most this many heads, including those of interim responses (1xx)."""


class ResponseParser:
    """Parser of one response. After MalformedResponse, the parser must not be used again."""

    def __init__(self, head_max: int, content_max: int, *, has_content: bool, now: Callable[[], Instant]) -> None:
        """Create a parser. `head_max` limits all heads of the response together, and `content_max` the content as
        transferred, in bytes. `has_content` is false for the response to a HEAD. `now` returns the current time."""
        self._has_content = has_content
        self._head_max = head_max
        self._content_max = content_max
        self._now = now
        self._buffered = b""
        self._heads = self._head_bytes = 0
        self._content_remaining: int | None = None
        self._chunks: ChunkedParser | None = None
        self._content: bytes | bytearray = b""
        self.head: ResponseHead | None = None
        self.at: Instant = 0.0
        """Instant at which the head was complete."""
        self.interim: list[Response] = []
        """The 1xx responses before the final response, except 100 (Continue)."""
        self.reusable = False
        """True if the connection may be used for another response."""
        self.oversized = False
        self.silent = True
        """True until the first byte is received."""

    @property
    def content(self) -> bytes:
        """Return the content received so far."""
        return bytes(self._content)

    def feed(self, data: bytes) -> bool:
        """Parse further bytes. Return True if the response is complete. Raises MalformedResponse if it is invalid."""
        self.silent = self.silent and not data
        if self.head is not None:
            return self._read_content(data)
        data, self._buffered = (self._buffered + data if self._buffered else data), b""
        rest: bytes | None = data
        while rest is not None:
            head, rest = self._read_head(rest)
            if head is not None:
                self._begin(head)
                return self._read_content(rest or b"")
        return False

    def end(self, *, reset: bool) -> None:
        """Record the end of the connection. Raises MalformedResponse if the response is incomplete. `reset` is true if
        the connection was reset."""
        if self.head is None:
            progress = "within the head of the response" if self._buffered or self._heads else "without a response"
            raise MalformedResponse(f"the origin closed the connection {progress}")
        if self._content_remaining is not None or self._chunks is not None or reset:
            # A reset also makes content without a length incomplete.
            raise MalformedResponse("the connection broke within the content")

    def _read_head(self, data: bytes) -> tuple[ResponseHead | None, bytes | None]:
        """Parse one head. Return two values: the head, or None for a 1xx head, and the bytes after the head. If the
        head is incomplete, both values are None."""
        data = data.lstrip(b"\r\n") if data[:1] in b"\r\n" else data
        if not could_be_http(data):
            raise MalformedResponse(f"invalid status line {data[:12]!r}: expected HTTP/1")
        end = find_end(data)
        if self._heads == HEADS_MAX:
            raise MalformedResponse(f"more than {HEADS_MAX - 1} interim responses (1xx) before the response")
        if self._head_bytes + (end or len(data)) > self._head_max:
            raise MalformedResponse(f"the head of the response is larger than {self._head_max} bytes")
        if not end:
            self._buffered = data
            return None, None
        head, rest = parse_head(data[:end]), data[end:]
        self._heads += 1
        self._head_bytes += end
        if head.status == 101:
            raise MalformedResponse("unexpected 101 Switching Protocols")
        if not head.is_interim:
            return head, rest
        if head.status != 100:
            # "A server MUST NOT send a Content-Length header field in any response with a status code of 1xx" -- RFC
            # 9110, section 8.6. A client could take the beginning of the next response for content.
            fields = Fields(head.fields()).end_to_end().without("content-length")
            self.interim.append(Response(head.status, fields))
        return None, rest

    def _begin(self, head: ResponseHead) -> None:
        """Prepare for the content according to the framing in the final head."""
        self.head, self.at, self.reusable = head, self._now(), head.reusable
        self._has_content = self._has_content and head.has_content("GET")
        if not self._has_content:
            # Announced content may come later, in place of the next response.
            self.reusable = self.reusable and not head.chunked and not head.length
            # "any response with a ... 304 ... is always terminated by the first empty line" -- RFC 9112, 6.3
            self._content_remaining = 0
        elif head.chunked:
            self._chunks = ChunkedParser(self._head_max)
        elif head.length is not None:
            self._content_remaining = head.length
            self.oversized = head.length > self._content_max
        else:
            self.reusable = False  # "the message body length is determined by ... the server closing the connection"

    def _read_content(self, data: bytes) -> bool:
        if self.oversized:
            self.reusable = False
            return True
        if self._chunks is not None:
            data = b"".join(self._chunks.feed(data))
            done = self._chunks.done
            self.reusable = self.reusable and not self._chunks.rest
        elif self._content_remaining is not None:
            if len(data) > self._content_remaining:
                data, self.reusable = data[: self._content_remaining], False
            self._content_remaining -= len(data)
            done = not self._content_remaining
        else:
            done = False
        if len(self._content) + len(data) > self._content_max:
            self.oversized, self.reusable = True, False
            return True
        if not self._content:
            self._content = data if done else bytearray(data)
        else:
            self._content += data
        return done
