"""Parts of what is no feed: kept, cut, and put together again (RFC 9111, sections 3.3 and 3.4).

A part is a StoredResponse with status 206; what it holds stands in its Content-Range, which is set right before it
is kept, and in its bytes, which carry no content coding. Parts never stand among the responses that answer for a
whole: their Range answers, when a request asks for bytes that all lie within one of them, and they save asking for
these bytes again when more is wanted. Bytes of two messages are put together only where both name the same
representation by the same strong validator.
"""

import re
from dataclasses import dataclass, replace

from feedproxy.cache import freshness, storing
from feedproxy.cache.stored_response import Content, StoredResponse
from feedproxy.cache.storing import DoNotStore, Store, Storing
from feedproxy.http import conditional, ranges
from feedproxy.http.date import parse_http_date
from feedproxy.http.etag import parse_tag
from feedproxy.http.message import Fields, Request, Response

PARTS_MAX = 2
"""Parts kept of one target: the beginning and the end of a file is what players and unpackers ask for first."""

_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)", re.IGNORECASE)
_OF_ONE_MESSAGE = ("content-length", "content-range", "content-digest", "content-md5")
_ENDLESS = 10**18


@dataclass(frozen=True, slots=True)
class Extent:
    """The bytes `first` to `end` (not included) of a representation; `length` is its own, None where unknown."""

    first: int
    end: int
    length: int | None

    @property
    def content_range(self) -> str:
        """The value of Content-Range."""
        return f"bytes {self.first}-{self.end - 1}/{'*' if self.length is None else self.length}"

    @property
    def whole(self) -> bool:
        return self.first == 0 and self.end == self.length


@dataclass(frozen=True, slots=True)
class Missing:
    """What to ask the origin for, instead of all: values of Range and If-Range (None: a strong validator is lacking).

    `part` is what the answer is to be put together with.
    """

    part: StoredResponse
    range: str
    condition: str | None


