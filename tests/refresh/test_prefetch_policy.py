"""When a feed is refreshed ahead of its readers, and when it is left alone."""

import calendar
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedproxy.cache.cache_status import Detail
from feedproxy.cache.stored_response import Content, StoredResponse
from feedproxy.feed.channel import Channel, Kind, Schedule
from feedproxy.feed.schedule import is_skipped, next_unskipped
from feedproxy.http.message import Fields
from feedproxy.refresh.policy import throttle
from feedproxy.refresh.policy.feed_freshness import assess
from feedproxy.refresh.policy.prefetch import GAP_MIN, SPREAD, Later, Plan, Refresh, Rest, own_jitter, plan
from feedproxy.settings import Settings
from feedproxy.store.resource import Failures, Relocation, RelocationKind, Resource

NOON: float = calendar.timegm((2026, 11, 20, 12, 0, 0))
"""A Friday."""
TARGET = "https://example.com/feed"
HOUR = 3600.0


def a_feed(*, control: str = "max-age=3600", fetched: float = NOON, **schedule: object) -> Resource:
    response = StoredResponse(
        target=TARGET,
        status=200,
        fields=Fields([("Cache-Control", control)] if control else []),
        content=Content({"identity": b"<rss/>"}, tag="a", feed=True),
        request_time=fetched,
        response_time=fetched,
    )
    channel = Channel(Kind.RSS, "2.0", well_formed=True, schedule=Schedule(**schedule))  # type: ignore[arg-type]
    return Resource(TARGET, (response,), channel, fetched=fetched)


def planned(
    resource: Resource, now: float, *, readers: int = 100, jitter: float = 0.0, settings: Settings | None = None
) -> Plan:
    chosen = settings or Settings()
    return plan(
        resource,
        assess(resource, resource.variants[-1], chosen, now),
        lambda _: readers,
        now,
        chosen,
        permission=throttle.check_fetch_allowed(resource, now, chosen, site_free_at=0.0),
        jitter=jitter,
    )


def test_a_feed_that_is_read_is_refreshed_shortly_before_its_copy_becomes_stale() -> None:
    resource = a_feed()

    waiting = planned(resource, NOON)

    assert isinstance(waiting, Later)
    assert NOON + HOUR - 60 <= waiting.at < NOON + HOUR
    assert isinstance(planned(resource, waiting.at - 0.1), Later)
    assert isinstance(planned(resource, waiting.at), Refresh)


def test_a_held_feed_is_refreshed_when_what_holds_it_ends() -> None:
    waiting = planned(a_feed(control="max-age=60", ttl=120), NOON + 300)

    assert isinstance(waiting, Later)
    assert NOON + 2 * HOUR - 60 <= waiting.at < NOON + 2 * HOUR


PATIENT = Settings(stale_while_refreshing=86_400, learned_patience=7200)
WEEKLY = [NOON - days * 24 * HOUR for days in (21, 14, 7)]


def test_where_the_operator_is_patient_a_feed_that_changes_seldom_is_left_alone_beyond_its_max_age() -> None:
    resource = replace(a_feed(control="max-age=60"), changes=WEEKLY)

    waiting = planned(resource, NOON + 60, settings=PATIENT)

    assert isinstance(waiting, Later)
    assert NOON + 2 * HOUR - 60 <= waiting.at < NOON + 2 * HOUR
    assert isinstance(planned(resource, NOON + 60), Refresh)


def test_patience_ends_with_what_was_learned() -> None:
    lively = [NOON - minutes * 60 for minutes in (80, 60, 40, 20)]

    waiting = planned(replace(a_feed(control="max-age=60"), changes=lively), NOON + 60, settings=PATIENT)

    assert isinstance(waiting, Later)
    assert NOON + 20 * 60 < waiting.at < NOON + 40 * 60


@pytest.mark.parametrize("control", ["max-age=60, must-revalidate", "s-maxage=60"])
def test_nobody_is_patient_where_http_forbids_stale_copies(control: str) -> None:
    assert isinstance(planned(replace(a_feed(control=control), changes=WEEKLY), NOON + 60, settings=PATIENT), Refresh)


def test_nothing_learned_gives_no_patience() -> None:
    assert isinstance(planned(a_feed(control="max-age=60"), NOON + 60, settings=PATIENT), Refresh)


def test_feeds_that_came_together_do_not_go_together() -> None:
    moments = {planned(a_feed(), NOON, jitter=each / 10).at for each in range(10)}  # type: ignore[union-attr]

    assert len(moments) == 10
    assert own_jitter("https://example.com/a") != own_jitter("https://example.com/b")


