"""Requests for a delta (RFC 3229): the field A-IM, and the versions that the client has.

The only supported instance manipulation is `feed`. It removes the items of the base, a version that the client has. The
conditional request names the base by tags or by a date. RFC 3229 defines only tags, but feed readers also send dates.
"""

from msgspec import Struct

from feedproxy.clock import Instant
from feedproxy.http.content_negotiation import weights_in
from feedproxy.http.date import parse_http_date
from feedproxy.http.etag import EntityTag, parse_tags
from feedproxy.http.message import Request

FEED = "feed"


class Bases(Struct, frozen=True):
    """The versions that a client states to have: those with `tags` or, if there are none, the version of `date`."""

    tags: tuple[EntityTag, ...] = ()
    """The tags in If-None-Match."""
    date: Instant | None = None
    """The date in If-Modified-Since, or None if there is If-None-Match, which overrides it (RFC 9110, section
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
