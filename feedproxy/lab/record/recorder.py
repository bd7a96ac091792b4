"""Recording of traffic: exchanges are redacted, then written.

Exchanges are written at once, not in the background: a killed process loses at most one. After a failed write the
recorder logs an error and stops recording; responses are not affected.
"""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from feedproxy.clock import Clock, Instant
from feedproxy.errors import FeedproxyError
from feedproxy.http.compression_dictionary import without_dictionary
from feedproxy.http.content_coding import decode, layers, reasonable
from feedproxy.http.message import Fields, Request
from feedproxy.lab.record.exchange import Exchange, Side, content_digest
from feedproxy.lab.record.har_writer import HarWriter, RecordingFailed
from feedproxy.lab.record.redact import Redactor
from feedproxy.lru import LRU
from feedproxy.refresh.redirects import OriginClient
from feedproxy.upstream.client import Fetched, Oversized

logger = logging.getLogger("feedproxy.record")

DECODED_MAX = 50_000_000
"""Most bytes of a content that is stored decoded; a larger one is stored as received."""

CONTENTS_CACHED_MAX = 512
"""Most bodies with a remembered digest: the same body goes to many readers."""


class Recorder:
    """Writes redacted exchanges. `private` returns True for targets that a rule marks private."""

    def __init__(self, writer: HarWriter, redactor: Redactor, private: Callable[[str], bool] = lambda _: False) -> None:
        self._private = private
        self._writer: HarWriter | None = writer
        self._redactor = redactor
        self._content_by_body: LRU[tuple[bytes, str], tuple[str, bool]] = LRU(entries_max=CONTENTS_CACHED_MAX)

    def note(self, exchange: Exchange, body: bytes | None = b"", *, private: bool = False) -> None:
        """Record one exchange. Its `reader` is an address; `body` is coded as on the wire, or None if it was not kept.

        `private` marks a response for this reader alone, or for authenticated readers.
        """
        if self._writer is None:
            return
        target = exchange.request.target.partition("#")[0]
        # A fragment is the mark of a wallet's credential, and goes no further.
        known = private or self._private(target) or "#" in exchange.request.target
        private = self._redactor.is_private(exchange, known=known)
        exchange = _without_hop_fields(exchange)
        content: bytes | None = None
        if body:
            digest, raw, content = self._content(body, exchange.fields.get("content-encoding") or "")
            exchange = replace(exchange, digest=digest, raw=raw)
        if private:
            content = None
        try:
            self._writer.append(self._redactor.exchange(exchange, known=known), content)
        except RecordingFailed as error:
            logger.error("nothing is recorded any more: %s", error)
            self.close()

    def close(self, until: Instant = 0.0) -> None:
        """Close the file and stop recording. `until` is the end of a complete recording."""
        if self._writer is not None:
            self._writer.close(until)
            self._writer = None

    def _content(self, body: bytes, encoding: str) -> tuple[str, bool, bytes]:
        """Return the digest of a body's content, whether it is stored undecoded, and the content if it is new."""
        key = (hashlib.blake2b(body, digest_size=16).digest(), encoding)
        known = self._content_by_body.get(key)
        if known is None or not self._writer_has(known[0]):
            content, raw = _decode_body(body, encoding)
            known = (content_digest(content), raw)
            self._content_by_body.put(key, known)
            return *known, content
        return *known, b""

    def _writer_has(self, digest: str) -> bool:
        return self._writer is not None and self._writer.has(digest)


def with_digest(exchange: Exchange, body: bytes | None) -> tuple[Exchange, bytes]:
    """Return an exchange with the digest of its content, and the content; `body` is coded as on the wire."""
    exchange = _without_hop_fields(exchange)
    content, raw = _decode_body(body or b"", exchange.fields.get("content-encoding") or "")
    return replace(exchange, digest=content_digest(content), raw=raw), content


def _without_hop_fields(exchange: Exchange) -> Exchange:
    request = exchange.request
    request = replace(request, target=request.target.partition("#")[0], fields=request.fields.end_to_end())
    return replace(exchange, fields=exchange.fields.end_to_end(), request=request)


def _decode_body(body: bytes, encoding: str) -> tuple[bytes, bool]:
    """Return the decoded content and False; or, if decoding fails, the body and True."""
    if not layers(encoding):
        return body, False
    try:
        return decode(body, encoding, limit=reasonable(len(body), DECODED_MAX)), False
    except FeedproxyError:
        return body, True


class ClosableClient(OriginClient, Protocol):
    """Origin client with `close`."""

    async def close(self) -> None: ...


class RecordingClient:
    """Origin client that records its exchanges while there is a recorder."""

    def __init__(self, client: ClosableClient, recorder: Callable[[], Recorder | None], clock: Clock) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def fetch(self, request: Request, *, exempt: bool = False) -> Fetched | Oversized:
        """Fetch by the client and record the exchange; raise what the client raises."""
        recorder = self._recorder()
        if recorder is None:
            return await self._client.fetch(request, exempt=exempt)
        at = self._clock.now()
        # Recorded contents are complete: a difference could not be read without the content before it.
        request = replace(request, fields=without_dictionary(request.fields))

        def exchange(status: int, fields: Fields, failure: str = "") -> Exchange:
            seconds = max(0.0, self._clock.now() - at)
            return Exchange(Side.ORIGIN, at, request, status, fields, seconds=seconds, failure=failure)

        try:
            answer = await self._client.fetch(request, exempt=exempt)
        except FeedproxyError as error:
            recorder.note(exchange(0, Fields(), f"{error.detail}: {error}"))
            raise
        match answer:
            case Fetched(response):
                recorded = replace(exchange(response.status, response.fields), reason=response.reason)
                recorder.note(replace(recorded, size=len(response.body)), response.body)
            case Oversized(status, fields):
                # The body is streamed to one reader and recorded with that reader's exchange.
                recorder.note(exchange(status, fields), None)
        return answer

    async def close(self) -> None:
        """Close the client."""
        await self._client.close()
