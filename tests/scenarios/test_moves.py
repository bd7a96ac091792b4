"""Moves and endings of feeds, and their confirmation."""

import asyncio

import pytest

from feedproxy.refresh.policy.min_interval_and_back_off import PAUSE_INTERVAL
from feedproxy.request.context import Entrance
from tests.stages.origin import a_feed
from tests.stages.play import UPSTREAM
from tests.waiting import PATIENCE


def xml_redirect(to: str) -> bytes:
    return f"<?xml version='1.0'?><redirect><newLocation>{to}</newLocation></redirect>".encode()


async def test_permanent_move_is_confirmed_after_two_sightings(stage):
    proxy, origin, clock = await stage()
    origin.publish("/old.rss", b"", status=301, location=origin.url("/new.rss"))
    origin.publish("/new.rss", a_feed("moved"), cache_control="max-age=60")

    assert b"moved" in (await proxy.get("/old.rss")).expect(200).body
    clock.advance(minutes=61)
    await proxy.get("/old.rss")
    clock.advance(minutes=61)

    told = (await proxy.get("/old.rss")).expect(301)
    assert told.location.endswith(origin.url("/new.rss"))
    assert told.cache == "feedproxy; detail=moved"  # neither did the store answer nor was anybody asked (RFC 9211, 2)


