"""Only a good feed replaces a good copy: what becomes of an update (DESIGN: Bad updates).

An update is first *diagnosed*, whatever is held: is anything wrong with it, and how patient may one be? Then
it is *judged* against the copy. Three things can become of it:

Accept   it is the copy from now on.
Keep     the copy stays, and is served until `until`; HTTP may forbid that all the same (cache/serving_stale.py).
Pass     readers get what came, and HTTP alone decides whether it is stored.

How patient, and why:

* What the origin cannot help (429, 5xx, no answer) and what is no feed where one was (challenges, HTML,
  nothing at all, half of it) says nothing about the feed: the copy stands in for `stale_max`.
* 403 and 404 may be meant: `stale_max_refused`. So may every other 4xx that is not named here. Our request
  has not changed since it was answered well, so either the origin is at fault for a while, or it means it.
* 408, 421 and 425 say themselves that the same request may succeed later (RFC 9110, 15.5.9 and 15.5.20;
  RFC 8470, 5.2).
* 401 and 451 are about who may read, and 410 is an end on purpose: no copy answers against that.

A feed of another kind, one that has become ill-formed, and one that has suddenly lost most of its items is a new
shape: it is believed when it was seen several times over some hours.

Patience is reckoned from when the copy was last good: received, or confirmed by a 304.
"""

import time
from dataclasses import dataclass, field
from enum import Enum

from feedproxy.cache.cache_status import Detail
from feedproxy.clock import Instant, Seconds
from feedproxy.errors import FeedproxyError
from feedproxy.feed.channel import Channel
from feedproxy.http.message import Fields
from feedproxy.refresh.policy import bot_challenge
from feedproxy.settings import Settings
from feedproxy.store.resource import Failures, NewShape, Resource

SHAPE_SIGHTINGS = 3
SHAPE_SPAN: Seconds = 6 * 3600
"""A new shape is believed when it was seen three times over six hours: longer than a deployment that went
wrong in the evening, shorter than a reader's day (DESIGN: Bad updates)."""

LOSS = 1 / 2
LOSS_ILL_FORMED = 1 / 4
"""The part of a feed's items above which a sudden loss is a new shape. Of 938 updates in the histories of nine real
feeds, five lost more than half, each after months without a recorded version."""
LOSS_MIN = 3
"""Items that a well-formed feed may lose at once in any case, unless these are all: short lists come and go."""


class Patience(Enum):
    """How long a copy may stand in for what is wrong."""

    LONG = "stale_max"
    SHORT = "stale_max_refused"
    NONE = "at once"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a fetch brought: an answer (`status`), or none (`error`).

    `error` beside a status tells that the content could not be looked into (undecodable, too large).
    `channel` is what the content reads as; `html`, `empty` and `truncated` what it is instead, and `page` its
    first bytes, decoded, in which a challenge is looked for. `truncated` means that its end is known to be
    missing; a document that merely breaks off is ill-formed. A redirect gets here only if it leads nowhere:
    `broken` says why.
    """

    status: int | None = None
    fields: Fields = field(default_factory=Fields)
    error: FeedproxyError | None = None
    channel: Channel | None = None
    empty: bool = False
    html: bool = False
    truncated: bool = False
    page: bytes = b""
    broken: Detail | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with an outcome in itself, whatever is held."""

    detail: Detail
    words: str
    patience: Patience = Patience.LONG


@dataclass(frozen=True, slots=True)
class Accept:
    """The update becomes the copy, and sightings of other shapes are forgotten."""

    words: str


@dataclass(frozen=True, slots=True)
class Keep:
    """The copy is served, with `detail`, before `until`. `new_shape` is to be remembered."""

    detail: Detail
    until: Instant
    words: str
    new_shape: NewShape | None = None


@dataclass(frozen=True, slots=True)
class Pass:
    """Readers get what came. `detail` names what is wrong with it, if anything is.

    What is wrong still spaces the next try. `new_shape` is to be remembered.
    """

    words: str
    detail: Detail | None = None
    new_shape: NewShape | None = None


type Verdict = Accept | Keep | Pass


def judge(resource: Resource | None, outcome: Outcome, now: Instant, settings: Settings) -> Verdict:
    """What becomes of this update? `settings` are the feed's own, rules included."""
    if resource is None or not resource.variants:
        fault = diagnose(outcome)
        return Pass(fault.words if fault else "no copy is held", fault.detail if fault else None)
    if resource.channel is None:
        # "HTTP's caching rules hold for everything that passes; feed features touch feeds only."
        return Accept("no feed is held")
    fault = diagnose(outcome)
    seen = resource.new_shape
    if fault is None:
        if outcome.status == 304 or outcome.channel is None:
            return Accept("not modified")
        loss = lost_items(resource, outcome.channel)
        if not loss and _fits(resource.channel, outcome.channel):
            return Accept(f"new version ({outcome.channel.kind})")
        shape = shape_of(outcome.channel) + (" without most of its items" if loss else "")
        if settings.on_bad_update == "pass":
            return Accept(f"the feed is {shape} now; bad updates pass here")
        seen = _sighted(seen, shape, now)
        if seen.count >= SHAPE_SIGHTINGS and now - seen.first >= SHAPE_SPAN:
            return Accept(f"the feed is {shape} now: seen {seen.count} times since {_when(seen.first)}")
        if now >= last_good(resource) + settings.stale_max:
            # No copy is left to be guarded: any feed is better than what may not be served.
            return Accept(f"the feed is {shape} now, and the copy is too old")
        times = "once" if seen.count == 1 else f"{seen.count} times"
        words = f" ({outcome.channel.items} of {resource.channel.items})" if loss else ""
        fault = Fault(_shape_detail(outcome.channel), f"the feed is {shape} now{words}, seen {times}")
    if settings.on_bad_update == "pass":
        return Pass(f"{fault.words}; bad updates pass here", fault.detail)
    if fault.patience is Patience.NONE:
        return Pass(f"{fault.words}: passed at once", fault.detail)
    limit = settings.stale_max if fault.patience is Patience.LONG else settings.stale_max_refused
    until = last_good(resource) + limit
    if now >= until:
        return Pass(f"{fault.words}; the copy, good until {_when(until)}, is too old", fault.detail, seen)
    return Keep(fault.detail, until, f"{fault.words}; serving the cached copy until {_when(until)}", seen)


