"""Renderings of stored feeds: each made once per version of the feed, off the event loop, and remembered in bounds.

A version is parsed once (the model is remembered), written once in each format that is asked for, and coded once in
each coding. Who asks meanwhile waits for the same. What names a version is the tag of its stored content.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from feedproxy.cache.stored import Content, StoredResponse
from feedproxy.clock import Seconds
from feedproxy.errors import NotAFeed
from feedproxy.feed.convert.formats import Format
from feedproxy.feed.convert.model import Feed
from feedproxy.feed.convert.read import found_at, read
from feedproxy.http import coding
from feedproxy.http.date import parse_http_date
from feedproxy.origin.codings import level_of
from feedproxy.origin.flight import Flights
from feedproxy.origin.plain import PLAIN
from feedproxy.settings import Settings

MODELS_MAX = 64
MODELS_BYTES = 32 * 1024 * 1024
"""Bytes of the documents that remembered models were read from; a model takes some five times as many."""

RENDERINGS_MAX = 1024
RENDERINGS_BYTES = 64 * 1024 * 1024

type _Version = tuple[str, str]
type _Key = tuple[_Version, str, str]


@dataclass(frozen=True, slots=True)
class Rendering:
    """A feed in one format and one coding. `stem` is that of its tags (http/validator.py)."""

    body: bytes
    stem: str


class Bounded[K, V]:
    """Values by key, the least lately used let go of above so many, or so many bytes of them."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._bytes = 0

    def get(self, key: K) -> V | None:
        """The value, if it is still there."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Keep a value of `size` bytes."""
        if (former := self._kept.pop(key, None)) is not None:
            self._bytes -= former[1]
        self._kept[key] = value, size
        self._bytes += size
        while len(self._kept) > self._most or (self._bytes > self._most_bytes and self._kept):
            self._bytes -= self._kept.popitem(last=False)[1][1]

    def __len__(self) -> int:
        return len(self._kept)


class Renderings:
    """Makes renderings and remembers them."""

    def __init__(self, workers: Executor) -> None:
        self._workers = workers
        self._models: Bounded[_Version, Feed] = Bounded(MODELS_MAX, MODELS_BYTES)
        self._made: Bounded[_Key, Rendering] = Bounded(RENDERINGS_MAX, RENDERINGS_BYTES)
        self._reading: Flights[_Version, Feed] = Flights()
        self._writing: Flights[_Key, Rendering] = Flights()
        self.parsed = 0
        """Documents read: fewer than renderings made."""

    async def of(self, stored: StoredResponse, wanted: Format, name: str, settings: Settings) -> Rendering:
        """This stored feed in this format and coding. Raises NotAFeed."""
        version = stored.target, _version(stored.content)
        key = version, wanted.name, name
        if (known := self._made.get(key)) is not None:
            return known
        task, _ = self._writing.join(key, lambda: self._write(key, stored, wanted, settings))
        return await asyncio.shield(task)

    async def model(self, stored: StoredResponse, settings: Settings) -> Feed:
        """What this stored feed says. Raises NotAFeed."""
        return await self._model((stored.target, _version(stored.content)), stored, settings)

    async def _write(self, key: _Key, stored: StoredResponse, wanted: Format, settings: Settings) -> Rendering:
        version, _, name = key
        plain_key = version, wanted.name, "identity"
        plain = self._made.get(plain_key)
        if plain is None:
            feed = await self._model(version, stored, settings)
            plain = await self._do(lambda: _rendered(feed, wanted))
            self._made.put(plain_key, plain, len(plain.body))
        if name == "identity":
            return plain
        level, body = max(1, level_of(name, settings)), plain.body
        coded = Rendering(await self._do(lambda: coding.encode(body, name, level)), plain.stem)
        self._made.put(key, coded, len(coded.body))
        return coded

    async def _model(self, version: _Version, stored: StoredResponse, settings: Settings) -> Feed:
        if (known := self._models.get(version)) is not None:
            return known
        task, _ = self._reading.join(version, lambda: self._read(version, stored, settings))
        return await asyncio.shield(task)

    async def _read(self, version: _Version, stored: StoredResponse, settings: Settings) -> Feed:
        feed, size = await self._do(lambda: _read(stored, settings.decoded_max))
        self.parsed += 1
        self._models.put(version, feed, size)
        return feed

    async def _do[T](self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._workers, work)

    async def close(self, timeout: Seconds) -> None:
        """Let what is under way land, `timeout` seconds at most, and end."""
        await self._writing.land_all(timeout)
        await self._reading.land_all(timeout)


def _version(content: Content) -> str:
    if content.tag is not None:
        return content.tag
    body = next(iter(content.bodies.values()), b"")
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def _read(stored: StoredResponse, limit: int) -> tuple[Feed, int]:
    """The model, and the bytes it was read from. Raises NotAFeed."""
    content = stored.content
    body = content.bodies.get("identity")
    if body is None and content.bodies:
        label, coded = next(iter(content.bodies.items()))
        body = PLAIN.of(coded, label, limit=limit)
    feed = read(body, stored.fields.get("content-type"), address=stored.target) if body else None
    if feed is None:
        raise NotAFeed("what is at this address is no feed, so it cannot be converted")
    said = stored.fields.get("last-modified")
    modified = content.last_modified if content.last_modified is not None else parse_http_date(said) if said else None
    return found_at(feed, stored.target, modified=None if modified is None else int(modified)), len(body or b"")


def _rendered(feed: Feed, wanted: Format) -> Rendering:
    body = wanted.render(feed)
    return Rendering(body, hashlib.blake2b(body, digest_size=12).hexdigest())
