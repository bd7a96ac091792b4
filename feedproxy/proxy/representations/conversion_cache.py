"""Conversions of stored feeds, made once for each version in a helper process, and cached within bounds.

Each version is written once in each requested format, and compressed once in each coding; concurrent requests share the
work. The tag of the stored content names a version. Parsing and writing are one job (helper_pool.py), so that no model
of a document crosses the process boundary; the worker keeps the last models. A version that could not be converted is
remembered too, and is not tried again.
"""

import asyncio
import functools
import hashlib
import logging
import sys
import threading
from copy import copy
from dataclasses import dataclass, replace

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Seconds
from feedproxy.errors import FeedproxyError, NotAFeed, Overload
from feedproxy.feed.convert import markup
from feedproxy.feed.convert.formats import FORMATS, Format
from feedproxy.feed.convert.model import Feed, Item
from feedproxy.feed.convert.read.from_document import read, with_rendering_address, with_source_address
from feedproxy.http import content_coding
from feedproxy.http.date import parse_http_date
from feedproxy.lru import LRU
from feedproxy.memory_limits import MemoryLimits
from feedproxy.proxy.representations.decoded_bodies import decoded
from feedproxy.refresh.ingest.coding_policy import level_of
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.refresh.singleflight import SingleFlight
from feedproxy.settings import Settings

logger = logging.getLogger(__name__)

MODELS_MAX = 16
"""Models that a helper process keeps: of a feed that is converted, all formats are made of one model."""

FAILED_MAX = 1024
FAILED_BYTES = 2 * 1024 * 1024
"""Versions remembered that could not be converted, and bytes of their names and errors."""

FEED_FORMATS = frozenset({"rss", "rdf", "atom", "json"})
"""Formats that readers poll: each names its own address."""

HEADLINE_MAX = 64 * 1024
"""Characters of each text of the headlines."""

ENTRIES_MAX = 5
TITLE_MAX = 200
"""Entries that the headlines name, and characters of each title."""

type _Version = tuple[str, str]
type _Key = tuple[_Version, str, str, str]


@dataclass(frozen=True, slots=True)
class Conversion:
    """A feed in one format and one coding. `stem` is that of its tags (http/etag.py)."""

    body: bytes
    tag_base: str


@dataclass(frozen=True, slots=True)
class Headlines:
    """The headlines of a feed: title and text of the channel, and of the item that is dated last.

    `entries` are titles and dates of the items that are dated last, plain text.
    """

    title: str = ""
    summary: str = ""
    newest_title: str = ""
    newest_text: str = ""
    entries: tuple[tuple[str, int | None], ...] = ()

    @property
    def size(self) -> int:
        """Return the bytes of the texts."""
        titles = [title for title, _ in self.entries]
        return sum(map(sys.getsizeof, (self.title, self.summary, self.newest_title, self.newest_text, *titles)))


@dataclass(frozen=True, slots=True)
class _Document:
    """The stored feed as a job gets it."""

    version: _Version
    body: bytes
    label: str
    content_type: str | None
    modified: int | None
    limit: int
    models_max: int
    """Bytes of documents with a cached model, at most (memory_limits.py)."""


