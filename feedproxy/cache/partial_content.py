"""Storage, extraction and combination of partial responses.  RFC 9111, sections 3.3 and 3.4

A part is a StoredResponse with status 206 and without a content coding. No parts of feeds are stored. A part answers
range requests for its bytes. If it lacks some of the requested bytes, feedproxy requests only these from the origin,
where possible. Parts are combined only if they have the same strong validator.
"""

import re

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.cache import freshness, storing
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.http import ranges
from feedproxy.http.date import parse_http_date
from feedproxy.http.etag import parse_tag
from feedproxy.http.message import Fields, Request, Response

PARTS_MAX = 2
"""Maximum number of parts of one target that are stored. Media players, and programs that unpack archives, first
request the beginning and the end of a file."""

_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)", re.IGNORECASE)
OF_ONE_MESSAGE = ("content-length", "content-range", "content-digest", "content-md5")
"""Fields about the bytes of one message. They differ between parts of the same content."""

_ENDLESS = 10**18


class Extent(Struct, frozen=True):
    """The bytes from `first` up to, but not including, `end` of a representation. `length` is the length of the whole
    representation, or None if it is unknown."""

    first: int
    end: int
    length: int | None

    @property
    def content_range(self) -> str:
        """Return the value of Content-Range."""
        return f"bytes {self.first}-{self.end - 1}/{'*' if self.length is None else self.length}"

    @property
    def whole(self) -> bool:
        """Return True if the bytes are the whole representation."""
        return self.first == 0 and self.end == self.length


class Missing(Struct, frozen=True):
    """A range to request from the origin in place of the whole representation.

    `part` is the stored part without these bytes. `range` and `condition` are the values of Range and If-Range.
    `condition` is None if `part` has no strong validator.
    """

    part: StoredResponse
    range: str
    condition: str | None


def extent_of(fields: Fields, size: int) -> Extent | None:
    """Return the extent of a 206 with these fields, or None if Content-Range is missing or invalid.

    The result is also None if `size`, the size of the content in bytes, is 0 or contradicts Content-Range. Content that
    is too short for a range up to the end is accepted: the representation is then assumed to end with the content.
    """
    values = fields.get_all("content-range")
    content_range = _CONTENT_RANGE.fullmatch(values[0].strip()) if len(values) == 1 else None
    if content_range is None or not size:
        return None
    first, last = int(content_range[1]), int(content_range[2])
    length = None if content_range[3] == "*" else int(content_range[3])
    # RFC 9110, 14.4: "A Content-Range field value is invalid if it contains a range-resp that has a last-pos value
    # less than its first-pos value, or a complete-length value less than or equal to its last-pos value."
    if last < first or (length is not None and length <= last):
        return None
    if first + size == last + 1:
        return Extent(first, last + 1, length)
    if first + size < last + 1 == length:
        # The message is complete, but shorter than its Content-Range: the representation ends here. The resulting
        # length differs from the origin's figure, so that no other part is combined with this one.
        return Extent(first, first + size, first + size)
    return None


def reason_not_to_store_part(request: Request, stored: StoredResponse, *, targeted: bool = False) -> str | None:
    """Return the reason why a 206 must not be stored as a part, or None if it may be stored (RFC 9111, section 3.3).

    A part must have explicit freshness. Parts in XML or JSON are not stored: they could belong to a feed, and feeds are
    always fetched whole. `targeted` is True if targeted fields apply to this cache (RFC 9213).
    """
    if "range" not in request.fields:
        return "a 206 to a request without Range"
    # Directives that forbid storing the whole response also forbid storing a part of the response.
    whole = Response(200, stored.fields)
    if reason := storing.reason_not_to_store(request, whole, targeted=targeted):
        return reason
    if "content-encoding" in stored.fields:
        return "a part with a content coding cannot be served to clients of other codings"
    if any(word in (stored.fields.get("content-type") or "").lower() for word in ("xml", "json")):
        return "it may be a part of a feed"
    if extent_of(stored.fields, len(_body(stored))) is None:
        return "the Content-Range of the part is missing or invalid"
    explicit = freshness.explicit_lifetime(stored.fields, stored.response_time, targeted=targeted)
    if explicit is None or explicit[0] <= 0:
        return "a part without explicit freshness"
    return None


