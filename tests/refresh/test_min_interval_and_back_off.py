"""The instants at which an origin may be contacted: minimum interval, spacing and back-off."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedproxy.cache.cache_status import Detail
from feedproxy.clock import ManualClock
from feedproxy.feed.channel import Channel, Kind
from feedproxy.http.retry_after_and_rate_limit import DEFER_MAX
from feedproxy.http.target_uri.registrable_domain import site_of
from feedproxy.refresh.fetch_permission import FetchPermissions
from feedproxy.refresh.policy.min_interval_and_back_off import (
    BACK_OFF_MAX,
    Allowed,
    Deferred,
    check_fetch_allowed,
    record_failure,
)
from feedproxy.settings import Settings
from feedproxy.store.coordination import site_interval
from feedproxy.store.coordination.site_interval import SiteThrottle
from feedproxy.store.resource import Failures, Resource

NOW = 1_800_000_000.0
TARGET = "https://example.com/feed"
FEED = Channel(Kind.RSS, "2.0", well_formed=True)


def a_feed(fetched: float = 0.0, failures: Failures | None = None) -> Resource:
    return Resource(TARGET, channel=FEED, fetched=fetched, failures=failures or Failures())


def test_unknown_target_may_be_fetched() -> None:
    assert check_fetch_allowed(None, NOW, Settings(), site_free_at=NOW + 9) == Allowed()


def test_feed_is_not_fetched_twice_within_its_minimum_interval() -> None:
    resource = a_feed(fetched=NOW)

    early = check_fetch_allowed(resource, NOW + 59, Settings(), site_free_at=0.0)

    assert isinstance(early, Deferred)
    assert (early.until, early.detail) == (NOW + 60, Detail.FLOOR)
    assert "less than 60 s ago" in early.reason
    assert check_fetch_allowed(resource, NOW + 60, Settings(), site_free_at=0.0) == Allowed()


def test_minimum_interval_of_zero_is_unlimited() -> None:
    assert check_fetch_allowed(a_feed(fetched=NOW), NOW, Settings(feed_min_interval=0), site_free_at=0.0) == Allowed()


def test_feeds_of_one_site_are_fetched_with_spacing() -> None:
    waits = check_fetch_allowed(a_feed(), NOW, Settings(), site_free_at=NOW + 1)

    assert isinstance(waits, Deferred)
    assert (waits.until, waits.detail) == (NOW + 1, Detail.SITE_INTERVAL)


def test_target_that_is_no_feed_is_not_deferred() -> None:
    page = Resource(TARGET, fetched=NOW)

    assert check_fetch_allowed(page, NOW, Settings(), site_free_at=NOW + 9) == Allowed()


def test_fetch_is_deferred_until_the_last_of_all_waits_ends() -> None:
    failures = record_failure(Failures(), Detail.UNREACHABLE, NOW, NOW, not_before=None, jitter=0.5)

    waits = check_fetch_allowed(a_feed(NOW, failures), NOW, Settings(), site_free_at=NOW + 1)

    assert isinstance(waits, Deferred)
    assert (waits.until, waits.detail) == (NOW + 90, Detail.BACK_OFF)


@pytest.mark.parametrize("until", [NOW + 300, NOW + 1200])
def test_retry_after_is_stated_as_the_reason_although_another_wait_ends_later(until: float) -> None:
    by_origin = Failures(1, next_try=until, by_origin=True)
    settings = Settings(feed_min_interval=900)

    own = check_fetch_allowed(a_feed(NOW, by_origin), NOW, settings, site_free_at=NOW + 2000)
    of_site = check_fetch_allowed(a_feed(NOW), NOW, settings, site_free_at=NOW + 2000, site_paused_until=until)

    for waits in (own, of_site):
        assert isinstance(waits, Deferred)
        assert (waits.until, waits.detail) == (until, Detail.RETRY_AFTER)


@pytest.mark.parametrize(("fetched", "retry_from"), [(NOW - 60, NOW + 240), (NOW + 3600, NOW + 300)])
def test_request_without_usable_copy_may_be_tried_after_the_minimum_interval(fetched: float, retry_from: float) -> None:
    failures = Failures(count=9, next_try=NOW + 3600)

    waits = check_fetch_allowed(a_feed(fetched, failures), NOW, Settings(feed_min_interval=300), site_free_at=0.0)

    assert isinstance(waits, Deferred)
    assert (waits.until, waits.retry_from) == (NOW + 3600, retry_from)


def test_each_consecutive_failure_doubles_the_pause_up_to_six_hours() -> None:
    failures, pauses = Failures(), []
    for _ in range(12):
        failures = record_failure(failures, Detail.UNREACHABLE, NOW, NOW, not_before=None, jitter=0.0)
        pauses.append(failures.next_try - NOW)

    assert pauses[:4] == [60, 120, 240, 480]
    assert all(later >= earlier for earlier, later in pairwise(pauses))
    assert pauses[-1] == BACK_OFF_MAX / 2


def test_consecutive_failures_keep_their_first_instant() -> None:
    first = record_failure(Failures(), Detail.TIMEOUT, NOW, NOW, not_before=None, jitter=0.0)
    second = record_failure(first, Detail.UNREACHABLE, NOW + 100, NOW + 100, not_before=None, jitter=0.0)

    assert (second.since, second.last, second.count, second.detail) == (NOW, NOW + 100, 2, "unreachable")


def test_failures_of_concurrent_requests_count_once() -> None:
    first = record_failure(Failures(), Detail.RATE_LIMITED, NOW + 1, NOW, not_before=None, jitter=0.0)
    second = record_failure(first, Detail.RATE_LIMITED, NOW + 2, NOW, not_before=None, jitter=0.0)

    assert (second.count, second.last, second.next_try) == (1, NOW + 2, NOW + 62)


@pytest.mark.parametrize("not_before", [None, NOW + 100])
def test_failure_of_a_concurrent_request_does_not_shorten_the_pause(not_before: float | None) -> None:
    first = record_failure(Failures(), Detail.RATE_LIMITED, NOW + 1, NOW, not_before=NOW + 300, jitter=0.0)
    second = record_failure(first, Detail.ERROR_STATUS, NOW + 2, NOW, not_before=not_before, jitter=0.0)

    assert (second.next_try, second.by_origin) == (NOW + 300, True)


@given(count=st.integers(0, 10_000), jitter=st.floats(0, 1, exclude_max=True))
def test_back_off_is_between_a_minute_and_six_hours(count: int, jitter: float) -> None:
    failures = record_failure(Failures(count=count), "timeout", NOW, NOW, not_before=None, jitter=jitter)

    assert 60 <= failures.next_try - NOW <= BACK_OFF_MAX


@given(fetched=st.floats(0, 2 * NOW), next_try=st.floats(0, 2 * NOW), site_free=st.floats(0, 2 * NOW))
def test_corrected_clock_never_blocks_a_feed_for_more_than_two_days(
    fetched: float, next_try: float, site_free: float
) -> None:
    resource = a_feed(fetched, Failures(1, next_try=next_try))

    answer = check_fetch_allowed(resource, NOW, Settings(), site_free_at=site_free)

    assert isinstance(answer, Allowed) or NOW < answer.until <= NOW + DEFER_MAX


def test_slots_of_a_site_are_reserved_in_order() -> None:
    sites = SiteThrottle()

    assert [sites.reserve("example.com", NOW, 2) for _ in range(3)] == [NOW, NOW + 2, NOW + 4]
    assert sites.reserve("example.org", NOW, 2) == NOW
    assert sites.next_free("example.com", 2, NOW) == NOW + 6


async def test_request_of_a_client_goes_before_waiting_background_refreshes() -> None:
    clock, settings, fetched = ManualClock(NOW), Settings(site_interval=1), []
    permissions = FetchPermissions(SiteThrottle(), clock)

    async def fetch(name: str, *, client_waits: bool) -> None:
        await permissions.wait_for_site_slot(TARGET, settings, client_waits=client_waits)
        fetched.append((name, clock.now() - NOW))

    async with asyncio.TaskGroup() as tasks:
        for number in range(5):
            tasks.create_task(fetch(f"background {number}", client_waits=False))
        for name in ("client 1", "client 2"):
            await asyncio.sleep(0)
            tasks.create_task(fetch(name, client_waits=True))
        for _ in range(8):
            for _ in range(5):
                await asyncio.sleep(0)
            clock.advance(1)

    assert fetched[:3] == [("background 0", 0), ("client 1", 1), ("client 2", 2)]
    assert [at for _, at in fetched] == list(range(7))


async def test_background_refresh_does_not_wait_for_clients_for_ever() -> None:
    clock, settings = ManualClock(NOW), Settings(site_interval=10)
    sites = SiteThrottle()
    permissions = FetchPermissions(sites, clock)

    waiting = asyncio.ensure_future(permissions.wait_for_site_slot(TARGET, settings, client_waits=False))
    sites.reserve(site_of(TARGET), NOW, 10)
    while not waiting.done() and clock.now() < NOW + 3 * settings.answer_timeout:
        await asyncio.sleep(0)
        clock.advance(1)
        if sites.next_free(site_of(TARGET), 10, clock.now()) <= clock.now():
            sites.reserve(site_of(TARGET), clock.now(), 10)
        await asyncio.sleep(0)

    assert waiting.done()


def test_site_without_recent_requests_is_free_at_once() -> None:
    sites = SiteThrottle()
    sites.reserve("example.com", NOW, 1)

    assert sites.reserve("example.com", NOW + 500, 1) == NOW + 500


def test_full_table_forgets_the_oldest_site() -> None:
    sites = SiteThrottle()
    count = 3 * site_interval.SLOTS

    for number in range(count):
        sites.reserve(f"site{number}.example", NOW + number, 1)

    assert sites.next_free(f"site{count - 1}.example", 1, NOW + count) == NOW + count
    assert sites.next_free("site0.example", 1, NOW + count) == 0.0


@pytest.mark.parametrize("until", [NOW + 60, NOW - 60])
def test_pausing_a_site_never_shortens_its_spacing(until: float) -> None:
    sites = SiteThrottle()
    sites.reserve("example.com", NOW, 10)

    sites.pause("example.com", until)

    assert sites.next_free("example.com", 10, NOW) == max(NOW + 10, until)


def test_pause_shorter_than_the_back_off_is_not_attributed_to_the_origin() -> None:
    asked_for_less = record_failure(Failures(), Detail.RATE_LIMITED, NOW, NOW, not_before=NOW + 5, jitter=0.5)
    asked_for_more = record_failure(Failures(), Detail.RATE_LIMITED, NOW, NOW, not_before=NOW + 500, jitter=0.5)

    ours = check_fetch_allowed(a_feed(NOW, asked_for_less), NOW, Settings(), site_free_at=0.0)
    theirs = check_fetch_allowed(a_feed(NOW, asked_for_more), NOW, Settings(), site_free_at=0.0)

    assert isinstance(ours, Deferred)
    assert (ours.until, ours.detail, ours.reason) == (
        NOW + 90,
        Detail.BACK_OFF,
        "1 failure (rate-limited); next try in 90 s",
    )
    assert isinstance(theirs, Deferred)
    assert (theirs.detail, theirs.reason) == (Detail.RETRY_AFTER, "the origin asked for a pause; next try in 500 s")


@pytest.mark.parametrize("channel", [FEED, None])
def test_request_without_a_copy_waits_for_retry_after_although_the_back_off_is_longer(channel: Channel | None) -> None:
    failures = Failures(count=5)
    failures = record_failure(failures, Detail.RATE_LIMITED, NOW, NOW, not_before=NOW + 600, jitter=0.5)
    resource = Resource(TARGET, channel=channel, fetched=NOW, failures=failures)

    during, later = (check_fetch_allowed(resource, NOW + passed, Settings(), site_free_at=0.0) for passed in (599, 601))

    assert isinstance(during, Deferred)
    assert isinstance(later, Deferred)
    assert (during.detail, during.forbids_request(NOW + 599)) == (Detail.BACK_OFF, True)
    assert (later.detail, later.forbids_request(NOW + 601)) == (Detail.BACK_OFF, False)


def test_failure_of_a_concurrent_request_does_not_shorten_retry_after() -> None:
    before = Failures(count=5)
    first = record_failure(before, Detail.RATE_LIMITED, NOW + 1, NOW, not_before=NOW + 600, jitter=0.0)
    second = record_failure(first, Detail.ERROR_STATUS, NOW + 2, NOW, not_before=None, jitter=0.0)

    assert second.retry_after == NOW + 600
