"""Following of redirects (RFC 9110, section 15.4). Each new target is checked like a target that a client requests."""

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.cache.cache_status import Detail
from feedproxy.cache.freshness import age_value, date_of, explicit_lifetime
from feedproxy.cache.targeted_directives import TARGETED_FIELD, governing_directives
from feedproxy.clock import Instant, Seconds
from feedproxy.errors import BadTarget, FeedproxyError, Overload
from feedproxy.feed.autodiscovery import prefers_pages
from feedproxy.http import content_negotiation, uri
from feedproxy.http.cache_control import without_directives
from feedproxy.http.credential_fields import is_credential
from feedproxy.http.message import Fields, Request
from feedproxy.request.context import RequestContext
from feedproxy.store.coordination.coordination_interface import Coordination
from feedproxy.upstream.fetch_result import Fetched, Oversized

PERMANENT = frozenset({301, 308})
"""Status codes of permanent redirects (RFC 9110, sections 15.4.2 and 15.4.9)."""
TEMPORARY = frozenset({302, 303, 307})
"""Status codes of redirects that are followed but not recorded (RFC 9110, sections 15.4.3, 15.4.4 and 15.4.8)."""
REDIRECTS = PERMANENT | TEMPORARY

UNSTATED_LIFETIME: Seconds = 86_400
"""A redirect without an explicit lifetime may be used for this many seconds."""

NON_FEED_REDIRECTS_MAX = 10_000
"""Maximum number of remembered targets with a redirect that leads to no feed. The oldest target is removed first.
Clients that request such a target get the redirect itself."""


class FollowRedirect(Struct, frozen=True):
    """The decision to follow a redirect to a normalised target."""

    target: str


class StopFollowing(Struct, frozen=True):
    """The decision not to follow a redirect."""

    detail: Detail
    reason: str


class OriginClient(Protocol):
    """A client that sends one request to its origin."""

    async def fetch(self, request: Request, *, skip_address_check: bool = False) -> Fetched | Oversized:
        """Return the response, or Oversized if its content exceeds `buffer_max`. If `skip_address_check` is true, the
        address of the origin is not checked. Raises FeedproxyError if the exchange fails."""
        ...


class RedirectChain(Struct, frozen=True):
    """The first and the last response of a chain of redirects. `redirect_error` is the reason why the last redirect was
    not followed, or None if all were followed."""

    first: Fetched | Oversized
    last: Fetched | Oversized
    moved_to: str = ""
    """The target of the permanent redirects at the beginning of the chain, or empty if there are none."""
    hops: int = 0
    redirect_error: Detail | None = None
    from_partial: bool = False
    """True if the response combines a stored part with the received one (RFC 9111, section 3.4)."""
    final_target: str = ""
    """The target of the last response."""

    @property
    def size(self) -> int:
        """Return the size of the last response's content as received, in bytes, or 0 if it was too large to read."""
        if not isinstance(self.last, Fetched):
            return 0
        return len(self.last.response.body) if self.last.received_size is None else self.last.received_size


def next_hop(
    visited: Sequence[str], reference: str, *, limit: int, to_target: Callable[[str], str] = lambda address: address
) -> FollowRedirect | StopFollowing:
    """Return the decision whether to follow a redirect. A redirect is not followed after `limit` redirects, to an
    address that was visited before, or to an address that cannot be fetched (`javascript:`, `file:`, userinfo).

    `visited` contains the normalised targets so far. `reference` is the received Location, or newLocation of an XML
    redirect document. `to_target` maps a public address to the target at the upstream.
    """
    try:
        target = to_target(uri.resolve(visited[-1], reference.strip()))
    except BadTarget as error:
        return StopFollowing(Detail.BAD_TARGET, f"the redirect has an invalid target: {error}")
    if target in visited:
        return StopFollowing(Detail.REDIRECT_LOOP, f"redirect loop: back to {target}")
    if len(visited) > limit:
        return StopFollowing(Detail.REDIRECT_LOOP, f"redirected more than {limit} times")
    return FollowRedirect(target)