@dataclass(frozen=True, slots=True)
class Nothing:
    """No part helps with this request, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Combined:
    """Both as one response: 200 where that is the whole, else 206."""

    response: Response


@dataclass(frozen=True, slots=True)
class Apart:
    """The two cannot be put together, and why."""

    reason: str


def extent_of(fields: Fields, size: int) -> Extent | None:
    """Which bytes a 206 with these fields and `size` bytes of content holds; None where it cannot be told."""
    values = fields.get_all("content-range")
    found = _CONTENT_RANGE.fullmatch(values[0].strip()) if len(values) == 1 else None
    if found is None or not size:
        return None
    first, last = int(found[1]), int(found[2])
    length = None if found[3] == "*" else int(found[3])
    # RFC 9110, 14.4: "A Content-Range field value is invalid if it contains a range-resp that has a last-pos value
    # less than its first-pos value, or a complete-length value less than or equal to its last-pos value."
    if last < first or (length is not None and length <= last):
        return None
    if first + size == last + 1:
        return Extent(first, last + 1, length)
    if first + size < last + 1 == length:
        # Fewer bytes than were counted, though they came whole and end the content: it ends there, then. Of another
        # length than the origin says it can be put together with nothing.
        return Extent(first, first + size, first + size)
    return None


def may_keep(request: Request, stored: StoredResponse, *, targeted: bool = False) -> Storing:
    """Return whether this 206 may be stored as a part (section 3.3). `stored` is the response as it would be stored.

    Only with explicit freshness: what is guessed, is guessed of wholes. A feed is fetched whole, always, so what may
    be a piece of one is not kept.
    """
    if "range" not in request.fields:
        return DoNotStore("a part came, and nobody had asked for one")
    # What forbids storing the whole forbids storing a part of it.
    whole = Response(200, stored.fields)
    verdict = storing.may_store(request, whole, now=stored.response_time, targeted=targeted)
    if isinstance(verdict, DoNotStore):
        return verdict
    if "content-encoding" in stored.fields:
        return DoNotStore("a part of what is coded can be cut for nobody who wants another coding")
    if any(word in (stored.fields.get("content-type") or "").lower() for word in ("xml", "json")):
        return DoNotStore("it may be a part of a feed")
    if extent_of(stored.fields, len(_body(stored))) is None:
        return DoNotStore("which part it is cannot be told from its Content-Range")
    explicit = freshness.explicit_lifetime(stored, targeted=targeted)
    if explicit is None or explicit[0] <= 0:
        return DoNotStore("a part without explicit freshness")
    return Store()


def with_part(parts: tuple[StoredResponse, ...], new: StoredResponse) -> tuple[StoredResponse, ...]:
    """The parts once `new` is kept; newest last. Those of another version, and those it contains, go."""
    extent = _extent(new)
    new = replace(new, fields=new.fields.with_field("Content-Range", extent.content_range))
    others = [part for part in parts if not _supersedes(new, extent, part)]
    return (*others, new)[-PARTS_MAX:]


def _supersedes(new: StoredResponse, extent: Extent, old: StoredResponse) -> bool:
    names = ("etag", "last-modified")
    if any(new.fields.get_all(name) != old.fields.get_all(name) for name in names):
        return True
    held = _extent(old)
    return held.length != extent.length or (extent.first <= held.first and held.end <= extent.end)


def cut(part: StoredResponse, request: Fields) -> StoredResponse | None:
    """The part as the answer to these request fields; None where it holds not all that they ask for.

    "A cache MUST NOT use an incomplete response to answer requests unless the response has been made complete or the
    request is partial and specifies a range wholly within the incomplete response." -- section 3.3
    """
    extent = _extent(part)
    wanted = _wanted(part, extent, request)
    if wanted is None or not (extent.first <= wanted.first and wanted.end <= extent.end):
        return None
    if wanted == extent:
        return part
    body = _body(part)[wanted.first - extent.first : wanted.end - extent.first]
    fields = part.fields.without(*_OF_ONE_MESSAGE).with_added("Content-Range", wanted.content_range)
    return replace(part, fields=fields, content=Content({"identity": body}))


def _wanted(part: StoredResponse, extent: Extent, request: Fields) -> Extent | None:
    """The bytes that a request wants; None where it does not say so in a single range that counts here."""
    fields = part.fields
    modified, date = (parse_http_date(fields.get(name) or "") for name in ("last-modified", "date"))
    if not conditional.range_applies(request, parse_tag(fields.get("etag") or ""), modified, date):
        return None
    # Of an unknown length neither the last bytes nor all from one on can be told: their end lies beyond any part.
    match ranges.select(request.combined("range"), extent.length or _ENDLESS):
        case (int(first), int(last)):
            return Extent(first, last + 1, extent.length)
    return None


def missing(part: StoredResponse, request: Fields, *, fresh: bool, size_max: int) -> Missing | Nothing:
    """What remains to be asked for to answer these request fields: of a range, or of the whole.

    `size_max` bounds what may come of it, in bytes. `fresh` tells whether the part is.
    """
    held = _extent(part)
    wanted = _wanted(part, held, request) if "range" in request else Extent(0, held.length or _ENDLESS, held.length)
    if wanted is None:
        return Nothing("what is wanted is no single range of this")
    first, end = min(wanted.first, held.first), max(wanted.end, held.end)
    if end - first > size_max:
        return Nothing("all together it would be too much, or nobody knows how much")
    if wanted.first > held.end or wanted.end < held.first:
        return Nothing("it lies apart from what is held")
    if first < held.first and end > held.end:
        return Nothing("both ends are missing")
    if (first, end) == (held.first, held.end):
        return Nothing("nothing is missing")
    condition = strong_validator(part.fields)
    lacking = (end - first) - (held.end - held.first)
    if condition is None and (not fresh or lacking > held.end - held.first):
        # Nothing but an answer with all of it can be used then: not at the price of most bytes coming twice.
        return Nothing("without a strong validator the rest is not worth asking for")
    if first < held.first:
        return Missing(part, f"bytes={first}-{held.first - 1}", condition)
    to_the_end = end == held.length
    return Missing(part, f"bytes={held.end}-" if to_the_end else f"bytes={held.end}-{end - 1}", condition)


def combine(part: StoredResponse, response: Response) -> Combined | Apart:
    """Section 3.4: a part and the 206 that brought what was missing of it."""
    held, news = _extent(part), extent_of(response.fields, len(response.body))
    if news is None or "content-encoding" in response.fields:
        return Apart("which part came cannot be told")
    # "A cache can combine a partial response [...] if all of the responses share the same strong validator"
    validator = strong_validator(part.fields)
    if validator is None or validator != strong_validator(response.fields):
        return Apart("no strong validator says that both are of one representation")
    if held.length != news.length:
        return Apart("they are of different lengths")
    if news.first > held.end or news.end < held.first:
        return Apart("there is a gap between them")
    body = _joined(_body(part), held.first, response.body, news.first)
    if body is None:
        return Apart("where they overlap they differ")
    # "the cache MUST use other header fields provided in the new response, aside from Content-Range, to replace all
    # instances of the corresponding header fields in the stored response"
    kept = part.fields.without("age", *_OF_ONE_MESSAGE, *{name for name, _ in response.fields})
    fields = Fields((*kept, *response.fields.without(*_OF_ONE_MESSAGE)))
    extent = Extent(min(held.first, news.first), max(held.end, news.end), held.length)
    if extent.whole:
        return Combined(Response(200, fields, body))
    return Combined(Response(206, fields.with_added("Content-Range", extent.content_range), body))


def _joined(one: bytes, first: int, other: bytes, other_first: int) -> bytes | None:
    """The bytes of both, the second of which begins within the first or right after it, or the other way round."""
    if other_first < first:
        one, first, other, other_first = other, other_first, one, first
    common = one[other_first - first :]
    if not other.startswith(common[: len(other)]):
        return None
    return one + other[len(common) :]


def strong_validator(fields: Fields) -> str | None:
    """What says for certain, to the byte, which representation this is: as If-Range says it (RFC 9110, 13.1.5)."""
    tags, dates = fields.get_all("etag"), fields.get_all("last-modified")
    if tags:
        tag = parse_tag(tags[0]) if len(tags) == 1 else None
        # Sent as it came; an odd spelling would not be understood there.
        return tags[0].strip() if tag is not None and not tag.weak and tag.text == tags[0].strip() else None
    if len(dates) != 1:
        return None
    modified, date = parse_http_date(dates[0]), parse_http_date(fields.get("date") or "")
    # RFC 9110, 8.8.2.2: weak, unless "the cache entry includes a Date value that is at least one second after the
    # Last-Modified value"; clocks that stand so close are hardly ever right, a minute is what RFC 2616 asked for.
    if modified is None or date is None or date - modified < 60:
        return None
    return dates[0].strip()


def _extent(part: StoredResponse) -> Extent:
    extent = extent_of(part.fields, len(_body(part)))
    assert extent is not None, "only what can be told is kept"
    return extent


def _body(stored: StoredResponse) -> bytes:
    return stored.content.bodies.get("identity", b"")
