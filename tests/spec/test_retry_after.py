"""RFC 9110, 10.2.3, and rate limits: fetches wait until the time that the origin states. A promise each."""

import pytest

from feedproxy.cache.cache_status import Detail
from feedproxy.feed.channel import Channel, Kind
from feedproxy.http.message import Fields
from feedproxy.http.retry_after_and_rate_limit import DEFER_MAX, rate_limit_reset, retry_after
from feedproxy.refresh.policy.min_interval_and_back_off import (
    Allowed,
    Deferred,
    check_fetch_allowed,
    record_failure,
)
from feedproxy.settings import Settings
from feedproxy.store.coordination.site_interval import SiteThrottle
from feedproxy.store.resource import Failures, Resource

NOW = 1_795_176_000.0  # Fri, 20 Nov 2026 12:00:00 GMT
FEED = Channel(Kind.RSS, "2.0", well_formed=True)


def said(*lines: tuple[str, str]) -> float | None:
    return retry_after(Fields(lines), NOW)


def test_retry_after_in_seconds_counts_from_now() -> None:
    assert said(("Retry-After", "120")) == NOW + 120


def test_retry_after_as_a_date_is_used_as_given() -> None:
    assert said(("Retry-After", "Fri, 20 Nov 2026 12:30:00 GMT")) == NOW + 1800


@pytest.mark.parametrize(
    "value",
    [
        "",
        "soon",
        "-1",
        "0",
        "1e9",
        "NaN",
        "inf",
        "Fri, 20 Nov 2020 12:00:00 GMT",
        "Fri, 99 Nov 2026 12:00:00 GMT",
    ],
)
def test_retry_after_invalid_zero_or_past_is_ignored(value: str) -> None:
    assert said(("Retry-After", value)) is None


@pytest.mark.parametrize("value", ["999999999", "99999999999999", "Fri, 20 Nov 2099 12:00:00 GMT"])
def test_retry_after_above_48_hours_is_capped(value: str) -> None:
    assert said(("Retry-After", value)) == NOW + DEFER_MAX == NOW + 48 * 3600


def test_rate_limit_exhausted_defers_until_its_reset() -> None:
    assert said(("x-ratelimit-remaining", "0.0"), ("x-ratelimit-reset", "47")) == NOW + 47


def test_rate_limit_with_remaining_requests_is_ignored() -> None:
    assert said(("x-ratelimit-remaining", "3"), ("x-ratelimit-reset", "47")) is None


def test_rate_limit_reset_may_be_a_timestamp() -> None:
    assert (
        rate_limit_reset(Fields([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", f"{NOW + 90:.0f}")]), NOW)
        == NOW + 90
    )


def test_retry_after_and_rate_limit_use_the_later_time() -> None:
    limit = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "300")]

    assert said(("Retry-After", "120"), *limit) == NOW + 300
    assert said(("Retry-After", "600"), *limit) == NOW + 600
    assert said(("RateLimit", '"hour";r=0;t=900'), *limit) == NOW + 900
    assert said(("RateLimit", '"minute";r=0;t=30'), *limit) == NOW + 300


def test_retry_after_defers_the_next_fetch() -> None:
    failures = record_failure(Failures(), Detail.RATE_LIMITED, NOW, NOW, not_before=NOW + 3600, jitter=0.5)
    resource = Resource("https://example.com/feed", channel=FEED, fetched=NOW, failures=failures)

    early = check_fetch_allowed(resource, NOW + 3599, Settings(), site_free_at=0.0)
    then = check_fetch_allowed(resource, NOW + 3600, Settings(), site_free_at=0.0)

    assert isinstance(early, Deferred)
    assert (early.until, early.detail) == (NOW + 3600, Detail.RETRY_AFTER)
    assert isinstance(then, Allowed)


def test_retry_after_defers_fetches_of_a_resource_not_known_as_feed() -> None:
    failures = record_failure(
        Failures(), Detail.RATE_LIMITED, NOW, NOW, not_before=NOW + 30, jitter=0.5, back_off=False
    )
    resource = Resource("https://example.com/feed", fetched=NOW, failures=failures)

    waits = check_fetch_allowed(resource, NOW + 29, Settings(), site_free_at=0.0)

    assert isinstance(waits, Deferred)
    assert (waits.until, waits.detail) == (NOW + 30, Detail.RETRY_AFTER)
    assert isinstance(check_fetch_allowed(resource, NOW + 30, Settings(), site_free_at=0.0), Allowed)


def test_rate_limit_exhausted_pauses_the_whole_site() -> None:
    sites = SiteThrottle()
    sites.reserve("example.com", NOW, 1)

    sites.pause("example.com", NOW + 60)

    assert sites.next_free("example.com", 1, NOW) == NOW + 60
    assert sites.next_free("example.org", 1, NOW) == 0.0
