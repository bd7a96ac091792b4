"""Request limits of sites. Origins state these limits by 429, Retry-After and the RateLimit fields.

A reached limit pauses the fetches of all known feeds of the site until the limit is reset. It also doubles the price of
the site's scheduled refreshes: the staleness that a refresh must save (policy/expected_polls_and_price.py). The price
falls again over some days. Limits in responses to requests with credentials are ignored.
"""

from collections.abc import Callable

from feedproxy.clock import Clock, Instant, Seconds, is_set_back
from feedproxy.http.message import Fields, Request
from feedproxy.http.retry_after_and_rate_limit import may_state_limit, rate_limit_reset, retry_after
from feedproxy.http.target_uri.registrable_domain import site_of
from feedproxy.lru_map import LRU
from feedproxy.refresh.policy.min_interval_and_back_off import BACK_OFF_FIRST
from feedproxy.refresh.redirect_following import OriginClient
from feedproxy.store.coordination.site_interval import SiteThrottle
from feedproxy.upstream.fetch_result import Fetched, Oversized

SITES_MAX = 4096
"""The price factors of at most this many sites are remembered. The least recently used factor is removed first."""

PAUSE_MAX: Seconds = 3600
"""Requests to a whole site pause for at most this many seconds.

Origins count all requests from feedproxy, so a limit applies to all feeds of the site. If several publishers share a
host, a limit for the feeds of one publisher also pauses those of the others. The maximum bounds this pause.
"""

RAISE = 2.0
"""A reached limit (429, RateLimit) multiplies the price of the site's refreshes by this factor, at most once in
BACK_OFF_FIRST seconds. The price is the staleness, in seconds, that a refresh must save (option `polling`)."""

FACTOR_MAX = 64.0
"""All reached limits of a site together multiply the price of its refreshes by at most this factor."""

HALF_LIFE: Seconds = 86_400
"""The factor on the price of a refresh at a site falls to its square root (from 4 to 2) in this many seconds."""


class SiteLimits:
    """The limits that sites have stated to this process."""

    def __init__(self, throttle_of_sites: SiteThrottle, clock: Clock) -> None:
        self._sites = throttle_of_sites
        self._clock = clock
        self._reached: LRU[str, tuple[float, Instant]] = LRU(entries_max=SITES_MAX)
        """For each site: the factor on the price of its refreshes, and the instant from which the factor falls."""

    def record(self, target: str, status: int, fields: Fields) -> None:
        """If the response states a reached limit, pause the site and raise the price of its refreshes. A 429 that
        states no time only raises the price."""
        now = self._clock.now()
        if status == 429:
            until = retry_after(fields, now)
        elif (until := rate_limit_reset(fields, now)) is None:
            return
        site = site_of(target)
        # Responses within BACK_OFF_FIRST seconds report the same limit.
        _, since = self._reached.get(site) or (1.0, 0.0)
        if is_set_back(since, now) or now - since >= BACK_OFF_FIRST:
            self._reached.put(site, (min(FACTOR_MAX, RAISE * self.price_factor(site)), now))
        if until is not None:
            self._sites.pause(site, min(until, now + PAUSE_MAX))

    def price_factor(self, site: str) -> float:
        """Return the factor on the price of a refresh at the site, or 1 if no reached limit of the site is known."""
        if (reached := self._reached.get(site)) is None:
            return 1.0
        factor, since = reached
        return float(factor ** (0.5 ** (max(0.0, self._clock.now() - since) / HALF_LIFE)))


class LimitRecordingClient:
    """Origin client that records the limits in responses to requests for which `applies` returns True."""

    def __init__(self, client: OriginClient, limits: SiteLimits, applies: Callable[[Request], bool]) -> None:
        self._client = client
        self._limits = limits
        self._applies = applies

    async def fetch(self, request: Request, *, skip_address_check: bool = False) -> Fetched | Oversized:
        """Return the response of the origin. Raises the errors of the wrapped client."""
        fetched = await self._client.fetch(request, skip_address_check=skip_address_check)
        if isinstance(fetched, Fetched) and may_state_limit(fetched.response) and self._applies(request):
            self._limits.record(request.target, fetched.response.status, fetched.response.fields)
        return fetched
