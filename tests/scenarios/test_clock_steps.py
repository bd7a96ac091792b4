"""Stored times that are in the future count as now, so that no feed is blocked."""

import pytest

from tests.stages.origin import a_feed

HOUR, DAY = 3_600, 86_400
STEPS = [HOUR, 30 * DAY, 365 * DAY]


@pytest.mark.parametrize("step", STEPS, ids=["hour", "month", "year"])
@pytest.mark.parametrize("fields", [{"cache_control": "max-age=600"}, {}], ids=["max-age", "learned"])
async def test_copy_from_a_clock_ahead_becomes_stale_after_the_clock_is_set_back(stage, step, fields):
    proxy, origin, clock = await stage(polling="off")
    clock.advance(step)
    origin.publish("/feed.rss", a_feed("one"), **fields)
    for _ in range(3):
        await proxy.get("/feed.rss")  # the last by heart
    clock.advance(-step)
    origin.publish("/feed.rss", a_feed("one", "two"), **fields)

    for _ in range(3):
        (await proxy.get("/feed.rss")).expect(200)
    clock.advance(hours=25)
    await proxy.get("/feed.rss")  # perhaps still the stale copy, and the refresh behind it

    clock.advance(minutes=2)
    seen = (await proxy.get("/feed.rss")).expect(200)
    assert b"two" in seen.body
    assert int(seen.fields.get("age") or 0) <= 120


@pytest.mark.parametrize("step", STEPS, ids=["hour", "month", "year"])
async def test_floor_and_site_interval_keep_their_length_after_the_clock_is_set_back(stage, step):
    proxy, origin, clock = await stage(polling="off", feed_min_interval=300, site_interval=2)
    clock.advance(step)
    for path in ("/a.rss", "/b.rss"):
        origin.publish(path, a_feed("one"), cache_control="max-age=60")
        await proxy.get(path)
    clock.advance(-step)
    await proxy.get("/a.rss")
    asked = origin.requests

    clock.advance(minutes=6)
    (await proxy.get("/a.rss")).expect(200, cache="fwd=stale")
    assert origin.requests == asked + 1


@pytest.mark.parametrize("step", STEPS, ids=["hour", "month", "year"])
async def test_back_off_keeps_its_length_after_the_clock_is_set_back(stage, step):
    proxy, origin, clock = await stage(polling="off")
    origin.publish("/feed.rss", a_feed("one"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    clock.advance(step)
    origin.break_down(503)
    await proxy.get("/feed.rss")
    clock.advance(-step)
    origin.recover()
    await proxy.get("/feed.rss")

    clock.advance(minutes=5)
    (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale")


@pytest.mark.parametrize("step", STEPS, ids=["hour", "month", "year"])
async def test_clock_set_ahead_causes_one_request_and_no_failure(stage, step):
    proxy, origin, clock = await stage(polling="off")
    origin.publish("/feed.rss", a_feed("one"), cache_control="max-age=600")
    await proxy.get("/feed.rss")
    clock.advance(step)

    for _ in range(5):
        (await proxy.get("/feed.rss")).expect(200)

    assert origin.requests == 2
