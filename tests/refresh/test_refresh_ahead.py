"""The instants at which feeds are refreshed ahead of their readers, and the feeds that are not."""

import calendar
import dataclasses
import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from feedproxy.cache.cache_status import Detail
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.feed.channel import Channel, Kind, Period, Schedule
from feedproxy.feed.schedule_hints import is_skipped, next_unskipped
from feedproxy.http.message import Fields
from feedproxy.refresh.policy.expected_polls_and_price import LEAD
from feedproxy.refresh.policy.freshness_by_hints_and_history import assess
from feedproxy.refresh.policy.min_interval_and_back_off import check_fetch_allowed
from feedproxy.refresh.policy.refresh_ahead import GAP_MIN, REVIEW, SPREAD, Later, Plan, Refresh, Rest, own_jitter, plan
from feedproxy.settings import Settings
from feedproxy.store.resource import Failures, Relocation, RelocationKind, Resource
from feedproxy.subscribers.poll_rhythms import ExpectedPoll

NOON: float = calendar.timegm((2026, 11, 20, 12, 0, 0))
"""A Friday."""
TARGET = "https://example.com/feed"
HOUR = 3600.0


def a_feed(*, control: str = "max-age=3600", fetched: float = NOON, **schedule: object) -> Resource:
    response = StoredResponse(
        target=TARGET,
        status=200,
        fields=Fields([("Cache-Control", control)] if control else []),
        content=Content(Bodies({"identity": b"<rss/>"}), tag="a", feed=True),
        request_time=fetched,
        response_time=fetched,
    )
    channel = Channel(Kind.RSS, "2.0", well_formed=True, schedule=Schedule(**schedule))  # type: ignore[arg-type]
    return Resource(TARGET, (response,), channel, fetched=fetched)


@dataclass(frozen=True, slots=True)
class Readers:
    """A number of readers without a regular interval, and the expected polls of the others."""

    irregular: int
    polls: tuple[ExpectedPoll, ...] = ()

    def recent(self, _: float) -> int:
        return self.irregular

    def expected_polls(self, until: float) -> list[ExpectedPoll]:
        return [poll for poll in self.polls if poll.at <= until]


def planned(
    resource: Resource,
    now: float,
    *,
    readers: int = 100,
    polls: tuple[float, ...] = (),
    jitter: float = 0.0,
    settings: Settings | None = None,
    price_factor: float = 1.0,
) -> Plan:
    """Return the plan for a feed with `readers` readers without a regular interval and polls expected at `polls`."""
    chosen = settings or Settings()
    return plan(
        resource,
        assess(resource, resource.variants[-1], chosen, now),
        Readers(readers, tuple(ExpectedPoll(at, 0.95) for at in polls)),
        now,
        chosen,
        permission=lambda: check_fetch_allowed(resource, now, chosen, site_free_at=0.0),
        jitter=jitter,
        price_factor=price_factor,
    )


def test_read_feed_is_refreshed_shortly_before_its_copy_becomes_stale() -> None:
    resource = a_feed()

    waiting = planned(resource, NOON)

    assert isinstance(waiting, Later)
    assert NOON + HOUR - 60 <= waiting.at < NOON + HOUR
    assert isinstance(planned(resource, waiting.at - 0.1), Later)
    assert isinstance(planned(resource, waiting.at), Refresh)


def test_feed_in_a_skipped_period_is_refreshed_at_the_end_of_the_period() -> None:
    waiting = planned(a_feed(control="max-age=60", ttl=120), NOON + 300)

    assert isinstance(waiting, Later)
    assert NOON + 2 * HOUR - 60 <= waiting.at < NOON + 2 * HOUR


STALE = Settings(stale_while_refreshing=86_400)
WEEKLY = tuple(NOON - days * 24 * HOUR for days in (21, 14, 7))


def test_slowly_changing_feed_is_not_refreshed_while_its_stale_copy_may_be_served() -> None:
    resource = replace(a_feed(control="max-age=60"), changes=WEEKLY)

    waiting = planned(resource, NOON + 60, settings=STALE)

    assert isinstance(waiting, Later)
    assert waiting.at > NOON + 4 * HOUR
    assert isinstance(planned(resource, NOON + 60), Refresh)


