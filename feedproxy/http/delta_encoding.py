"""Instance manipulations: A-IM in a request, and 226 (IM Used) with less than the whole in a response (RFC 3229).

The only supported manipulation is `feed`: the document with only those entries that are new or changed since an
instance that the client has, the base. The client names the base as in a conditional request: by entity tags, or by a
date. (RFC 3229 knows tags only; feed readers and servers have long used both.)

The fields of a 226 ensure that caches do not take it for the whole representation.
"""

import re
from dataclasses import dataclass

from feedproxy.clock import Instant
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.date import parse_http_date
from feedproxy.http.etag import EntityTag, parse_tags
from feedproxy.http.memoize import memoize_short
from feedproxy.http.message import Fields, Request
from feedproxy.http.negotiation import vary_on, weights_in

IM_USED = 226
FEED = "feed"

_TARGETED = re.compile(r"(?:.+-cache|surrogate)-control", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Bases:
    """The instances that a client has: one of `tags`, or else the one of `date`."""

    tags: tuple[EntityTag, ...] = ()
    """The tags of If-None-Match."""
    date: Instant | None = None
    """The date of If-Modified-Since, which is ignored beside If-None-Match (RFC 9110, section 13.1.3)."""


def requested_bases(request: Request) -> Bases | None:
    """Return the base of the delta that a request asks for; None if the whole feed is to be sent.

    HEAD is answered as GET is (RFC 9110, section 9.3.2), though RFC 3229 mentions GET only. A request with Range gets a
    range of the whole: RFC 3229 defines an order of range and delta, which clients do not use.
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


@memoize_short()
def accepts_feed(a_im: str) -> bool:
    """Return whether the manipulation `feed` is acceptable, and weighs no less than identity (section 10.5.3)."""
    weights = weights_in(a_im)
    return weights.get(FEED, 0.0) > 0 and weights[FEED] >= weights.get("identity", 0.0)


def im_used(fields: Fields, *, base: EntityTag | None = None) -> Fields:
    """Return the fields of a 226, from those of the 200. The ETag remains that of the current instance.

    `base` is the base's tag as the client sent it; None if the client sent a date. Raises ValueError for fields
    without an ETag, which a 226 must have (section 10.4.1).
    """
    if "etag" not in fields:
        raise ValueError("a 226 needs the ETag of the current instance")
    # "MUST be included … if the request included more than one entity tag"; it may be always (section 10.5.1).
    condition = "If-None-Match" if base else "If-Modified-Since"
    fields = fields.without("delta-base", "accept-ranges").with_field("IM", FEED)
    if base:
        fields = fields.with_added("Delta-Base", base.text)
    return vary_on(_with_no_store(fields), "A-IM", condition)


def _with_no_store(fields: Fields) -> Fields:
    """Return the fields with directives that only caches with support for 226 may store (section 10.8.2).

    Such a cache ignores `no-store` beside `im`; all others obey it. A `no-store` of the origin is for both, so that it
    gets no `im`.
    """
    # A cache ignores Cache-Control beside a field that is targeted at it (RFC 9213, section 2.2).
    fields = fields.without(*(name for name, _ in fields if _TARGETED.fullmatch(name)))
    if CacheControl.from_fields(fields).no_store:
        return fields
    value = fields.combined("cache-control")
    return fields.with_field("Cache-Control", f"{value}, no-store, im" if value else "no-store, im")