async def test_temporary_redirect_of_a_captive_portal_causes_no_move(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    origin.publish("/login", b"<html>Please log in</html>", content_type="text/html")
    origin.publish("/feed.rss", b"", status=302, location=origin.url("/login"))
    clock.advance(minutes=10)

    assert b"good" in (await proxy.get("/feed.rss")).expect(200).body


async def test_temporary_redirect_is_followed_and_causes_no_move(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", b"", status=302, location=origin.url("/today.rss"))
    origin.publish("/today.rss", a_feed("today"), cache_control="max-age=60")

    for _ in range(4):
        assert b"today" in (await proxy.get("/feed.rss")).expect(200).body
        clock.advance(hours=2)


async def test_redirect_to_a_page_is_forwarded_inside_the_gateway(stage):
    proxy, origin, _ = await stage()
    origin.publish("/page", b"", status=302, location="/other")
    origin.publish("/other", b"<html></html>", content_type="text/html")

    seen = (await proxy.get("/page")).expect(302)

    assert seen.location.endswith("/" + origin.url("/other"))


async def test_redirect_loop_ends(stage):
    proxy, origin, _ = await stage()
    origin.publish("/a", b"", status=301, location=origin.url("/b"))
    origin.publish("/b", b"", status=301, location=origin.url("/a"))

    assert (await proxy.get("/a")).status in (301, 502, 508)
    assert origin.requests <= 6


async def test_xml_redirect_is_a_move_at_once(stage):
    proxy, origin, _ = await stage()
    origin.publish("/old.rss", xml_redirect(origin.url("/new.rss")), content_type="application/xml")

    told = (await proxy.get("/old.rss")).expect(301, cache="detail=moved")

    assert told.location.endswith(origin.url("/new.rss"))
    await proxy.get("/old.rss")
    assert origin.requests == 1


async def test_xml_redirect_loop_causes_no_move(stage):
    proxy, origin, _ = await stage()
    origin.publish("/a", xml_redirect(origin.url("/b")), content_type="application/xml")
    origin.publish("/b", xml_redirect(origin.url("/a")), content_type="application/xml")

    (await proxy.get("/a")).expect(301)
    (await proxy.get("/b")).expect(200)


async def test_xml_redirect_without_address_gets_410_at_once(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", b"<redirect><newLocation/></redirect>", content_type="application/xml")

    (await proxy.get("/feed.rss")).expect(410, cache="detail=gone")
    (await proxy.get("/feed.rss")).expect(410)
    assert origin.requests == 1


async def test_gone_is_repeated_without_contacting_the_origin(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    origin.publish("/feed.rss", b"", status=410, validators=False)
    clock.advance(minutes=10)
    (await proxy.get("/feed.rss")).expect(410)
    asked = origin.requests

    for _ in range(3):
        clock.advance(10)
        (await proxy.get("/feed.rss")).expect(410, cache="detail=gone")
    assert origin.requests == asked


async def test_gone_without_confirmation_is_not_hidden_by_a_fresh_copy(stage):
    proxy, origin, clock = await stage(feed_min_interval=0, site_interval=0, reload_interval=0)
    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=86400")
    await proxy.get("/feed.rss")
    origin.publish("/feed.rss", b"", status=410, validators=False)
    clock.advance(minutes=10)
    (await proxy.get("/feed.rss", cache_control="no-cache")).expect(410)

    (await proxy.get("/feed.rss")).expect(410)

    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=86400")
    clock.advance(hours=1)
    (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale")
    (await proxy.get("/feed.rss")).expect(200, cache="hit")


async def test_gone_is_forwarded_at_once_and_remembered_after_confirmation(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    origin.publish("/feed.rss", b"", status=410, validators=False)
    clock.advance(minutes=10)
    (await proxy.get("/feed.rss")).expect(410)
    clock.advance(minutes=70)
    (await proxy.get("/feed.rss")).expect(410)
    asked = origin.requests
    clock.advance(hours=5)

    (await proxy.get("/feed.rss")).expect(410, cache="detail=gone")
    assert origin.requests == asked

    origin.publish("/feed.rss", a_feed("back"), cache_control="max-age=60")
    clock.advance(days=8)
    assert b"back" in (await proxy.get("/feed.rss")).expect(200).body


async def test_gone_without_confirmation_has_no_store(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    clock.advance(minutes=10)
    origin.publish("/feed.rss", b"", status=410, validators=False)
    (await proxy.get("/feed.rss")).expect(410)
    origin.break_down(500)

    seen = (await proxy.get("/feed.rss")).expect(410)

    assert seen.fields.get("cache-control") == "no-store"


async def test_permanent_move_back_is_served_under_both_addresses_without_a_loop(stage):
    proxy, origin, clock = await stage(site_interval=0)
    origin.publish("/own", b"", status=301, location=origin.url("/fb"))
    origin.publish("/fb", a_feed("away"), cache_control="max-age=60")
    for _ in range(3):
        await proxy.get("/own")
        clock.advance(minutes=61)
    (await proxy.get("/own")).expect(301)
    (await proxy.get("/fb")).expect(200)

    origin.publish("/own", a_feed("back"), cache_control="max-age=60")
    origin.publish("/fb", b"", status=301, location=origin.url("/own"))
    clock.advance(minutes=10)

    assert b"back" in (await proxy.get("/fb")).expect(200).plain
    assert b"back" in (await proxy.get("/own")).expect(200).plain
    for _ in range(3):
        clock.advance(minutes=61)
        seen = await proxy.get("/fb")
        assert b"back" in (await proxy.get("/own")).expect(200).plain
    assert seen.expect(301).location.endswith(origin.url("/own"))


async def test_xml_redirect_back_becomes_a_move_after_a_refresh(stage):
    proxy, origin, clock = await stage(site_interval=0)
    origin.publish("/fb", a_feed("away"), cache_control="max-age=60")
    (await proxy.get("/fb")).expect(200)
    origin.publish("/own", xml_redirect(origin.url("/fb")), content_type="application/xml")
    (await proxy.get("/own")).expect(301)
    clock.advance(minutes=10)

    origin.publish("/own", a_feed("back"), cache_control="max-age=60")
    origin.publish("/fb", xml_redirect(origin.url("/own")), content_type="application/xml")
    (await proxy.get("/fb")).expect(200)
    await asyncio.wait_for(origin.asked(4), 10)
    await proxy.get("/own")
    clock.advance(minutes=10)

    assert (await proxy.get("/fb")).expect(301).location.endswith(origin.url("/own"))
    assert b"back" in (await proxy.get("/own")).expect(200).plain


@pytest.mark.parametrize("status", [301, 404, 410])
@pytest.mark.parametrize("known", [True, False])
async def test_permanent_move_to_a_target_with_301_404_or_410_is_checked_again(stage, status, known):
    proxy, origin, clock = await stage(site_interval=0)
    origin.publish("/old", b"", status=301, location=origin.url("/new"))
    origin.publish("/new", a_feed("new"), cache_control="max-age=60")
    for _ in range(2):
        await proxy.get("/old")
        clock.advance(minutes=61)
    (await proxy.get("/old")).expect(301)
    if known:
        (await proxy.get("/new")).expect(200)
    clock.advance(minutes=61)
    origin.publish("/third", a_feed("third"), cache_control="max-age=60")
    origin.publish("/new", b"", status=status, location=origin.url("/third"), validators=False)
    await proxy.get("/new")
    asked = origin.requests
    origin.publish("/old", a_feed("old"), cache_control="max-age=60")

    seen = (await proxy.get("/old")).expect(200)

    assert (b"old" in seen.plain, origin.requests) == (True, asked + 1)


async def test_permanent_move_to_a_missing_target_serves_the_copy(stage):
    proxy, origin, clock = await stage()
    origin.publish("/old", b"", status=301, location=origin.url("/new"))
    origin.publish("/new", a_feed("new"), cache_control="max-age=60")
    for _ in range(2):
        await proxy.get("/old")
        clock.advance(minutes=61)
    (await proxy.get("/old")).expect(301)
    (await proxy.get("/new")).expect(200)
    clock.advance(minutes=10)
    origin.publish("/new", b"", status=404, validators=False)
    (await proxy.get("/new")).expect(200, cache="detail=refused")

    asked = origin.requests
    for _ in range(60):
        assert b"new" in (await proxy.get("/old")).expect(200).plain
        clock.advance(minutes=1)
    assert origin.requests - asked <= 14

    origin.publish("/new", a_feed("again"), cache_control="max-age=60")
    clock.advance(hours=7)
    assert b"again" in (await proxy.get("/new")).expect(200).plain
    (await proxy.get("/old")).expect(301)


async def test_permanent_move_to_the_public_address_in_reverse_mode_stays_at_the_upstream(stage):
    public = "https://www.example.com"
    proxy, origin, clock = await stage(upstream=UPSTREAM, public_url=public)
    origin.publish("/feed", a_feed("old"), cache_control="max-age=60")
    await proxy.get("/feed", entrance=Entrance.REVERSE)
    origin.publish("/feed", b"", status=301, location=f"{public}/new")
    origin.publish("/new", a_feed("new"), cache_control="max-age=60")

    clock.advance(minutes=61)
    assert b"new" in (await proxy.get("/feed", entrance=Entrance.REVERSE)).expect(200).plain
    assert "www.example.com" not in origin.log[-1].target
    clock.advance(minutes=61)
    told = (await proxy.get("/feed", entrance=Entrance.REVERSE)).expect(301)

    assert told.location == f"{public}/new"


@pytest.mark.parametrize(("second", "conditional"), [("/at-2", False), ("/at-1?signed=2", True)])
async def test_redirect_to_another_target_with_the_same_etag_replaces_the_feed(stage, second: str, conditional: bool):
    proxy, origin, clock = await stage(feed_hints="off")
    for number, path in enumerate(("/at-1", second)):
        title = "one" if conditional else f"item {number}"
        origin.publish(path, a_feed(title), cache_control="max-age=600", etag='"v1"')
    origin.publish("/feed", b"", status=302, location="/at-1")
    before = await proxy.get("/feed")
    clock.advance(minutes=20)
    origin.publish("/feed", b"", status=302, location=second)

    after = (await proxy.get("/feed")).expect(200)

    assert (after.body == before.body) is conditional
    assert ("if-none-match" in origin.heard) is conditional


async def test_feed_sent_for_an_accept_language_ends_its_unconfirmed_410(stage):
    """Each request with Accept-Language is for its own variant, and none may be answered 410 for what has ended."""
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", b"", status=410, validators=False, vary="Accept-Language", cache_control="max-age=60")
    (await proxy.get("/feed.rss", accept_language="de")).expect(410)
    origin.publish("/feed.rss", a_feed("back"), vary="Accept-Language", cache_control="max-age=60")
    clock.advance(minutes=20)

    for _ in range(2):
        assert b"back" in (await proxy.get("/feed.rss", accept_language="de")).expect(200).plain
        clock.advance(minutes=20)


async def test_feed_for_credentials_is_sent_after_410_for_others(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", b"", status=410, validators=False)
    (await proxy.get("/feed.rss")).expect(410)
    origin.publish("/feed.rss", a_feed("members"), cache_control="private")

    seen = await proxy.get("/feed.rss", authorization="Basic eDp5")

    assert b"members" in seen.expect(200).plain
    (await proxy.get("/feed.rss", cache_control="only-if-cached")).expect(504)


@pytest.mark.parametrize("accept", ["*/*", "application/rss+xml"])
async def test_page_is_sent_after_repeated_410(stage, accept):
    proxy, origin, clock = await stage()
    origin.publish("/page", b"here", content_type="text/plain", cache_control="no-cache")
    (await proxy.get("/page", accept=accept)).expect(200)
    origin.publish("/page", b"", status=410, content_type="text/plain", cache_control="no-cache")
    for _ in range(3):
        (await proxy.get("/page", accept=accept)).expect(410, cache="fwd=stale")
        clock.advance(hours=2)

    origin.publish("/page", b"back", content_type="text/plain", cache_control="no-cache")

    assert (await proxy.get("/page", accept=accept)).expect(200).body == b"back"


async def test_stored_page_is_sent_after_two_410_without_a_lifetime(stage):
    proxy, origin, clock = await stage()
    origin.publish("/page", b"here", content_type="text/plain", cache_control="max-age=60")
    (await proxy.get("/page")).expect(200)
    origin.publish("/page", b"", status=410, content_type="text/plain", validators=False)
    for _ in range(2):
        clock.advance(hours=2)
        (await proxy.get("/page")).expect(410)
    origin.publish("/page", b"back", content_type="text/plain", cache_control="max-age=60")

    assert (await proxy.get("/page")).expect(200).body == b"back"


async def test_page_is_sent_after_repeated_410_when_the_end_is_checked_again(stage):
    proxy, origin, clock = await stage()
    origin.publish("/page", b"", status=410, content_type="text/plain", validators=False)
    for _ in range(3):
        (await proxy.get("/page")).expect(410)
        clock.advance(hours=2)
    origin.publish("/page", b"back", content_type="text/plain", cache_control="max-age=60")
    clock.advance(days=8)

    assert (await proxy.get("/page")).expect(200).body == b"back"


@pytest.mark.parametrize("status", [401, 451])
async def test_401_or_451_after_an_unconfirmed_410_is_passed_on(stage, status):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    clock.advance(minutes=10)
    origin.publish("/feed.rss", b"", status=410, validators=False)
    (await proxy.get("/feed.rss")).expect(410)
    origin.publish("/feed.rss", b"", status=status, validators=False)
    clock.advance(hours=1)

    (await proxy.get("/feed.rss")).expect(status)


async def test_head_ends_an_unconfirmed_410_of_a_page(stage):
    proxy, origin, clock = await stage()
    origin.publish("/page", b"", status=410, content_type="text/plain", cache_control="max-age=60")
    (await proxy.get("/page")).expect(410)
    origin.publish("/page", b"back", content_type="text/plain", cache_control="max-age=60")
    clock.advance(minutes=20)

    (await proxy.head("/page")).expect(200)


async def test_former_address_that_is_paused_is_refreshed_on_request_after_the_pause(stage):
    proxy, origin, clock = await stage(site_interval=0)
    old, new = origin.url("/old.rss"), origin.url("/new.rss")
    origin.publish("/old.rss", b"", status=301, location=new)
    origin.publish("/new.rss", a_feed("moved"), cache_control="max-age=60")
    for _ in range(3):
        await proxy.get("/old.rss")
        clock.advance(minutes=61)
    proxy.rule("/old.rss", feed_min_interval=PAUSE_INTERVAL)
    origin.publish("/new.rss", b"", status=301, location=old)
    origin.publish("/old.rss", a_feed("back"), cache_control="max-age=60")
    await proxy.get("/new.rss")
    await proxy.settled()
    proxy.rule("/old.rss", feed_min_interval=60)

    assert (await proxy.service.admin.refresh(old)).outcome == "updated"
    assert (await proxy.service.admin.refresh(old)).outcome == "later"
    await asyncio.sleep(0)
    asked = origin.requests
    clock.advance(minutes=2)
    await asyncio.wait_for(origin.asked(asked + 1), PATIENCE)
