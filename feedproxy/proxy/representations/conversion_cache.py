"""Conversions of stored feeds, made once for each version in a helper process, in a bounded cache.

The entity tag of the stored content identifies a version. Concurrent requests share one conversion. Failures are
cached, too.
"""

import asyncio
import functools
import hashlib
import logging
import threading
from copy import copy

from msgspec import Struct

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.errors import FeedproxyError, NotAFeed, Overload
from feedproxy.feed.convert.formats import FORMATS, Format
from feedproxy.feed.convert.headlines import Headlines, headlines_of
from feedproxy.feed.convert.model import Feed
from feedproxy.feed.convert.read.from_document import read, with_rendering_address, with_source_address
from feedproxy.http.coding import content_coding
from feedproxy.http.date import parse_http_date
from feedproxy.lru_map import LRU
from feedproxy.memory_max_shares import MemoryLimits
from feedproxy.proxy.representations.decoded_bodies import decode_or_none
from feedproxy.refresh.ingest.coding_policy import compression_level
from feedproxy.refresh.ingest.helper_pool import RETRY_AFTER, HelperPool, HelpersExited
from feedproxy.settings import Settings
from feedproxy.single_flight import SingleFlight

logger = logging.getLogger(__name__)

MODELS_MAX = 16
"""A helper process caches at most this many parsed feeds."""

FAILED_MAX = 1024
"""Maximum number of remembered versions of feeds that could not be converted."""

FAILED_BYTES = 2 * 1024 * 1024
"""The remembered failures take at most this many bytes of memory, for their keys and error texts."""

FEED_FORMATS = frozenset({"rss", "rdf", "atom", "json"})
"""Formats for feed readers. Documents in these formats name the address of the conversion in their self link."""

type _Version = tuple[str, str]
type _Key = tuple[_Version, str, str, str]


class Conversion(Struct, frozen=True):
    """A feed in one format and one content coding. `tag_base` is the common part of its entity tags (http/etag.py)."""

    body: bytes
    tag_base: str


class _Document(Struct, frozen=True):
    """A stored feed, as it is passed to a helper process."""

    version: _Version
    body: bytes
    label: str
    content_type: str | None
    modified: int | None
    limit: int
    models_max: int
    """Maximum size of all parsed documents that a helper process caches, in bytes (memory_max_shares.py)."""


class ConversionCache:
    """Maker of conversions, with a cache of their results."""

    def __init__(self, helper_pool: HelperPool, limits: MemoryLimits) -> None:
        self._helper_pool = helper_pool
        self._conversions: LRU[_Key, Conversion] = LRU(limits.conversions)
        self._failed: LRU[tuple[_Version, str], FeedproxyError] = LRU(FAILED_BYTES, FAILED_MAX)
        self._headlines: LRU[_Version, Headlines] = LRU(limits.headlines)
        self.in_progress: SingleFlight[_Key, Conversion] = SingleFlight()

    async def get(
        self, stored: StoredResponse, output_format: Format, name: str, settings: Settings, *, at: str = ""
    ) -> Conversion:
        """Return the stored feed in the format `output_format` and the content coding `name`.

        `at` is the address of the conversion, or "" if the conversion has the address of the feed. Raises NotAFeed if
        the document is no feed, and FeedproxyError if a limit is exceeded.
        """
        version = _version(stored)
        key = version, output_format.name, name, at if output_format.name in FEED_FORMATS else ""
        if (cached := self._conversions.get(key)) is not None:
            return cached
        if (failed := self._failed.get((version, output_format.name))) is not None:
            raise copy(failed)
        task, _ = self.in_progress.join_or_start(key, lambda: self._convert(key, stored, settings))
        return await asyncio.shield(task)

    async def headlines(self, stored: StoredResponse, settings: Settings) -> Headlines:
        """Return the headlines of the stored feed. Raises NotAFeed if the document is no feed, and FeedproxyError if a
        limit is exceeded."""
        document = _document(stored, settings)
        cached = self._headlines.get(document.version)
        if cached is None:
            cached = await self._helper_pool.submit(functools.partial(_extract_headlines, document))
            self._headlines.put(document.version, cached, _length(document.version) + cached.size)
        return cached

    async def _convert(self, key: _Key, stored: StoredResponse, settings: Settings) -> Conversion:
        version, output_format, name, at = key
        level = max(1, compression_level(name, settings))
        plain = self._conversions.get((version, output_format, "identity", at))
        if plain is not None:
            body = await self._helper_pool.submit(functools.partial(content_coding.encode, plain.body, name, level))
            return self._remember(key, Conversion(body, plain.tag_base))
        work = functools.partial(_convert_document, _document(stored, settings), output_format, name, level, at)
        try:
            identity, coded, tag_base = await self._helper_pool.submit(work)
        except Overload:
            raise  # the failure is not cached: the next request tries again
        except FeedproxyError as error:
            self._remember_failure(version, output_format, error)
            raise
        except Exception as error:
            logger.exception("conversion: %s failed for format %s", stored.target, output_format)
            failed = FeedproxyError("conversion of this feed failed; see feedproxy's log")
            self._remember_failure(version, output_format, failed)
            raise failed from error
        plain = Conversion(identity, tag_base)
        self._remember((version, output_format, "identity", at), plain)
        return plain if name == "identity" else self._remember(key, Conversion(coded, plain.tag_base))

    def _remember(self, key: _Key, conversion: Conversion) -> Conversion:
        version, *_, at = key
        self._conversions.put(key, conversion, _length(version) + len(at) + len(conversion.body))
        return conversion

    def _remember_failure(self, version: _Version, output_format: str, error: FeedproxyError) -> None:
        # Store a copy: a raised exception refers to its frames, and each further raise adds more frames.
        self._failed.put((version, output_format), copy(error), _length(version) + len(str(error)))
        if isinstance(error, HelpersExited):
            asyncio.get_running_loop().call_later(RETRY_AFTER, self._failed.drop, (version, output_format))


