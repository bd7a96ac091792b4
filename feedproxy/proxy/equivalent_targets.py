"""Targets that differ only in query parameters without effect (No-Vary-Search, option `ignore_query`).

Equivalent targets share one stored response, unless the operator's rules give them different readers or privacy.
"""

from collections.abc import Callable

from msgspec.structs import replace

from feedproxy.cache import reuse_decision
from feedproxy.cache.reuse_decision import Reuse
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Clock
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.content_negotiation import vary_names
from feedproxy.http.credential_fields import is_credential
from feedproxy.http.message import Request
from feedproxy.http.target_uri.no_vary_search import no_vary_search, parse_no_vary_search, without_parameters
from feedproxy.http.target_uri.url_redaction import has_secret
from feedproxy.lru_map import LRU
from feedproxy.proxy.public_feeds import is_public
from feedproxy.refresh.policy.freshness_by_hints_and_history import assess
from feedproxy.request.context import PassThrough, ProxyResponse
from feedproxy.settings import Settings
from feedproxy.store.interface import Store
from feedproxy.store.resource import Resource

PATHS_MAX = 4096
"""The targets that differ only in the query are recorded for at most this many paths."""

TARGETS_MAX = 8
"""At most this many targets are recorded for one path. The oldest is removed first."""

_SHARED_NAMES = frozenset({"accept-encoding", "available-dictionary"})
"""Request fields that Vary may list although every client gets the same feed: the proxy itself chooses the content
coding and the dictionary."""


def without_ignored_query(target: str, settings_for: Callable[[str], Settings]) -> str:
    """Return the target without the query parameters that its rule ignores (`ignore_query`), or unchanged if the rules
    give the shortened target other readers or another privacy."""
    if "?" not in target or not (ignored := settings_for(target).ignore_query):
        return target
    reduced = without_parameters(target, ignored)
    return reduced if _have_same_readers(target, reduced, settings_for) else target


class EquivalentTargets:
    """Finder of the stored target that is equivalent to a requested target."""

    def __init__(self, store: Store, clock: Clock, settings_for: Callable[[str], Settings]) -> None:
        self._store = store
        self._clock = clock
        self._settings_for = settings_for
        self._targets: LRU[str, tuple[str, ...]] = LRU(entries_max=PATHS_MAX)

    async def load(self, target: str) -> None:
        """Load the resources that `resolve` compares, so that `resolve` does not wait for the disk."""
        target = without_ignored_query(target, self._settings_for)
        await self._store.load(target)
        if len(self._targets):
            for other in self._targets.get(target.partition("?")[0]) or ():
                await self._store.load(other)

    def resolve(self, request: Request) -> Request:
        """Return the request with the target under which its response is stored: without ignored query parameters, or
        an equivalent target by No-Vary-Search. Most requests are returned unchanged."""
        target = without_ignored_query(request.target, self._settings_for)
        if len(self._targets):
            target = self._by_origin(target, request)
        return request if target == request.target else replace(request, target=target)

    def record(self, response: ProxyResponse | PassThrough) -> None:
        """Record the target of a response that was made from a shared stored response with No-Vary-Search."""
        stored = response.stored if isinstance(response, ProxyResponse) else None
        if stored is None or "no-vary-search" not in stored.fields or not _is_shared(stored):
            return
        path = stored.target.partition("?")[0]
        recorded = self._targets.get(path) or ()
        if recorded[:1] != (stored.target,):
            others = tuple(target for target in recorded if target != stored.target)
            self._targets.put(path, (stored.target, *others)[:TARGETS_MAX])

    def recorded_equivalents(self, target: str) -> list[str]:
        """Return the recorded targets with a stored response that also answers requests for `target`."""
        others = self._targets.get(target.partition("?")[0]) or ()
        return [other for other in others if _are_equivalent(target, other, self._store.peek(other))]

    def _by_origin(self, target: str, request: Request) -> str:
        """Return a recorded target that is equivalent to `target`, and has a stored response that may be used without
        validation. A validation could return another No-Vary-Search.

        Return `target` if there is no such target, if a response for `target` itself is stored, if `target` has a
        secret, or if the request has credentials or Range.
        """
        candidates = self._targets.get(target.partition("?")[0])
        if candidates is None or candidates == (target,) or self._is_stored(target) or has_secret(target):
            return target
        if "range" in request.fields or any(is_credential(name) for name, _ in request.fields):
            return target
        directives = CacheControl.from_request(request.fields)
        return next((other for other in candidates if self._answers(other, target, directives)), target)

    def _is_stored(self, target: str) -> bool:
        resource = self._store.peek(target)
        return resource is not None and bool(resource.variants)

    def _answers(self, other: str, target: str, directives: CacheControl) -> bool:
        resource, now = self._store.peek(other), self._clock.now()
        if resource is None or not resource.variants or resource.relocation is not None or has_secret(other):
            return False
        stored, settings = resource.variants[-1], self._settings_for(other)
        if not _are_equivalent(target, other, resource) or not _have_same_readers(target, other, self._settings_for):
            return False
        if not _is_shared(stored) or not is_public(settings, resource):
            return False
        freshness = assess(resource, stored, settings, now)
        return isinstance(reuse_decision.decide(stored, directives, freshness, now, stale_limit=0), Reuse)


def _are_equivalent(target: str, other: str, resource: Resource | None) -> bool:
    """Return True if the No-Vary-Search of the response for `other` makes the two targets equivalent."""
    if resource is None or not resource.variants:
        return False
    value = resource.variants[-1].fields.combined("no-vary-search") or ""
    return parse_no_vary_search(value).are_equivalent(target, other)


def _have_same_readers(one: str, other: str, settings_for: Callable[[str], Settings]) -> bool:
    if one == other:
        return True
    left, right = settings_for(one), settings_for(other)
    return (left.readers, left.private) == (right.readers, right.private)


def _is_shared(stored: StoredResponse) -> bool:
    """Return True if this response is a 200 without redirects, and every request for the target selects it."""
    if stored.authorized or len(stored.key) or stored.status != 200 or stored.final_target:
        return False
    return set(vary_names(stored.fields)) <= _SHARED_NAMES


def with_ignored_query(response: ProxyResponse | PassThrough, settings: Settings) -> ProxyResponse | PassThrough:
    """Return the response with a No-Vary-Search for the option `ignore_query`, or unchanged if the origin sent this
    field."""
    if not settings.ignore_query or not isinstance(response, ProxyResponse) or response.stored is None:
        return response
    if "no-vary-search" in response.response.fields or has_secret(response.stored.target):
        return response
    value = no_vary_search(settings.ignore_query)
    if not value or response.response.status not in (200, 304):
        return response
    fields = response.response.fields.with_field("No-Vary-Search", value)
    return replace(response, response=response.response.with_fields(fields))
