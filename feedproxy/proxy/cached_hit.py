"""Repetition of a hit without the whole request pipeline.

While the stored resource and the settings are unchanged, three properties of a hit depend on time alone: its age,
whether it may still be used, and the header fields that state both. `reusable_hit` tells whether a response depends on
nothing else; `recompute_hit` computes the three anew, with the functions that the pipeline calls.

Between two instants at which a decision can change (hit_validity.py) only the age grows. `advance_hit` adds the elapsed
seconds, in a thirtieth of the time. It pays where there are more feeds than requests for each in a second.
"""

from dataclasses import dataclass
from functools import lru_cache

from feedproxy.cache import reuse
from feedproxy.cache.cache_status import CacheStatus
from feedproxy.cache.freshness import Freshness, Source, initial_age
from feedproxy.cache.reuse import Reuse
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.cache.vary import nominated
from feedproxy.clock import Instant, Seconds, is_set_back
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.date import parse_http_date
from feedproxy.http.message import Request
from feedproxy.proxy.hit_validity import INSTANT_MARGIN, decision_valid_until
from feedproxy.proxy.response_builder import max_age_directive
from feedproxy.refresh.policy.feed_freshness import assess
from feedproxy.request.context import ProxyResponse
from feedproxy.request.entrance import ClientContext, Entrance
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

UNREPEATABLE_FIELDS = frozenset({"a-im", "authorization", "if-range", "range", "via"})
"""Request fields that make a response not repeatable."""


@dataclass(frozen=True, slots=True)
class ReusableHit:
    """A response that may be repeated: what it was built from, and what it depends on.

    `vary_names` are the request fields that select a variant. `counted`: the client counts as a subscriber.
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
        """Return everything but the stored response and its resource."""
        return self.settings, self.directives, self.detail, self.vary_names, self.counted, self.states_freshness


type HitConditions = tuple[Settings, CacheControl, str | None, frozenset[str], bool, bool]
"""Settings, the request's directives, detail, `varies`, `counted`, `states`: most feeds have the same."""


class HitState:
    """The age, freshness and header fields of a hit between `computed_at` and `until`.

    `overrides_cache_control`: Cache-Control states the lifetime computed here; `emits_cdn_cache_control`: so does
    CDN-Cache-Control. Until `decision_valid_until` only the seconds differ. `initial_age` is the age of the response at
    `response_time`. (Not a dataclass: creating a frozen one takes longer than computing its contents.)
    """

    __slots__ = (
        "computed_at",
        "decision_valid_until",
        "detail",
        "emits_cdn_cache_control",
        "exact_age",
        "freshness",
        "initial_age",
        "overrides_cache_control",
        "response_time",
        "until",
    )

    def __init__(
        self,
        exact: Seconds,
        freshness: Freshness,
        detail: str | None,
        since: Instant,
        steady: Instant,
        initial: Seconds,
        received: Instant,
        speaks: bool,
        states: bool,
    ) -> None:
        self.exact_age = exact
        self.freshness = freshness
        self.detail = detail
        self.computed_at = since
        self.until = _unchanged_until(freshness, exact, since)
        self.decision_valid_until = steady
        self.initial_age = initial
        self.response_time = received
        self.overrides_cache_control = speaks
        self.emits_cdn_cache_control = states

    @property
    def age(self) -> int:
        """Return the value of Age."""
        return int(self.exact_age)

    @property
    def ttl(self) -> int:
        """Return the remaining lifetime in whole seconds."""
        return int(self.freshness.lifetime - self.exact_age)

    @property
    def status(self) -> CacheStatus:
        """Return the Cache-Status of the hit."""
        return CacheStatus(hit=True, ttl=self.ttl, detail=self.detail)

    @property
    def cache_status_value(self) -> str:
        """Return the value of Cache-Status."""
        if self.detail is None:
            return f"feedproxy; hit; ttl={self.ttl}"
        return f"feedproxy; hit; ttl={self.ttl}; detail={self.detail}"

    @property
    def cache_control_value(self) -> str:
        return max_age_directive(self.freshness, self.exact_age)

    @property
    def reason(self) -> str:
        """Return the state of freshness, for the log."""
        return self.freshness.description_at(self.exact_age)


