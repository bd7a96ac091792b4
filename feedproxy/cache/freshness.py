"""Age and freshness lifetime of a stored response, and the reason for the lifetime (RFC 9111, section 4.2).

HTTP's explicit lifetime comes first: s-maxage, max-age, Expires (4.2.1). Without it the lifetime is heuristic
(4.2.2): the feed's own schedule, else its rate of change, else a tenth of the time since it was modified, else
a default. The schedule, the rate and the default apply to feeds only.

The feed's schedule comes in through a function, the *hint*, since this package does not know feed formats. Where
HTTP's explicit lifetime ends earlier, the hint is the publisher's permission to use the stale response (4.2.4):
the response is *held*.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import assert_never

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.cache.storing import HEURISTICALLY_CACHEABLE
from feedproxy.cache.targeted_directives import Directives, governing
from feedproxy.clock import Instant, Seconds
from feedproxy.http.cache_control import DELTA_SECONDS_MAX, CacheControl
from feedproxy.http.date import parse_http_date
from feedproxy.http.message import Fields

# "A typical setting of this fraction might be 10%." -- section 4.2.2
FRACTION = 0.1

_AGE = re.compile(r"([0-9]+)[ \t]*(?:;.*)?")


class Source(StrEnum):
    """The origin of a freshness lifetime."""

    TARGETED = "targeted"
    S_MAXAGE = "s-maxage"
    MAX_AGE = "max-age"
    EXPIRES = "expires"
    HINT = "hint"
    LEARNED = "learned"
    LAST_MODIFIED = "last-modified"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Allowance:
    """A permission from outside HTTP to use a response until an instant. `detail` is one of Cache-Status."""

    until: Instant
    detail: str
    reason: str


type Hint = Callable[[StoredResponse, Instant, Instant | None, Instant], Allowance | None]
"""hint(stored, base, expires, now): `base` is when the response was generated or last validated, `expires`
the end of HTTP's lifetime, None where HTTP is silent."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """The freshness of one stored response at one instant. `age` and `lifetime` are seconds, never negative.

    `expires` is when the lifetime ends; `held` is until when, and why, the stale response may still be used.
    `control` are the directives that govern the response. `reason` says where the lifetime comes from if `source`
    does not suffice; `limit` is why it ends sooner than it would otherwise.
    """

    age: Seconds
    lifetime: Seconds
    source: Source
    expires: Instant
    held: Allowance | None = None
    control: CacheControl = field(default_factory=CacheControl)
    reason: str = ""
    limit: Allowance | None = None

    def fresh(self, now: Instant) -> bool:
        """Return whether the response is fresh at that instant."""
        # "response_is_fresh = (freshness_lifetime > current_age)"
        return now < self.expires

    @property
    def ttl(self) -> Seconds:
        """Return the remaining lifetime in seconds; negative for a stale response: the time since it became stale."""
        return self.lifetime - self.age

    @property
    def description(self) -> str:
        """Return the state as a sentence for the operator. It is computed on demand, to keep hits cheap."""
        return self.description_at(self.age)

    def description_at(self, age: Seconds) -> str:
        """Return `description` for another age."""
        ttl, since = (
            self.lifetime - age,
            f"{self.reason or _reason(self.source, self.lifetime)}, fetched {span(age)} ago",
        )
        if ttl > 0:
            return f"fresh for another {span(ttl)}: {since}"
        if self.held is not None:
            remaining = self.held.until - self.expires + ttl
            return f"held for another {span(remaining)}: {self.held.reason}; by HTTP {since}"
        return f"stale for {span(-ttl)}: {since}"


def span(seconds: Seconds) -> str:
    """Return a length of time as people say it: `40 s`, `35 min`, `1 h 5 min`, `3 days`."""
    return _span(max(0, int(seconds)))


@lru_cache(maxsize=8192)
def _span(whole: int) -> str:
    if whole >= 2 * 86_400:
        return _two(whole, 86_400, "days", 3_600, "h")
    if whole >= 3_600:
        return _two(whole, 3_600, "h", 60, "min")
    if whole >= 600 or (whole and whole % 60 == 0):
        return f"{whole // 60} min"
    return f"{whole} s"


def _two(whole: int, size: int, unit: str, smaller: int, smaller_unit: str) -> str:
    rest = whole % size // smaller
    return f"{whole // size} {unit} {rest} {smaller_unit}" if rest else f"{whole // size} {unit}"


def initial_age(stored: StoredResponse) -> Seconds:
    """Return the age of the response on receipt: corrected_initial_age of section 4.2.3; never negative."""
    # Date has whole seconds: a response received within that second has no apparent age.
    apparent_age = max(0.0, math.floor(stored.response_time) - _date(stored))
    response_delay = max(0.0, stored.response_time - stored.request_time)
    corrected_age_value = _age_value(stored.fields) + response_delay
    # "corrected_initial_age = max(apparent_age, corrected_age_value);"
    return max(apparent_age, corrected_age_value)


def current_age(stored: StoredResponse, now: Instant, initial: Seconds | None = None) -> Seconds:
    """Return the seconds since the response was generated or validated at the origin (section 4.2.3); never negative.

    `initial` is its `initial_age`, where that is known.
    """
    # A clock that was set back must not make a response younger than it was on receipt.
    resident_time = max(0.0, now - stored.response_time)
    return (initial_age(stored) if initial is None else initial) + resident_time


def _age_value(fields: Fields) -> Seconds:
    """Return the value of Age: of a list its first member, 0 for an invalid value (section 5.1).

    Parameters after the number are ignored: an Item of a structured field may have them (RFC 9651, section 3.3).
    Accepting such a value can only end reuse sooner.
    """
    value = fields.get("age")
    found = None if value is None else _AGE.fullmatch(value.partition(",")[0].strip(" \t"))
    if found is None:
        return 0.0
    digits = found[1]
    return float(DELTA_SECONDS_MAX if len(digits.lstrip("0")) > 10 else min(int(digits), DELTA_SECONDS_MAX))


def _date(stored: StoredResponse) -> Instant:
    """Return the Date field; the time of receipt if it is missing or invalid (RFC 9110, section 6.6.1)."""
    value = stored.fields.get("date")
    date = None if value is None else parse_http_date(value, stored.response_time)
    return stored.response_time if date is None else date


def explicit_lifetime(stored: StoredResponse, *, targeted: bool = False) -> tuple[Seconds, Source] | None:
    """Return the lifetime that HTTP states (section 4.2.1); None where it is silent."""
    return _explicit(stored, governing(stored.fields, targeted=targeted))


def _explicit(stored: StoredResponse, directives: Directives) -> tuple[Seconds, Source] | None:
    control, is_targeted = directives
    # "If the cache is shared and the s-maxage response directive is present, use its value, or"
    if control.s_maxage is not None:
        return control.s_maxage, Source.TARGETED if is_targeted else Source.S_MAXAGE
    # "If the max-age response directive is present, use its value, or"
    if control.max_age is not None:
        return control.max_age, Source.TARGETED if is_targeted else Source.MAX_AGE
    # "If the Expires response header field is present, use its value minus the value of the Date response
    # header field"
    if not is_targeted and (values := stored.fields.get_all("expires")):
        return _expires(values, stored), Source.EXPIRES
    return None


def _expires(values: list[str], stored: StoredResponse) -> Seconds:
    # "When there is more than one value present for a given directive (e.g., two Expires header field lines
    # [...]), either the first occurrence should be used or the response should be considered stale."
    expires = parse_http_date(values[0], stored.response_time)
    # "A cache recipient MUST interpret invalid date formats, especially the value "0", as representing a time
    # in the past (i.e., "already expired")." -- section 5.3
    return 0.0 if expires is None else max(0.0, expires - _date(stored))


def heuristic_lifetime(
    stored: StoredResponse, *, learned: Seconds | None, default: Seconds, minimum: Seconds, maximum: Seconds
) -> tuple[Seconds, Source]:
    """Return the heuristic lifetime if neither HTTP nor the feed gives one (section 4.2.2), in seconds.

    `learned` (from the history of changes), `default` and `minimum` apply to feeds; other content gets a tenth
    of the time since its Last-Modified, or 0.
    """
    feed = stored.content.feed
    if feed and learned is not None:
        return _within(learned, minimum, maximum), Source.LEARNED
    modified = parse_http_date(stored.fields.get("last-modified") or "", stored.response_time)
    # "caches are encouraged to use a heuristic expiration value that is no more than some fraction of the
    # interval since that time."
    if modified is not None and modified < (date := _date(stored)):
        tenth = FRACTION * (date - modified)
        return _within(tenth, minimum if feed else 0.0, maximum), Source.LAST_MODIFIED
    return (_within(default, minimum, maximum) if feed else 0.0), Source.DEFAULT


def _within(seconds: Seconds, minimum: Seconds, maximum: Seconds) -> Seconds:
    return max(0.0, min(max(seconds, minimum), maximum))


def assess(
    stored: StoredResponse,
    now: Instant,
    *,
    hint: Hint | None = None,
    learned: Seconds | None = None,
    default: Seconds = 0.0,
    minimum: Seconds = 0.0,
    maximum: Seconds = 86_400.0,
    targeted: bool = False,
) -> Freshness:
    """Return the freshness of a stored response at `now`: age, lifetime, and the reason for it."""
    initial = initial_age(stored)
    age = current_age(stored, now, initial)
    # Not now - age: rounding would give another value for each `now`.
    base = min(now, stored.response_time) - initial
    directives = governing(stored.fields, targeted=targeted)
    control = directives.control
    if explicit := _explicit(stored, directives):
        lifetime, source = explicit
        expires = base + lifetime
        held = None
        if hint is not None and stored.content.feed and may_be_held(stored, control):
            allowance = hint(stored, base, expires, now)
            if allowance is not None and allowance.until > max(expires, now):
                held = allowance
        return Freshness(age, lifetime, source, expires, held, control)
    # "heuristics can only be used on responses without explicit freshness [with status codes that] are defined as
    # heuristically cacheable [...] and on responses without explicit freshness that have been marked as
    # explicitly cacheable (e.g., with a public response directive)."
    if stored.status not in HEURISTICALLY_CACHEABLE and not control.public:
        reason = f"no lifetime given, and none is estimated for a {stored.status}"
        return Freshness(age, 0.0, Source.DEFAULT, base, None, control, reason)
    allowance = hint(stored, base, None, now) if hint is not None and stored.content.feed else None
    if allowance is not None:
        lifetime = max(0.0, allowance.until - base)
        return Freshness(age, lifetime, Source.HINT, base + lifetime, None, control, allowance.reason)
    lifetime, source = heuristic_lifetime(stored, learned=learned, default=default, minimum=minimum, maximum=maximum)
    return Freshness(age, lifetime, source, base + lifetime, None, control)


def limited(found: Freshness, limit: Allowance) -> Freshness:
    """Return the freshness, ending no later than `limit`. A cache may validate sooner than it must."""
    until = limit.until
    held = found.held
    if until >= (held.until if held is not None else found.expires):
        return found
    if until >= found.expires:
        return replace(
            found, held=replace(held, until=until, reason=limit.reason) if held is not None else None, limit=limit
        )
    lifetime = max(0.0, until - (found.expires - found.lifetime))
    return replace(found, lifetime=lifetime, expires=until, held=None, reason=limit.reason, limit=limit)


def may_be_held(stored: StoredResponse, control: CacheControl) -> bool:
    """Return whether a permission from outside HTTP may extend the use of this response beyond its lifetime."""
    # "A cache MUST NOT generate a stale response if it is prohibited by an explicit in-protocol directive
    # (e.g., by a no-cache response directive, a must-revalidate response directive, or an applicable s-maxage
    # or proxy-revalidate response directive)" -- section 4.2.4
    return not (
        stored.authorized
        or control.no_store
        or control.private
        or control.no_cache
        or control.must_revalidate
        or control.proxy_revalidate
        or control.s_maxage is not None
    )


@lru_cache(maxsize=1024)
def _reason(source: Source, lifetime: Seconds) -> str:
    match source:
        case Source.TARGETED:
            return f"CDN-Cache-Control gives it {span(lifetime)}"
        case Source.S_MAXAGE | Source.MAX_AGE:
            return f"{source} of {span(lifetime)}"
        case Source.EXPIRES:
            return f"Expires gives it {span(lifetime)}"
        case Source.HINT:
            return f"the feed asks for {span(lifetime)}"
        case Source.LEARNED:
            return f"{span(lifetime)}, based on how often it has changed"
        case Source.LAST_MODIFIED:
            return f"no lifetime given; {span(lifetime)} estimated from Last-Modified"
        case Source.DEFAULT if lifetime > 0:
            return f"no lifetime given; {span(lifetime)} by default"
        case Source.DEFAULT:
            return "no lifetime given, and none is estimated"
    assert_never(source)
