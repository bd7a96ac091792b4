"""Deadlines and queued deliveries after the clock was corrected in one step."""

from collections.abc import Callable
from typing import Any

import pytest

from feedproxy.clock import DAY
from feedproxy.http.message import Response
from feedproxy.notify.subscription_table import Role
from feedproxy.upstream.upstream_errors import Unreachable
from tests.stages.clouds import clouds_on
from tests.stages.notify import NOON, TARGET, Stand
from tests.stages.origin import a_feed

YEAR = 365 * DAY


@pytest.fixture
async def told(stand: Stand) -> Stand:
    """Return a stand whose one feed has a subscriber."""
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    await stand.subscribe("http://one.example/", lasts=10 * DAY)
    return stand


@pytest.mark.parametrize("step", [2 * 3600, 25 * 3600, YEAR])
async def test_clock_step_back_does_not_delay_retry(told: Stand, step: float) -> None:
    told.others.answer = lambda _: Unreachable("away")
    told.origin.publish("/feed.xml", a_feed("two", "one"))
    await told.read()
    tried = len(told.others.calls)
    told.others.answer = lambda _: Response(200)

    await told.pass_time(-step)
    await told.pass_time(60)

    assert len(told.others.calls) == tried + 1
    assert await told.notifications.queue.count_waiting() == {}


async def test_clock_step_back_between_two_runs_does_not_delay_retry(stand_at: Callable[..., Any]) -> None:
    told = await stand_at(folder="store")
    told.origin.publish("/feed.xml", a_feed("one"))
    await told.read()
    await told.subscribe("http://one.example/", lasts=10 * DAY)
    told.others.answer = lambda _: Unreachable("away")
    told.origin.publish("/feed.xml", a_feed("two", "one"))
    await told.read()
    await told.app.close()
    told.clock.advance(-YEAR)

    again = await stand_at(folder="store", origin=told.origin, clock=told.clock)
    await again.pass_time(2 * 3600)

    assert len(again.others.calls) == 1
    assert await again.notifications.queue.count_waiting() == {}


async def test_clock_step_back_does_not_prolong_subscription(told: Stand) -> None:
    await told.pass_time(-YEAR)
    (known,) = await told.notifications.subscriptions.all(role=Role.SUBSCRIBER)
    assert known.expires == pytest.approx(NOON - YEAR + 10 * DAY)

    await told.pass_time(10 * DAY + 1)

    assert await told.notifications.subscriptions.all(role=Role.SUBSCRIBER) == []


async def test_clock_step_back_does_not_delay_ping(told: Stand) -> None:
    await told.notifications.refresh_requests.accept_ping([TARGET], "192.0.2.1")
    await told.settled()
    await told.notifications.refresh_requests.accept_ping([TARGET], "192.0.2.1")  # queued: ping_interval
    next_due = told.notifications.refresh_requests.next_due
    assert await told.notifications.database.run(next_due) == NOON + 30

    told.clock.advance(-YEAR)
    told.notifications.wake()
    await told.settled()

    due = await told.notifications.database.run(next_due)
    assert due is not None
    assert due - told.clock.now() <= told.app.settings.ping_interval + DAY  # the site's slot comes first


async def test_clock_step_of_seconds_changes_no_deadline(told: Stand) -> None:
    await told.pass_time(-30)

    (known,) = await told.notifications.subscriptions.all(role=Role.SUBSCRIBER)
    assert known.expires == NOON + 10 * DAY


@pytest.mark.parametrize("hours", [24.5, 25, 26, 30 * 24])
async def test_clock_step_forward_renews_at_once(stand_at: Callable[..., Any], hours: float) -> None:
    """After 25 hours the cloud has dropped the registration, so the ended registration is requested again."""
    clouds = await clouds_on(stand_at, public_url="https://proxy.example/")
    clouds.stand.others.answer = lambda _: Response(200, body=b'<notifyResult success="true" msg=""/>')
    cloud = '<cloud domain="cloud.example" port="80" path="/" registerProcedure="" protocol="http-post"/>'
    clouds.stand.origin.publish("/feed.xml", a_feed("one", extra=cloud))
    await clouds.stand.read()
    assert len(clouds.stand.others.calls) == 1

    await clouds.stand.pass_time(hours * 3600)

    assert len(clouds.stand.others.calls) == 2
    (known,) = await clouds.stand.notifications.subscriptions.all(role=Role.PUBLISHER)
    assert known.expires == pytest.approx(clouds.stand.clock.now() + 25 * 3600)
