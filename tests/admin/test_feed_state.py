"""The condition of a feed: its state, its reason, and its next fetch."""

import pytest
from msgspec.structs import replace

from feedproxy.admin.pages.feed_advice import advice, feed_warnings
from feedproxy.admin.pages.feed_state import Condition, FeedState, feed_condition
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.feed.channel import Schedule
from feedproxy.refresh.policy.freshness_by_hints_and_history import assess
from feedproxy.refresh.policy.refresh_ahead import Later
from feedproxy.settings import Settings
from feedproxy.store.resource import Failures, Relocation, RelocationKind, Resource
from feedproxy.telemetry.page_redaction import redact_text
from tests.stages.admin import NOW, a_resource


def _condition(resource: Resource, settings: Settings | None = None) -> Condition:
    settings = settings or Settings()
    newest: StoredResponse | None = resource.variants[-1] if resource.variants else None
    freshness = assess(resource, newest, settings, NOW) if newest else None
    return feed_condition(resource, freshness, settings, NOW)


def test_fresh_feed_is_fetched_when_its_lifetime_ends() -> None:
    condition = _condition(a_resource(minutes_ago=10, max_age=3600))

    assert condition.state is FeedState.FRESH
    assert condition.next_at == NOW + 3000
    assert condition.next_reason == "max-age of 1 h"


def test_condition_names_the_plan_of_the_schedule() -> None:
    resource = a_resource(minutes_ago=10, max_age=3600)
    condition = feed_condition(
        resource, None, Settings(), NOW, Later(NOW + 2950, "refreshed then, if it is still read")
    )

    assert condition.next_at == NOW + 2950
    assert condition.next_reason.endswith("; refreshed then, if it is still read")


def test_held_feed_is_fetched_when_its_ttl_ends() -> None:
    condition = _condition(a_resource(minutes_ago=10, max_age=60, schedule=Schedule(ttl=60)))

    assert condition.state is FeedState.HELD
    assert condition.next_at == NOW + 3000
    assert "ttl" in condition.next_reason


def test_stale_feed_waits_for_a_reader() -> None:
    condition = _condition(a_resource(minutes_ago=120))

    assert condition.state is FeedState.STALE
    assert condition.next_at == NOW


def test_failing_feed_names_the_failure_and_waits_for_its_back_off() -> None:
    failures = Failures(3, NOW - 7200, NOW - 60, "timeout", NOW + 240)
    condition = _condition(replace(a_resource(minutes_ago=120), failures=failures))

    assert condition.state is FeedState.FAILING
    assert condition.reason.startswith("3 failures in a row for 2 h: The origin did not respond in time.")
    assert "The copy is stale for 1 h" in condition.reason
    assert condition.next_at == NOW + 240


def test_moved_feed_is_shown_as_moved_after_confirmation() -> None:
    once = Relocation(RelocationKind.MOVED, "https://example.org/", NOW - 60, NOW - 60, 1)
    twice = replace(once, count=2, confirmed=True)

    assert _condition(replace(a_resource(), relocation=once)).state is FeedState.FRESH
    condition = _condition(replace(a_resource(), relocation=twice))
    assert condition.state is FeedState.MOVED
    assert condition.reason == "readers are redirected to https://example.org/: seen 2 times, confirmed"
    assert condition.next_at == NOW - 60 + Settings().gone_recheck


def test_ended_feed_names_the_rule_of_the_operator() -> None:
    condition = _condition(a_resource(), Settings(gone=True))

    assert condition.state is FeedState.GONE
    assert condition.reason.endswith("by a rule")


def test_unstored_feed_has_a_warning() -> None:
    resource = replace(a_resource(), variants=())

    assert _condition(resource).state is FeedState.UNSTORED
    warnings = feed_warnings(resource, FeedState.UNSTORED, resource.channel)
    assert any("every request goes to the origin" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("announced", "is_named"),
    [("https://example.org/new.xml", True), ("/new.xml", True), ("https://example.com/feed.rss", False), ("x:", False)],
)
def test_announced_address_of_a_podcast_is_a_warning_if_it_differs(announced: str, is_named: bool) -> None:
    resource = replace(a_resource(), target="https://example.com/feed.rss")
    assert resource.channel is not None
    channel = replace(resource.channel, new_feed_url=announced)

    warnings = feed_warnings(resource, _condition(resource).state, channel)

    assert any("itunes:new-feed-url" in warning for warning in warnings) == is_named


def test_invalidated_feed_is_stale() -> None:
    resource = a_resource()
    resource = replace(resource, variants=(replace(resource.variants[0], invalid=True),))

    assert _condition(resource).state is FeedState.STALE


def test_redacted_text_keeps_punctuation_after_addresses() -> None:
    text = redact_text("moved to https://u:p@example.com/f?token=abc: believed, see http://a.example/?key=1.")

    assert text == "moved to https://example.com/f?token=…: believed, see http://a.example/?key=…."


def test_ended_feed_is_failing_until_confirmation() -> None:
    sighting = Relocation(RelocationKind.GONE, "", NOW - 60, NOW - 60, 1)
    resource = replace(a_resource(), relocation=sighting, failures=Failures(1, NOW - 60, NOW - 60, "gone", NOW + 60))
    condition = _condition(resource)

    assert condition.state is FeedState.FAILING
    assert condition.reason.endswith("seen once, waiting for confirmation")
    assert advice(resource, condition.state, Settings()).startswith("The origin has reported an end. No action needed")
    confirmed = _condition(replace(resource, relocation=replace(sighting, count=2, confirmed=True)))
    assert confirmed.state is FeedState.GONE
