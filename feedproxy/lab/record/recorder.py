"""From traffic to a recording: what was asked and answered, redacted, then written.

Writing happens where the traffic is seen and not in the background: what was answered is on record, and a process
that is killed loses one exchange at most. A recording that fails is told once and given up; nobody's answer suffers.
"""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from feedproxy.clock import Clock, Instant
from feedproxy.errors import FeedproxyError
from feedproxy.http.content_coding import decode, layers, reasonable
from feedproxy.http.message import Fields, Request
from feedproxy.lab.record.exchange import Exchange, Side, digest_of
from feedproxy.lab.record.har_writer import HarWriter, RecordingFailed
from feedproxy.lab.record.redact import Redactor
from feedproxy.refresh.redirects import OriginClient
from feedproxy.upstream.client import Fetched, Oversized

logger = logging.getLogger("feedproxy.record")

DECODED_MAX = 50_000_000
"""Bytes of a content that is kept decoded; a larger one is kept as it came."""

REMEMBERED = 512
"""Bodies whose content is known: the same body goes to many readers."""


class Recorder:
    """Writes exchanges down, as far as they may be. `private` tells of a target whether a rule says that it is."""

    def __init__(self, writer: HarWriter, redactor: Redactor, private: Callable[[str], bool] = lambda _: False) -> None:
        self._private = private
        self._writer: HarWriter | None = writer
        self._redactor = redactor
        self._known: OrderedDict[tuple[bytes, str], tuple[str, bool]] = OrderedDict()

    def note(self, exchange: Exchange, body: bytes | None = b"", *, private: bool = False) -> None:
        """One exchange; `reader` is an address yet, and `body` came on the wire. None: the body was not kept.

        `private` says that the answer is for this reader, or for readers who have signed in.
        """
        if self._writer is None:
            return
        target = exchange.request.target.partition("#")[0]
        # A fragment is the mark of a wallet's credential, and goes no further.
        known = private or self._private(target) or "#" in exchange.request.target
        private = self._redactor.is_private(exchange, known=known)
        exchange = _end_to_end(exchange)
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
        """Close the file; what comes later is not recorded. `until`: when recording ended, if it ended well."""
        if self._writer is not None:
            self._writer.close(until)
            self._writer = None

    def _content(self, body: bytes, encoding: str) -> tuple[str, bool, bytes]:
        """The digest of what this body stands for, whether it is kept as it came, and what is kept."""
        key = (hashlib.blake2b(body, digest_size=16).digest(), encoding)
        known = self._known.get(key)
        if known is None or not self._writer_has(known[0]):
            content, raw = _decoded(body, encoding)
            known = self._known[key] = (digest_of(content), raw)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
            return *known, content
        self._known.move_to_end(key)
        return *known, b""

    def _writer_has(self, digest: str) -> bool:
        return self._writer is not None and self._writer.has(digest)


def with_digest(exchange: Exchange, body: bytes | None) -> tuple[Exchange, bytes]:
    """An exchange with the digest of its content, and the content; `body` came on the wire."""
    exchange = _end_to_end(exchange)
    content, raw = _decoded(body or b"", exchange.fields.get("content-encoding") or "")
    return replace(exchange, digest=digest_of(content), raw=raw), content


def _end_to_end(exchange: Exchange) -> Exchange:
    asked = exchange.request
    request = replace(asked, target=asked.target.partition("#")[0], fields=asked.fields.end_to_end())
    return replace(exchange, fields=exchange.fields.end_to_end(), request=request)


def _decoded(body: bytes, encoding: str) -> tuple[bytes, bool]:
    """The content, or the body itself where its coding is not true."""
    if not layers(encoding):
        return body, False
    try:
        return decode(body, encoding, limit=reasonable(len(body), DECODED_MAX)), False
    except FeedproxyError:
        return body, True


class Client(OriginClient, Protocol):
    """What fetches; closed at the end."""

    async def close(self) -> None: ...


class RecordingClient:
    """A client all of whose exchanges are recorded while there is somebody who records."""

    def __init__(self, client: Client, recorder: Callable[[], Recorder | None], clock: Clock) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def fetch(self, request: Request, *, exempt: bool = False) -> Fetched | Oversized:
        """What the client fetches; raises what it raises."""
        recorder = self._recorder()
        if recorder is None:
            return await self._client.fetch(request, exempt=exempt)
        at = self._clock.now()

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
                told = replace(exchange(response.status, response.fields), reason=response.reason)
                recorder.note(replace(told, size=len(response.body)), response.body)
            case Oversized(status, fields):
                # Its body streams, to one reader, and is on record with him.
                recorder.note(exchange(status, fields), None)
        return answer

    async def close(self) -> None:
        """Close the client."""
        await self._client.close()