def test_quickly_changing_feed_is_refreshed_earlier_while_its_stale_copy_may_be_served() -> None:
    lively = tuple(NOON - minutes * 60 for minutes in range(640, 0, -20))
    eager = dataclasses.replace(STALE, polling="eager")

    waiting = planned(replace(a_feed(control="max-age=60"), changes=lively), NOON + 60, settings=eager)

    assert isinstance(waiting, Later)
    assert NOON + 10 * 60 < waiting.at < NOON + 60 * 60


@pytest.mark.parametrize("control", ["max-age=60, must-revalidate", "s-maxage=60"])
def test_feed_is_refreshed_at_the_end_of_its_lifetime_if_http_forbids_stale_copies(control: str) -> None:
    assert isinstance(planned(replace(a_feed(control=control), changes=WEEKLY), NOON + 60, settings=STALE), Refresh)


def test_feed_without_history_is_refreshed_at_the_end_of_its_lifetime() -> None:
    assert isinstance(planned(a_feed(control="max-age=60"), NOON + 60, settings=STALE), Refresh)


def test_feeds_fetched_together_are_refreshed_at_different_instants() -> None:
    moments = {planned(a_feed(), NOON, jitter=each / 10).at for each in range(10)}  # type: ignore[union-attr]

    assert len(moments) == 10
    assert own_jitter("https://example.com/a") != own_jitter("https://example.com/b")


def test_feed_without_readers_is_not_refreshed() -> None:
    found = planned(a_feed(), NOON + HOUR, readers=0)

    assert isinstance(found, Rest)
    assert "not requested within 60 min" in found.reason or "1 h" in found.reason


def test_feed_of_short_life_with_few_readers_is_not_refreshed() -> None:
    resource = a_feed(control="max-age=300")

    # One reader per hour and twelve lifetimes per hour: twelve requests for one poll.
    assert isinstance(planned(resource, NOON + 300, readers=1), Rest)
    assert isinstance(planned(resource, NOON + 300, readers=12), Refresh)


@pytest.mark.parametrize("control", ["no-cache", "max-age=0", "max-age=5", "private, max-age=600", "no-store"])
def test_feed_without_usable_copy_is_not_refreshed(control: str) -> None:
    assert isinstance(planned(a_feed(control=control), NOON + HOUR), Rest)


def test_moved_feed_is_not_refreshed() -> None:
    gone = Relocation(RelocationKind.GONE, "", NOON, NOON, 2, confirmed=True)

    assert isinstance(planned(replace(a_feed(), relocation=gone), NOON + HOUR), Rest)


def test_refresh_ahead_is_disabled_by_option() -> None:
    assert isinstance(planned(a_feed(), NOON + HOUR, settings=Settings(polling="off")), Rest)


def test_skipped_hours_permit_no_refresh_whatever_http_says() -> None:
    # 13:00 to 15:59 are skipped, and must-revalidate forbids serving the stale copy.
    resource = a_feed(control="max-age=3700, must-revalidate", skip_hours=frozenset({13, 14, 15}))

    waiting = planned(resource, NOON, jitter=0.5)
    late = planned(resource, NOON + 2 * HOUR, jitter=0.5)

    assert isinstance(waiting, Later)
    assert waiting == replace(waiting, at=NOON + 4 * HOUR + SPREAD / 2)
    assert isinstance(late, Later)
    assert late.at == waiting.at


def test_skipped_hours_have_no_effect_without_hints() -> None:
    resource = a_feed(control="max-age=3700", skip_hours=frozenset({13, 14, 15}))

    assert isinstance(planned(resource, NOON + 3700, settings=Settings(feed_hints="off")), Refresh)


def test_refresh_waits_for_the_end_of_a_failure_pause() -> None:
    failures = Failures(1, NOON, NOON, Detail.ERROR_STATUS, NOON + 9000)

    waiting = planned(replace(a_feed(), failures=failures), NOON + HOUR)

    assert isinstance(waiting, Later)
    assert waiting.at == NOON + 9000


def test_refresh_waits_for_the_minimum_interval() -> None:
    waiting = planned(a_feed(control="max-age=60"), NOON + 59)

    assert isinstance(waiting, Later)
    assert waiting.at == NOON + 60


