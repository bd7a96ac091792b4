"""Deltas (226) for clients that have an earlier version and request only new items (RFC 3229, `A-IM: feed`).

A client gets a delta only if it is smaller than the full response, with the same fields, coding and entity tag
(docs/explanation/deltas.md).
"""

import functools
import math
from collections.abc import Sequence

from msgspec import Struct

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.delta.delta_document import make_delta
from feedproxy.feed.delta.entry_identities import unpack
from feedproxy.feed.parse.channel_parser import read
from feedproxy.http.cache_control import CacheControl, without_targeted
from feedproxy.http.coding import content_coding
from feedproxy.http.coding.delta_negotiation import FEED, Bases, requested_bases
from feedproxy.http.content_negotiation import vary_on
from feedproxy.http.etag import EntityTag, tag_base
from feedproxy.http.field_values import charset_of
from feedproxy.http.message import Fields, Request, Response
from feedproxy.memory_max_shares import MemoryLimits
from feedproxy.proxy.representations.derived_values import DerivedValues
from feedproxy.refresh.ingest.coding_policy import compression_level
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.settings import Settings
from feedproxy.store.resource import DeltaBase, Resource

IM_USED = 226


class _Base(Struct, frozen=True):
    """The stored versions that the client may have. `tag` is the entity tag that names the only version. It is None if
    the request has a date, which can name several versions."""

    versions: tuple[DeltaBase, ...]
    tag: EntityTag | None = None


class Deltas:
    """Maker of deltas on demand, with a bounded cache."""

    def __init__(self, helper_pool: HelperPool, limits: MemoryLimits) -> None:
        self.bodies: DerivedValues[bytes] = DerivedValues(helper_pool, limits.deltas, "a delta")
        """Deltas by target, new version, coding and old versions."""

    async def apply(
        self, full: Response, stored: StoredResponse, request: Request, resource: Resource | None, settings: Settings
    ) -> Response:
        """Return the delta that the request asks for, or `full` if no delta is requested, possible or smaller."""
        is_requested = full.status == 200 and settings.deltas and not _is_excluded(request, settings)
        bases = requested_bases(request) if is_requested else None
        if bases is None or resource is None or not _allows_deltas(stored, resource):
            return full
        base = _find_base(bases, resource.delta_bases)
        if base is None:
            return full
        name = full.fields.get("content-encoding") or "identity"
        body = await self._delta(stored, base, name, len(full.body), settings)
        if body is None:
            return full
        fields = im_used_fields(full.fields, base=base.tag).with_field("Content-Length", str(len(body)))
        return Response(IM_USED, fields, body)

    async def _delta(
        self, stored: StoredResponse, base: _Base, name: str, size: int, settings: Settings
    ) -> bytes | None:
        key = (stored.target, stored.content.tag or "", name, *(version.tag for version in base.versions))
        body, declared = stored.content.bodies["identity"], stored.fields.get("content-type")
        level = max(1, compression_level(name, settings))
        work = functools.partial(_make_delta, body, declared, base.versions, name, level, size)
        return await self.bodies.get(key, work)


def im_used_fields(fields: Fields, *, base: EntityTag | None = None) -> Fields:
    """Return the fields of a 226, made from the fields of the 200. The ETag remains that of the current version. `base`
    is the tag of the client's version, as the client sent it, or None if the client sent a date.

    Raises ValueError if the fields have no ETag, which a 226 must have (RFC 3229, section 10.4.1).
    """
    if "etag" not in fields:
        raise ValueError("a 226 requires the ETag of the current version")
    # "MUST be included … if the request included more than one entity tag"; it may always be included (section 10.5.1).
    condition = "If-None-Match" if base else "If-Modified-Since"
    fields = fields.without("delta-base", "accept-ranges").with_field("IM", FEED)
    if base:
        fields = fields.with_added("Delta-Base", base.text)
    return vary_on(_with_no_store(fields), "A-IM", condition)


def _with_no_store(fields: Fields) -> Fields:
    """Return the fields with `no-store` and `im`, to prevent caches without support for 226 from storing a 226 (RFC
    3229, section 10.8.2).

    A cache with support for 226 ignores `no-store` if `im` is present. If the origin sent `no-store`, all caches must
    obey it, and `im` is not added.
    """
    # A cache ignores Cache-Control if a targeted field is for that cache (RFC 9213, section 2.2).
    fields = without_targeted(fields)
    if CacheControl.from_fields(fields).no_store:
        return fields
    value = fields.combined("cache-control")
    return fields.with_field("Cache-Control", f"{value}, no-store, im" if value else "no-store, im")


def _is_excluded(request: Request, settings: Settings) -> bool:
    """Return True if the option `deltas_not_for` excludes the client. feedparser always sends A-IM, but some programs
    that use feedparser treat a 226 as an error."""
    return (request.fields.get("user-agent") or "").startswith(settings.deltas_not_for)


def _allows_deltas(stored: StoredResponse, resource: Resource) -> bool:
    """Return True if the response is a shared feed with an entity tag of this proxy, and without `no-transform`."""
    if not stored.content.feed or stored.no_transform:
        return False
    return stored.content.tag is not None and any(
        variant.content.tag == stored.content.tag for variant in resource.variants
    )


def _find_base(bases: Bases, versions: Sequence[DeltaBase]) -> _Base | None:
    """Return the newest stored version that the request names by a tag, or all stored versions that it names by a date.
    Return None if it names none."""
    if bases.date is not None:
        dated = [
            version
            for version in versions
            if version.last_modified is not None and math.floor(version.last_modified) == bases.date
        ]
        return _Base(tuple(dated)) if dated else None
    offered = {tag_base(tag): tag for tag in reversed(bases.tags)}
    for version in reversed(versions):
        if version.tag in offered:
            return _Base((version,), offered[version.tag])
    return None


def _make_delta(
    body: bytes, declared: str | None, versions: Sequence[DeltaBase], name: str, level: int, size: int
) -> bytes | None:
    """Return the delta from the earlier `versions` to `body`, in the content coding `name`, or None if no delta is
    possible, or if the delta is not smaller than `size` bytes. `declared` is the Content-Type of `body`."""
    channel = read(body, declared)
    if channel is None:
        return None
    # If several versions have one date, the client is certain to know only the entries that are in all of them.
    known_entries = frozenset.intersection(*(unpack(version.entries) for version in versions))
    charset = charset_of(declared)
    delta = make_delta(body, channel, known_entries, charset=charset)
    if delta is None or delta.body is body or (delta.entries == 0 and requires_items(channel)):
        return None
    coded = content_coding.encode(delta.body, name, level)
    return coded if len(coded) < size else None


def requires_items(channel: Channel) -> bool:
    """Return True if the feed format requires at least one item, as RSS 1.0 and Netscape's RSS 0.91 do."""
    return channel.kind is Kind.RDF or (channel.kind is Kind.RSS and channel.version in ("0.90", "0.91"))
