"""Scheduled refreshes: readers do not wait for feeds that are polled, and unread feeds are not refreshed."""

import asyncio
import json
from itertools import pairwise

import pytest

from feedproxy.clock import ManualClock
from feedproxy.feed.channel import Schedule
from feedproxy.feed.schedule_hints import is_skipped
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields, Response
from tests.stages.origin import Origin, a_feed
from tests.stages.play import Proxy


async def pass_time(proxy, clock, *, minutes, step=20.0):
    """Advance the clock in small steps, and complete the refreshes that are due."""
    end = clock.now() + 60 * minutes
    while clock.now() < end:
        clock.advance(min(step, end - clock.now()))
        for _ in range(6):
            await asyncio.sleep(0)
        await proxy.settled()


async def test_polled_feed_is_refreshed_in_the_background_before_each_request(stage):
    proxy, origin, clock = await stage(polling="balanced")
    origin.publish("/feed.rss", a_feed("one", ttl=60))
    (await proxy.get("/feed.rss")).expect(200, cache="fwd=uri-miss")
    for hour in range(5):
        await pass_time(proxy, clock, minutes=61)
        (await proxy.get("/feed.rss")).expect(200, cache="hit")
        assert origin.requests == 2 + hour
    assert "if-none-match" in origin.heard


async def test_polled_feed_has_new_items_before_the_next_request(stage):
    proxy, origin, clock = await stage(polling="balanced")
    origin.publish("/feed.rss", a_feed("one", ttl=30))
    for _ in range(4):
        await proxy.get("/feed.rss")
        await pass_time(proxy, clock, minutes=45)
    await proxy.get("/feed.rss")
    origin.publish("/feed.rss", a_feed("two", "one", ttl=30))
    await pass_time(proxy, clock, minutes=45)
    assert b"two" in (await proxy.get("/feed.rss")).expect(200, cache="hit").plain


async def test_polled_feed_is_refreshed_once_for_readers_that_poll_at_the_same_time(stage):
    proxy, origin, clock = await stage(polling="balanced")
    origin.publish("/feed.rss", a_feed("one", ttl=30))
    for _ in range(6):
        for reader in ("198.51.100.1", "198.51.100.2", "198.51.100.3"):
            await proxy.get("/feed.rss", address=reader)
        await pass_time(proxy, clock, minutes=60)
    before = origin.requests
    for _ in range(4):
        for reader in ("198.51.100.1", "198.51.100.2", "198.51.100.3"):
            (await proxy.get("/feed.rss", address=reader)).expect(200, cache="hit")
        await pass_time(proxy, clock, minutes=60)
    assert origin.requests - before == 4


