"""Request limits that origins state: 429, Retry-After and the RateLimit fields. They hold for a whole site.

When a limit is reached, the site is not fetched from until it is reset, and for a day its scheduled refreshes have to
save more staleness each. So the requests that the limit permits go to the feeds for which they are worth most.
"""

from collections.abc import Callable

from feedproxy.clock import Clock, Instant, Seconds, is_set_back
from feedproxy.http import uri
from feedproxy.http.message import Fields, Request
from feedproxy.lru import LRU
from feedproxy.refresh.policy import throttle
from feedproxy.refresh.redirects import OriginClient
from feedproxy.store.coordination import SiteThrottle
from feedproxy.upstream.fetched import Fetched, Oversized

SITES_MAX = 4096
"""Sites of which a reached limit is remembered; the one that was fetched from longest ago is forgotten first."""

PAUSE_MAX: Seconds = 3600
"""The longest time for which requests to a whole site are paused. The feed for which the limit was stated waits as
long as stated, up to 48 hours."""

RAISE = 2.0
"""The price of a request to a site is multiplied by this each time a limit is reached."""

FACTOR_MAX = 64.0
"""The highest factor on the price."""

HALF_LIFE: Seconds = 86_400
"""Seconds after which the factor has fallen to its square root: limits are stated by the hour or the day."""


class SiteLimits:
    """The limits that sites have stated to this process."""

    def __init__(self, throttle_of_sites: SiteThrottle, clock: Clock) -> None:
        self._sites = throttle_of_sites
        self._clock = clock
        self._reached: LRU[str, tuple[float, Instant]] = LRU(entries_max=SITES_MAX)
        """The factor on the price, and since when it falls."""

    def record(self, target: str, status: int, fields: Fields) -> None:
        """Pause the site and raise its price if the response says that a limit is reached."""
        now = self._clock.now()
        if status == 429:
            until = throttle.retry_after(fields, now)
        elif (until := throttle.rate_limit_reset(fields, now)) is None:
            return
        site = uri.site_of(target)
        # Several responses of the same moment tell of one limit.
        _, since = self._reached.get(site) or (1.0, 0.0)
        if is_set_back(since, now) or now - since >= throttle.BACK_OFF_FIRST:
            self._reached.put(site, (min(FACTOR_MAX, RAISE * self.price_factor(site)), now))
        if until is not None:
            self._sites.pause(site, min(until, now + PAUSE_MAX))

    def price_factor(self, site: str) -> float:
        """Return by what the price of a request to the site is multiplied: 1 where no limit was reached."""
        if (reached := self._reached.get(site)) is None:
            return 1.0
        factor, since = reached
        return float(factor ** (0.5 ** (max(0.0, self._clock.now() - since) / HALF_LIFE)))


class LimitRecordingClient:
    """A client that has the limits recorded which responses state, for requests to which `applies` returns True."""

    def __init__(self, client: OriginClient, limits: SiteLimits, applies: Callable[[Request], bool]) -> None:
        self._client = client
        self._limits = limits
        self._applies = applies

    async def fetch(self, request: Request, *, skip_address_check: bool = False) -> Fetched | Oversized:
        """Return the response of the origin. Raises what the client raises."""
        fetched = await self._client.fetch(request, skip_address_check=skip_address_check)
        if isinstance(fetched, Fetched) and self._applies(request):
            self._limits.record(request.target, fetched.response.status, fetched.response.fields)
        return fetched
