"""Lifetimes derived from a feed's history, its readers and the price of a request."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.feed.change_rate import expected_staleness
from feedproxy.feed.channel import Channel, Kind
from feedproxy.http.message import Fields
from feedproxy.refresh.policy import expected_polls_and_price
from feedproxy.refresh.policy.freshness_by_hints_and_history import assess, learned_lifetime, rate_of
from feedproxy.refresh.policy.stale_while_refreshing import WAIT_WORTH, stale_while_refreshing
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

NOW = 1_800_000_000.0
HOUR, DAY = 3600.0, 86_400.0


def a_resource(gap: float, *, control: str = "", has_expected_readers: bool = False) -> Resource:
    """Return a feed that has changed 32 times at this interval, in seconds."""
    response = StoredResponse(
        "https://example.com/feed",
        200,
        Fields([("Cache-Control", control)] if control else []),
        Content(Bodies({"identity": b"<rss/>"}), tag="a", feed=True),
        NOW,
        NOW,
    )
    changes = tuple(NOW - number * gap for number in range(31, -1, -1))
    return Resource(
        response.target,
        (response,),
        Channel(Kind.RSS, "2.0", well_formed=True),
        changes=changes,
        first_seen=changes[0],
        fetched=NOW,
        has_expected_readers=has_expected_readers,
    )


@pytest.mark.parametrize("price", ["eager", "balanced", "frugal"])
@pytest.mark.parametrize("gap", [600.0, HOUR, 6 * HOUR, DAY, 7 * DAY])
def test_lifetime_without_expected_readers_is_at_most_proportional_to_the_cube_root_of_the_gap(
    gap: float, price: str
) -> None:
    resource, settings = a_resource(gap), Settings(polling=price)
    usual = 1 / rate_of(resource, NOW)

    lifetime = learned_lifetime(resource, resource.variants[0], settings)

    assert lifetime is not None
    assert lifetime <= max(settings.lifetime_min, 45 * 60 * math.cbrt(usual / HOUR)) + 1e-6
    known = learned_lifetime(replace(resource, has_expected_readers=True), resource.variants[0], settings)
    assert known is not None
    assert known >= lifetime


def test_hourly_feed_without_expected_readers_is_fresh_for_less_than_an_hour() -> None:
    resource = a_resource(HOUR)

    assert 45 * 60 <= assess(resource, resource.variants[0], Settings(), NOW).lifetime < HOUR


@given(gap=st.floats(300, 30 * DAY), price=st.sampled_from(["eager", "balanced", "frugal", "4h"]))
def test_stale_copy_is_served_during_its_refresh_until_its_expected_staleness_reaches_the_limit(
    gap: float, price: str
) -> None:
    resource = a_resource(gap, control="max-age=60")
    settings = Settings(polling=price, stale_while_refreshing=30 * int(DAY))
    stored = resource.variants[0]

    fresh = assess(resource, stored, settings, NOW)
    limit = stale_while_refreshing(resource, stored, fresh, settings)

    age = fresh.expires + limit - stored.response_time
    expected = expected_staleness(rate_of(resource, NOW), age)
    worth = max(WAIT_WORTH, (1 + expected_polls_and_price.WAIT_PRICE) * settings.price)
    assert limit == settings.stale_while_refreshing or expected == pytest.approx(worth, rel=1e-3)
    assert expected <= worth * 1.001


def test_stale_copy_is_served_no_longer_than_the_option_permits() -> None:
    resource = a_resource(30 * DAY, control="max-age=60")
    settings = Settings(stale_while_refreshing=600)

    fresh = assess(resource, resource.variants[0], settings, NOW)

    assert stale_while_refreshing(resource, resource.variants[0], fresh, settings) == 600
    assert stale_while_refreshing(resource, resource.variants[0], fresh, Settings()) == 0


def test_stale_copy_of_a_feed_without_history_answers_for_as_long_as_the_option_permits() -> None:
    resource = replace(a_resource(DAY, control="max-age=60"), changes=())
    settings = Settings(stale_while_refreshing=30 * int(DAY))

    fresh = assess(resource, resource.variants[0], settings, NOW)

    assert stale_while_refreshing(resource, resource.variants[0], fresh, settings) == settings.stale_while_refreshing
