"""Age and freshness lifetime of a stored response, with the reason for the lifetime. RFC 9111, section 4.2

An explicit lifetime of HTTP comes first: s-maxage, max-age or Expires (section 4.2.1). If there is none, the lifetime
of a feed comes from the feed's schedule, or else from its rate of change (section 4.2.2). If both are unknown, the
lifetime is a tenth of the time since Last-Modified, or a default.

A feed's schedule can permit the use of a response beyond its lifetime (`Hint`): it is then *held* (section 4.2.4).
"""

import math
import re
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.cache.storing import HEURISTICALLY_CACHEABLE
from feedproxy.cache.targeted_directives import Directives, governing_directives
from feedproxy.clock import Instant, Seconds
from feedproxy.durations_and_sizes import span
from feedproxy.http.cache_control import ABSENT, CacheControl, delta_seconds
from feedproxy.http.date import parse_http_date
from feedproxy.http.message import Fields

# "A typical setting of this fraction might be 10%." -- section 4.2.2
FRACTION = 0.1

_AGE = re.compile(r"([0-9]+)[ \t]*(?:;.*)?")


class Source(StrEnum):
    """The rule that determined a freshness lifetime."""

    TARGETED = "targeted"
    S_MAXAGE = "s-maxage"
    MAX_AGE = "max-age"
    EXPIRES = "expires"
    HINT = "hint"
    LEARNED = "learned"
    LAST_MODIFIED = "last-modified"
    DEFAULT = "default"


class Allowance(Struct, frozen=True):
    """The permission, by a feed or an option, to use a response until the instant `until`, even if it is stale.

    `detail` is a token of Cache-Status. `reason` is a text for the operator.
    """

    until: Instant
    detail: str
    reason: str


type Hint = Callable[[Instant, Instant | None], Allowance | None]
"""A function that returns the permission of a feed's schedule to use a response, or None if it permits nothing.

Its arguments are `base` and `expires`. `base` is the instant at which the response was generated or last validated.
`expires` is the end of the explicit lifetime, or None if there is none.
"""


class Freshness(Struct, frozen=True):
    """The freshness of one stored response at one instant.

    * `age` and `lifetime` are in seconds, never negative.
    * `source` is the rule for the lifetime. `reason` explains the lifetime further, or is empty.
    * `expires` is the instant at which the lifetime ends.
    * `allowance` is the permission to use the response after `expires`, or None.
    * `control` contains the directives of the response.
    * `limit` is the allowance by which `limit_freshness` has shortened the use of the response, or None.
    """

    age: Seconds
    lifetime: Seconds
    source: Source
    expires: Instant
    allowance: Allowance | None = None
    control: CacheControl = ABSENT
    reason: str = ""
    limit: Allowance | None = None

    def is_fresh(self, now: Instant) -> bool:
        """Return True if the response is fresh at the instant `now`."""
        # "response_is_fresh = (freshness_lifetime > current_age)"
        return now < self.expires

    @property
    def ttl(self) -> Seconds:
        """Return the remaining lifetime in seconds, negative for a stale response."""
        return self.lifetime - self.age

    @property
    def description(self) -> str:
        """Return a sentence for the operator about this freshness."""
        return describe(self.source, self.lifetime, self.expires, self.allowance, self.reason, self.age)


def describe(
    source: Source, lifetime: Seconds, expires: Instant, allowance: Allowance | None, reason: str, age: Seconds
) -> str:
    """Return a sentence for the operator about the freshness of a response at an age of `age` seconds.

    The other arguments are the attributes of Freshness with the same names.
    """
    ttl = lifetime - age
    if ttl > 0:
        return describe_fresh(source, lifetime, reason, ttl, age)
    since = f"{reason or _reason(source, lifetime)}, fetched {span(age)} ago"
    if allowance is not None:
        remaining = allowance.until - expires + ttl
        return f"held for another {span(remaining)}: {allowance.reason}; by HTTP {since}"
    return f"stale for {span(-ttl)}: {since}"


def describe_fresh(source: Source, lifetime: Seconds, reason: str, ttl: Seconds, age: Seconds) -> str:
    """Return the same as `describe` for a response that is still fresh for `ttl` seconds."""
    return f"fresh for another {span(ttl)}: {reason or _reason(source, lifetime)}, fetched {span(age)} ago"


def initial_age(stored: StoredResponse) -> Seconds:
    """Return the age of the response on receipt, in seconds (corrected_initial_age in RFC 9111, section 4.2.3)."""
    # Date has whole seconds. A response received within the same second has no apparent age.
    apparent_age = max(0.0, math.floor(stored.response_time) - date_of(stored.fields, stored.response_time))
    response_delay = max(0.0, stored.response_time - stored.request_time)
    corrected_age_value = age_value(stored.fields) + response_delay
    # "corrected_initial_age = max(apparent_age, corrected_age_value);"
    return max(apparent_age, corrected_age_value)