def reusable_hit(
    answer: ProxyResponse,
    request: Request,
    visit: ClientContext,
    resource: Resource | None,
    settings: Settings,
    now: Instant,
) -> ReusableHit | None:
    """Return the response as a repeatable hit; None where it depends on more than time."""
    stored = answer.stored
    if not answer.status.hit or stored is None or resource is None or answer.interim:
        return None
    if answer.response.status not in (200, 304) or stored.status != 200:
        return None
    if not any(variant is stored for variant in resource.variants):
        return None  # a part, or a response that has been replaced meanwhile
    if settings.negotiate and "accept" in request.fields:
        return None  # it may be a conversion
    if resource.relocation is not None or settings.moved_to or settings.gone:
        return None  # relocations change with time, by rules that are not evaluated here
    if any(name.lower() in UNREPEATABLE_FIELDS for name, _ in request.fields) or not _is_timeless(request, now):
        return None
    agents_differ = settings.upstream == "" and visit.entrance is Entrance.PROXY and resource.channel is None
    varies = {name for variant in resource.variants for name in nominated(variant.fields)}
    if not agents_differ and all(variant.own_agent for variant in resource.variants):
        varies.discard("user-agent")
    return ReusableHit(
        resource,
        stored,
        settings,
        CacheControl.from_request(request.fields),
        answer.status.detail,
        _interned(frozenset(varies)),
        counted=resource.channel is not None,
        states_freshness=settings.state_freshness and visit.entrance is Entrance.REVERSE,
    )


@lru_cache(maxsize=256)
def _interned(names: frozenset[str]) -> frozenset[str]:
    """Return one shared object for equal sets: most feeds have the same."""
    return names


def _is_timeless(request: Request, now: Instant) -> bool:
    """Return whether no condition depends on the time: a date in the future will pass."""
    for name in ("if-modified-since", "if-unmodified-since"):
        for value in request.fields.get_all(name):
            date = parse_http_date(value, now)
            if date is not None and date > now:
                return False
    return True


def recompute_hit(hit: ReusableHit, now: Instant) -> HitState | None:
    """Return the state of the hit now; None where the pipeline has to decide again."""
    if is_set_back(hit.stored.response_time, now):
        return None  # the clock was set back, and the stored instants have to be corrected
    freshness = assess(hit.resource, hit.stored, hit.settings, now)
    decision = reuse.decide(
        hit.stored, hit.directives, freshness, now, known_uri=True, stale_limit=hit.settings.stale_max
    )
    if not isinstance(decision, Reuse) or decision.detail != hit.detail:
        return None
    steady = decision_valid_until(hit.resource, hit.stored, hit.settings, hit.directives, freshness, now)
    speaks = freshness.source is Source.HINT or (hit.states_freshness and freshness.held is not None)
    states = hit.states_freshness and "cdn-cache-control" not in hit.stored.fields
    initial, received = initial_age(hit.stored), hit.stored.response_time
    return _unless_exhausted(
        HitState(freshness.age, freshness, decision.detail, now, steady, initial, received, speaks, states)
    )


def advance_hit(state: HitState, now: Instant) -> bool:
    """Advance the state to what `recompute_hit` would return now.

    Return False where it has to be recomputed; the state must not be used then.
    """
    if not state.computed_at <= now <= state.decision_valid_until:
        return False
    state.exact_age = exact = state.initial_age + (now - state.response_time)
    state.computed_at, state.until = now, _unchanged_until(state.freshness, exact, now)
    return _unless_exhausted(state) is not None


def _unless_exhausted(state: HitState) -> HitState | None:
    states = state.emits_cdn_cache_control
    if states and state.cache_control_value == f"max-age={state.age}":
        return None  # no lifetime remains, and then CDN-Cache-Control is omitted
    return state


def _unchanged_until(freshness: Freshness, age: Seconds, now: Instant) -> Instant:
    """Return the last instant with the same whole seconds and the same decision."""
    ttl = freshness.lifetime - age
    until = now + 1 - age % 1.0 - INSTANT_MARGIN
    part = now + ttl % 1.0 if ttl >= 0 else now + 1 - -ttl % 1.0 - INSTANT_MARGIN
    until = min(until, part)
    if now < freshness.expires < until + INSTANT_MARGIN:
        until = freshness.expires - INSTANT_MARGIN
    if freshness.held is not None:
        remains = freshness.held.until - now
        until = min(until, freshness.held.until - INSTANT_MARGIN, now + remains % 1.0)
    return until if until > now else now
