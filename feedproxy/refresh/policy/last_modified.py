"""Last-Modified of stored feeds: the origin's, or the time at which the content arrived."""

import math

from msgspec.structs import replace

from feedproxy.cache import vary
from feedproxy.cache.freshness import date_of
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant
from feedproxy.http.date import parse_http_date
from feedproxy.http.message import Fields
from feedproxy.store.resource import Resource

CLOCK_SLACK = 300
"""A Last-Modified is ignored if it lies more than this many seconds in the future."""


def plausible_last_modified(value: str | None, now: Instant) -> Instant | None:
    """Return the instant in a value of Last-Modified (RFC 9110, section 8.8.2.1). Return None if the value is missing,
    invalid or too far in the future."""
    instant = parse_http_date(value) if value else None
    return instant if instant is not None and 0 < instant <= now + CLOCK_SLACK else None


def with_last_modified(
    before: Resource, response: StoredResponse, request: Fields, *, own_agent: bool
) -> StoredResponse:
    """Return the response, with a Last-Modified if it is a feed. Some feed readers validate only by date.

    The Last-Modified of the origin is kept, unless the replaced content has the same date and can be in another
    language. Otherwise, a stored variant with the same content determines the date. If there is none, the date is the
    arrival of the content, but at least one second after the dates of all stored variants. No two stored versions then
    have the same date.

    The Date of the response counts as the arrival if it is earlier: a server "MUST NOT generate a Last-Modified date
    that is later than the server's time of message origination (Date)" (RFC 9110, section 8.8.2.1).

    `request` contains the fields of the request for the response. `own_agent` is explained in `vary.selects`.
    """
    content = response.content
    if not content.feed or content.tag is None:
        return response
    if content.last_modified is not None and not _has_date_of_other_language(
        before, response, request, own_agent=own_agent
    ):
        return response
    dates_by_tag = {variant.content.tag: variant.content.last_modified or 0.0 for variant in before.variants}
    received = response.response_time
    received = min(received, date_of(response.fields, received))
    last_modified = dates_by_tag.get(content.tag) or max(
        float(math.floor(received)), *(at + 1 for at in dates_by_tag.values()), 0.0
    )
    return replace(response, content=replace(content, last_modified=last_modified))


def _has_date_of_other_language(
    before: Resource, response: StoredResponse, request: Fields, *, own_agent: bool
) -> bool:
    """Return whether the response has the Last-Modified of the content that it replaces, and can be in another
    language. For unchanged content, return whether its date was replaced before."""
    replaced = vary.choose(before.variants, request, own_agent=own_agent)
    if replaced is None or replaced.fields.get("last-modified") != response.fields.get("last-modified"):
        return False
    if replaced.content.tag == response.content.tag:
        return replaced.content.last_modified != response.content.last_modified  # the date is already replaced
    return replaced.has_client_language
