"""In what condition a feed is, why, and when its origin is asked next."""

from dataclasses import replace

from feedproxy.admin.advice import advice
from feedproxy.admin.feed_state import Condition, State, feed_condition
from feedproxy.admin.serializers import feed_warnings, view_resource
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.feed.channel import Schedule
from feedproxy.refresh.policy.feed_freshness import assess
from feedproxy.refresh.policy.prefetch import Later
from feedproxy.settings import Settings
from feedproxy.store.resource import Failures, Relocation, RelocationKind, Resource
from feedproxy.telemetry.redacted import redact_text
from tests.stages.admin import NOW, a_resource


def _of(resource: Resource, settings: Settings | None = None) -> Condition:
    settings = settings or Settings()
    newest: StoredResponse | None = resource.variants[-1] if resource.variants else None
    freshness = assess(resource, newest, settings, NOW) if newest else None
    return feed_condition(resource, freshness, settings, NOW)


def test_a_fresh_copy_is_asked_for_again_when_its_lifetime_ends() -> None:
    told = _of(a_resource(minutes_ago=10, max_age=3600))

    assert told.state is State.FRESH
    assert told.next_at == NOW + 3000
    assert told.next_words == "max-age of 1 h"


def test_what_the_schedule_will_do_is_told_with_the_reason() -> None:
    resource = a_resource(minutes_ago=10, max_age=3600)
    told = feed_condition(resource, None, Settings(), NOW, Later(NOW + 2950, "refreshed then, if it is still read"))

    assert told.next_at == NOW + 2950
    assert told.next_words.endswith("; refreshed then, if it is still read")


def test_a_held_copy_is_asked_for_again_when_the_feed_allows_it() -> None:
    told = _of(a_resource(minutes_ago=10, max_age=60, schedule=Schedule(ttl=60)))

    assert told.state is State.HELD
    assert told.next_at == NOW + 3000
    assert "ttl" in told.next_words


def test_a_stale_copy_waits_for_a_reader() -> None:
    told = _of(a_resource(minutes_ago=120))

    assert told.state is State.STALE
    assert told.next_at == NOW


def test_a_failing_feed_says_what_fails_and_waits_for_its_back_off() -> None:
    failures = Failures(3, NOW - 7200, NOW - 60, "timeout", NOW + 240)
    told = _of(replace(a_resource(minutes_ago=120), failures=failures))

    assert told.state is State.FAILING
    assert told.words.startswith("3 failures in a row for 2 h: The origin took too long.")
    assert "The copy is stale for 1 h" in told.words
    assert told.next_at == NOW + 240


def test_a_move_is_told_once_it_is_believed() -> None:
    once = Relocation(RelocationKind.MOVED, "https://example.org/", NOW - 60, NOW - 60, 1)
    twice = replace(once, count=2, confirmed=True)

    assert _of(replace(a_resource(), relocation=once)).state is State.FRESH
    told = _of(replace(a_resource(), relocation=twice))
    assert told.state is State.MOVED
    assert told.words == "readers are sent to https://example.org/: seen 2 times, confirmed"
    assert told.next_at == NOW - 60 + Settings().gone_recheck


def test_a_rule_of_the_operators_is_named_as_such() -> None:
    told = _of(a_resource(), Settings(gone=True))

    assert told.state is State.GONE
    assert told.words.endswith("by a rule")


def test_what_http_forbids_to_store_is_said_to_cost_a_request_each_time() -> None:
    resource = replace(a_resource(), variants=())

    assert _of(resource).state is State.UNSTORED
    seen = view_resource(resource, lambda _: None, Settings(), NOW)
    assert any("every reader costs the origin" in each for each in feed_warnings(seen, seen.resource.channel))


def test_an_invalidated_copy_is_stale_however_young() -> None:
    resource = a_resource()
    resource = replace(resource, variants=(replace(resource.variants[0], invalid=True),))

    assert _of(resource).state is State.STALE


def test_addresses_in_sentences_lose_their_secrets_and_keep_their_full_stop() -> None:
    told = redact_text("moved to https://u:p@example.com/f?token=abc: believed, see http://a.example/?key=1.")

    assert told == "moved to https://example.com/f?token=…: believed, see http://a.example/?key=…."


def test_end_that_is_not_confirmed_is_a_failure_and_not_yet_an_end() -> None:
    sighting = Relocation(RelocationKind.GONE, "", NOW - 60, NOW - 60, 1)
    resource = replace(a_resource(), relocation=sighting, failures=Failures(1, NOW - 60, NOW - 60, "gone", NOW + 60))
    told = _of(resource)

    assert told.state is State.FAILING
    assert told.words.endswith("seen once, waiting for confirmation")
    assert advice(resource, told.state, Settings()).startswith("The origin has reported an end. No action needed")
    confirmed = _of(replace(resource, relocation=replace(sighting, count=2, confirmed=True)))
    assert confirmed.state is State.GONE