async def test_polling_off_prevents_background_refreshes(stage):
    proxy, origin, clock = await stage(polling="off")
    origin.publish("/feed.rss", a_feed("one", ttl=30))
    for number in range(5):
        (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale" if number else "fwd=uri-miss")
        assert origin.requests == number + 1
        await pass_time(proxy, clock, minutes=60)


async def test_polled_feed_is_not_refreshed_after_its_reader_has_left(stage):
    proxy, origin, clock = await stage(polling="balanced")
    origin.publish("/feed.rss", a_feed("one", ttl=30))
    for _ in range(5):
        await proxy.get("/feed.rss")
        await pass_time(proxy, clock, minutes=60)
    await pass_time(proxy, clock, minutes=30 * 60, step=60)
    before = origin.requests
    await pass_time(proxy, clock, minutes=24 * 60, step=60)
    assert origin.requests == before


async def test_polled_feed_is_not_refreshed_after_a_single_request(stage):
    proxy, origin, clock = await stage(polling="balanced")
    origin.publish("/feed.rss", a_feed("one", ttl=60))
    await proxy.get("/feed.rss")
    await pass_time(proxy, clock, minutes=12 * 60, step=60)
    assert origin.requests <= 2
    (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale")


async def test_polled_feed_is_not_refreshed_in_skip_hours(stage):
    proxy, origin, clock = await stage(polling="balanced")
    night = "<skipHours>" + "".join(f"<hour>{hour}</hour>" for hour in (14, 15, 16, 17)) + "</skipHours>"
    asked = []
    origin.publish("/feed.rss", a_feed("one", ttl=30, extra=night))
    await proxy.get("/feed.rss")
    clock.advance(minutes=2)
    for number in range(8 * 4):
        before = origin.requests
        await pass_time(proxy, clock, minutes=15)
        (await proxy.get("/feed.rss")).expect(200, **({"cache": "hit"} if number > 3 else {}))
        asked += [clock.now()] * (origin.requests - before)
    schedule = Schedule(skip_hours=frozenset({14, 15, 16, 17}))
    assert asked
    assert not [at for at in asked if is_skipped(schedule, at - 15 * 60) and is_skipped(schedule, at)]


async def test_finished_feed_is_refreshed_once_a_day_until_it_continues(stage):
    proxy, origin, clock = await stage(polling="balanced")
    feed = {"version": "https://jsonfeed.org/version/1.1", "title": "Games", "items": [{"id": "1", "title": "Finale"}]}
    origin.publish("/feed.json", json.dumps({**feed, "expired": True}).encode(), Cache_Control="max-age=60")
    for _ in range(20):
        (await proxy.get("/feed.json")).expect(200)
        await pass_time(proxy, clock, minutes=60, step=600)
    assert origin.requests == 1
    (await proxy.get("/feed.json")).expect(200, cache="hit; detail=finished")

    origin.publish("/feed.json", json.dumps(feed).encode(), Cache_Control="max-age=60")
    await pass_time(proxy, clock, minutes=5 * 60)
    (await proxy.get("/feed.json")).expect(200)
    before = origin.requests
    await pass_time(proxy, clock, minutes=60)
    (await proxy.get("/feed.json")).expect(200)

    assert origin.requests > before > 1


async def test_polled_feed_obeys_retry_after_and_serves_the_copy(stage):
    proxy, origin, clock = await stage(polling="balanced")
    origin.publish("/feed.rss", a_feed("one", ttl=30))
    for _ in range(5):
        await proxy.get("/feed.rss")
        await pass_time(proxy, clock, minutes=45)
    await proxy.get("/feed.rss")
    before = origin.requests
    origin.speak(lambda _: Response(429, Fields([("Retry-After", "1200")])))
    await pass_time(proxy, clock, minutes=45)
    assert origin.requests == before + 1
    (await proxy.get("/feed.rss")).expect(200)
    origin.recover()
    await pass_time(proxy, clock, minutes=18)
    assert origin.requests == before + 1
    await pass_time(proxy, clock, minutes=27)
    assert origin.requests == before + 2
    (await proxy.get("/feed.rss")).expect(200, cache="hit")


async def test_polling_schedule_continues_after_a_restart(stage):
    proxy, origin, clock = await stage(polling="balanced")
    origin.publish("/feed.rss", a_feed("one", ttl=60))
    await proxy.get("/feed.rss")
    scheduler = proxy.service.schedule.scheduler
    # As if the process had ended here: what was on the agenda is only in the store.
    scheduler._due.clear()
    scheduler._heap.clear()
    proxy.service.schedule.resume()
    await scheduler._starting
    await pass_time(proxy, clock, minutes=61)
    assert origin.requests == 2
    (await proxy.get("/feed.rss")).expect(200, cache="hit")


async def test_learned_lifetime_follows_the_dates_of_a_weekly_feed(stage):
    proxy, origin, clock = await stage()
    dates = [format_http_date(clock.now() - week * 7 * 86_400) for week in range(1, 9)]
    weekly = "".join(f"<item><title>{date}</title><pubDate>{date}</pubDate></item>" for date in dates)
    origin.publish("/feed.rss", a_feed("one", extra=weekly))
    await proxy.get("/feed.rss")
    clock.advance(minutes=31)  # at first sight dates are a word that nobody has seen kept
    await proxy.get("/feed.rss")
    assert origin.requests == 2
    clock.advance(hours=4)
    (await proxy.get("/feed.rss")).expect(200, cache="hit")
    assert origin.requests == 2


async def test_learned_changes_include_each_publication_since_the_last_refresh(stage):
    proxy, origin, clock = await stage()

    def dated(*ages: float) -> str:
        dates = [format_http_date(clock.now() - age) for age in ages]
        return "".join(f"<item><title>{date}</title><pubDate>{date}</pubDate></item>" for date in dates)

    origin.publish("/feed.rss", a_feed("one"))
    await proxy.get("/feed.rss")
    clock.advance(minutes=40)
    origin.publish("/feed.rss", a_feed("two", "one"))
    await proxy.get("/feed.rss")
    before = len(proxy.service.store.get(origin.url("/feed.rss")).changes)
    clock.advance(hours=6)
    origin.publish("/feed.rss", a_feed("two", "one", extra=dated(3600, 7200, 7230, 10_800, 90_000, -3600)))
    await proxy.get("/feed.rss")

    changes = list(proxy.service.store.get(origin.url("/feed.rss")).changes)[before:]
    assert [clock.now() - at for at in changes] == pytest.approx([10_800, 7200, 3600], abs=1)


async def test_learned_lifetime_grows_while_a_feed_is_unchanged(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("one"))
    asked = []
    for _ in range(3 * 24 * 2):
        before = origin.requests
        await proxy.get("/feed.rss")
        asked += [clock.now()] * (origin.requests - before)
        clock.advance(minutes=20)
    gaps = [later - earlier for earlier, later in pairwise(asked)]
    assert gaps[0] <= 2400
    assert gaps[-1] > 2 * gaps[0]


async def test_stale_while_refreshing_answers_at_once_and_stores_the_new_version(stage):
    proxy, origin, clock = await stage(stale_while_refreshing=7200)
    origin.publish("/feed.rss", a_feed("one"), cache_control="max-age=600")
    await proxy.get("/feed.rss")
    origin.publish("/feed.rss", a_feed("two", "one"), cache_control="max-age=600")
    clock.advance(hours=2)
    assert b"two" not in (await proxy.get("/feed.rss")).expect(200, cache="hit").plain
    await proxy.settled()
    assert b"two" in (await proxy.get("/feed.rss")).expect(200, cache="hit").plain


async def test_stale_while_refreshing_is_not_used_if_a_change_is_probable(stage):
    proxy, origin, clock = await stage(stale_while_refreshing=86_400)
    origin.publish("/feed.rss", a_feed("one"), cache_control="max-age=600")
    await proxy.get("/feed.rss")
    clock.advance(minutes=40)
    await proxy.get("/feed.rss")
    await proxy.settled()  # now it has a history
    origin.publish("/feed.rss", a_feed("two", "one"), cache_control="max-age=600")
    clock.advance(hours=12)
    assert b"two" in (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale").plain


async def test_stale_while_refreshing_excludes_copies_with_must_revalidate(stage):
    proxy, origin, clock = await stage(stale_while_refreshing=7200)
    origin.publish("/feed.rss", a_feed("one"), cache_control="max-age=600, must-revalidate")
    await proxy.get("/feed.rss")
    clock.advance(hours=2)
    (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale")


STALE = {"stale_while_refreshing": 86_400}


async def asked_within(proxy: Proxy, origin: Origin, clock: ManualClock, minutes: int) -> int:
    """The number of requests to the origin while a reader polls every five minutes."""
    before = origin.requests
    for _ in range(minutes // 5):
        clock.advance(minutes=5)
        (await proxy.get("/feed.rss")).expect(200)
        await proxy.settled()
    return origin.requests - before


async def changed_once(stage, control: str, **settings):
    """A proxy whose feed changed once and then stayed unchanged for three days."""
    proxy, origin, clock = await stage(**settings)
    for title in ("one", "two"):
        origin.publish("/feed.rss", a_feed(title), cache_control=control)
        clock.advance(days=3)
        await proxy.get("/feed.rss")
        await proxy.settled()
    clock.advance(days=3)
    await proxy.get("/feed.rss")
    await proxy.settled()
    return proxy, origin, clock


async def test_rarely_changed_feed_is_requested_less_often_with_option_stale_while_refreshing(stage):
    proxy, origin, clock = await changed_once(stage, "max-age=60", **STALE)

    assert await asked_within(proxy, origin, clock, 360) <= 4


@pytest.mark.parametrize("polling", ["off", "balanced"])
@pytest.mark.parametrize(("gap", "requests"), [(7 * 86_400, 1), (1200, 2)])
async def test_dates_of_a_feed_fetched_once_are_read_before_it_is_refreshed(stage, polling, gap, requests):
    proxy, origin, clock = await stage(polling=polling, **STALE)
    dates = [format_http_date(clock.now() - number * gap) for number in range(1, 9)]
    items = "".join(f"<item><title>{date}</title><pubDate>{date}</pubDate></item>" for date in dates)
    origin.publish("/feed.rss", a_feed("one", extra=items), cache_control="max-age=3600")
    for _ in range(4):
        (await proxy.get("/feed.rss")).expect(200)
        await pass_time(proxy, clock, minutes=25)

    assert origin.requests == requests


async def test_rarely_changed_feed_is_requested_after_each_max_age_without_option_stale_while_refreshing(stage):
    proxy, origin, clock = await changed_once(stage, "max-age=60")

    assert await asked_within(proxy, origin, clock, 360) >= 60


async def test_must_revalidate_prevents_stale_answers(stage):
    proxy, origin, clock = await changed_once(stage, "max-age=60, must-revalidate", **STALE)

    assert await asked_within(proxy, origin, clock, 360) >= 60


async def test_no_cache_within_reload_interval_is_answered_from_the_copy(stage):
    proxy, origin, clock = await stage(reload_interval=1800)
    origin.publish("/feed.rss", a_feed("one", ttl=60))
    await proxy.get("/feed.rss")
    clock.advance(minutes=29)
    (await proxy.get("/feed.rss", cache_control="no-cache")).expect(200, cache="hit")
    clock.advance(minutes=2)
    (await proxy.get("/feed.rss", cache_control="no-cache")).expect(200, cache="fwd=request")


ALWAYS = [{"cache_control": "no-cache"}, {"pragma": "no-cache"}, {"cache_control": "max-age=0"}]


@pytest.mark.parametrize("always", ALWAYS)
@pytest.mark.parametrize(("stated", "most"), [({"ttl": 600}, 4), ({}, 8)])
async def test_no_cache_in_every_poll_is_forwarded_once_in_a_lifetime_or_15_minutes(stage, always, stated, most):
    proxy, origin, clock = await stage()
    fields = {} if stated else {"cache_control": "max-age=360"}
    origin.publish("/feed.rss", a_feed("one", **stated), **fields)

    for _ in range(15):
        (await proxy.get("/feed.rss", accept="application/rss+xml, */*;q=0.5", **always)).expect(200)
        clock.advance(minutes=4)

    assert most - 1 <= origin.requests <= most


async def test_in_skip_hours_only_no_cache_of_a_navigation_is_forwarded(stage):
    proxy, origin, clock = await stage()
    hours = "<skipHours>" + "".join(f"<hour>{hour}</hour>" for hour in range(12, 15)) + "</skipHours>"
    origin.publish("/feed.rss", a_feed("one", extra=hours))

    for _ in range(17):
        (await proxy.get("/feed.rss", cache_control="no-cache", sec_fetch_mode="cors")).expect(200)
        clock.advance(minutes=10)
    assert origin.requests == 1

    (await proxy.get("/feed.rss", cache_control="no-cache", sec_fetch_mode="navigate")).expect(200, cache="fwd=request")


@pytest.mark.parametrize("person", [{"sec_fetch_mode": "navigate"}, {"accept": "text/html, application/xml;q=0.9"}])
async def test_no_cache_of_a_browser_navigation_is_forwarded(stage, person):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("one", ttl=600))
    await proxy.get("/feed.rss")
    clock.advance(minutes=2)

    (await proxy.get("/feed.rss", cache_control="no-cache", **person)).expect(200, cache="fwd=request")


async def test_no_cache_for_a_page_is_forwarded(stage):
    proxy, origin, clock = await stage()
    origin.publish("/page", b"<p>page", content_type="text/html", cache_control="max-age=600")
    await proxy.get("/page")
    clock.advance(minutes=2)

    (await proxy.get("/page", cache_control="no-cache")).expect(200, cache="fwd=request")
