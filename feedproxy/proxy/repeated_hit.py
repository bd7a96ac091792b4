"""Repetition of a hit without the whole request pipeline.

A hit is repeatable if its response depends on time alone, as long as the stored resource and the settings are unchanged
(`reusable_hit`). `recompute_hit` computes age and freshness anew, and decides again whether the stored response may be
used. Until the instant at which the decision can change, `HitState.advance` suffices: it only adds the elapsed seconds,
in a fiftieth of the time.
"""

import struct
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from feedproxy.cache import reuse_decision
from feedproxy.cache.freshness import Allowance, Freshness, Source, describe, describe_fresh, initial_age
from feedproxy.cache.reuse_decision import Reuse
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant, Seconds, is_set_back
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.content_negotiation import vary_names
from feedproxy.http.date import parse_http_date
from feedproxy.http.message import Request
from feedproxy.proxy.response_builder import max_age_directive, remaining_lifetime, sets_max_age
from feedproxy.refresh.policy.freshness_by_hints_and_history import assess
from feedproxy.request.context import ClientContext, Entrance, ProxyResponse
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

UNREPEATABLE_FIELDS = frozenset({"a-im", "authorization", "if-range", "range", "via"})
"""Names of request fields that make a response specific to one request."""

INSTANT_MARGIN = 1e-6
"""`HitState.advance` returns False from this many seconds before the instant at which the decision can change."""

_HEURISTIC_SOURCES = frozenset({Source.LEARNED, Source.LAST_MODIFIED, Source.DEFAULT})


class ReusableHit(Struct, frozen=True):
    """A stored response that may answer equal requests, with the values on which the next answer depends.

    `vary_names` contains the names of the request fields that select a variant. `counted` is true if the resource is a
    feed, so that its clients are counted as readers. `states_freshness` is true in reverse mode with the
    option `state_freshness`.
    """

    resource: Resource
    stored: StoredResponse
    settings: Settings
    directives: CacheControl
    detail: str | None
    vary_names: frozenset[str]
    counted: bool
    states_freshness: bool

    @property
    def conditions(self) -> "HitConditions":
        """Return the values of this hit that many hits share: all its values except `resource` and `stored`."""
        return self.settings, self.directives, self.detail, self.vary_names, self.counted, self.states_freshness


type HitConditions = tuple[Settings, CacheControl, str | None, frozenset[str], bool, bool]
"""The values of a `ReusableHit` that many hits share."""


class HitTerms(NamedTuple):
    """The part of a hit's state that many hits share.

    * `source`, `allowance` and `reason` are attributes of the freshness (cache/freshness.py).
    * `detail` is the token in Cache-Status, or None.
    * `overrides_cache_control` is true if Cache-Control states the lifetime that this proxy computed.
    * `emits_cdn_cache_control` is true if CDN-Cache-Control states this lifetime.
    """

    source: Source
    allowance: Allowance | None
    reason: str
    detail: str | None
    overrides_cache_control: bool
    emits_cdn_cache_control: bool


_shared_terms = lru_cache(maxsize=1024)(HitTerms)

_PACKED = struct.Struct("<5d")


