"""DESIGN 6, Moves: a move or an end is believed when it was seen often enough. A promise each."""

from dataclasses import replace

import pytest

from feedproxy.cache.cache_status import Detail
from feedproxy.refresh.policy.relocation import (
    FollowRedirect,
    RespondGone,
    RespondMoved,
    StopFollowing,
    active_relocation,
    clear_relocation,
    next_hop,
    permanent_location,
    record_sighting,
)
from feedproxy.settings import Settings
from feedproxy.store.resource import Relocation, RelocationKind

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
    return record_sighting(
        before,
        ending,
        "" if ending is RelocationKind.GONE else to,
        now,
        confirmations=SETTINGS.relocation_confirmations,
        spacing=SETTINGS.relocation_spacing,
        at_once=at_once,
    )


def test_after_one_permanent_redirect_readers_still_get_the_feed() -> None:
    assert active_relocation(sight(None, NOW), NOW, SETTINGS) is None


def test_after_two_an_hour_apart_readers_are_told_301() -> None:
    twice = sight(sight(None, NOW), NOW + HOUR)

    assert active_relocation(twice, NOW + HOUR, SETTINGS) == RespondMoved(NEW)


def test_many_sightings_within_the_hour_count_once() -> None:
    sighting = sight(None, NOW)
    for minute in range(1, 60):
        sighting = sight(sighting, NOW + 60 * minute)

    assert sighting.count == 1
    assert active_relocation(sighting, NOW + HOUR, SETTINGS) is None


def test_another_location_starts_anew() -> None:
    sighting = sight(sight(None, NOW), NOW + HOUR, to=OTHER)

    assert (sighting.count, sighting.location, sighting.confirmed) == (1, OTHER, False)


def test_an_ordinary_answer_forgets_what_was_not_believed() -> None:
    assert clear_relocation(sight(None, NOW), NOW + HOUR, feed=True) is None
    assert clear_relocation(sight(None, NOW, ending=RelocationKind.GONE), NOW + HOUR, feed=False) is None


def test_a_feed_under_the_old_address_takes_back_what_was_believed() -> None:
    assert clear_relocation(sight(None, NOW, at_once=True), NOW + WEEK, feed=True) is None


def test_a_page_of_advertisements_under_the_old_address_takes_back_nothing() -> None:
    believed = sight(None, NOW, at_once=True)

    kept = clear_relocation(believed, NOW + WEEK, feed=False)

    assert kept == replace(believed, last=NOW + WEEK)
    assert active_relocation(kept, NOW + WEEK, SETTINGS) == RespondMoved(NEW)


def test_an_xml_redirect_acts_at_once() -> None:
    assert active_relocation(sight(None, NOW, at_once=True), NOW, SETTINGS) == RespondMoved(NEW)


def test_an_xml_gone_acts_at_once_and_leaves_the_origin_in_peace() -> None:
    assert active_relocation(sight(None, NOW, ending=RelocationKind.GONE, at_once=True), NOW, SETTINGS) == RespondGone(
        recheck=False
    )


def test_an_xml_redirect_confirms_a_301_seen_before() -> None:
    assert sight(sight(None, NOW), NOW + 60, at_once=True).confirmed


def test_a_single_410_is_told_but_the_origin_is_asked_again() -> None:
    assert active_relocation(sight(None, NOW, ending=RelocationKind.GONE), NOW + 60, SETTINGS) == RespondGone(
        recheck=True
    )


def test_a_confirmed_410_is_remembered_and_asked_for_again_weekly() -> None:
    gone = sight(sight(None, NOW, ending=RelocationKind.GONE), NOW + HOUR, ending=RelocationKind.GONE)

    assert active_relocation(gone, NOW + HOUR + WEEK - 1, SETTINGS) == RespondGone(recheck=False)
    assert active_relocation(gone, NOW + HOUR + WEEK, SETTINGS) == RespondGone(recheck=True)


def test_a_410_at_the_weekly_question_gives_another_week_of_peace() -> None:
    gone = sight(None, NOW, ending=RelocationKind.GONE, at_once=True)

    again = sight(gone, NOW + WEEK, ending=RelocationKind.GONE)

    assert active_relocation(again, NOW + WEEK + 1, SETTINGS) == RespondGone(recheck=False)


def test_the_operator_undoes_a_move_by_forgetting_its_sighting() -> None:
    assert active_relocation(None, NOW, SETTINGS) is None


def test_a_rule_moves_a_feed_whatever_was_seen() -> None:
    rule = replace(SETTINGS, moved_to=OTHER)

    assert active_relocation(None, NOW, rule) == RespondMoved(OTHER)
    assert active_relocation(sight(None, NOW, at_once=True), NOW, rule) == RespondMoved(OTHER)


def test_a_rule_for_a_whole_site_does_not_move_the_new_address_onto_itself() -> None:
    assert active_relocation(None, NOW, replace(SETTINGS, moved_to=NEW), target=NEW) is None


def test_a_rule_ends_a_feed() -> None:
    assert active_relocation(None, NOW, replace(SETTINGS, gone=True)) == RespondGone(recheck=False)


def test_a_chain_is_lasting_as_far_as_it_is_permanent() -> None:
    assert permanent_location([(301, NEW), (308, OTHER)]) == OTHER
    assert permanent_location([(301, NEW), (302, OTHER)]) == NEW
    assert permanent_location([(307, NEW), (301, OTHER)]) is None


def test_a_relative_redirect_is_resolved() -> None:
    assert next_hop([OLD], "../new/feed.xml", limit=5) == FollowRedirect("https://example.com/new/feed.xml")


def test_white_space_around_a_new_location_does_not_count() -> None:
    assert next_hop([OLD], f"\n  {NEW} \n", limit=5) == FollowRedirect(NEW)


@pytest.mark.parametrize(
    ("visited", "to"), [([OLD], OLD), ([OLD, NEW], OLD), ([OLD], "https://EXAMPLE.com:443/feed#x")]
)
def test_a_circle_is_seen_at_its_first_return(visited: list[str], to: str) -> None:
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
def test_nothing_but_http_is_followed(location: str) -> None:
    stop = next_hop([OLD], location, limit=5)

    assert isinstance(stop, StopFollowing)
    assert stop.detail is Detail.BAD_TARGET
