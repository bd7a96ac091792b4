"""Evaluation of conditional requests, in the order of RFC 9110, section 13.2.2.

A representation has several tags: one for each coding, and the origin's. A client that has it in one coding does not
need it in another, so If-None-Match is compared with all of them. It is then compared by tag base, which recognizes
tags that software on the way has changed (etag.py).
"""

import math
from collections.abc import Collection
from dataclasses import dataclass

from feedproxy.clock import Instant, Seconds
from feedproxy.http.carried_validators import content_base
from feedproxy.http.date import parse_http_date
from feedproxy.http.etag import EntityTag, parse_tag, parse_tags, strong_match, tag_base
from feedproxy.http.message import Fields

_UNCONDITIONAL = frozenset({"CONNECT", "OPTIONS", "TRACE"})
"""Methods that do not select a representation: their preconditions are ignored (section 13.2.1)."""
_NAMES = frozenset({"if-match", "if-none-match", "if-modified-since", "if-unmodified-since"})

SKEW: Seconds = 60
"""Seconds by which the clock of a client, or of the origin that sent its Date, may be slow. Within them an
If-Modified-Since still counts as of the current version."""


@dataclass(frozen=True, slots=True)
class Proceed:
    """The request is answered as if it were unconditional. `by` names the field that let it pass, if any."""

    by: str = ""


@dataclass(frozen=True, slots=True)
class NotModified:
    """304: the client has the representation. `by` names the field that decided."""

    by: str


@dataclass(frozen=True, slots=True)
class PreconditionFailed:
    """412. `by` names the field that was false."""

    by: str


type Outcome = Proceed | NotModified | PreconditionFailed

_PROCEED = Proceed()


def evaluate(
    fields: Fields,
    method: str,
    *,
    tags: Collection[EntityTag],
    stem: str | None = None,
    last_modified: Instant | None,
    date: Instant | None = None,
    exists: bool = True,
    now: Instant | None = None,
    others: tuple[Instant, Instant] | None = None,
) -> Outcome:
    """Evaluate a request's preconditions for the current representation.

    `tags` are its tags in all codings; `stem` is the base of this proxy's own tags. `date` is the stored response's
    Date, used without Last-Modified (RFC 9111, section 4.3.2).

    Invalid dates are ignored. So is an If-Modified-Since later than `now`, unless it equals Last-Modified: it stems
    from a wrong clock, and a 304 would hide versions that are published before that time. ("A date which is later than
    the server's current time is invalid" -- RFC 2616, section 14.25; RFC 9110 leaves it open.)

    `others` is the time span in which earlier versions were stored, if known. An If-Modified-Since within it, but later
    than the current Last-Modified, is the time of the client's last request: the client then got an earlier version.
    """
    conditions = _conditions(fields)
    if not conditions or method in _UNCONDITIONAL:
        return _PROCEED
    if "if-match" in conditions:
        if not _if_match(conditions["if-match"], tags, exists):
            return PreconditionFailed("if-match")
    elif "if-unmodified-since" in conditions and last_modified is not None:
        limit = parse_http_date(conditions["if-unmodified-since"], now)
        if limit is not None and math.floor(last_modified) > limit:
            return PreconditionFailed("if-unmodified-since")
    reading = method in ("GET", "HEAD")
    if "if-none-match" in conditions:
        if _if_none_match(conditions["if-none-match"], tags, stem, exists):
            return Proceed("if-none-match")
        return NotModified("if-none-match") if reading else PreconditionFailed("if-none-match")
    if "if-modified-since" in conditions and reading:
        since = parse_http_date(conditions["if-modified-since"], now)
        if since is not None and not _modified_since(since, last_modified, date, now, others):
            return NotModified("if-modified-since")
    return Proceed(next(iter(conditions)))


def range_applies(
    fields: Fields, tag: EntityTag | None, last_modified: Instant | None, date: Instant | None = None
) -> bool:
    """Return whether If-Range lets a Range apply (section 13.1.5); True without If-Range.

    `tag` is the tag of the bytes that would be sent. A date must equal Last-Modified, which must be strong: at least a
    second before the response's `date` (section 8.8.2.2).
    """
    condition = fields.combined("if-range")
    if condition is None:
        return True
    if '"' in condition[:3]:
        wanted = parse_tag(condition)
        return wanted is not None and tag is not None and strong_match(wanted, tag)
    limit = parse_http_date(condition)
    if limit is None or last_modified is None or (date is not None and date - last_modified < 1):
        return False
    return limit == math.floor(last_modified)


def _conditions(fields: Fields) -> dict[str, str]:
    conditions: dict[str, str] = {}
    for name, value in fields:
        if name[:2] in ("If", "if", "IF", "iF") and (lowered := name.lower()) in _NAMES:
            conditions[lowered] = f"{conditions[lowered]}, {value}" if lowered in conditions else value
    return conditions


def _if_match(value: str, tags: Collection[EntityTag], exists: bool) -> bool:
    """Return whether If-Match is true, by strong comparison (section 13.1.1)."""
    wanted = parse_tags(value)
    if wanted == "*":
        return exists
    return exists and any(not tag.weak and tag in tags for tag in wanted)


def _if_none_match(value: str, tags: Collection[EntityTag], stem: str | None, exists: bool) -> bool:
    """Return whether If-None-Match is true, by weak comparison (section 13.1.2)."""
    held = parse_tags(value)
    if held == "*" or not exists:
        return not exists
    opaque = {tag.opaque for tag in tags}
    if any(tag.opaque in opaque for tag in held):
        return False
    # Software on the way changes the origin's tag as it changes this proxy's.
    stems = {stem, *map(tag_base, tags)} if stem is not None else set()
    if any(tag_base(tag) in stems for tag in held):
        return False
    # The same content may carry another validator of its origin.
    content = None if stem is None else content_base(stem)
    return not any(content_base(tag_base(tag)) == content for tag in held)


def _modified_since(
    since: Instant,
    last_modified: Instant | None,
    date: Instant | None,
    now: Instant | None,
    others: tuple[Instant, Instant] | None,
) -> bool:
    """Return whether the representation was modified since then (section 13.1.3); True without any date."""
    modified = date if last_modified is None else last_modified
    if modified is None:
        return True
    second = math.floor(modified)
    if now is not None and since > now:
        return since != second
    if others is not None and second < since and others[0] <= since < others[1] - SKEW:
        return True
    return second > since