def permanent_location(hops: Iterable[tuple[int, str]]) -> str | None:
    """Return the target of the last permanent redirect before the first temporary redirect, or None if there is none.
    `hops` contains the redirects of a chain in order, each with its status code and target."""
    location = None
    for status, target in hops:
        if status not in PERMANENT:
            break
        location = target
    return location


async def follow_redirects(
    fetcher: OriginClient,
    request: Request,
    *,
    limit: int,
    skip_address_check: bool,
    may_serve_under: Callable[[str, str], bool] = lambda start, end: True,
    to_target: Callable[[str], str] = lambda address: address,
    is_targeted: bool = False,
) -> RedirectChain:
    """Fetch the request's target, follow at most `limit` redirects, and return the chain.

    Credentials and cookies are sent to the first origin only (RFC 9110, section 15.4). If `skip_address_check` is true,
    the address of the first origin is not checked. Raises FeedproxyError if the first fetch fails, and Overload if a
    later fetch fails because this machine lacks resources. After any other failure of a later fetch, the chain ends
    with `redirect_error`.

    `to_target` is explained in `next_hop`. `may_serve_under(start, end)` returns whether content of `end` may be served
    under `start`. If it returns False, the chain ends with Detail.ACCESS, and clients get the redirect. `is_targeted`
    is true if targeted fields apply to this cache (RFC 9213).
    """
    start = request.target
    first = last = await fetcher.fetch(request, skip_address_check=skip_address_check)
    visited: list[str] = [request.target]
    hops: list[tuple[int, str]] = []
    varying_names: dict[str, None] = {}
    lifetime = targeted_lifetime = math.inf

    def end_chain(redirect_error: Detail | None = None) -> RedirectChain:
        return RedirectChain(
            first,
            _as_response_of_first_target(last, varying_names, lifetime, targeted_lifetime) if hops else last,
            permanent_location(hops) or "",
            len(hops),
            redirect_error,
            final_target=visited[-1],
        )

    while isinstance(last, Fetched) and last.response.status in REDIRECTS:
        location = last.response.fields.get("location")
        if not location:
            return end_chain()
        match next_hop(visited, location, limit=limit, to_target=to_target):
            case StopFollowing(detail):
                return end_chain(detail)
            case FollowRedirect(location_target):
                pass
        if not may_serve_under(start, location_target):
            return end_chain(Detail.ACCESS)
        same_origin = uri.origin_of(location_target) == uri.origin_of(request.target)
        if same_origin:
            # RFC 9110, section 10.2.2: the redirect "inherits the fragment", which is the name of a credential here.
            location_target += request.target[len(uri.without_fragment(request.target)) :]
        fields = request.fields
        if not same_origin:
            fields = fields.without(*(name for name, _ in fields if is_credential(name)))
        request = Request(request.method, location_target, fields)
        skip_address_check = skip_address_check and same_origin  # the operator configured the first origin only
        try:
            following = await fetcher.fetch(request, skip_address_check=skip_address_check)
        except Overload:
            raise  # this machine failed, not the origin
        except FeedproxyError as error:
            return end_chain(Detail.of(error.detail) or Detail.FETCH_ERROR)
        hops.append((last.response.status, location_target))
        varying_names.update(dict.fromkeys(content_negotiation.vary_names(last.response.fields)))
        lifetime = min(lifetime, _redirect_lifetime(last, targeted=False))
        targeted_lifetime = min(targeted_lifetime, _redirect_lifetime(last, targeted=is_targeted))
        visited.append(location_target)
        last = following
    return end_chain()