def test_copy_received_with_a_high_age_is_not_refreshed_all_the_time() -> None:
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
def test_scheduled_refresh_is_never_in_a_skipped_hour(
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


# -- readers with a regular interval


def silent(**stated: object) -> Resource:
    """Return a feed that changes hourly, was fetched twice and has readers with a known interval."""
    changes = tuple(NOON - number * HOUR for number in range(31, -1, -1))
    feed = a_feed(control="", **stated)  # type: ignore[arg-type]
    return replace(feed, changes=changes, first_seen=NOON - 40 * HOUR, has_expected_readers=True)


def test_feed_is_refreshed_shortly_before_an_expected_poll() -> None:
    waiting = planned(silent(), NOON, readers=0, polls=(NOON + HOUR, NOON + 2 * HOUR))

    assert isinstance(waiting, Later)
    assert waiting.at in {NOON + HOUR - LEAD, NOON + 2 * HOUR - LEAD}
    assert isinstance(planned(silent(), waiting.at, readers=0, polls=(waiting.at + LEAD,)), Refresh)


def test_refresh_of_a_site_that_limits_requests_needs_a_higher_value() -> None:
    polls = (NOON + 2 * HOUR, NOON + 2 * HOUR + 5)
    usual = planned(silent(), NOON, readers=0, polls=polls)
    limited = planned(silent(), NOON, readers=0, polls=polls, price_factor=1.5)

    assert isinstance(usual, Later)
    assert isinstance(limited, Later)
    assert limited.reason == f"{usual.reason}; the site limits requests"
    dearest = planned(silent(), NOON, readers=0, polls=polls, price_factor=64.0)
    assert dearest == Later(NOON + REVIEW, "no refresh is worth its price yet")


def test_plan_describes_expected_readers_and_value_of_the_refresh() -> None:
    waiting = planned(silent(), NOON, readers=0, polls=(NOON + 2 * HOUR, NOON + 2 * HOUR + 5, NOON + 2 * HOUR + 9))

    assert isinstance(waiting, Later)
    assert re.fullmatch(
        r"3 readers expected by 14:00, changes about every 1 h 16 min, worth \d\.\d h of staleness", waiting.reason
    )


def test_refresh_that_is_not_worth_its_price_is_not_planned() -> None:
    rare = replace(silent(), changes=(NOON - 300 * 24 * HOUR,))

    found = planned(rare, NOON, readers=0, polls=(NOON + HOUR,), settings=Settings(polling="frugal"))

    assert isinstance(found, Later)
    assert found.at == NOON + REVIEW


@pytest.mark.parametrize("polling", ["frugal", "balanced", "eager", "1s"])
@pytest.mark.parametrize("stated", [{"ttl": 120}, {"period": Period.DAILY, "frequency": 12, "base": NOON}])
def test_refresh_for_expected_polls_waits_for_the_time_that_the_feed_states(
    stated: dict[str, object], polling: str
) -> None:
    polls = tuple(NOON + minutes * 60 for minutes in range(10, 400, 10))

    waiting = planned(silent(**stated), NOON, polls=polls, settings=Settings(polling=polling))

    assert isinstance(waiting, Later)
    assert waiting.at >= NOON + 2 * HOUR - 60


def test_refresh_for_expected_polls_waits_for_the_end_of_max_age() -> None:
    polls = tuple(NOON + minutes * 60 for minutes in range(10, 400, 10))

    waiting = planned(replace(a_feed(), changes=WEEKLY), NOON, polls=polls, settings=Settings(polling="1s"))

    assert isinstance(waiting, Later)
    assert waiting.at >= NOON + HOUR - 60


def test_plan_before_the_end_of_max_age_is_the_earliest() -> None:
    polls = tuple(NOON + minutes * 60 for minutes in range(10, 400, 10))
    resource = a_feed(control="max-age=86400")

    assert planned(resource, NOON, polls=polls, readers=0) == Later(
        NOON + REVIEW, "no refresh is worth its price yet", is_earliest=True
    )
    estimated = planned(silent(), NOON, polls=polls, readers=0)
    assert isinstance(estimated, Later)
    assert not estimated.is_earliest


_POLLS = st.lists(st.floats(1, 30 * HOUR), max_size=20).map(lambda offsets: tuple(NOON + at for at in sorted(offsets)))


@given(
    control=st.sampled_from(["", "max-age=600", "max-age=3600", "max-age=86400", "no-cache"]),
    ttl=st.sampled_from([None, 5, 60, 1440]),
    hours=st.sampled_from([frozenset(), frozenset({13, 14, 20})]),
    polls=_POLLS,
    other_polls=_POLLS,
    readers=st.sampled_from([0, 100]),
    age=st.floats(0, 26 * HOUR),
    part=st.floats(0, 1, exclude_max=True),
    settings=st.builds(
        Settings, polling=st.sampled_from(["1s", "balanced"]), feed_min_interval=st.sampled_from([0, 900])
    ),
)
def test_other_polls_cause_no_refresh_before_the_earliest_plan(
    control: str,
    ttl: int | None,
    hours: frozenset[int],
    polls: tuple[float, ...],
    other_polls: tuple[float, ...],
    readers: int,
    age: float,
    part: float,
    settings: Settings,
) -> None:
    resource = a_feed(control=control, ttl=ttl, skip_hours=hours)
    earliest = planned(resource, NOON + age, polls=polls, readers=100 - readers, settings=settings)

    if isinstance(earliest, Later) and earliest.is_earliest:
        now = NOON + age + part * (earliest.at - NOON - age)
        found = planned(resource, now, polls=other_polls, readers=readers, settings=settings)

        assert not isinstance(found, Refresh)
        if isinstance(found, Later) and found.at < earliest.at:
            assert found.is_earliest  # a decision before any refresh


def test_refresh_for_expected_polls_waits_for_the_end_of_a_pause() -> None:
    failures = Failures(1, NOON, NOON, Detail.RETRY_AFTER, NOON + 9000, by_origin=True)
    polls = tuple(NOON + minutes * 60 for minutes in range(10, 400, 10))

    waiting = planned(replace(silent(), failures=failures), NOON, polls=polls, settings=Settings(polling="1s"))

    assert isinstance(waiting, Later)
    assert waiting.at >= NOON + 9000


def test_refresh_for_expected_polls_keeps_the_minimum_interval() -> None:
    polls = tuple(NOON + 10 * number for number in range(1, 400))

    waiting = planned(silent(), NOON, polls=polls, settings=Settings(polling="1s", feed_min_interval=900))

    assert isinstance(waiting, Later)
    assert waiting.at >= NOON + 900


def test_refresh_for_expected_polls_waits_for_the_slot_of_its_site() -> None:
    resource = silent()
    settings = Settings(polling="1s", site_interval=30)
    readers = Readers(0, tuple(ExpectedPoll(NOON + HOUR + number, 1.0) for number in range(50)))
    freshness = assess(resource, resource.variants[-1], settings, NOON + HOUR)
    permission = check_fetch_allowed(resource, NOON + HOUR, settings, site_free_at=NOON + HOUR + 25)

    waiting = plan(resource, freshness, readers, NOON + HOUR, settings, permission=lambda: permission, jitter=0.0)

    assert isinstance(waiting, Later)
    assert waiting.at >= NOON + HOUR + 25


def test_feed_with_pushed_changes_is_polled_at_the_safety_interval() -> None:
    polls = tuple(NOON + minutes * 60 for minutes in range(10, 1200, 10))
    resource = replace(silent(), last_push=NOON - 60, push_lease_expires=NOON + 10 * 24 * HOUR)

    waiting = planned(resource, NOON, polls=polls, settings=Settings(push_interval=6 * 3600, polling="1s"))

    assert isinstance(waiting, Later)
    assert waiting.at >= NOON + 6 * HOUR - 60


@given(
    st.frozensets(st.integers(0, 23)),
    st.frozensets(st.integers(0, 6)),
    st.integers(0, 14 * 86_400),
    st.floats(0, 1),
    st.lists(st.integers(1, 100_000), max_size=30),
)
def test_refresh_for_expected_polls_is_never_in_a_skipped_hour(
    hours: frozenset[int], days: frozenset[int], passed: int, jitter: float, ahead: list[int]
) -> None:
    schedule, now = Schedule(skip_hours=hours, skip_days=days), NOON + passed
    polls = tuple(now + seconds for seconds in sorted(ahead))

    found = planned(silent(skip_hours=hours, skip_days=days), now, readers=0, polls=polls, jitter=jitter)

    if isinstance(found, Refresh):
        assert not is_skipped(schedule, now)
    if isinstance(found, Later) and found.at != now + REVIEW:
        assert not is_skipped(schedule, found.at)


@pytest.mark.parametrize("polls", [(), (NOON + 5 * HOUR,)])
def test_readers_without_a_regular_interval_are_served_shortly_before_the_lifetime_ends(
    polls: tuple[float, ...],
) -> None:
    waiting = planned(a_feed(), NOON, polls=polls)

    assert isinstance(waiting, Later)
    assert NOON + HOUR - 60 <= waiting.at < NOON + HOUR
    assert isinstance(planned(a_feed(), waiting.at, polls=polls), Refresh)