def with_part(parts: tuple[StoredResponse, ...], new: StoredResponse) -> tuple[StoredResponse, ...]:
    """Return the parts with `new` added as the last.

    Parts of another version and parts within `new` are dropped. At most PARTS_MAX parts remain, the last ones.
    """
    extent = _extent(new)
    new = replace(new, fields=new.fields.with_field("Content-Range", extent.content_range))
    others = [part for part in parts if not _supersedes(new, extent, part)]
    return (*others, new)[-PARTS_MAX:]


def _supersedes(new: StoredResponse, extent: Extent, old: StoredResponse) -> bool:
    names = ("etag", "last-modified")
    if any(new.fields.get_all(name) != old.fields.get_all(name) for name in names):
        return True
    stored_extent = _extent(old)
    return stored_extent.length != extent.length or (
        extent.first <= stored_extent.first and stored_extent.end <= extent.end
    )


def respond_with_part(part: StoredResponse, request: Fields) -> StoredResponse | None:
    """Return the response that the stored 206 `part` permits to a request with the fields `request`.

    Return None if `part` lacks a requested byte, if not exactly one range is selected, or if If-Range does not match.

    "A cache MUST NOT use an incomplete response to answer requests unless the response has been made complete or the
    request is partial and specifies a range wholly within the incomplete response." -- RFC 9111, section 3.3
    """
    extent = _extent(part)
    requested = _requested_extent(part, extent, request)
    if requested is None or not (extent.first <= requested.first and requested.end <= extent.end):
        return None
    if requested == extent:
        return part
    body = _body(part)[requested.first - extent.first : requested.end - extent.first]
    fields = part.fields.without(*OF_ONE_MESSAGE).with_added("Content-Range", requested.content_range)
    return replace(part, fields=fields, content=Content(Bodies({"identity": body})))


def _requested_extent(part: StoredResponse, extent: Extent, request: Fields) -> Extent | None:
    """Return the bytes that a request with the fields `request` selects, or None if it does not select exactly one
    range, or if its If-Range does not match the part. `extent` is the extent of `part`."""
    fields = part.fields
    modified, date = (parse_http_date(fields.get(name) or "") for name in ("last-modified", "date"))
    if not ranges.if_range_holds(request, parse_tag(fields.get("etag") or ""), modified, date):
        return None
    # If the length is unknown, suffix ranges and open ranges end beyond any part.
    match ranges.select(request.combined("range"), extent.length or _ENDLESS):
        case (int(first), int(last)):
            return Extent(first, last + 1, extent.length)
    return None


def range_to_fetch(part: StoredResponse, request: Fields, *, fresh: bool, size_max: int) -> Missing | None:
    """Return the range to request from the origin in addition to the stored part, or None if the part does not help.

    `request` contains the fields of the client's request. `size_max` limits the total size of part and range, in bytes.
    `fresh` is True if the part is fresh. A stale part without a strong validator does not help.
    """
    stored_extent = _extent(part)
    requested = (
        _requested_extent(part, stored_extent, request)
        if "range" in request
        else Extent(0, stored_extent.length or _ENDLESS, stored_extent.length)
    )
    if requested is None:
        return None  # the request has no single range that applies
    first, end = min(requested.first, stored_extent.first), max(requested.end, stored_extent.end)
    if end - first > size_max:
        return None  # the combined size is too large or unknown
    if requested.first > stored_extent.end or requested.end < stored_extent.first:
        return None  # the range is not adjacent to the stored part
    if first < stored_extent.first and end > stored_extent.end:
        return None  # both ends are missing
    if (first, end) == (stored_extent.first, stored_extent.end):
        return None  # nothing is missing
    condition = strong_validator(part.fields)
    lacking = (end - first) - (stored_extent.end - stored_extent.first)
    if condition is None and (not fresh or lacking > stored_extent.end - stored_extent.first):
        # Without a strong validator, the response cannot be combined with the part. Only a complete response is then of
        # use, and it transfers the bytes of the part again.
        return None  # there is no strong validator, and most of the bytes are missing or the part is stale
    if first < stored_extent.first:
        return Missing(part, f"bytes={first}-{stored_extent.first - 1}", condition)
    to_the_end = end == stored_extent.length
    return Missing(
        part, f"bytes={stored_extent.end}-" if to_the_end else f"bytes={stored_extent.end}-{end - 1}", condition
    )