def current_age(stored: StoredResponse, now: Instant, initial: Seconds | None = None) -> Seconds:
    """Return the age of the response at `now`, in seconds and never negative (RFC 9111, section 4.2.3). `initial` is
    the result of `initial_age` if the caller has computed it, or None."""
    # A clock that was set back must not make a response younger than it was when it was received.
    resident_time = max(0.0, now - stored.response_time)
    return (initial_age(stored) if initial is None else initial) + resident_time


def age_value(fields: Fields) -> Seconds:
    """Return the first value of Age in seconds, or 0 if Age is missing or invalid (RFC 9111, section 5.1).

    Parameters after the number are ignored: an Item of a structured field may have them (RFC 9651, section 3.3).
    """
    value = fields.get("age")
    match = None if value is None else _AGE.fullmatch(value.partition(",")[0].strip(" \t"))
    return 0.0 if match is None else delta_seconds(match[1])


def date_of(fields: Fields, received: Instant) -> Instant:
    """Return the instant in Date, or the time of receipt if Date is missing or invalid (RFC 9110, section 6.6.1)."""
    date = parse_http_date(fields.get("date") or "", received)
    return received if date is None else date


def explicit_lifetime(fields: Fields, received: Instant, *, targeted: bool = False) -> tuple[Seconds, Source] | None:
    """Return the explicit lifetime in seconds and its source, or None if there is none (RFC 9111, section 4.2.1).

    `received` is the instant at which the response with `fields` was received. `targeted` is True if targeted fields
    apply to this cache (RFC 9213).
    """
    directives = governing_directives(fields, targeted=targeted)
    return _lifetime_by(directives, fields, received)


def _lifetime_by(directives: Directives, fields: Fields, received: Instant) -> tuple[Seconds, Source] | None:
    control, is_targeted = directives.control, directives.targeted
    # "If the cache is shared and the s-maxage response directive is present, use its value, or"
    if control.s_maxage is not None:
        return control.s_maxage, Source.TARGETED if is_targeted else Source.S_MAXAGE
    # "If the max-age response directive is present, use its value, or"
    if control.max_age is not None:
        return control.max_age, Source.TARGETED if is_targeted else Source.MAX_AGE
    # "If the Expires response header field is present, use its value minus the value of the Date response
    # header field"
    if not is_targeted and (values := fields.get_all("expires")):
        return _expires(values, date_of(fields, received), received), Source.EXPIRES
    return None


def _expires(values: list[str], date: Instant, received: Instant) -> Seconds:
    # "When there is more than one value present for a given directive (e.g., two Expires header field lines
    # [...]), either the first occurrence should be used or the response should be considered stale."
    expires = parse_http_date(values[0], received)
    # "A cache recipient MUST interpret invalid date formats, especially the value "0", as representing a time
    # in the past (i.e., "already expired")." -- section 5.3
    return 0.0 if expires is None else max(0.0, expires - date)


def heuristic_lifetime(
    stored: StoredResponse, *, learned: Seconds | None, default: Seconds, minimum: Seconds, maximum: Seconds
) -> tuple[Seconds, Source]:
    """Return the lifetime of a response without an explicit one, in seconds, and its source (RFC 9111, section 4.2.2).

    For a feed, the lifetime is `learned` (from the feed's history), or else a tenth of the time between Last-Modified
    and Date, or else `default`, and in each case at least `minimum`. For other content, it is a tenth of the time
    between Last-Modified and Date, or 0 if this time is unknown. No lifetime exceeds `maximum`.
    """
    feed = stored.content.feed
    if feed and learned is not None:
        return _clamp(learned, minimum, maximum), Source.LEARNED
    modified = parse_http_date(stored.fields.get("last-modified") or "", stored.response_time)
    # "caches are encouraged to use a heuristic expiration value that is no more than some fraction of the
    # interval since that time."
    if modified is not None and modified < (date := date_of(stored.fields, stored.response_time)):
        tenth = FRACTION * (date - modified)
        return _clamp(tenth, minimum if feed else 0.0, maximum), Source.LAST_MODIFIED
    return (_clamp(default, minimum, maximum) if feed else 0.0), Source.DEFAULT


def _clamp(seconds: Seconds, minimum: Seconds, maximum: Seconds) -> Seconds:
    return max(0.0, min(max(seconds, minimum), maximum))


def _unknown(*_: object) -> None:
    return None