def diagnose(outcome: Outcome) -> Fault | None:
    """What is wrong with an outcome in itself; None for a feed, or a 304. No feed is wrong where one was."""
    status = outcome.status
    if outcome.channel is None and (name := bot_challenge.recognise(outcome.fields, outcome.page)):
        return Fault(Detail.CHALLENGE, f"{name} asks whether we are a browser")
    if status is None:
        return _no_answer(outcome.error)
    match status:
        case 304:
            return None
        case 200 | 203:
            return _content(outcome)
        case 206 | 226:
            return Fault(Detail.TRUNCATED, f"a part came ({status}) where the whole was asked for")
        case 204 | 205:
            return Fault(Detail.EMPTY, f"the origin answered {status}, no content")
        case 401 | 451:
            return Fault(Detail.REFUSED, f"the origin answered {status}", Patience.NONE)
        case 410:
            return Fault(Detail.GONE, "the origin answered 410, gone", Patience.NONE)
        case 429:
            return Fault(Detail.RATE_LIMITED, "the origin answered 429, too many requests")
        case 408 | 421 | 425:
            return Fault(Detail.ERROR_STATUS, f"the origin answered {status}")
    if 300 <= status < 400:
        why = outcome.broken or Detail.REDIRECT_LOOP
        return Fault(why, f"the origin's redirect ({status}) leads nowhere ({why})")
    if 400 <= status < 500:
        return Fault(Detail.REFUSED, f"the origin answered {status}", Patience.SHORT)
    # 5xx, other 2xx (a 202 is a promise, and no feed), and what RFC 9110, section 15, calls invalid: 999.
    return Fault(Detail.ERROR_STATUS, f"the origin answered {status}")


def patience_after(failures: Failures, settings: Settings) -> Seconds:
    """How long a copy may stand in while a failing origin is left in peace: as long as when it failed.

    Reckoned from `last_good`. Else readers would get a 404 and an old copy in turns.
    """
    match failures.detail:
        case Detail.GONE:
            return 0
        case Detail.REFUSED:
            return settings.stale_max_refused
    return settings.stale_max


def shape_of(channel: Channel) -> str:
    """The shape of a feed, not its content: `atom`, `ill-formed rss`."""
    return str(channel.kind) if channel.well_formed else f"ill-formed {channel.kind}"


def last_good(resource: Resource) -> Instant:
    """When the origin last gave, or confirmed, what is held."""
    return max(variant.response_time for variant in resource.variants)


def _content(outcome: Outcome) -> Fault | None:
    """A complete answer: is it a feed? The most telling reason first."""
    if outcome.error is not None:
        return _no_answer(outcome.error)
    if outcome.empty:
        return Fault(Detail.EMPTY, "the origin sent nothing at all")
    if outcome.truncated:
        return Fault(Detail.TRUNCATED, "the end of what the origin sent is missing")
    if outcome.channel is not None:
        return None
    if outcome.html:
        return Fault(Detail.HTML_WHERE_FEED, "the response is HTML, not a feed")
    return Fault(Detail.ILL_FORMED, "the response is not a feed")


def _no_answer(error: FeedproxyError | None) -> Fault:
    token = error.detail if error is not None else Detail.FETCH_ERROR
    detail = next((each for each in Detail if each == token), Detail.FETCH_ERROR)
    return Fault(detail, f"no usable answer ({detail})" + (f": {error}" if str(error or "") else ""))


def lost_items(resource: Resource, update: Channel) -> bool:
    """Whether a feed has suddenly lost most of its items, all of them included.

    A feed that is remembered to have been as short as that is usually so. Of an ill-formed update a quarter is too
    much to lose: where it breaks off, the rest is missing.
    """
    held = resource.channel
    if held is None or update.items >= held.items or update.kind is not held.kind:
        return False
    if resource.editions and update.items >= min(edition.items for edition in resource.editions):
        return False
    lost = held.items - update.items
    if not update.well_formed:
        return lost > held.items * LOSS_ILL_FORMED
    return not update.items or (lost >= LOSS_MIN and lost > held.items * LOSS)


def _fits(held: Channel, update: Channel) -> bool:
    """May the update replace what is held at once? Nothing well-formed is worse than an ill-formed copy."""
    if not held.well_formed:
        return update.well_formed or update.kind is held.kind
    return update.well_formed and update.kind is held.kind


def _shape_detail(channel: Channel) -> Detail:
    return Detail.NEW_SHAPE if channel.well_formed else Detail.ILL_FORMED


def _sighted(seen: NewShape | None, shape: str, now: Instant) -> NewShape:
    """One more sighting; another shape starts anew. Failures in between say nothing of the shape."""
    if seen is None or seen.shape != shape or now < seen.first:
        return NewShape(shape, now, 1)
    return NewShape(shape, seen.first, seen.count + 1)


def _when(instant: Instant) -> str:
    return time.strftime("%d %b %H:%M GMT", time.gmtime(instant))