class HitState:
    """The freshness of a hit, and its age, at the instant `computed_at`.

    `_packed` contains five numbers, in less memory than Python objects:

    * the instant until which only the age changes
    * the age on receipt, in seconds
    * the instant of receipt
    * the freshness lifetime, in seconds
    * the instant at which the lifetime ends
    """

    __slots__ = ("_packed", "computed_at", "terms")

    def __init__(
        self,
        freshness: Freshness,
        detail: str | None,
        since: Instant,
        valid_until: Instant,
        initial_age: Seconds,
        response_time: Instant,
        overrides: bool,
        emits: bool,
    ) -> None:
        self.terms = _shared_terms(freshness.source, freshness.allowance, freshness.reason, detail, overrides, emits)
        self._packed = _PACKED.pack(valid_until, initial_age, response_time, freshness.lifetime, freshness.expires)
        self.computed_at = since

    def advance(self, now: Instant) -> bool:
        """Change the state to that of the instant `now`, and return True. If the pipeline could decide differently
        then, leave the state unchanged and return False."""
        if not self.computed_at <= now <= _PACKED.unpack(self._packed)[0]:
            return False
        self.computed_at = now
        return True

    def fields(self) -> tuple["HitFields", Instant]:
        """Return the values that depend on time, and the last instant at which they and the decision of the hit stay
        the same."""
        now, terms = self.computed_at, self.terms
        _, initial_age, response_time, lifetime, expires = _PACKED.unpack(self._packed)
        # This is `current_age` (cache/freshness.py).
        age = initial_age + (now - response_time) if now > response_time else initial_age
        ttl, allowance = lifetime - age, terms.allowance
        until = now + 1 - age % 1.0 - INSTANT_MARGIN
        part = now + ttl % 1.0 if ttl >= 0 else now + 1 - -ttl % 1.0 - INSTANT_MARGIN
        until = min(until, part)
        if now < expires < until + INSTANT_MARGIN:
            until = expires - INSTANT_MARGIN
        if allowance is not None:
            remains = allowance.until - now
            until = min(until, allowance.until - INSTANT_MARGIN, now + remains % 1.0)
        if ttl >= 1 and allowance is None and not (terms.overrides_cache_control or terms.emits_cdn_cache_control):
            fields = _fields_of_fresh_hit(terms, lifetime, int(age), int(ttl), round(age), round(ttl))
        else:
            cache_control = ""
            if terms.overrides_cache_control or terms.emits_cdn_cache_control:
                cache_control = max_age_directive(lifetime, expires, allowance, age)
            reason = describe(terms.source, lifetime, expires, allowance, terms.reason, age)
            fields = HitFields.of(terms, int(age), int(ttl), cache_control, reason)
        return fields, until if until > now else now


class HitFields(NamedTuple):
    """The values of a hit that depend on time.

    * `age`, `cache_status` and `cache_control` are the values of these fields. `cache_control` is empty if no field
      states the lifetime that this proxy computed.
    * `encoded` contains these three values, each followed by a line feed.
    * `reason` is the description of the freshness for the access log.
    """

    age: int
    cache_status: str
    cache_control: str
    encoded: bytes
    reason: str

    @classmethod
    def of(cls, terms: HitTerms, age: int, ttl: int, cache_control: str, reason: str) -> "HitFields":
        """Return the values for an age and a remaining lifetime in whole seconds."""
        cache_status = f"feedproxy; hit; ttl={ttl}"
        if terms.detail is not None:
            cache_status = f"{cache_status}; detail={terms.detail}"
        return cls(
            age, cache_status, cache_control, f"{age}\n{cache_status}\n{cache_control}\n".encode("ascii"), reason
        )


@lru_cache(maxsize=512)
def _fields_of_fresh_hit(
    terms: HitTerms, lifetime: Seconds, age: int, ttl: int, rounded_age: int, rounded_ttl: int
) -> HitFields:
    """Return the values for a hit with a Cache-Control that the proxy does not change. They are cached, because many of
    thousands of feeds have the same lifetime and age."""
    reason = describe_fresh(terms.source, lifetime, terms.reason, rounded_ttl, rounded_age)
    return HitFields.of(terms, age, ttl, "", reason)


def reusable_hit(
    answer: ProxyResponse,
    request: Request,
    client: ClientContext,
    resource: Resource | None,
    settings: Settings,
    now: Instant,
) -> ReusableHit | None:
    """Return the response as a repeatable hit, or None if the response is no hit or depends on more than time."""
    stored = answer.stored
    if not answer.status.hit or stored is None or resource is None or answer.interim:
        return None
    if answer.response.status not in (200, 304) or stored.status != 200:
        return None
    if not any(variant is stored for variant in resource.variants):
        return None  # a partial response, or a response that was replaced meanwhile
    if settings.negotiate and "accept" in request.fields:
        return None  # it may be a conversion
    if resource.relocation is not None or settings.moved_to or settings.gone:
        return None  # relocations also change with time, by rules that are not evaluated here
    if any(name.lower() in UNREPEATABLE_FIELDS for name, _ in request.fields) or not _is_timeless(request, now):
        return None
    agents_differ = settings.upstream == "" and client.entrance is Entrance.PROXY and resource.channel is None
    varies = {name for variant in resource.variants for name in vary_names(variant.fields)}
    if not agents_differ and all(variant.own_agent for variant in resource.variants):
        varies.discard("user-agent")
    return ReusableHit(
        resource,
        stored,
        settings,
        CacheControl.from_request(request.fields),
        answer.status.detail,
        _intern_names(frozenset(varies)),
        counted=resource.channel is not None,
        states_freshness=settings.state_freshness and client.entrance is Entrance.REVERSE,
    )


