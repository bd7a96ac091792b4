"""DESIGN 6, Moves: a relocation takes effect once it has been seen often enough. A promise each."""

from dataclasses import replace

import pytest
from msgspec import structs

from feedproxy.cache.cache_status import Detail
from feedproxy.refresh.policy.moved_and_gone import (
    RespondGone,
    RespondMoved,
    active_relocation,
    clear_relocation,
    is_in_doubt,
    leads_back,
    record_sighting,
)
from feedproxy.refresh.redirect_following import FollowRedirect, StopFollowing, next_hop, permanent_location
from feedproxy.settings import Settings
from feedproxy.store.resource import Failures, Relocation, RelocationKind, Resource

NOW = 1_800_000_000.0
HOUR, WEEK = 3600.0, 604_800.0
OLD, NEW, OTHER = "https://example.com/feed", "https://new.example/feed", "https://other.example/feed"
SETTINGS = Settings()


def sight(
    before: Relocation | None,
    now: float,
    *,
    ending: RelocationKind = RelocationKind.MOVED,
    to: str = NEW,
    at_once: bool = False,
) -> Relocation:
    location = "" if ending is RelocationKind.GONE else to
    return record_sighting(before, ending, location, now, SETTINGS, at_once=at_once)


def test_permanent_redirect_seen_once_is_not_announced() -> None:
    assert active_relocation(sight(None, NOW), NOW, SETTINGS) is None


def test_permanent_redirect_seen_twice_an_hour_apart_is_answered_301() -> None:
    twice = sight(sight(None, NOW), NOW + HOUR)

    assert active_relocation(twice, NOW + HOUR, SETTINGS) == RespondMoved(NEW)


def test_permanent_redirect_seen_repeatedly_within_an_hour_counts_once() -> None:
    sighting = sight(None, NOW)
    for minute in range(1, 60):
        sighting = sight(sighting, NOW + 60 * minute)

    assert sighting.count == 1
    assert active_relocation(sighting, NOW + HOUR, SETTINGS) is None


def test_permanent_redirect_to_another_location_restarts_the_count() -> None:
    sighting = sight(sight(None, NOW), NOW + HOUR, to=OTHER)

    assert (sighting.count, sighting.location, sighting.confirmed) == (1, OTHER, False)


def test_relocation_unconfirmed_is_cleared_by_an_ordinary_response() -> None:
    assert clear_relocation(sight(None, NOW), NOW + HOUR, status=200, feed=True) is None
    assert clear_relocation(sight(None, NOW, ending=RelocationKind.GONE), NOW + HOUR, status=200, feed=False) is None


@pytest.mark.parametrize(("status", "is_kept"), [(None, True), (301, False), (401, False), (404, True), (451, False)])
def test_end_unconfirmed_is_cleared_by_a_response_that_contradicts_it(status: int | None, is_kept: bool) -> None:
    sighting = sight(None, NOW, ending=RelocationKind.GONE)
    assert (clear_relocation(sighting, NOW + HOUR, status=status, feed=False) == sighting) is is_kept
    assert clear_relocation(confirmed := sight(None, NOW, at_once=True), NOW, status=status, feed=False) == confirmed


def test_relocation_confirmed_is_cleared_by_a_feed_at_the_old_address() -> None:
    assert clear_relocation(sight(None, NOW, at_once=True), NOW + WEEK, status=200, feed=True) is None


def test_relocation_confirmed_is_kept_when_the_old_address_returns_no_feed() -> None:
    believed = sight(None, NOW, at_once=True)

    kept = clear_relocation(believed, NOW + WEEK, status=200, feed=False)

    assert kept == structs.replace(believed, last=NOW + WEEK)
    assert active_relocation(kept, NOW + WEEK, SETTINGS) == RespondMoved(NEW)


def test_xml_redirect_takes_effect_at_once() -> None:
    assert active_relocation(sight(None, NOW, at_once=True), NOW, SETTINGS) == RespondMoved(NEW)


def test_xml_gone_takes_effect_at_once_and_stops_requests_to_the_origin() -> None:
    assert active_relocation(sight(None, NOW, ending=RelocationKind.GONE, at_once=True), NOW, SETTINGS) == RespondGone(
        recheck=False
    )


def test_xml_redirect_confirms_a_301_seen_before() -> None:
    assert sight(sight(None, NOW), NOW + 60, at_once=True).confirmed


def test_gone_410_seen_once_is_answered_410_and_the_origin_is_rechecked() -> None:
    assert active_relocation(sight(None, NOW, ending=RelocationKind.GONE), NOW + 60, SETTINGS) == RespondGone(
        recheck=True
    )


