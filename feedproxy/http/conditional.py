"""Does the reader have it already? Conditional requests, in the order of RFC 9110, section 13.2.2.

The tags a representation goes by are many (one for each coding, and the origin's), and the reader may hold
any of them: whoever has it in one coding needs it in no other. So If-None-Match is compared with all, and
after that by stem, which finds a tag again that software on the way has decorated (etag.py).
"""

import math
from collections.abc import Collection
from dataclasses import dataclass

from feedproxy.clock import Instant, Seconds
from feedproxy.http.date import parse_http_date
from feedproxy.http.etag import EntityTag, parse_tag, parse_tags, strong_match, tag_base
from feedproxy.http.message import Fields

_UNCONDITIONAL = frozenset({"CONNECT", "OPTIONS", "TRACE"})
"""Methods that select no representation: for them preconditions are ignored (section 13.2.1)."""
_NAMES = frozenset({"if-match", "if-none-match", "if-modified-since", "if-unmodified-since"})

SKEW: Seconds = 60
"""By so much a reader's clock, or an origin's whose Date he repeats, may be behind ours without being sent again what
he has."""


@dataclass(frozen=True, slots=True)
class Proceed:
    """The request is answered as if it were unconditional. `by` names the field that let it pass, if any."""

    by: str = ""


@dataclass(frozen=True, slots=True)
class NotModified:
    """304: the reader has it. `by` names the field that told."""

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
    """Return what a request's preconditions come to for the current representation.

    `tags` are all that name it, in any coding; `stem` is that of our own tags. `date` is the stored
    response's Date, used where there is no Last-Modified (RFC 9111, section 4.3.2). What is no date is
    ignored, and so is an If-Modified-Since later than `now`, unless it is the resource's own Last-Modified:
    a wrong clock made it up, and a 304 would hide what was published before that clock's time. ("A date which
    is later than the server's current time is invalid" -- RFC 2616, section 14.25; RFC 9110 leaves it open.)

    `others` is from when until when other versions were here, where that is known. Who names a moment between, later
    than the current one's Last-Modified, names no date of its own: he says when he asked last, and was given another.
    """
    said = _conditions(fields)
    if not said or method in _UNCONDITIONAL:
        return _PROCEED
    if "if-match" in said:
        if not _if_match(said["if-match"], tags, exists):
            return PreconditionFailed("if-match")
    elif "if-unmodified-since" in said and last_modified is not None:
        limit = parse_http_date(said["if-unmodified-since"], now)
        if limit is not None and math.floor(last_modified) > limit:
            return PreconditionFailed("if-unmodified-since")
    reading = method in ("GET", "HEAD")
    if "if-none-match" in said:
        if _if_none_match(said["if-none-match"], tags, stem, exists):
            return Proceed("if-none-match")
        return NotModified("if-none-match") if reading else PreconditionFailed("if-none-match")
    if "if-modified-since" in said and reading:
        since = parse_http_date(said["if-modified-since"], now)
        if since is not None and not _modified_since(since, last_modified, date, now, others):
            return NotModified("if-modified-since")
    return Proceed(next(iter(said)))


def range_applies(
    fields: Fields, tag: EntityTag | None, last_modified: Instant | None, date: Instant | None = None
) -> bool:
    """Return whether a Range counts, as far as If-Range is concerned (section 13.1.5); True where there is none.

    `tag` is that of the very bytes that would be sent. A date counts only where it is that of Last-Modified
    exactly, and strong: older than the response's `date` by a second at least (section 8.8.2.2).
    """
    said = fields.combined("if-range")
    if said is None:
        return True
    if '"' in said[:3]:
        wanted = parse_tag(said)
        return wanted is not None and tag is not None and strong_match(wanted, tag)
    limit = parse_http_date(said)
    if limit is None or last_modified is None or (date is not None and date - last_modified < 1):
        return False
    return limit == math.floor(last_modified)


def _conditions(fields: Fields) -> dict[str, str]:
    said: dict[str, str] = {}
    for name, value in fields:
        if name[:2] in ("If", "if", "IF", "iF") and (lowered := name.lower()) in _NAMES:
            said[lowered] = f"{said[lowered]}, {value}" if lowered in said else value
    return said


def _if_match(value: str, tags: Collection[EntityTag], exists: bool) -> bool:
    """Section 13.1.1: strong comparison."""
    wanted = parse_tags(value)
    if wanted == "*":
        return exists
    return exists and any(not tag.weak and tag in tags for tag in wanted)


def _if_none_match(value: str, tags: Collection[EntityTag], stem: str | None, exists: bool) -> bool:
    """Section 13.1.2: weak comparison. True where the reader has none of it."""
    held = parse_tags(value)
    if held == "*" or not exists:
        return not exists
    opaque = {tag.opaque for tag in tags}
    if any(tag.opaque in opaque for tag in held):
        return False
    # The origin's own tag is decorated on the way as ours are.
    stems = {stem, *map(tag_base, tags)} if stem is not None else set()
    return not any(tag_base(tag) in stems for tag in held)


def _modified_since(
    since: Instant,
    last_modified: Instant | None,
    date: Instant | None,
    now: Instant | None,
    others: tuple[Instant, Instant] | None,
) -> bool:
    """Section 13.1.3. What has no date at all counts as modified."""
    modified = date if last_modified is None else last_modified
    if modified is None:
        return True
    second = math.floor(modified)
    if now is not None and since > now:
        return since != second
    if others is not None and second < since and others[0] <= since < others[1] - SKEW:
        return True
    return second > since