@lru_cache(maxsize=256)
def _intern_names(names: frozenset[str]) -> frozenset[str]:
    """Return the same object for equal sets of names, in order to save memory."""
    return names


def _is_timeless(request: Request, now: Instant) -> bool:
    """Return True unless the result of the request's conditions depends on the current time, as for a date in the
    future."""
    for name in ("if-modified-since", "if-unmodified-since"):
        for value in request.fields.get_all(name):
            date = parse_http_date(value, now)
            if date is not None and date > now:
                return False
    return True


def recompute_hit(hit: ReusableHit, now: Instant) -> HitState | None:
    """Return the state of the hit at `now`, or None if the pipeline must decide again."""
    if is_set_back(hit.stored.response_time, now):
        return None  # the clock was set back: the pipeline corrects the stored instants
    freshness = assess(hit.resource, hit.stored, hit.settings, now)
    decision = reuse_decision.decide(
        hit.stored, hit.directives, freshness, now, known_uri=True, stale_limit=hit.settings.stale_max
    )
    if not isinstance(decision, Reuse) or decision.detail != hit.detail:
        return None
    overrides = sets_max_age(hit.stored, freshness, states_freshness=hit.states_freshness)
    emits = hit.states_freshness and "cdn-cache-control" not in hit.stored.fields
    valid_until = _decision_valid_until(hit.resource, hit.stored, hit.settings, hit.directives, freshness, now)
    if emits:
        # CDN-Cache-Control states the remaining lifetime, which must be at least a second.
        if not remaining_lifetime(freshness.lifetime, freshness.expires, freshness.allowance, freshness.age):
            return None
        end = freshness.expires if freshness.allowance is None else max(freshness.expires, freshness.allowance.until)
        valid_until = max(now, min(valid_until, end - 1 - INSTANT_MARGIN))
    return HitState(
        freshness,
        decision.detail,
        now,
        valid_until,
        initial_age(hit.stored),
        hit.stored.response_time,
        overrides,
        emits,
    )


def _decision_valid_until(
    resource: Resource,
    stored: StoredResponse,
    settings: Settings,
    request: CacheControl,
    freshness: Freshness,
    now: Instant,
) -> Instant:
    """Return the last instant at which the decision to use the response is certain to be the same as at `now`.
    `freshness` is the freshness at `now`, and permits the use.

    The decision can change at the end of the lifetime, of a permission to serve stale, or of a push lease. Return `now`
    if the instant of a change is uncertain, as in a feed with skipped hours, or if the request sets a limit such as
    max-age.
    """
    if request.max_age is not None or request.min_fresh is not None or request.max_stale is not None:
        return now  # the request sets its own limits
    if now < stored.response_time:
        return now  # the clock was set back: the age stays the same until `response_time`
    if freshness.is_fresh(now):
        ends = freshness.expires
    elif freshness.allowance is not None:
        ends = freshness.allowance.until
    else:
        return now
    if resource.channel is not None and stored.content.feed:
        schedule = resource.channel.schedule
        pushed = bool(settings.push_interval and resource.last_push and now < resource.push_lease_expires)
        if (schedule.skip_hours or schedule.skip_days) and (pushed or freshness.source in _HEURISTIC_SOURCES):
            return now  # a skipped period may begin and extend the lifetime
        if pushed:
            ends = min(ends, resource.push_lease_expires)
    return max(now, ends - INSTANT_MARGIN)