def test_gone_410_confirmed_is_rechecked_weekly() -> None:
    gone = sight(sight(None, NOW, ending=RelocationKind.GONE), NOW + HOUR, ending=RelocationKind.GONE)

    assert active_relocation(gone, NOW + HOUR + WEEK - 1, SETTINGS) == RespondGone(recheck=False)
    assert active_relocation(gone, NOW + HOUR + WEEK, SETTINGS) == RespondGone(recheck=True)


def test_gone_410_at_the_weekly_recheck_extends_it_by_a_week() -> None:
    gone = sight(None, NOW, ending=RelocationKind.GONE, at_once=True)

    again = sight(gone, NOW + WEEK, ending=RelocationKind.GONE)

    assert active_relocation(again, NOW + WEEK + 1, SETTINGS) == RespondGone(recheck=False)


def test_relocation_cleared_by_the_operator_has_no_effect() -> None:
    assert active_relocation(None, NOW, SETTINGS) is None


def test_moved_to_rule_overrides_any_recorded_relocation() -> None:
    rule = replace(SETTINGS, moved_to=OTHER)

    assert active_relocation(None, NOW, rule) == RespondMoved(OTHER)
    assert active_relocation(sight(None, NOW, at_once=True), NOW, rule) == RespondMoved(OTHER)


def test_moved_to_rule_for_a_site_does_not_redirect_the_new_address_to_itself() -> None:
    assert active_relocation(None, NOW, replace(SETTINGS, moved_to=NEW), target=NEW) is None


def test_gone_rule_answers_410() -> None:
    assert active_relocation(None, NOW, replace(SETTINGS, gone=True)) == RespondGone(recheck=False)


def test_redirect_chain_is_permanent_up_to_its_first_temporary_hop() -> None:
    assert permanent_location([(301, NEW), (308, OTHER)]) == OTHER
    assert permanent_location([(301, NEW), (302, OTHER)]) == NEW
    assert permanent_location([(307, NEW), (301, OTHER)]) is None


def test_redirect_with_relative_location_is_resolved() -> None:
    assert next_hop([OLD], "../new/feed.xml", limit=5) == FollowRedirect("https://example.com/new/feed.xml")


def test_redirect_location_is_stripped_of_white_space() -> None:
    assert next_hop([OLD], f"\n  {NEW} \n", limit=5) == FollowRedirect(NEW)


@pytest.mark.parametrize(
    ("visited", "to"), [([OLD], OLD), ([OLD, NEW], OLD), ([OLD], "https://EXAMPLE.com:443/feed#x")]
)
def test_redirect_loop_is_detected_at_its_first_repetition(visited: list[str], to: str) -> None:
    stop = next_hop(visited, to, limit=5)

    assert isinstance(stop, StopFollowing)
    assert stop.detail is Detail.REDIRECT_LOOP


def test_redirects_are_followed_up_to_the_limit() -> None:
    visited = [f"https://example.com/{n}" for n in range(5)]

    assert isinstance(next_hop(visited, "/5", limit=5), FollowRedirect)
    assert isinstance(next_hop([*visited, "https://example.com/5"], "/6", limit=5), StopFollowing)


@pytest.mark.parametrize(
    "location",
    ["javascript:alert(0)", "file:///etc/passwd", "ftp://example.com/", "https://user:pw@example.com/"],
)
def test_redirect_to_a_scheme_other_than_http_is_not_followed(location: str) -> None:
    stop = next_hop([OLD], location, limit=5)

    assert isinstance(stop, StopFollowing)
    assert stop.detail is Detail.BAD_TARGET


def test_confirmed_move_is_in_doubt_if_its_new_address_refuses() -> None:
    refused = Resource(NEW, failures=Failures(count=1, detail=Detail.REFUSED))
    once, twice = sight(None, NOW), sight(sight(None, NOW), NOW + HOUR)

    assert is_in_doubt(twice, refused, SETTINGS)
    assert not is_in_doubt(once, refused, SETTINGS)
    assert not is_in_doubt(twice, Resource(NEW), SETTINGS)
    assert not is_in_doubt(twice, None, SETTINGS)
    assert not is_in_doubt(twice, refused, Settings(moved_to=NEW))


def test_feed_has_moved_back_if_the_confirmed_move_to_its_address_is_older() -> None:
    older, newer = sight(sight(None, NOW, to=OLD), NOW + HOUR, to=OLD), sight(None, NOW + WEEK)

    assert leads_back(newer, OLD, older)
    assert not leads_back(newer, OTHER, older)
    assert not leads_back(newer, OLD, sight(None, NOW, to=OLD))
    assert not leads_back(sight(None, NOW), OLD, older)
    assert not leads_back(newer, OLD, None)