def assess(
    stored: StoredResponse,
    now: Instant,
    *,
    hint: Hint = _unknown,
    learned: Callable[[], Seconds | None] = _unknown,
    default: Seconds = 0.0,
    minimum: Seconds = 0.0,
    maximum: Seconds = 86_400.0,
    targeted: bool = False,
) -> Freshness:
    """Return the freshness of a stored response at `now`.

    `hint` returns the permission of the feed's schedule to use the response, or None (`Hint`). `learned` returns the
    lifetime estimated from the feed's history, or None. The learned lifetime counts only if neither HTTP nor the
    schedule states one. `default`, `minimum` and `maximum` are as for `heuristic_lifetime`. `targeted` is True if
    targeted fields apply to this cache (RFC 9213).
    """
    initial = initial_age(stored)
    age = current_age(stored, now, initial)
    # `now - age` would be rounded differently for each `now`.
    base = min(now, stored.response_time) - initial
    directives = governing_directives(stored.fields, targeted=targeted)
    control = directives.control
    if explicit := _lifetime_by(directives, stored.fields, stored.response_time):
        lifetime, source = explicit
        expires = base + lifetime
        allowance = None
        if stored.content.feed and may_extend_lifetime(stored, control):
            allowance = hint(base, expires)
            if allowance is not None and allowance.until <= max(expires, now):
                allowance = None
        return Freshness(age, lifetime, source, expires, allowance, control)
    # "heuristics can only be used on responses without explicit freshness [with status codes that] are defined as
    # heuristically cacheable [...] and on responses without explicit freshness that have been marked as
    # explicitly cacheable (e.g., with a public response directive)."
    if stored.status not in HEURISTICALLY_CACHEABLE and not control.public:
        reason = f"no lifetime given, and none is estimated for status {stored.status}"
        return Freshness(age, 0.0, Source.DEFAULT, base, None, control, reason)
    allowance = hint(base, None) if stored.content.feed else None
    if allowance is not None:
        lifetime = max(0.0, allowance.until - base)
        return Freshness(age, lifetime, Source.HINT, base + lifetime, None, control, allowance.reason)
    lifetime, source = heuristic_lifetime(stored, learned=learned(), default=default, minimum=minimum, maximum=maximum)
    return Freshness(age, lifetime, source, base + lifetime, None, control)


def limit_freshness(freshness: Freshness, limit: Allowance) -> Freshness:
    """Return the freshness, shortened so that the response may be used only until `limit.until`."""
    until, allowance = limit.until, freshness.allowance
    if allowance is not None and freshness.expires <= until < allowance.until:
        return replace(freshness, allowance=replace(allowance, until=until, reason=limit.reason), limit=limit)
    if until >= freshness.expires:
        return freshness
    lifetime = max(0.0, until - (freshness.expires - freshness.lifetime))
    return replace(freshness, lifetime=lifetime, expires=until, allowance=None, reason=limit.reason, limit=limit)


def may_extend_lifetime(stored: StoredResponse, control: CacheControl) -> bool:
    """Return True if a feed's schedule or an option may permit the use of this response beyond its lifetime. `control`
    contains the directives of the response."""
    return not (stored.authorized or control.no_store or control.private or prohibits_stale_use(control))


def prohibits_stale_use(control: CacheControl) -> bool:
    """Return True if HTTP forbids every stale use of a response with these directives."""
    # "A cache MUST NOT generate a stale response if it is prohibited by an explicit in-protocol directive
    # (e.g., by a no-cache response directive, a must-revalidate response directive, or an applicable s-maxage
    # or proxy-revalidate response directive; see Section 5.2.2)." -- section 4.2.4
    return control.no_cache or control.must_revalidate or control.proxy_revalidate or control.s_maxage is not None


@lru_cache(maxsize=1024)
def _reason(source: Source, lifetime: Seconds) -> str:
    match source:
        case Source.TARGETED:
            return f"CDN-Cache-Control gives {span(lifetime)}"
        case Source.S_MAXAGE | Source.MAX_AGE:
            return f"{source} of {span(lifetime)}"
        case Source.EXPIRES:
            return f"Expires gives {span(lifetime)}"
        case Source.HINT:
            return f"the feed gives {span(lifetime)}"
        case Source.LEARNED:
            return f"{span(lifetime)}, estimated from the frequency of its changes"
        case Source.LAST_MODIFIED:
            return f"no lifetime given; {span(lifetime)} estimated from Last-Modified"
        case Source.DEFAULT if lifetime > 0:
            return f"no lifetime given; {span(lifetime)} by default"
        case Source.DEFAULT:
            return "no lifetime given, and none is estimated"
    assert_never(source)
