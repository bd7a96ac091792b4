"""What mitmproxy 12 cannot do with a streamed HTTP/1 message, mended where it reads one.

* 1xx responses of an origin are taken for the final one, and the reader hangs: here they are passed over. (What our
  own client fetches brings them along: net/fetch.py.)
* Trailers, from an origin or from a reader, end in NotImplementedError, and the connection hangs: here they are
  dropped, as RFC 9110, 6.5.1, lets a recipient do that has no use for them.
* A head has no limit: here it has one, on either side; and a reader's has to come in time. (mitmproxy's own time-out
  counts silence only: a byte now and then would hold a connection for ever.)
* A message that cannot be read is answered with mitmproxy's own page: here with ours.

mitmproxy offers no place for that, so two of its inner names are replaced, once a process. Where these names are not
what they were, nothing is replaced, and a warning tells so.
"""

import logging
import time
from typing import Any

import h11
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.layers import http as http_layers
from mitmproxy.proxy.layers.http import _http1
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import ErrorCode, ResponseProtocolError

from feedproxy.cache.status import CacheStatus, Detail, append
from feedproxy.clock import Seconds
from feedproxy.origin.problem import problem

logger = logging.getLogger("feedproxy")

HEAD_MAX = 65_536
"""Bytes of a head: the default of `header_max`."""

HEAD_TIMEOUT: Seconds = 15
"""From a head's first byte to its last: the default of `head_timeout`."""


class _WithoutTrailers:
    """An h11 body reader whose end of message has no fields."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def __call__(self, buf: Any) -> Any:
        event = self._reader(buf)
        return h11.EndOfMessage() if isinstance(event, h11.EndOfMessage) else event

    def read_eof(self) -> Any:
        return self._reader.read_eof()


class CappedServer(_http1.Http1Server):
    """Reads requests whose heads are no longer than `head_max` bytes; a longer one is 431, and the end.

    One that has not come as a whole `head_timeout` seconds after its beginning is 408, and the end; 0 is no limit.
    """

    head_max = HEAD_MAX
    head_timeout: Seconds = HEAD_TIMEOUT
    _begun: float | None = None
    _waits = False

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if isinstance(event, events.Wakeup):
            self._waits = False
        else:
            yield from super()._handle_event(event)
        if not self.head_timeout:
            return
        if self.state != self.read_headers or not self.buf:
            self._begun = None
            return
        if isinstance(event, events.DataReceived) and self._begun is None:
            self._begun = time.monotonic()
        if self._begun is not None and not self._waits:
            yield from self._wait_for_the_rest(self._begun + self.head_timeout - time.monotonic())

    def _wait_for_the_rest(self, remaining: Seconds) -> layer.CommandGenerator[None]:
        if remaining > 0.001:
            # One alarm at a time: who begins a thousand heads a second must not set off a thousand.
            self._waits = True
            yield commands.RequestWakeup(remaining)
            return
        yield commands.SendData(self.conn, error_page(408, "The head of this request did not come in time."))
        yield commands.CloseConnection(self.conn)
        self.state = self.done

    def read_headers(self, event: events.ConnectionEvent) -> layer.CommandGenerator[None]:
        if isinstance(event, events.DataReceived) and _head_length(self.buf) > self.head_max:
            yield commands.SendData(self.conn, error_page(431, "The head of this request is too long."))
            yield commands.CloseConnection(self.conn)
            self.state = self.done
            return
        yield from super().read_headers(event)

    def read_body(self, event: events.Event) -> layer.CommandGenerator[None]:
        if not isinstance(self.body_reader, _WithoutTrailers):
            self.body_reader = _WithoutTrailers(self.body_reader)  # type: ignore[assignment]
        yield from super().read_body(event)


class PatientClient(_http1.Http1Client):
    """Reads responses, past those that come on the way."""

    head_max = HEAD_MAX

    def read_headers(self, event: events.ConnectionEvent) -> layer.CommandGenerator[None]:
        if isinstance(event, events.DataReceived) and self.request:
            while _is_interim(bytes(self.buf)):
                if self.buf.maybe_extract_lines() is None:
                    return  # the rest of it is still to come
            if _head_length(self.buf) > self.head_max:
                yield commands.CloseConnection(self.conn)
                assert self.stream_id is not None
                words = "the head of the answer is too long"
                yield ReceiveHttp(ResponseProtocolError(self.stream_id, words, ErrorCode.GENERIC_SERVER_ERROR))
                return
        yield from super().read_headers(event)

    def read_body(self, event: events.Event) -> layer.CommandGenerator[None]:
        if not isinstance(self.body_reader, _WithoutTrailers):
            self.body_reader = _WithoutTrailers(self.body_reader)  # type: ignore[assignment]
        yield from super().read_body(event)


def error_page(status: int, words: str = "") -> bytes:
    """A whole response of ours, for those whose request could not be read."""
    reason = {
        400: "Bad Request",
        408: "Request Timeout",
        431: "Request Header Fields Too Large",
        502: "Bad Gateway",
        504: "Gateway Timeout",
    }
    detail = Detail.BAD_TARGET if status < 500 else Detail.UNREACHABLE
    said = (
        words if status in (408, 431) else "This request could not be read." if status < 500 else "The origin failed."
    )
    response = problem(status, detail, said)
    fields = append(response.fields, CacheStatus(detail=detail)).with_field("Connection", "close")
    head = "".join(f"{name}: {value}\r\n" for name, value in fields)
    return f"HTTP/1.1 {status} {reason.get(status, '')}\r\n{head}\r\n".encode("latin-1") + response.body


def mend() -> bool:
    """Replace the names, once; False where mitmproxy has changed too much for it."""
    if http_layers.Http1Client is PatientClient:  # type: ignore[attr-defined]
        return True
    wanted: dict[Any, tuple[str, ...]] = {
        http_layers: ("Http1Client", "Http1Server", "HttpLayer", "HttpStream"),
        _http1: ("make_error_response",),
        _http1.Http1Client: ("read_headers", "read_body"),
        _http1.Http1Server: ("read_headers", "read_body", "done"),
    }
    missing = [
        f"{owner.__name__}.{name}" for owner, names in wanted.items() for name in names if not hasattr(owner, name)
    ]
    if missing:
        logger.warning("this mitmproxy lacks %s: streamed 1xx and trailers are not mended", ", ".join(missing))
        return False
    http_layers.Http1Client = PatientClient  # type: ignore[attr-defined]
    _http1.make_error_response = _page_for_mitmproxy
    return True


def _page_for_mitmproxy(status_code: int, message: str = "") -> bytes:
    logger.info("answered %d: %s", status_code, message)
    return error_page(status_code)


def _is_interim(data: bytes) -> bool:
    return data.startswith((b"HTTP/1.1 1", b"HTTP/1.0 1")) and not data[8:].startswith(b" 101")


def _head_length(buf: Any) -> int:
    held = bytes(buf)
    end = held.find(b"\r\n\r\n")
    return end if end >= 0 else len(held)
