"""Delta encoding (RFC 3229): A-IM in a request, and a 226 (IM Used) response with only the new entries of a feed.

The only supported instance manipulation is `feed`: it removes the entries that are already in the base. The base is the
version that the client has, named by tags or by a date in the conditional request. RFC 3229 defines only tags, but feed
readers also send dates.
"""

import re
from dataclasses import dataclass

from feedproxy.clock import Instant
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.date import parse_http_date
from feedproxy.http.etag import EntityTag, parse_tags
from feedproxy.http.message import Fields, Request
from feedproxy.http.negotiation import vary_on, weights_in

IM_USED = 226
FEED = "feed"

_TARGETED = re.compile(r"(?:.+-cache|surrogate)-control", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Bases:
    """The versions that a client may have: those with `tags`, or the version of `date` if there are no tags."""

    tags: tuple[EntityTag, ...] = ()
    """The tags in If-None-Match."""
    date: Instant | None = None
    """The date in If-Modified-Since, or None. The date is ignored if the request has tags (RFC 9110, section
    13.1.3)."""


def requested_bases(request: Request) -> Bases | None:
    """Return the versions from which a delta may be made, or None if the whole feed must be sent.

    HEAD is answered like GET (RFC 9110, section 9.3.2). A request with Range gets a range of the whole feed.
    """
    fields = request.fields
    if request.method not in ("GET", "HEAD") or "range" in fields:
        return None
    manipulations = fields.combined("a-im")
    if manipulations is None or not accepts_feed(manipulations):
        return None
    condition = fields.combined("if-none-match")
    if condition is not None:
        tags = parse_tags(condition)
        return Bases(tags=tags) if tags and tags != "*" else None
    date = parse_http_date(fields.get("if-modified-since") or "")
    return Bases(date=date) if date is not None else None


def accepts_feed(a_im: str) -> bool:
    """Return True if A-IM gives the manipulation `feed` at least the weight of identity (RFC 3229, section 10.5.3)."""
    weights = weights_in(a_im)
    return weights.get(FEED, 0.0) > 0 and weights[FEED] >= weights.get("identity", 0.0)


def im_used_fields(fields: Fields, *, base: EntityTag | None = None) -> Fields:
    """Return the fields of a 226, made from the fields of the 200. The ETag remains that of the current version.

    `base` is the base's tag as the client sent it, or None if the client sent a date. Raises ValueError if the fields
    have no ETag, which a 226 must have (RFC 3229, section 10.4.1).
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
    """Return the fields with directives that prevent caches without support for 226 from storing a 226 (RFC 3229,
    section 10.8.2).

    A cache with support for 226 ignores `no-store` if `im` is present. Other caches obey `no-store`. If the origin sent
    `no-store`, `im` is not added, because all caches must obey.
    """
    # A cache ignores Cache-Control if a targeted field is for that cache (RFC 9213, section 2.2).
    fields = fields.without(*(name for name, _ in fields if _TARGETED.fullmatch(name)))
    if CacheControl.from_fields(fields).no_store:
        return fields
    value = fields.combined("cache-control")
    return fields.with_field("Cache-Control", f"{value}, no-store, im" if value else "no-store, im")
