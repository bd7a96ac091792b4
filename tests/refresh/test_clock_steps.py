"""Instants recorded by a clock that was ahead block nothing after the clock is set back."""

import asyncio
from pathlib import Path

import pytest

from feedproxy.clock import ManualClock
from feedproxy.notify.client_rate_limit import RateLimiter
from feedproxy.refresh.policy.refresh_ahead import Later, Plan, Refresh
from feedproxy.store.coordination.site_interval import SiteThrottle
from feedproxy.store.coordination.worker_coordination import SharedMemoryCoordination
from feedproxy.store.resource import (
    Failures,
    PendingFormatChange,
    Relocation,
    RelocationKind,
    Resource,
    correct_future_instants,
)
from feedproxy.subscribers.reader_pseudonyms import Pseudonym
from feedproxy.subscribers.subscriber_counts import SubscriberCounts
from tests.refresh.schedules import a_scheduler
from tests.stages.admin import a_resource
from tests.waiting import PATIENCE

NOW = 1_800_000_000.0
STEPS = [3_600.0, 30 * 86_400.0, 365 * 86_400.0]


@pytest.fixture(params=["own", "shared"])
def sites(request: pytest.FixtureRequest, tmp_path: Path):
    if request.param == "own":
        yield SiteThrottle()
        return
    shared = SharedMemoryCoordination(tmp_path)
    yield shared.sites
    shared.close()


@pytest.mark.parametrize("step", STEPS)
def test_site_slot_reserved_by_a_clock_that_was_ahead_delays_no_request(sites: SiteThrottle, step: float) -> None:
    for _ in range(5):
        sites.reserve("example.com", NOW + step, 2)
    sites.pause("example.com", NOW + step + 60)

    assert sites.next_free("example.com", 2, NOW) <= NOW
    assert sites.reserve("example.com", NOW, 2) == NOW
    assert sites.reserve("example.com", NOW, 2) == NOW + 2
    assert sites.next_free("example.com", 2, NOW + 1) == NOW + 4


@pytest.mark.parametrize("step", STEPS)
def test_ping_limit_used_up_by_a_clock_that_was_ahead_is_refilled(step: float) -> None:
    sources = RateLimiter()
    while sources.allow("192.0.2.1", NOW + step, 10):
        pass
    sources.allow("192.0.2.1", NOW, 10)
    assert sources.allow("192.0.2.1", NOW + 60, 10)


@pytest.mark.parametrize("step", STEPS)
def test_reader_counted_by_a_clock_that_was_ahead_expires_on_time(step: float) -> None:
    counts = SubscriberCounts(window=86_400, claim_max=1000, claim_jump=0)
    counts.record_read("feed", Pseudonym(1, 1), "Reader/1", NOW + step)
    counts.record_read("feed", Pseudonym(2, 2), "Bot/1 (30 subscribers)", NOW + step)
    counts.prune(NOW)
    assert counts.total("feed", NOW) == 31
    counts.prune(NOW + 90_000)
    assert counts.total("feed", NOW + 90_000) == 0


@pytest.mark.parametrize("step", STEPS)
def test_future_instants_of_a_resource_become_now_and_keep_their_durations(step: float) -> None:
    ahead = NOW + step
    resource = Resource(
        "http://example.com/feed",
        fetched=ahead,
        last_push=ahead,
        push_lease_expires=ahead + 600,
        first_seen=ahead - 10,
        failures=Failures(3, ahead - 500, ahead, "timeout", ahead + 240),
        relocation=Relocation(RelocationKind.MOVED, "http://example.org/", NOW - 5, ahead, 2),
        pending_format_change=PendingFormatChange("atom", ahead, 1),
        changes=(NOW - 50, ahead - 20, ahead),
    )

    right = correct_future_instants(resource, NOW)

    assert (right.fetched, right.last_push, right.push_lease_expires, right.first_seen) == (NOW, NOW, NOW + 600, NOW)
    assert right.failures == Failures(3, NOW, NOW, "timeout", NOW + 240)
    assert right.relocation == Relocation(RelocationKind.MOVED, "http://example.org/", NOW - 5, NOW, 2)
    assert right.pending_format_change == PendingFormatChange("atom", NOW, 1)
    assert tuple(right.changes) == (NOW - 50, NOW)
    assert correct_future_instants(right, NOW) is right
    assert correct_future_instants(resource, ahead) is resource


def test_future_instants_of_a_stored_response_become_now_and_keep_its_duration() -> None:
    resource = a_resource()
    variant = resource.variants[0]
    right = correct_future_instants(resource, variant.response_time - 10_000).variants[0]
    assert right.response_time == variant.response_time - 10_000
    assert right.response_time - right.request_time == variant.response_time - variant.request_time


async def test_schedule_made_by_a_clock_that_was_ahead_is_recomputed_after_its_correction() -> None:
    clock, refreshed = ManualClock(NOW + 86_400), asyncio.Event()

    def plan_for(_: str) -> Plan:
        return Refresh("due") if clock.now() < NOW + 3_600 else Later(clock.now() + 300, "later")

    async def refresh(_: str) -> None:
        refreshed.set()

    scheduler = a_scheduler(clock, plan_for, refresh)
    scheduler.reschedule("feed")
    await asyncio.sleep(0)
    clock.advance(-86_400)
    scheduler.reschedule("other")  # wakes the scheduler's loop
    async with asyncio.timeout(PATIENCE):
        await refreshed.wait()
        while "feed" in scheduler:  # noqa: ASYNC110 -- no event to wait for
            await asyncio.sleep(0)
    await scheduler.close()