def _length(version: _Version) -> int:
    return sum(map(len, version))


def _version(stored: StoredResponse) -> _Version:
    """Return an identifier of a stored content and its Content-Type, which can state a charset."""
    content, tag = stored.content, stored.content.tag
    if tag is None:
        # Content without an entity tag of this proxy: the values below identify it without reading the bytes.
        tag = f"{stored.fields.get('etag') or ''} {stored.response_time} {content.size()}"
    return stored.target, f"{tag} {stored.fields.get('content-type') or ''}"


def _document(stored: StoredResponse, settings: Settings) -> _Document:
    content = stored.content
    label, body = content.main_body
    value = stored.fields.get("last-modified")
    modified = content.last_modified if content.last_modified is not None else parse_http_date(value) if value else None
    return _Document(
        _version(stored),
        body,
        label,
        stored.fields.get("content-type"),
        None if modified is None else int(modified),
        settings.decoded_max,
        settings.memory.models,
    )


# -- the job


_MODELS: LRU[_Version, Feed] = LRU(0, MODELS_MAX)
"""The feeds that this process parsed last."""

_LOCK = threading.Lock()


def _convert_document(
    document: _Document, output_format: str, name: str, level: int, at: str
) -> tuple[bytes, bytes, str]:
    """Return three values: the document in `output_format`, the same in the content coding `name` (empty for
    `identity`), and the base of its entity tags. Raises NotAFeed if the document is no feed."""
    feed = _parse_model(document)
    body = FORMATS[output_format].render(with_rendering_address(feed, at) if at else feed)
    tag_base = hashlib.blake2b(body, digest_size=12).hexdigest()
    return body, b"" if name == "identity" else content_coding.encode(body, name, level), tag_base


def _extract_headlines(document: _Document) -> Headlines:
    return headlines_of(_parse_model(document))


def _parse_model(document: _Document) -> Feed:
    with _LOCK:
        cached = _MODELS.get(document.version)
    if cached is not None:
        return cached
    body: bytes | None = document.body
    if body and document.label != "identity":
        body = decode_or_none(body, document.label, limit=document.limit)
    target = document.version[0]
    feed = read(body, document.content_type, address=target) if body else None
    if feed is None or body is None:
        raise NotAFeed("cannot convert: the document at this address is not a feed")
    feed = with_source_address(feed, target, modified=document.modified)
    with _LOCK:
        _MODELS.resize(document.models_max)
        _MODELS.put(document.version, feed, len(body))
    return feed