class ConversionCache:
    """Makes conversions and keeps them."""

    def __init__(self, helper_pool: HelperPool, limits: MemoryLimits) -> None:
        self._helper_pool = helper_pool
        self._conversions: LRU[_Key, Conversion] = LRU(limits.conversions)
        self._failed: LRU[tuple[_Version, str], FeedproxyError] = LRU(FAILED_BYTES, FAILED_MAX)
        self._headlines: LRU[_Version, Headlines] = LRU(limits.headlines)
        self._running: SingleFlight[_Key, Conversion] = SingleFlight()
        self.documents_parsed = 0
        """Documents read: fewer than conversions made."""

    @property
    def size(self) -> int:
        """Return the bytes of what is remembered."""
        return self._conversions.size + self._headlines.size

    async def get(
        self, stored: StoredResponse, wanted: Format, name: str, settings: Settings, *, at: str = ""
    ) -> Conversion:
        """Return this stored feed in this format and coding. Raises NotAFeed, and FeedproxyError beyond a limit.

        `at` is the address of the rendering, where it is another than the feed's: a feed format names it as its own.
        """
        version = _version(stored)
        key = version, wanted.name, name, at if wanted.name in FEED_FORMATS else ""
        if (known := self._conversions.get(key)) is not None:
            return known
        if (failed := self._failed.get((version, wanted.name))) is not None:
            raise copy(failed)
        task, _ = self._running.join_or_start(key, lambda: self._convert(key, stored, settings))
        return await asyncio.shield(task)

    async def headlines(self, stored: StoredResponse, settings: Settings) -> Headlines:
        """Return the headlines of this stored feed. Raises NotAFeed, and FeedproxyError."""
        document = _document(stored, settings)
        known = self._headlines.get(document.version)
        if known is None:
            known = await self._helper_pool.submit(functools.partial(_extract_headlines, document))
            self._headlines.put(document.version, known, _length(document.version) + known.size)
        return known

    async def _convert(self, key: _Key, stored: StoredResponse, settings: Settings) -> Conversion:
        version, wanted, name, at = key
        level = max(1, level_of(name, settings))
        plain = self._conversions.get((version, wanted, "identity", at))
        if plain is not None:
            body = await self._helper_pool.submit(functools.partial(content_coding.encode, plain.body, name, level))
            return self._remember(key, Conversion(body, plain.tag_base))
        work = functools.partial(_convert_document, _document(stored, settings), wanted, name, level, at)
        try:
            identity, coded, stem, was_read = await self._helper_pool.submit(work)
        except Overload:
            raise  # the next request tries again
        except FeedproxyError as error:
            self._remember_failure(version, wanted, error)
            raise
        except Exception as error:
            logger.exception("%s could not be converted to %s", stored.target, wanted)
            failed = FeedproxyError("feedproxy failed at converting this feed; its log says more")
            self._remember_failure(version, wanted, failed)
            raise failed from error
        self.documents_parsed += was_read
        plain = Conversion(identity, stem)
        self._remember((version, wanted, "identity", at), plain)
        return plain if name == "identity" else self._remember(key, Conversion(coded, plain.tag_base))

    def _remember(self, key: _Key, made: Conversion) -> Conversion:
        version, *_, at = key
        self._conversions.put(key, made, _length(version) + len(at) + len(made.body))
        return made

    def _remember_failure(self, version: _Version, wanted: str, error: FeedproxyError) -> None:
        # A copy, since an error that is raised holds its frames, and each raise adds others.
        self._failed.put((version, wanted), copy(error), _length(version) + len(str(error)))

    async def close(self, timeout: Seconds) -> None:
        """Let what is under way land, `timeout` seconds at most, and end."""
        await self._running.drain(timeout)


def _length(version: _Version) -> int:
    return sum(map(len, version))


def _version(stored: StoredResponse) -> _Version:
    """Return the name of the content and of its media type: the same bytes may have another charset for one client."""
    content, tag = stored.content, stored.content.tag
    if tag is None:
        # The origin's own, untouched: what names it takes no time, however long it is.
        tag = f"{stored.fields.get('etag') or ''} {stored.response_time} {content.size()}"
    return stored.target, f"{tag} {stored.fields.get('content-type') or ''}"


def _document(stored: StoredResponse, settings: Settings) -> _Document:
    content = stored.content
    label, body = next(iter(content.bodies.items()), ("identity", b""))
    if "identity" in content.bodies:
        label, body = "identity", content.bodies["identity"]
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
"""The models that were parsed last in this process."""

_LOCK = threading.Lock()


def _convert_document(
    document: _Document, wanted: str, name: str, level: int, at: str
) -> tuple[bytes, bytes, str, bool]:
    """Return the document in this format, the same coded, its stem, and whether it had to be read. Raises NotAFeed."""
    feed, was_read = _parse_model(document)
    body = FORMATS[wanted].render(with_rendering_address(feed, at) if at else feed)
    stem = hashlib.blake2b(body, digest_size=12).hexdigest()
    return body, b"" if name == "identity" else content_coding.encode(body, name, level), stem, was_read


def _extract_headlines(document: _Document) -> Headlines:
    """Return the headlines; the newest item is the first where none is dated. Raises NotAFeed."""
    feed = _parse_model(document)[0]
    items = sorted(feed.items, key=lambda item: -(item.published or item.updated or 0))[:ENTRIES_MAX]
    headlines = Headlines(markup.to_line(feed.title)[:HEADLINE_MAX], markup.to_plain(feed.summary)[:HEADLINE_MAX])
    if not items:
        return headlines
    return replace(
        headlines,
        newest_title=markup.to_line(items[0].title)[:HEADLINE_MAX],
        newest_text=markup.to_plain(items[0].summary or items[0].content)[:HEADLINE_MAX],
        entries=tuple((_item_title(item), item.published or item.updated) for item in items),
    )


def _item_title(item: Item) -> str:
    title = markup.to_line(item.title) or " ".join(markup.to_plain(item.summary or item.content).split())
    return title[:TITLE_MAX]


def _parse_model(document: _Document) -> tuple[Feed, bool]:
    with _LOCK:
        known = _MODELS.get(document.version)
    if known is not None:
        return known, False
    body: bytes | None = document.body
    if body and document.label != "identity":
        body = decoded(body, document.label, limit=document.limit)
    target = document.version[0]
    feed = read(body, document.content_type, address=target) if body else None
    if feed is None or body is None:
        raise NotAFeed("what is at this address is no feed, so it cannot be converted")
    feed = with_source_address(feed, target, modified=document.modified)
    with _LOCK:
        _MODELS.resize(document.models_max)
        _MODELS.put(document.version, feed, len(body))
    return feed, True
