"""Deltas (226) for clients that have an earlier version and ask for what is new since (RFC 3229, `A-IM: feed`).

The full response is built first (response_builder.py) and decides: a client with the current version gets its 304, and
where no delta is possible, or it would not be smaller, the client gets the full response. A delta has the fields, the
coding and the tag of the full response: the next request starts from there.

Many clients have the version before the current one. The delta that is made for the first of them, off the event loop,
serves all. See docs/explanation/deltas.md.
"""

import asyncio
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Seconds
from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.delta.delta_document import make_delta
from feedproxy.feed.delta.entries import unpack
from feedproxy.feed.parse.parser import read
from feedproxy.http import content_coding
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.delta_encoding import IM_USED, Bases, im_used, requested_bases
from feedproxy.http.etag import EntityTag, tag_base
from feedproxy.http.field_values import parse_parameters
from feedproxy.http.message import Request, Response
from feedproxy.lru import LRU
from feedproxy.memory_limits import MemoryLimits
from feedproxy.proxy.representations.derived_body import make_body
from feedproxy.refresh.ingest.coding_policy import level_of
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.refresh.singleflight import SingleFlight
from feedproxy.settings import Settings
from feedproxy.store.resource import DeltaBase, Resource

type _Key = tuple[str, str, tuple[str, ...], str]


@dataclass(frozen=True, slots=True)
class _Base:
    """The version that the client has, or several with the same date, and the tag that the request names it by."""

    versions: tuple[DeltaBase, ...]
    tag: EntityTag | None = None


class Deltas:
    """A bounded cache of deltas, which are made on demand."""

    def __init__(self, helper_pool: HelperPool, limits: MemoryLimits) -> None:
        self._helper_pool = helper_pool
        self._made: LRU[_Key, bytes | None] = LRU(limits.deltas)
        """Deltas by versions and coding; None if there is none. Most have one entry, some kilobytes."""
        self._under_way: SingleFlight[_Key, bytes | None] = SingleFlight()

    async def apply(
        self, whole: Response, stored: StoredResponse, request: Request, resource: Resource | None, settings: Settings
    ) -> Response:
        """Return the delta that the request asks for; `whole` if there is none."""
        wants = whole.status == 200 and settings.deltas and not _is_excluded(request, settings)
        bases = requested_bases(request) if wants else None
        if bases is None or resource is None or not _allows_deltas(stored, resource):
            return whole
        base = _find_base(bases, resource.delta_bases)
        if base is None:
            return whole
        name = whole.fields.get("content-encoding") or "identity"
        body = await self._delta(stored, base, name, len(whole.body), settings)
        if body is None:
            return whole
        fields = im_used(whole.fields, base=base.tag).with_field("Content-Length", str(len(body)))
        return Response(IM_USED, fields, body)

    async def _delta(
        self, stored: StoredResponse, base: _Base, name: str, size: int, settings: Settings
    ) -> bytes | None:
        key = (stored.target, stored.content.tag or "", tuple(version.tag for version in base.versions), name)
        if key in self._made:
            return self._made.get(key)
        body, declared = stored.content.bodies["identity"], stored.fields.get("content-type")
        level = max(1, level_of(name, settings))
        work = functools.partial(_make_delta, body, declared, base.versions, name, level, size)
        task, _ = self._under_way.join_or_start(key, lambda: self._make(key, work))
        return await asyncio.shield(task)

    async def _make(self, key: _Key, work: functools.partial[bytes | None]) -> bytes | None:
        body, is_final = await make_body(self._helper_pool, work, "a delta", key[0])
        if is_final:
            self._remember(key, body)
        return body

    def _remember(self, key: _Key, made: bytes | None) -> None:
        target, tag, bases, _ = key
        self._made.put(key, made, len(target) + len(tag) + sum(map(len, bases)) + len(made or b""))

    async def close(self, timeout: Seconds) -> None:
        """Wait for the deltas in progress, `timeout` seconds at most, and end."""
        await self._under_way.drain(timeout)


def _is_excluded(request: Request, settings: Settings) -> bool:
    """Return whether the client is excluded: programs on feedparser send A-IM unknowingly, and some fail with 226."""
    return (request.fields.get("user-agent") or "").startswith(settings.deltas_not_for)


def _allows_deltas(stored: StoredResponse, resource: Resource) -> bool:
    """Return whether deltas may be made: of a feed with a tag of this proxy, stored for all clients."""
    if not stored.content.feed or CacheControl.from_fields(stored.fields).no_transform:
        return False
    return stored.content.tag is not None and any(
        variant.content.tag == stored.content.tag for variant in resource.variants
    )


def _find_base(bases: Bases, versions: Sequence[DeltaBase]) -> _Base | None:
    """Return the version that the client has, the newest of several; None if none is known."""
    if bases.date is not None:
        dated = [version for version in versions if _whole_second(version) == bases.date]
        return _Base(tuple(dated)) if dated else None
    offered = {tag_base(tag): tag for tag in reversed(bases.tags)}
    for version in reversed(versions):
        if version.tag in offered:
            return _Base((version,), offered[version.tag])
    return None


def _whole_second(version: DeltaBase) -> float | None:
    return None if version.last_modified is None else math.floor(version.last_modified)


def _make_delta(
    body: bytes, declared: str | None, versions: Sequence[DeltaBase], name: str, level: int, size: int
) -> bytes | None:
    """Return the delta in this coding; None if none can be made, or if it is not smaller than `size` bytes."""
    channel = read(body, declared)
    if channel is None:
        return None
    # Of several versions with one date, only the entries common to all are known to the client.
    known = frozenset.intersection(*(unpack(version.entries) for version in versions))
    charset = parse_parameters(declared)[1].get("charset") if declared else None
    made = make_delta(body, channel, known, charset=charset)
    if made is None or made.body is body or (made.entries == 0 and requires_items(channel)):
        return None
    coded = content_coding.encode(made.body, name, level)
    return coded if len(coded) < size else None


def requires_items(channel: Channel) -> bool:
    """Return whether the format requires at least one item.

    RSS 1.0, section 5.2: "(channel, image?, item+, textinput?)"; of 0.91 Netscape's DTD has "item+". RSS 2.0, Atom and
    JSON Feed permit none.
    """
    return channel.kind is Kind.RDF or (channel.kind is Kind.RSS and channel.version in ("0.90", "0.91"))
