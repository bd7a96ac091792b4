"""Validation of stored responses at the origin, and their update by the origin's response.  RFC 9111, section 4.3

feedproxy sends the origin's validators exactly as received, even malformed ones, because some servers compare bytes.
http/preconditions.py decides whether a client gets a 304.
"""

from msgspec.structs import replace

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.cache.storing import without_withheld_fields
from feedproxy.cache.targeted_directives import TARGETED_FIELD
from feedproxy.cache.vary import request_fields_for
from feedproxy.clock import Instant
from feedproxy.http.date import format_http_date, parse_http_date
from feedproxy.http.etag import parse_tag, tag_base
from feedproxy.http.message import NO_FIELDS, Fields, Response

# Fields that an update does not change (section 3.2): Content-Length, and fields that describe the stored content. The
# section permits caches to omit "fields necessary to ensure integrity of the stored response".
_OF_THE_CONTENT = (
    *("content-length", "content-encoding", "content-range"),
    *("content-md5", "content-digest", "repr-digest", "digest"),
)
_VALIDATORS = ("etag", "last-modified")
_AGE = frozenset({"age"})
# set_cookie.py decides about Set-Cookie.
_NOT_UPDATED = frozenset({"set-cookie", *_OF_THE_CONTENT})
# The media type of a feed is determined from its content. The media type of other content may be updated.
_NOT_UPDATED_IN_A_FEED = _NOT_UPDATED | {"content-type"}


def conditional_fields(stored: StoredResponse) -> Fields:
    """Return the conditional fields of a request that validates the stored response.

    The result is empty if the response has no validator. It is also empty if the response was fetched with a client's
    Accept-Language, because some origins use the same validators for all languages.
    """
    if stored.has_client_language:
        return NO_FIELDS
    lines = []
    # Section 4.3.1: "One such validator is the timestamp given in a Last-Modified header field"; "Another
    # validator is the entity tag given in an ETag field". A request sends both validators.
    if tag := _single(stored.fields, "etag"):
        lines.append(("If-None-Match", tag))
    if modified := _single(stored.fields, "last-modified"):
        lines.append(("If-Modified-Since", modified))
    return Fields(lines)


def _single(fields: Fields, name: str) -> str | None:
    """Return the value of the field `name`, or None if the field is missing, empty, or has several lines."""
    values = fields.get_all(name)
    return values[0].strip() or None if len(values) == 1 else None


def freshen(
    stored: StoredResponse,
    response: Response,
    request_time: Instant,
    response_time: Instant,
    *,
    request: Fields,
    targeted: bool = False,
) -> StoredResponse | None:
    """Return the stored response updated by a 304 (RFC 9111, sections 4.3.4 and 3.2), or None if the validators differ.

    `request` contains the fields of the request that received the 304. The caller must call `reason_not_to_store`
    again, because the 304 can contain no-store.
    """
    if not _has_same_validators(stored, response.fields):
        return None
    return _with_received_fields(
        stored, response.fields, request_time, response_time, request=request, targeted=targeted
    )


def _has_same_validators(stored: StoredResponse, received_fields: Fields) -> bool:
    """Return True if the validators of a 304 match the stored response.

    A 304 without validators matches: the request named only the stored response.
    """
    received, stored_tag = _single(received_fields, "etag"), _single(stored.fields, "etag")
    if received and stored_tag:
        # "If none of the initial set contains at least one of the same strong validators, then the cache MUST
        # NOT use the new response to update any stored responses." The comparison ignores the marks that
        # compressing servers add to some tags only (W/, -gzip).
        return received == stored_tag or _is_same_tag(received, stored_tag)
    received_date, known_date = _single(received_fields, "last-modified"), _single(stored.fields, "last-modified")
    if received_date and known_date:
        return received_date == known_date or _is_same_instant(received_date, known_date)
    return not received and not received_date


def _is_same_tag(one: str, other: str) -> bool:
    first, second = parse_tag(one), parse_tag(other)
    return first is not None and second is not None and tag_base(first) == tag_base(second)


def _is_same_instant(one: str, other: str) -> bool:
    first = parse_http_date(one)
    return first is not None and first == parse_http_date(other)


def apply_head(
    stored: StoredResponse,
    head: Response,
    request_time: Instant,
    response_time: Instant,
    *,
    request: Fields,
    targeted: bool = False,
) -> StoredResponse | None:
    """Return the stored response updated by the response to a HEAD (RFC 9111, section 4.3.5).

    `request` contains the fields of the HEAD request. If the status of `head` is not 200, return the stored response
    unchanged. Return None if the status of the stored response is not 200, if the representation has changed, or if
    the stored response is already invalid and `head` has no validator. If the result is None, the caller must mark the
    stored response as invalid.
    """
    if head.status != 200:
        return stored
    if stored.status != 200:
        return None  # a representation has replaced the stored redirect or error
    received_fields = head.fields
    if stored.invalid and not any(name in received_fields for name in _VALIDATORS):
        # "in need of a mandatory validation before they can be sent" -- section 4.4. A HEAD without a validator shows
        # the state of the target, and not that the stored content is still current.
        return None
    # "if the stored response and HEAD response have matching values for any received validator fields (ETag
    # and Last-Modified) and, if the HEAD response has a Content-Length header field, the value of
    # Content-Length matches that of the stored response"
    for name in _VALIDATORS:
        if name in received_fields and received_fields.get_all(name) != stored.fields.get_all(name):
            return None
    length = _length(stored)
    if length is not None and received_fields.get("content-length") not in (None, length):
        return None
    return _with_received_fields(
        stored, received_fields, request_time, response_time, request=request, targeted=targeted
    )


def _length(stored: StoredResponse) -> str | None:
    """Return the Content-Length as received, or None if the content was decoded or edited."""
    if length := stored.fields.get("content-length"):
        return length
    bodies = tuple(stored.content.bodies.values())
    return str(len(bodies[0])) if stored.content.tag is None and len(bodies) == 1 else None


def _with_received_fields(
    stored: StoredResponse,
    received_fields: Fields,
    request_time: Instant,
    response_time: Instant,
    *,
    request: Fields,
    targeted: bool,
) -> StoredResponse:
    """Return the stored response updated with the fields of a new response to `request` (RFC 9111, section 3.2)."""
    if TARGETED_FIELD in stored.fields:
        # The stored field can govern the updated response in place of this Cache-Control. In all other cases, the
        # directives of `received_fields` are those of the updated response, which are applied below.
        received_fields = without_withheld_fields(received_fields, targeted=targeted)
    not_updated = _NOT_UPDATED_IN_A_FEED if stored.content.feed else _NOT_UPDATED
    provided = received_fields.end_to_end().without_any(not_updated)
    if (tag := provided.get("etag")) and tag != (_single(stored.fields, "etag") or tag):
        # The ETag is the same tag with another mark, which belongs only to the new message.
        provided = provided.without("etag")
    if "date" not in provided:
        # "A recipient with a clock that receives a response message without a Date header field MUST record
        # the time it was received" -- RFC 9110, section 6.6.1
        provided = provided.with_added("Date", format_http_date(response_time))
    # "the cache MUST update its header fields with the header fields provided in the 304 (Not Modified) response". Age
    # counts from this validation, so the stored Age is dropped in any case.
    updated = stored.fields.without_any(_AGE).updated(provided)
    fields = without_withheld_fields(updated, targeted=targeted)
    return replace(
        stored,
        fields=fields,
        request_time=request_time,
        response_time=response_time,
        vary_request=request_fields_for(fields, request),
        invalid=False,
    )
