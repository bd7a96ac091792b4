"""The instants at which an origin permits the next request: Retry-After, and the RateLimit fields.

RFC 9110, section 10.2.3; draft-ietf-httpapi-ratelimit-headers
"""

import re
from collections.abc import Sequence

from feedproxy.clock import Instant, Seconds
from feedproxy.http.date import parse_http_date
from feedproxy.http.field_values import field_parser
from feedproxy.http.message import Fields, Response
from feedproxy.http.structured_fields import Value, parse_dictionary, parse_list

DEFER_MAX: Seconds = 172_800
"""Maximum time by which an origin can defer the next request, in seconds. Some origins state years."""

_RATE_LIMIT_FIELDS = frozenset({"ratelimit", "ratelimit-remaining", "x-ratelimit-remaining"})

_DELAY = re.compile(r"\d{1,15}(\.\d*)?")


def may_state_limit(response: Response) -> bool:
    """Return True if the response is a 429, or has a field that can state an exhausted rate limit."""
    return response.status == 429 or response.fields.has_any(_RATE_LIMIT_FIELDS)


def retry_after(fields: Fields, now: Instant) -> Instant | None:
    """Return the instant from which the origin permits the next request, or None if the response states none.

    The later of Retry-After (RFC 9110, section 10.2.3) and the reset of an exhausted rate limit counts, up to
    DEFER_MAX.
    """
    instants = [_parse_retry_after(value.strip(), now) for value in fields.get_all("retry-after")]
    latest = max((at for at in (*instants, rate_limit_reset(fields, now)) if at is not None and at > now), default=None)
    return min(latest, now + DEFER_MAX) if latest is not None else None


def rate_limit_reset(fields: Fields, now: Instant) -> Instant | None:
    """Return the instant at which an exhausted rate limit is reset, at most DEFER_MAX seconds from now.

    Return None if no limit is exhausted. Three forms are read:

    * `RateLimit: "policy";r=0;t=30` (draft-ietf-httpapi-ratelimit-headers-10)
    * `RateLimit: remaining=0, reset=30` (version 05 of the draft)
    * `x-ratelimit-remaining: 0` with `x-ratelimit-reset`, and both fields without `x-`. The reset is in seconds from
      now or in Unix time.
    """
    resets = [_reset_of(fields, prefix, now) for prefix in ("x-ratelimit-", "ratelimit-")]
    if (value := fields.combined("ratelimit")) is not None:
        resets += (
            min(now + reset, now + DEFER_MAX)
            for remaining, reset in _parse_rate_limit(value)
            if isinstance(remaining, int | float) and isinstance(reset, int | float) and remaining < 1 and reset > 0
        )
    return max((at for at in resets if at is not None), default=None)


@field_parser(too_long=())
def _parse_rate_limit(value: str) -> Sequence[tuple[Value | None, Value | None]]:
    """Return, for each limit in RateLimit, the number of remaining requests and the seconds until the reset.

    A missing value is None. A malformed field can have values that are not numbers.
    """
    limits = [(parameters.get("r"), parameters.get("t")) for _, parameters in parse_list(value) or ()]
    members = parse_dictionary(value) or {}
    return [*limits, (members.get("remaining"), members.get("reset"))]


def _reset_of(fields: Fields, prefix: str, now: Instant) -> Instant | None:
    remaining, reset = _parse_number(fields.get(prefix + "remaining")), _parse_number(fields.get(prefix + "reset"))
    if remaining is None or reset is None or remaining >= 1:
        return None
    # A number above thirty years in seconds is a Unix time.
    at = reset if reset > 1_000_000_000 else now + reset
    return min(at, now + DEFER_MAX) if at > now else None


def _parse_retry_after(value: str, now: Instant) -> Instant | None:
    if _DELAY.fullmatch(value):
        return now + float(value)
    return parse_http_date(value)


def _parse_number(value: str | None) -> float | None:
    return float(value) if value is not None and _DELAY.fullmatch(value := value.strip()) else None
