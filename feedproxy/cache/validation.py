"""Asking whether a stored response is still good, and what the answer does to it (RFC 9111, section 4.3).

The origin's validators are sent exactly as they came, odd spellings included: they are its words, and some
servers compare letter by letter. The tags that readers see are others (`Content.tag`).
"""

from dataclasses import replace

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.cache.storing import storable_fields, without_kept_back
from feedproxy.cache.vary import nominated, request_fields_for
from feedproxy.clock import Instant
from feedproxy.http.date import format_http_date, parse_http_date
from feedproxy.http.etag import parse_tag, stem_of
from feedproxy.http.message import Fields, Response

# Section 3.2: fields that an update leaves alone. Content-Length always; the others describe the content that is kept,
# as it was received and decoded: the section permits to omit "fields necessary to ensure integrity of the stored
# response". A digest is of that content, or of none that is here.
_OF_THE_CONTENT = (
    *("content-length", "content-encoding", "content-range"),
    *("content-md5", "content-digest", "repr-digest", "digest"),
)
# A feed was read, and is served, by what it is; of all else nobody but the reader makes anything.
_OF_A_FEED = ("content-type",)


def conditional_fields(stored: StoredResponse) -> Fields:
    """The precondition fields of a request that validates this response; empty where it has no validator."""
    lines = []
    # Section 4.3.1: "One such validator is the timestamp given in a Last-Modified header field"; "Another
    # validator is the entity tag given in an ETag field". A request sends both validators.
    if tag := _single(stored.fields, "etag"):
        lines.append(("If-None-Match", tag))
    if modified := _single(stored.fields, "last-modified"):
        lines.append(("If-Modified-Since", modified))
    return Fields(lines)


def _single(fields: Fields, name: str) -> str | None:
    """The one line of this name: of two that contradict each other neither can be trusted."""
    values = fields.get_all(name)
    return values[0].strip() or None if len(values) == 1 else None


def freshen(
    stored: StoredResponse,
    response: Response,
    request_time: Instant,
    response_time: Instant,
    *,
    request: Fields | None = None,
    targeted: bool = False,
) -> StoredResponse | None:
    """The stored response updated by a 304 (sections 4.3.4 and 3.2); None when it speaks of another.

    `request` are the fields that were sent, from which a changed Vary takes what it nominates; without them
    the Vary that was stored stays. The result may have become one that must not be stored (no-store in the
    304): ask `may_store` again.
    """
    if not _names_the_same(stored, response.fields):
        return None
    return _updated(stored, response.fields, request_time, response_time, request=request, targeted=targeted)


def _names_the_same(stored: StoredResponse, news: Fields) -> bool:
    """Return whether the validators of a 304 are those of the stored response.

    A 304 without any is taken for what it answers: the request named this one response only.
    """
    told, known = _single(news, "etag"), _single(stored.fields, "etag")
    if told and known:
        # "If none of the initial set contains at least one of the same strong validators, then the cache MUST
        # NOT use the new response to update any stored responses." Compared without the marks that
        # compressing servers put on a tag in one message and not in the next (W/, -gzip).
        return told == known or _same_stem(told, known)
    told_date, known_date = _single(news, "last-modified"), _single(stored.fields, "last-modified")
    if told_date and known_date:
        return told_date == known_date or _same_instant(told_date, known_date)
    return not told and not told_date


def _same_stem(one: str, other: str) -> bool:
    first, second = parse_tag(one), parse_tag(other)
    return first is not None and second is not None and stem_of(first) == stem_of(second)


def _same_instant(one: str, other: str) -> bool:
    first = parse_http_date(one)
    return first is not None and first == parse_http_date(other)


def apply_head(
    stored: StoredResponse,
    head: Response,
    request_time: Instant,
    response_time: Instant,
    *,
    request: Fields | None = None,
    targeted: bool = False,
) -> StoredResponse | None:
    """The stored response updated by the 200 that a HEAD brought (section 4.3.5).

    None when the HEAD tells of another representation: what is stored is then to be marked invalid. A status
    other than 200 says nothing, and leaves it as it is.
    """
    if head.status != 200:
        return stored
    if stored.status != 200:
        return None  # what was redirected, or not found, stands there now
    news = head.fields
    # "if the stored response and HEAD response have matching values for any received validator fields (ETag
    # and Last-Modified) and, if the HEAD response has a Content-Length header field, the value of
    # Content-Length matches that of the stored response"
    for name in ("etag", "last-modified"):
        if name in news and news.get_all(name) != stored.fields.get_all(name):
            return None
    length = _length(stored)
    if length is not None and news.get("content-length") not in (None, length):
        return None
    return _updated(stored, news, request_time, response_time, request=request, targeted=targeted)


def _length(stored: StoredResponse) -> str | None:
    """The Content-Length of the response as it came; None where the content has been decoded or edited."""
    if told := stored.fields.get("content-length"):
        return told
    bodies = tuple(stored.content.bodies.values())
    return str(len(bodies[0])) if stored.content.tag is None and len(bodies) == 1 else None


def _updated(
    stored: StoredResponse,
    news: Fields,
    request_time: Instant,
    response_time: Instant,
    *,
    request: Fields | None,
    targeted: bool,
) -> StoredResponse:
    """Section 3.2: the stored fields replaced by those that the new response provides."""
    provided = storable_fields(news, targeted=targeted).without(*_OF_THE_CONTENT)
    if stored.content.feed:
        provided = provided.without(*_OF_A_FEED)
    if request is None and nominated(provided) != nominated(stored.fields):
        provided = provided.without("vary")
    if (tag := provided.get("etag")) and tag != (_single(stored.fields, "etag") or tag):
        # The same tag with another mark: the mark belongs to the message it came with.
        provided = provided.without("etag")
    if "date" not in provided:
        # "A recipient with a clock that receives a response message without a Date header field MUST record
        # the time it was received" -- RFC 9110, section 6.6.1
        provided = provided.with_added("Date", format_http_date(response_time))
    # "the cache MUST update its header fields with the header fields provided in the 304 (Not Modified)
    # response"; Age counts from this
    # validation on, so an old one goes even where the new response has none.
    kept = stored.fields.without("age", *{name for name, _ in provided})
    fields = without_kept_back(Fields((*kept, *provided)), targeted=targeted)
    vary_request = stored.vary_request if request is None else request_fields_for(fields, request)
    return replace(
        stored,
        fields=fields,
        request_time=request_time,
        response_time=response_time,
        vary_request=vary_request,
        invalid=False,
    )