def test_a_feed_that_nobody_asks_for_is_left_alone() -> None:
    found = planned(a_feed(), NOON + HOUR, readers=0)

    assert isinstance(found, Rest)
    assert "nobody has asked for it for 60 min" in found.words or "1 h" in found.words


def test_few_readers_do_not_make_a_feed_of_short_life_asked_all_the_time() -> None:
    resource = a_feed(control="max-age=300")

    # One reader an hour, twelve lifetimes an hour: twelve requests for one.
    assert isinstance(planned(resource, NOON + 300, readers=1), Rest)
    assert isinstance(planned(resource, NOON + 300, readers=12), Refresh)
    assert isinstance(planned(resource, NOON + 300, readers=1, settings=Settings(refresh_per_poll=12)), Refresh)


@pytest.mark.parametrize("control", ["no-cache", "max-age=0", "max-age=5", "private, max-age=600", "no-store"])
def test_what_no_copy_may_answer_is_not_refreshed(control: str) -> None:
    assert isinstance(planned(a_feed(control=control), NOON + HOUR), Rest)


def test_what_has_moved_is_not_refreshed() -> None:
    gone = Relocation(RelocationKind.GONE, "", NOON, NOON, 2, confirmed=True)

    assert isinstance(planned(replace(a_feed(), relocation=gone), NOON + HOUR), Rest)


def test_it_can_be_switched_off() -> None:
    assert isinstance(planned(a_feed(), NOON + HOUR, settings=Settings(refresh_ahead=False)), Rest)


def test_in_skipped_hours_nothing_is_asked_whatever_http_says() -> None:
    # 13:00 to 15:59 are skipped, and must-revalidate keeps the copy from being held.
    resource = a_feed(control="max-age=3700, must-revalidate", skip_hours=frozenset({13, 14, 15}))

    waiting = planned(resource, NOON, jitter=0.5)
    late = planned(resource, NOON + 2 * HOUR, jitter=0.5)

    assert isinstance(waiting, Later)
    assert waiting == replace(waiting, at=NOON + 4 * HOUR + SPREAD / 2)
    assert isinstance(late, Later)
    assert late.at == waiting.at


def test_without_hints_skipped_hours_are_hours_like_others() -> None:
    resource = a_feed(control="max-age=3700", skip_hours=frozenset({13, 14, 15}))

    assert isinstance(planned(resource, NOON + 3700, settings=Settings(feed_hints="off")), Refresh)


def test_after_a_failure_its_pause_is_kept_to() -> None:
    failures = Failures(1, NOON, NOON, Detail.ERROR_STATUS, NOON + 9000)

    waiting = planned(replace(a_feed(), failures=failures), NOON + HOUR)

    assert isinstance(waiting, Later)
    assert waiting.at == NOON + 9000


def test_the_floor_is_kept_to() -> None:
    waiting = planned(a_feed(control="max-age=60"), NOON + 59)

    assert isinstance(waiting, Later)
    assert waiting.at == NOON + 60


def test_a_copy_that_came_old_is_not_asked_for_all_the_time() -> None:
    fields = Fields([("Cache-Control", "max-age=3600"), ("Age", "3599")])
    feed = a_feed()
    resource = replace(feed, variants=(replace(feed.variants[0], fields=fields),))

    waiting = planned(resource, NOON + 1, settings=Settings(feed_min_interval=0))

    assert isinstance(waiting, Later)
    assert waiting.at == NOON + GAP_MIN


@given(
    st.frozensets(st.integers(0, 23)),
    st.frozensets(st.integers(0, 6)),
    st.integers(0, 14 * 86_400),
    st.floats(0, 1),
    st.integers(0, 86_400),
)
def test_no_scheduled_request_falls_into_a_skipped_hour(
    hours: frozenset[int], days: frozenset[int], passed: int, jitter: float, lifetime: int
) -> None:
    resource = a_feed(control=f"max-age={lifetime}, must-revalidate", skip_hours=hours, skip_days=days)
    schedule, now = Schedule(skip_hours=hours, skip_days=days), NOON + passed

    found = planned(resource, now, jitter=jitter)

    if isinstance(found, Refresh):
        assert not is_skipped(schedule, now)
    if isinstance(found, Later) and found.at > resource.fetched + GAP_MIN:
        assert not is_skipped(schedule, found.at)
    assert not is_skipped(schedule, next_unskipped(schedule, now))
