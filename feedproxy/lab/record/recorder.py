"""Recording of traffic: each exchange is redacted and written to a HAR file.

Each exchange is written at once, so that a killed process loses at most one. After a failed write, the recorder logs an
error and stops. Responses are not affected.
"""

import hashlib
import logging
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from feedproxy.clock import Clock, Instant
from feedproxy.errors import FeedproxyError
from feedproxy.http.coding.bounded_decompression import decode, decoding_limit
from feedproxy.http.coding.compression_dictionary import without_dictionary
from feedproxy.http.coding.content_coding import layers
from feedproxy.http.message import NO_FIELDS, Fields, Request
from feedproxy.lab.record.exchange import Exchange, Side, content_digest
from feedproxy.lab.record.har_redaction import Redactor
from feedproxy.lab.record.har_writer import HarWriter, RecordingFailed
from feedproxy.lru_map import LRU
from feedproxy.refresh.credentialed_client import ClosableOriginClient
from feedproxy.upstream.fetch_result import Fetched, Oversized, PendingFetch

logger = logging.getLogger("feedproxy.record")

DECODED_MAX = 50_000_000
"""Content of at most this many bytes is stored decoded. Larger content is stored as received."""

CONTENTS_CACHED_MAX = 512
"""The digests of at most this many bodies are cached. Many readers get the same body."""


class Recorder:
    """Writer of redacted exchanges. `private` returns True for targets that only some clients may get."""

    def __init__(self, writer: HarWriter, redactor: Redactor, private: Callable[[str], bool] = lambda _: False) -> None:
        self._private = private
        self._writer: HarWriter | None = writer
        self._redactor = redactor
        self._content_by_body: LRU[tuple[bytes, str], tuple[str, bool]] = LRU(entries_max=CONTENTS_CACHED_MAX)

    def record(self, exchange: Exchange, body: bytes | None = b"", *, private: bool = False) -> None:
        """Record one exchange.

        `exchange.reader` is a network address. `body` is the body as transferred, with its content coding, or None if
        unknown. `private` marks a response for this reader alone, or for authenticated readers.
        """
        if self._writer is None:
            return
        target = exchange.request.target.partition("#")[0]
        # A fragment identifies a stored credential, and must not be recorded.
        marked_private = private or self._private(target) or "#" in exchange.request.target
        private = self._redactor.is_private(exchange, marked_private=marked_private)
        exchange = _without_hop_fields(exchange)
        content: bytes | None = None
        try:
            if self._writer.begin_again_if_replaced():
                logger.info("recorder: the recording was renamed, deleted or truncated: began %s", self._writer.path)
            if body:
                digest, raw, content = self._content(body, exchange.fields.get("content-encoding") or "")
                exchange = replace(exchange, digest=digest, raw=raw)
            if private or (content and self._redactor.names_secret_address(content)):
                content = None
            self._writer.append(self._redactor.exchange(exchange, marked_private=marked_private), content)
        except RecordingFailed as error:
            logger.error("recorder: write failed, recording stopped: %s", error)
            self.close()

    def close(self, until: Instant = 0.0) -> None:
        """Close the file and stop recording. `until` is the end of a complete recording, or 0 if the end is unknown."""
        if self._writer is not None:
            self._writer.close(until)
            self._writer = None

    def _content(self, body: bytes, encoding: str) -> tuple[str, bool, bytes]:
        """Return three values for a body: the digest of its content, True if the content is not decoded, and the
        content, or b"" if the file already has it."""
        key = (hashlib.blake2b(body, digest_size=16).digest(), encoding)
        digest_and_raw = self._content_by_body.get(key)
        if digest_and_raw is None or not self._writer_has(digest_and_raw[0]):
            content, raw = _decode_body(body, encoding)
            digest_and_raw = (content_digest(content), raw)
            self._content_by_body.put(key, digest_and_raw)
            return *digest_and_raw, content
        return *digest_and_raw, b""

    def _writer_has(self, digest: str) -> bool:
        return self._writer is not None and self._writer.has(digest)


def with_digest(exchange: Exchange, body: bytes | None) -> tuple[Exchange, bytes]:
    """Return the exchange with the digest of its content, and the content. `body` is the body as transferred, with its
    content coding."""
    exchange = _without_hop_fields(exchange)
    content, raw = _decode_body(body or b"", exchange.fields.get("content-encoding") or "")
    return replace(exchange, digest=content_digest(content), raw=raw), content


def _without_hop_fields(exchange: Exchange) -> Exchange:
    request = exchange.request
    request = replace(request, target=request.target.partition("#")[0], fields=request.fields.end_to_end())
    return replace(exchange, fields=exchange.fields.end_to_end(), request=request)


def _decode_body(body: bytes, encoding: str) -> tuple[bytes, bool]:
    """Return the decoded content and False. If decoding fails, return the body and True."""
    if not layers(encoding):
        return body, False
    try:
        return decode(body, encoding, limit=decoding_limit(len(body), DECODED_MAX)), False
    except FeedproxyError:
        return body, True


class RecordingClient:
    """An origin client that records its exchanges while a recorder is set."""

    def __init__(self, client: ClosableOriginClient, recorder: Callable[[], Recorder | None], clock: Clock) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def fetch(self, request: Request, *, skip_address_check: bool = False) -> PendingFetch:
        recorder = self._recorder()
        if recorder is None:
            return self._client.fetch(request, skip_address_check=skip_address_check)
        return self._fetch_and_record(recorder, request, skip_address_check=skip_address_check)

    async def _fetch_and_record(
        self, recorder: Recorder, request: Request, *, skip_address_check: bool
    ) -> Fetched | Oversized:
        at = self._clock.now()
        # Recorded contents must be complete: a difference to a dictionary cannot be decoded without that dictionary.
        request = replace(request, fields=without_dictionary(request.fields))

        def exchange(status: int, fields: Fields, failure: str = "") -> Exchange:
            seconds = max(0.0, self._clock.now() - at)
            return Exchange(Side.ORIGIN, at, request, status, fields, seconds=seconds, failure=failure)

        try:
            answer = await self._client.fetch(request, skip_address_check=skip_address_check)
        except FeedproxyError as error:
            recorder.record(exchange(0, NO_FIELDS, f"{error.detail}: {error}"))
            raise
        match answer:
            case Fetched(response):
                recorded = replace(exchange(response.status, response.fields), reason=response.reason)
                recorder.record(replace(recorded, size=len(response.body)), response.body)
            case Oversized(status, fields):
                # The body is streamed to one reader and recorded with that reader's exchange.
                recorder.record(exchange(status, fields), None)
        return answer

    async def close(self) -> None:
        await self._client.close()
