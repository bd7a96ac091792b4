"""Instance manipulations: a reader asks with A-IM, and 226 IM Used answers with less than the whole (RFC 3229).

Of the manipulations only `feed` is known here: the same document with only those entries that are new or changed
since an instance which the reader has, the base. He names the base as in any conditional request: by its entity
tags, else by the date he has of it. (RFC 3229 knows tags only; feed readers and servers have long used both.)

What is said of a 226 keeps it apart from the whole, for which no cache must ever take it.
"""

import re
from dataclasses import dataclass

from feedproxy.clock import Instant
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.date import parse_http_date
from feedproxy.http.etag import EntityTag, parse_tags
from feedproxy.http.memoize import memoised
from feedproxy.http.message import Fields, Request
from feedproxy.http.negotiation import vary_on, weights_in

IM_USED = 226
FEED = "feed"

_TARGETED = re.compile(r"(?:.+-cache|surrogate)-control", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Bases:
    """The instances that a reader says he has; one of `tags`, or else the one of `date`."""

    tags: tuple[EntityTag, ...] = ()
    """Of If-None-Match."""
    date: Instant | None = None
    """Of If-Modified-Since, which counts only where no If-None-Match is (RFC 9110, section 13.1.3)."""


def wanted_since(request: Request) -> Bases | None:
    """Return since when a reader wants the entries of a feed; None where the whole is to be sent.

    HEAD is answered as GET is (RFC 9110, section 9.3.2), though RFC 3229 speaks of GET alone.
    A request for a range wants a piece of the whole: RFC 3229 lets A-IM say in which order the two are to be
    applied, and nobody does.
    """
    fields = request.fields
    if request.method not in ("GET", "HEAD") or "range" in fields:
        return None
    wish = fields.combined("a-im")
    if wish is None or not accepts_feed(wish):
        return None
    condition = fields.combined("if-none-match")
    if condition is not None:
        tags = parse_tags(condition)
        return Bases(tags=tags) if tags and tags != "*" else None
    date = parse_http_date(fields.get("if-modified-since") or "")
    return Bases(date=date) if date is not None else None


@memoised()
def accepts_feed(a_im: str) -> bool:
    """Return whether the manipulation `feed` is acceptable, and not less so than none (section 10.5.3)."""
    weights = weights_in(a_im)
    return weights.get(FEED, 0.0) > 0 and weights[FEED] >= weights.get("identity", 0.0)


def im_used(fields: Fields, *, base: EntityTag | None = None) -> Fields:
    """Return the fields of a 226, from those of the 200. The ETag remains that of the current instance.

    `base` is the tag of the instance that the delta was made from, as the reader gave it; None where he gave a
    date. Raises ValueError for fields without an ETag, which a 226 must have (section 10.4.1).
    """
    if "etag" not in fields:
        raise ValueError("a 226 needs the ETag of the current instance")
    # "MUST be included … if the request included more than one entity tag"; it may be always (section 10.5.1).
    condition = "If-None-Match" if base else "If-Modified-Since"
    fields = fields.without("delta-base", "accept-ranges").with_field("IM", FEED)
    if base:
        fields = fields.with_added("Delta-Base", base.text)
    return vary_on(_not_stored(fields), "A-IM", condition)


def _not_stored(fields: Fields) -> Fields:
    """Kept out of every cache but those that know 226 (section 10.8.2).

    Such a cache passes over `no-store` where `im` stands beside it, and obeys the rest; every other one obeys
    `no-store`. A `no-store` of the origin's own is meant for both, and gets no `im`.
    """
    # A cache that has a field of its own never looks at Cache-Control (RFC 9213, section 2.2).
    fields = fields.without(*(name for name, _ in fields if _TARGETED.fullmatch(name)))
    if CacheControl.from_fields(fields).no_store:
        return fields
    said = fields.combined("cache-control")
    return fields.with_field("Cache-Control", f"{said}, no-store, im" if said else "no-store, im")
