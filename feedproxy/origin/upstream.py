"""The request as it goes upstream: what of the reader's request the origin gets to see."""

import hashlib
from collections.abc import Callable

from feedproxy.cache.variation import nominated
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.message import Fields, Request
from feedproxy.origin.entrance import Entrance, Visit
from feedproxy.store.resource import Resource

ACCEPT_ENCODING = "gzip, br, zstd"
"""Asked of every origin, whoever reads: the copy is decoded and coded anew for each reader."""

ACCEPT = (
    "application/rss+xml, application/atom+xml, application/feed+json, application/rdf+xml, "
    "application/xml;q=0.9, text/xml;q=0.9, application/json;q=0.8, */*;q=0.5"
)
"""What a feed is asked for as, when it is asked for everybody."""

VALUE_MAX = 512
"""Characters of a field that goes with a request for everybody; no honest one has more."""

NOT_PASSED_ON = (
    # Conditions and ranges are the cache's own business; forwarded they would shape the stored copy.
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "if-range",
    "range",
    # Deltas are made here, from stored versions (RFC 3229).
    "a-im",
    # A shared copy must not depend on who happened to ask for it, nor tell the origin.
    "forwarded",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    # Frameworks answer for another address, host or method than was asked for, and the answer would be kept for this.
    "x-original-url",
    "x-rewrite-url",
    "x-original-host",
    "x-host",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "accept-encoding",
    "host",
    "content-length",
    "expect",
)


def upstream_request(
    request: Request, visit: Visit, *, via: str, own_agent: Callable[[], str] | None, keep_range: bool = False
) -> Request:
    """The request to send for a reader's GET or HEAD.

    `via` is our own Via member. `own_agent` gives our User-Agent where it is to replace the reader's. With
    `keep_range` the reader's range and coding go with it: the answer is then no whole, and for this reader only.
    """
    fields = request.fields.end_to_end()
    kept = [(name, fields.combined(name)) for name in ("range", "if-range", "accept-encoding")] if keep_range else []
    forwarded = [name for name, _ in fields if name.lower().startswith("x-forwarded-")]
    fields = fields.without(*NOT_PASSED_ON, *forwarded)
    if visit.entrance is Entrance.GATEWAY:
        fields = fields.without("cookie", "cookie2", "referer", "origin")
    if own_agent is not None:
        fields = fields.with_field("User-Agent", own_agent())
    if keep_range:
        for name, value in kept:
            if value is not None:
                fields = fields.with_added(name.title(), value)
    else:
        fields = fields.with_added("Accept-Encoding", ACCEPT_ENCODING)
    return Request(request.method, request.target, with_via(fields, via))


def for_everybody(request: Request, resource: Resource) -> Request:
    """The request that renews the copy of a known feed, out of a reader's: nothing goes with it that is his alone.

    What the origin does not tell apart (Vary) cannot matter to the copy, but could spoil it: a single field that the
    origin cannot bear, sent again and again, kept everybody from the feed, and the origin seemed to be at fault.
    """
    told_apart = {name for each in resource.variants for name in nominated(each.fields)}
    names = told_apart | {"user-agent", "accept-encoding", "cache-control", "pragma", "via"}
    lines = [line for line in request.fields if line[0].lower() in names and len(line[1]) <= VALUE_MAX]
    fields = Fields(lines)
    if CacheControl.from_request(request.fields).no_store:
        fields = fields.with_field("Cache-Control", fields.combined("cache-control") or "no-store")
    if "accept" not in told_apart:
        fields = fields.with_field("Accept", ACCEPT)
    return Request(request.method, request.target, fields)


def background_request(target: str, *, via: str, agent: str) -> Request:
    """The request for a feed that no reader is waiting for: ping, schedule, refresh."""
    lines = [("User-Agent", agent), ("Accept", ACCEPT), ("Accept-Encoding", ACCEPT_ENCODING)]
    return Request("GET", target, with_via(Fields(lines), via))


def with_via(fields: Fields, via: str) -> Fields:
    """Our own member at the end of Via (RFC 9110, section 7.6.3)."""
    before = fields.combined("via")
    return fields.with_field("Via", f"{before}, {via}" if before else via)


def passed_here_before(fields: Fields, pseudonym: str) -> bool:
    """Whether this very installation stands in Via already: a loop."""
    via = fields.combined("via")
    return via is not None and any(
        len(words := member.split()) >= 2 and words[1] == pseudonym for member in via.split(",")
    )


def surrogate_key(target: str) -> str:
    """The name by which caches in front know every form of this target: what a Surrogate-Key field says of it."""
    return f"feed-{feed_id(target)}"


def feed_id(target: str, installation: str = "") -> str:
    """A hexadecimal name for a target: in the operator's addresses, and as feed-id in our User-Agent.

    There the `installation` is mixed in: two feedproxies in front of one origin each claim subscribers of their
    own, and one who counts by feed-id must not take them for the same.
    """
    return hashlib.blake2b(target.encode(), digest_size=8, key=installation.encode()).hexdigest()