def _redirect_lifetime(redirect: Fetched, *, targeted: bool) -> Seconds:
    """Return the seconds for which a redirect may be used: 0 if it must not be reused without validation."""
    fields = redirect.response.fields
    control = governing_directives(fields, targeted=targeted).control
    if control.no_store or control.no_cache or control.private:
        return 0
    explicit = explicit_lifetime(fields, redirect.response_time, targeted=targeted)
    return UNSTATED_LIFETIME if explicit is None else explicit[0]


def _with_lifetime_at_most(fields: Fields, general: Seconds, targeted_limit: Seconds, received: Instant) -> Fields:
    """Return the fields of a response with limited lifetimes. A lifetime that the fields do not state is not added.

    `targeted_limit` is the maximum for CDN-Cache-Control, and `general` for the other fields, in seconds from receipt.
    """
    age = max(age_value(fields), received - date_of(fields, received), 0)
    for name, targeted, limit in (("cache-control", False, general), (TARGETED_FIELD, True, targeted_limit)):
        explicit = explicit_lifetime(fields, received, targeted=targeted)
        if explicit is None or explicit[0] - age <= limit:
            continue
        others = without_directives(fields, "max-age", "s-maxage", "immutable", field=name)
        value = f"max-age={int(age + limit)}"
        # Expires is for caches that do not use the targeted field.
        fields = fields if targeted else fields.without("expires")
        fields = fields.with_field(name, f"{value}, {others}" if others else value)
    return fields


def _as_response_of_first_target(
    fetched: Fetched | Oversized, varying_names: Collection[str], lifetime: Seconds, targeted_lifetime: Seconds
) -> Fetched | Oversized:
    """Return the last response of a chain as the response of the requested target.

    No-Vary-Search is removed, because it applies to the final URL. `varying_names`, from the Vary of the redirects, are
    added to Vary, because the redirects can lead another request elsewhere. `*` is left out, because no such response
    could be stored. A 304 without Vary stays without Vary, so that the stored Vary stays unchanged.

    A redirect can lead elsewhere later. The lifetimes in the response are therefore limited to those of the redirects,
    in seconds: `targeted_lifetime` for caches that use targeted fields (RFC 9213), and `lifetime` for all others.
    """
    if not isinstance(fetched, Fetched):
        return fetched
    response = fetched.response
    fields = response.fields.without("no-vary-search") if "no-vary-search" in response.fields else response.fields
    names = [name for name in varying_names if name != "*"]
    if names and (response.status != 304 or "vary" in fields):
        fields = content_negotiation.vary_on(fields, *names)
    if not governing_directives(fields, targeted=True).targeted:
        lifetime = min(lifetime, targeted_lifetime)
    fields = _with_lifetime_at_most(fields, lifetime, targeted_lifetime, fetched.response_time)
    return fetched if fields is response.fields else replace(fetched, response=response.with_fields(fields))


class NonFeedRedirects:
    """The targets with redirects that led to no feed. A target is forgotten when it is invalidated."""

    def __init__(self, coordination: Coordination) -> None:
        self._coordination = coordination
        self._epochs: OrderedDict[str, int] = OrderedDict()

    def record(self, target: str) -> None:
        """Record that the redirect of a target leads to no feed."""
        self._epochs[target] = self._coordination.invalidation_epoch(target)
        if len(self._epochs) > NON_FEED_REDIRECTS_MAX:
            self._epochs.popitem(last=False)

    def forget(self, matches: Callable[[str], bool]) -> None:
        """Forget all matching targets."""
        for target in [recorded for recorded in self._epochs if matches(recorded)]:
            del self._epochs[target]

    def may_follow(self, context: RequestContext) -> bool:
        """Return whether redirects of a target that is not a known feed may be followed for this request. The result is
        False for browsers, for requests with Range, and for targets with redirects that led to no feed before."""
        target, accept = context.request.target, context.request.fields.combined("accept")
        leads_to_no_feed = self._epochs.get(target) == self._coordination.invalidation_epoch(target)
        return not prefers_pages(accept) and not leads_to_no_feed and "range" not in context.upstream.request.fields