def combine(part: StoredResponse, response: Response) -> Response | None:
    """Return a response with the bytes of `part` and `response` (RFC 9111, section 3.4), or None if that is impossible.

    `response` is a 206 with bytes that `part` lacks. The result is a 200 if it has all bytes, else a 206.
    """
    stored_extent, new_extent = _extent(part), extent_of(response.fields, len(response.body))
    if new_extent is None or "content-encoding" in response.fields:
        return None  # the Content-Range of the new part is missing or invalid, or it has a content coding
    # "A cache can combine a partial response [...] if all of the responses share the same strong validator"
    validator = strong_validator(part.fields)
    if validator is None or validator != strong_validator(response.fields):
        return None  # the parts do not share a strong validator
    if stored_extent.length != new_extent.length:
        return None  # the complete lengths differ
    if new_extent.first > stored_extent.end or new_extent.end < stored_extent.first:
        return None  # there is a gap between the parts
    body = _join_parts(_body(part), stored_extent.first, response.body, new_extent.first)
    if body is None:
        return None  # the parts differ where they overlap
    # "the cache MUST use other header fields provided in the new response, aside from Content-Range, to replace all
    # instances of the corresponding header fields in the stored response"
    unchanged = part.fields.without("age", *OF_ONE_MESSAGE, *{name for name, _ in response.fields})
    fields = Fields((*unchanged, *response.fields.without(*OF_ONE_MESSAGE)))
    extent = Extent(
        min(stored_extent.first, new_extent.first), max(stored_extent.end, new_extent.end), stored_extent.length
    )
    if extent.whole:
        return Response(200, fields, body)
    return Response(206, fields.with_added("Content-Range", extent.content_range), body)


def _join_parts(one: bytes, first: int, other: bytes, other_first: int) -> bytes | None:
    """Return the bytes of two adjacent or overlapping parts, or None if the parts differ where they overlap. `first`
    and `other_first` are the positions of the first bytes of `one` and `other` in the representation."""
    if other_first < first:
        one, first, other, other_first = other, other_first, one, first
    common = one[other_first - first :]
    if not other.startswith(common[: len(other)]):
        return None
    return one + other[len(common) :]


def strong_validator(fields: Fields) -> str | None:
    """Return the strong validator of a response, as a value of If-Range (RFC 9110, section 13.1.5), or None."""
    tags, dates = fields.get_all("etag"), fields.get_all("last-modified")
    if tags:
        tag = parse_tag(tags[0]) if len(tags) == 1 else None
        # A tag in a nonstandard spelling is not used, because servers may not recognise it in If-Range.
        return tags[0].strip() if tag is not None and not tag.weak and tag.text == tags[0].strip() else None
    if len(dates) != 1:
        return None
    modified, date = parse_http_date(dates[0]), parse_http_date(fields.get("date") or "")
    # RFC 9110, 8.8.2.2: weak, unless "the cache entry includes a Date value that is at least one second after the
    # Last-Modified value". A second is less than the usual error of clocks: RFC 2616 required a minute.
    if modified is None or date is None or date - modified < 60:
        return None
    return dates[0].strip()


def _extent(part: StoredResponse) -> Extent:
    extent = extent_of(part.fields, len(_body(part)))
    assert extent is not None, "only parts with a known extent are stored"
    return extent


def _body(stored: StoredResponse) -> bytes:
    return stored.content.bodies.get("identity", b"")
