"""Limits that origins state apply to the whole site: it is paused, and its refreshes need a higher value."""

import pytest

from feedproxy.clock import ManualClock
from feedproxy.http.message import Fields, Request, Response
from feedproxy.http.target_uri.registrable_domain import site_of
from feedproxy.refresh.policy.origin_rate_limits import (
    FACTOR_MAX,
    HALF_LIFE,
    PAUSE_MAX,
    LimitRecordingClient,
    SiteLimits,
)
from feedproxy.store.coordination.site_interval import SiteThrottle
from feedproxy.upstream.fetch_result import Fetched

NOW = 1_795_176_000.0
FEED, SIBLING, OTHER = "https://a.example.com/1", "https://b.example.com/2", "https://example.org/3"


class Site:
    """A site's limits with an injected clock."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.throttle = SiteThrottle()
        self.limits = SiteLimits(self.throttle, self.clock)

    def free_at(self, site: str = "example.com") -> float:
        return self.throttle.next_free(site, 0.0, self.clock.now())


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.mark.parametrize(
    ("status", "fields", "pause"),
    [
        (429, [("Retry-After", "120")], 120),
        (429, [("Retry-After", "86400")], PAUSE_MAX),
        (200, [("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "90")], 90),
        (200, [("RateLimit", '"burst";r=12;t=5, "hour";r=0;t=600')], 600),
        (304, [("RateLimit", "limit=100, remaining=0, reset=30")], 30),
    ],
)
def test_reached_limit_pauses_the_whole_site(
    site: Site, status: int, fields: list[tuple[str, str]], pause: float
) -> None:
    site.limits.record(FEED, status, Fields(fields))

    assert site.free_at() == NOW + pause
    assert site.limits.price_factor("example.com") > 1
    assert site.free_at("example.org") == 0.0
    assert site.limits.price_factor("example.org") == 1.0


def test_reached_limit_at_an_ipv6_address_leaves_other_addresses_of_its_network(site: Site) -> None:
    site.limits.record("http://[fd00::1]/", 429, Fields([("Retry-After", "120")]))

    assert site.free_at(site_of("http://[fd00::1]/feed")) == NOW + 120
    assert site.free_at(site_of("http://[fd00::2]/")) == 0.0


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        (200, []),
        (200, [("RateLimit", '"hour";r=7;t=600')]),
        (200, [("RateLimit", '"hour";r=0')]),
        (200, [("RateLimit", "0;;")]),
        (200, [("RateLimit-Policy", '"hour";q=0;w=3600')]),
        (503, [("Retry-After", "120")]),
        (404, []),
    ],
)
def test_response_without_an_exhausted_rate_limit_does_not_pause_the_site(
    site: Site, status: int, fields: list[tuple[str, str]]
) -> None:
    site.limits.record(FEED, status, Fields(fields))

    assert site.free_at() == 0.0
    assert site.limits.price_factor("example.com") == 1.0


def test_price_rises_with_each_limit_and_falls_again(site: Site) -> None:
    factors = []
    for _ in range(10):
        site.limits.record(FEED, 429, Fields())
        site.limits.record(SIBLING, 429, Fields())  # of the same instant
        factors.append(site.limits.price_factor("example.com"))
        site.clock.advance(hours=1)

    assert factors[0] == 2.0
    assert factors == sorted(factors)
    assert factors[-1] <= FACTOR_MAX
    before = site.limits.price_factor("example.com")
    site.clock.advance(HALF_LIFE)
    assert site.limits.price_factor("example.com") == pytest.approx(before**0.5, rel=0.01)
    site.clock.advance(days=30)
    assert site.limits.price_factor("example.com") == pytest.approx(1.0, abs=0.01)


async def test_client_records_limits_that_origins_state_for_their_requests(site: Site) -> None:
    class Limited:
        async def fetch(self, request: Request, *, skip_address_check: bool = False) -> Fetched:
            return Fetched(Response(429, Fields([("Retry-After", "60")])), NOW, NOW)

    client = LimitRecordingClient(Limited(), site.limits, lambda request: request.target != OTHER)
    for target in (FEED, OTHER):
        assert isinstance(fetched := await client.fetch(Request("GET", target, Fields())), Fetched)
        assert fetched.response.status == 429

    assert site.free_at() == NOW + 60
    assert site.free_at("example.org") == 0.0


async def test_client_asks_whether_a_limit_applies_only_if_the_response_may_state_one(site: Site) -> None:
    answers = [Response(200, Fields([("RateLimit-Remaining", "0")])), Response(304, Fields([("ETag", '"a"')]))]
    asked: list[Request] = []

    class Origin:
        async def fetch(self, request: Request, *, skip_address_check: bool = False) -> Fetched:
            return Fetched(answers.pop(0), NOW, NOW)

    def applies(request: Request) -> bool:
        asked.append(request)
        return True

    client = LimitRecordingClient(Origin(), site.limits, applies)
    await client.fetch(Request("GET", FEED, Fields()))
    await client.fetch(Request("GET", SIBLING, Fields()))

    assert [request.target for request in asked] == [FEED]
