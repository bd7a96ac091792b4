"""Evaluation of a request's preconditions (If-None-Match and others), in the order of RFC 9110, section 13.2.2.

A representation has one tag for each content coding, and the origin's tag. If-None-Match is compared with all tags,
because a client that has the content in one coding does not need it in another. If no tag matches, the bases of the
tags are compared (etag.py), because other software can have changed a tag.

cache/validation.py compares the validators of an origin's 304 with those of the stored response.
"""

import math
from collections.abc import Collection
from enum import Enum, auto

from feedproxy.clock import Instant, Seconds
from feedproxy.http.date import parse_http_date
from feedproxy.http.etag import EntityTag, parse_tags, tag_base
from feedproxy.http.message import Fields
from feedproxy.http.origin_validator_in_etag import content_base

_UNCONDITIONAL = frozenset({"CONNECT", "OPTIONS", "TRACE"})
"""Methods that do not select a representation. Their preconditions are ignored (RFC 9110, section 13.2.1)."""
_NAMES = frozenset({"if-match", "if-none-match", "if-modified-since", "if-unmodified-since"})

SKEW: Seconds = 60
"""Maximum time by which a client's clock may be slow, in seconds.

Some clients send the time of their last request in If-Modified-Since. If their clock is slow, this time is too early. A
version that was stored at most this many seconds after this time counts as the client's version.
"""


class Outcome(Enum):
    """Outcomes of a request's preconditions."""

    PROCEED = auto()
    """The request has no conditions, or its conditions permit the usual response."""
    NOT_MODIFIED = auto()
    """The response is 304, because the client has the representation."""
    PRECONDITION_FAILED = auto()
    """The response is 412."""


FIELDS_IN_304 = frozenset(
    {
        "cache-control",
        "content-location",
        "date",
        "etag",
        "expires",
        "vary",
        "age",
        "via",
        "cache-status",
        "last-modified",
        "cdn-cache-control",
        "surrogate-key",
        "set-cookie",
        # A browser gives a script of another web origin the 304 to its If-None-Match only with these fields.
        "access-control-allow-credentials",
        "access-control-allow-origin",
        "access-control-expose-headers",
    }
)
"""Names of the fields that a 304 takes from the response that it replaces.

These are the fields of RFC 9110, section 15.4.5, the fields that describe how the response was obtained, and those that
the Fetch Standard requires in each response ("CORS check").
"""


def has_preconditions(fields: Fields) -> bool:
    """Return True if a request has a precondition that `evaluate` reads."""
    return fields.has_any(_NAMES)


def evaluate(
    fields: Fields,
    method: str,
    *,
    tags: Collection[EntityTag],
    own_base: str | None = None,
    last_modified: Instant | None,
    date: Instant | None = None,
    now: Instant | None = None,
    earlier_versions: tuple[Instant, Instant] | None = None,
) -> Outcome:
    """Return the outcome of a request's preconditions for the current representation.

    * `tags` contains the representation's tags in all codings.
    * `own_base` is the base of this proxy's own tags (etag.py), or None if clients get the origin's tag.
    * `date` is the response's Date, which replaces a missing Last-Modified (RFC 9111, section 4.3.2).
    * `earlier_versions` are the instants at which the first and the current version were stored. A client's date
      between them shows that the client has an earlier version, even if Last-Modified is older.

    Invalid dates are ignored. An If-Modified-Since later than `now` is ignored unless it equals Last-Modified.
    """
    if method in _UNCONDITIONAL:
        return Outcome.PROCEED
    if (if_match := fields.combined("if-match")) is not None:
        if not _if_match(if_match, tags):
            return Outcome.PRECONDITION_FAILED
    elif last_modified is not None:
        limit = parse_http_date(fields.combined("if-unmodified-since") or "", now)
        if limit is not None and math.floor(last_modified) > limit:
            return Outcome.PRECONDITION_FAILED
    is_get_or_head = method in ("GET", "HEAD")
    if (if_none_match := fields.combined("if-none-match")) is not None:
        if _if_none_match(if_none_match, tags, own_base):
            return Outcome.PROCEED
        return Outcome.NOT_MODIFIED if is_get_or_head else Outcome.PRECONDITION_FAILED
    if is_get_or_head:
        since = parse_http_date(fields.combined("if-modified-since") or "", now)
        if since is not None and not _was_modified_since(since, last_modified, date, now, earlier_versions):
            return Outcome.NOT_MODIFIED
    return Outcome.PROCEED


def _if_match(value: str, tags: Collection[EntityTag]) -> bool:
    """Return True if the condition If-Match holds, by strong comparison (RFC 9110, section 13.1.1).

    `value` is the value of the field. `tags` is as for `evaluate`.
    """
    condition_tags = parse_tags(value)
    return condition_tags == "*" or any(not tag.weak and tag in tags for tag in condition_tags)


def _if_none_match(value: str, tags: Collection[EntityTag], own_base: str | None) -> bool:
    """Return True if the condition If-None-Match holds: no tag matches, by weak comparison (RFC 9110, section 13.1.2).

    `value` is the value of the field. The other arguments are those of `evaluate`.
    """
    condition_tags = parse_tags(value)
    if condition_tags == "*":
        return False
    opaque = {tag.opaque for tag in tags}
    if any(tag.opaque in opaque for tag in condition_tags):
        return False
    # Software between origin and client may change the origin's tag in the same way as this proxy's.
    own_bases = {own_base, *map(tag_base, tags)} if own_base is not None else set()
    if any(tag_base(tag) in own_bases for tag in condition_tags):
        return False
    # A tag for the same content may carry another validator of the origin.
    content = None if own_base is None else content_base(own_base)
    return not any(content_base(tag_base(tag)) == content for tag in condition_tags)


def _was_modified_since(
    since: Instant,
    last_modified: Instant | None,
    date: Instant | None,
    now: Instant | None,
    earlier_versions: tuple[Instant, Instant] | None,
) -> bool:
    """Return True if the representation was modified after `since` (RFC 9110, section 13.1.3).

    Return True, too, if `last_modified` and `date` are None. The arguments after `since` are those of `evaluate`.
    """
    modified = date if last_modified is None else last_modified
    if modified is None:
        return True
    second = math.floor(modified)
    if now is not None and since > now:
        return since != second
    if earlier_versions is not None and second < since and earlier_versions[0] <= since < earlier_versions[1] - SKEW:
        return True
    return second > since
