"""The operator's actions and rules."""

import asyncio

import pytest

from feedproxy.admin.pages.resource_views import version_views
from feedproxy.refresh.policy.min_interval_and_back_off import PAUSE_INTERVAL
from feedproxy.refresh.resource_after_refresh import VERSION_RECORDS_MAX
from feedproxy.store.resource_codec import dump, load
from tests.stages.origin import a_feed
from tests.stages.play import UPSTREAM
from tests.waiting import PATIENCE

PAUSE = {"polling": "off", "feed_min_interval": PAUSE_INTERVAL, "stale_max": PAUSE_INTERVAL}
"""The rule of a paused feed (refresh/policy/paused_and_blocked.py)."""


async def a_copy(stage, **settings):
    """A stage that holds a feed, fetched eleven minutes ago, with a lifetime of ten."""
    proxy, origin, clock = await stage(**settings)
    origin.publish("/feed.rss", a_feed("old"), cache_control="max-age=600")
    await proxy.get("/feed.rss")
    clock.advance(minutes=11)
    return proxy, origin, clock


# -- refresh


async def test_refresh_of_a_changed_feed_updates_the_copy(stage):
    proxy, origin, _ = await a_copy(stage)
    origin.publish("/feed.rss", a_feed("new"), cache_control="max-age=600")

    done = await proxy.service.admin.refresh(origin.url("/feed.rss"))

    assert (done.outcome, done.status) == ("updated", 200)
    assert b"new" in (await proxy.get("/feed.rss")).expect(200, cache="hit", age=0).body


async def test_refresh_with_304_confirms_the_copy(stage):
    proxy, origin, _ = await a_copy(stage)

    done = await proxy.service.admin.refresh(origin.url("/feed.rss"))

    assert (done.outcome, done.status) == ("confirmed", 304)
    (await proxy.get("/feed.rss")).expect(200, cache="hit", age=0)


async def test_refresh_with_equal_content_reports_unchanged(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("same"), validators=False, cache_control="max-age=600")
    await proxy.get("/feed.rss")
    clock.advance(minutes=11)

    done = await proxy.service.admin.refresh(origin.url("/feed.rss"))

    assert (done.outcome, done.status) == ("unchanged", 200)
    assert "new" not in done.reason


async def test_refresh_replaces_a_fresh_copy(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("old", ttl=600), cache_control="max-age=86400")
    await proxy.get("/feed.rss")
    origin.publish("/feed.rss", a_feed("new", ttl=600), cache_control="max-age=86400")
    clock.advance(minutes=2)

    assert (await proxy.service.admin.refresh(origin.url("/feed.rss"))).outcome == "updated"


async def test_refresh_within_the_floor_is_postponed_and_done_once(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("old"), cache_control="max-age=86400")
    await proxy.get("/feed.rss")
    origin.publish("/feed.rss", a_feed("new"), cache_control="max-age=86400")
    clock.advance(seconds=20)

    for _ in range(3):  # however often it is asked for, it is done once
        done = await proxy.service.admin.refresh(origin.url("/feed.rss"))
        assert done.outcome == "later"
        assert done.at == clock.now() + 40
    await asyncio.sleep(0)
    assert origin.requests == 1

    clock.advance(seconds=41)
    await origin.asked(2)
    await proxy.settled()
    assert origin.requests == 2
    assert b"new" in (await proxy.get("/feed.rss")).expect(200, cache="hit").body


async def test_postponed_refresh_obeys_a_shorter_floor_and_a_pause(stage):
    proxy, origin, clock = await stage(feed_min_interval=600)
    origin.publish("/feed.rss", a_feed("old"), cache_control="max-age=86400")
    await proxy.get("/feed.rss")
    clock.advance(seconds=20)
    assert (await proxy.service.admin.refresh(origin.url("/feed.rss"))).at == clock.now() + 580

    proxy.rule("/feed.rss", feed_min_interval=60)
    assert (await proxy.service.admin.refresh(origin.url("/feed.rss"))).at == clock.now() + 40
    await asyncio.sleep(0)
    clock.advance(seconds=41)
    await origin.asked(2)
    await proxy.settled()

    assert (await proxy.service.admin.refresh(origin.url("/feed.rss"))).outcome == "later"
    await asyncio.sleep(0)
    proxy.rule("/feed.rss", feed_min_interval=PAUSE_INTERVAL)
    clock.advance(seconds=600)
    await asyncio.sleep(0)
    await proxy.settled()
    assert origin.requests == 2


async def test_refresh_that_fails_keeps_the_copy(stage):
    proxy, origin, _ = await a_copy(stage)
    origin.break_down(503)

    done = await proxy.service.admin.refresh(origin.url("/feed.rss"))

    assert done.outcome == "failed"
    assert b"old" in (await proxy.get("/feed.rss")).expect(200).body


async def test_refresh_without_a_copy_stores_one(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed("warm"), cache_control="max-age=600")

    assert (await proxy.service.admin.refresh(origin.url("/feed.rss"))).outcome == "updated"

    assert b"warm" in (await proxy.get("/feed.rss")).expect(200, cache="hit").body


async def test_refresh_updates_the_stored_variant(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("old"), cache_control="max-age=600", vary="Accept-Language")
    await proxy.get("/feed.rss", accept_language="de")
    origin.publish("/feed.rss", a_feed("new"), cache_control="max-age=600", vary="Accept-Language")
    clock.advance(minutes=11)

    assert (await proxy.service.admin.refresh(origin.url("/feed.rss"))).outcome == "updated"

    assert origin.heard.get("accept-language") == "de"
    assert b"new" in (await proxy.get("/feed.rss", accept_language="de")).expect(200, cache="hit").body


# -- purge


async def test_purged_feed_is_fetched_without_condition(stage):
    proxy, origin, _ = await a_copy(stage, site_interval=0)
    target = origin.url("/feed.rss")

    assert await proxy.service.admin.purge(target) == [target]

    (await proxy.get("/feed.rss")).expect(200, cache="fwd=uri-miss")
    assert "if-none-match" not in origin.heard


async def test_purge_by_pattern_removes_matching_feeds_only(stage):
    proxy, origin, _ = await stage(site_interval=0)
    paths = ("/a/1.rss", "/a/2.rss?x=1", "/b/1.rss")
    for path in paths:
        origin.publish(path, a_feed(), cache_control="max-age=600")
        await proxy.get(path)

    purged = await proxy.service.admin.purge(pattern=origin.base + "/a/*")

    assert sorted(purged) == sorted(origin.url(path) for path in paths[:2])
    (await proxy.get("/b/1.rss")).expect(200, cache="hit")
    (await proxy.get("/a/2.rss?x=1")).expect(200, cache="fwd=uri-miss")


@pytest.mark.parametrize("pattern", ["/feed.rss?x=[1]", "/f*?x=[*", "*[1]"])
async def test_purge_pattern_treats_only_the_asterisk_as_special(stage, pattern):
    proxy, origin, _ = await stage(site_interval=0)
    for path in ("/feed.rss?x=[1]", "/feed.rss/x=1"):
        origin.publish(path, a_feed(), cache_control="max-age=600")
        await proxy.service.admin.refresh(origin.url(path))

    purged = await proxy.service.admin.purge(pattern=origin.base + pattern if pattern.startswith("/") else pattern)

    assert purged == [origin.url("/feed.rss?x=[1]")]


async def test_purge_without_a_copy_removes_nothing(stage):
    proxy, origin, _ = await stage()

    assert await proxy.service.admin.purge(origin.url("/feed.rss")) == []


@pytest.mark.parametrize("by", ["target", "pattern"])
async def test_purge_during_a_fetch_prevents_storing_its_response(stage, by):
    proxy, origin, _ = await a_copy(stage, site_interval=0)
    origin.gate = asyncio.Event()
    waiting = asyncio.ensure_future(proxy.get("/feed.rss"))
    await origin.asked(2)

    if by == "target":
        await proxy.service.admin.purge(origin.url("/feed.rss"))
    else:
        await proxy.service.admin.purge(pattern="*")
    origin.gate.set()
    (await waiting).expect(200)  # whoever asked before gets his answer
    await proxy.settled()

    assert proxy.service.store.get(origin.url("/feed.rss")) is None
    origin.publish("/feed.rss", a_feed("new"), cache_control="max-age=600")
    assert b"new" in (await proxy.get("/feed.rss")).expect(200, cache="fwd=uri-miss").body


async def test_collapsing_ignores_request_started_before_purge(stage):
    proxy, origin, _ = await a_copy(stage, site_interval=0)
    origin.gate = asyncio.Event()
    before = asyncio.ensure_future(proxy.get("/feed.rss"))
    await origin.asked(2)
    gate, origin.gate = origin.gate, None
    await proxy.service.admin.purge(origin.url("/feed.rss"))
    origin.publish("/feed.rss", a_feed("new"), cache_control="max-age=600")

    after = asyncio.ensure_future(proxy.get("/feed.rss"))
    await asyncio.wait_for(origin.asked(3), PATIENCE)
    gate.set()
    await before

    assert b"new" in (await after).expect(200).body


async def test_purge_during_a_first_fetch_prevents_storing_its_response(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed("once"))
    origin.gate = asyncio.Event()
    waiting = asyncio.ensure_future(proxy.get("/feed.rss"))
    await origin.asked()

    await proxy.service.admin.purge(origin.url("/feed.rss"))
    origin.gate.set()
    (await waiting).expect(200)
    await proxy.settled()

    assert proxy.service.store.get(origin.url("/feed.rss")) is None


async def test_purge_keeps_subscriber_counts(stage):
    proxy, origin, _ = await stage(site_interval=0)
    origin.publish("/feed.rss", a_feed())
    await proxy.get("/feed.rss", user_agent="reader/1")
    await proxy.service.admin.purge(pattern="*")

    await proxy.get("/feed.rss", user_agent="other/2")

    assert "2 subscribers" in (origin.heard.get("user-agent") or "")


# -- moves and ends


async def test_cleared_move_is_fetched_from_its_old_address(stage):
    proxy, origin, clock = await a_copy(stage, site_interval=0)
    origin.publish("/feed.rss", b"", status=301, location=origin.url("/new.rss"))
    origin.publish("/new.rss", a_feed("moved"), cache_control="max-age=60")
    for _ in range(2):
        await proxy.get("/feed.rss")
        clock.advance(minutes=61)
    (await proxy.get("/feed.rss")).expect(301)
    origin.publish("/feed.rss", a_feed("back"), cache_control="max-age=60")

    assert await proxy.service.admin.clear_relocation(origin.url("/feed.rss"))

    assert b"back" in (await proxy.get("/feed.rss")).expect(200).body
    assert not await proxy.service.admin.clear_relocation(origin.url("/feed.rss"))


async def test_cleared_ending_is_fetched_again(stage):
    proxy, origin, clock = await stage(site_interval=0)
    origin.publish("/feed.rss", b"<redirect><newLocation/></redirect>", content_type="application/xml")
    (await proxy.get("/feed.rss")).expect(410)
    origin.publish("/feed.rss", a_feed("back"))
    clock.advance(minutes=2)
    (await proxy.get("/feed.rss")).expect(410)

    assert await proxy.service.admin.clear_relocation(origin.url("/feed.rss"))

    assert b"back" in (await proxy.get("/feed.rss")).expect(200).body


async def test_cleared_ending_ends_the_back_off(stage):
    proxy, origin, clock = await a_copy(stage, site_interval=0, feed_min_interval=0)
    origin.publish("/feed.rss", b"", status=410, validators=False)
    clock.advance(hours=2)
    (await proxy.get("/feed.rss")).expect(410)
    origin.publish("/feed.rss", a_feed("back"))
    clock.advance(5)

    assert await proxy.service.admin.clear_relocation(origin.url("/feed.rss"))

    assert b"back" in (await proxy.get("/feed.rss")).expect(200).body


async def test_moved_to_rule_redirects_with_301(stage):
    proxy, origin, _ = await a_copy(stage)
    proxy.rule("/feed.rss", moved_to="https://new.example/feed.rss")

    told = (await proxy.get("/feed.rss")).expect(301)

    assert told.cache == "feedproxy; detail=moved"
    assert told.location.endswith("https://new.example/feed.rss")
    assert origin.requests == 1


async def test_moved_to_rule_redirects_with_an_xml_document(stage):
    proxy, _origin, _ = await a_copy(stage)
    proxy.rule("/feed.rss", moved_to="https://new.example/feed.rss", announce_as="xml")

    told = (await proxy.get("/feed.rss")).expect(200, cache="detail=moved")

    assert "xml" in (told.fields.get("content-type") or "")
    assert f"<newLocation>{proxy.stage.name}/https://new.example/feed.rss</newLocation>".encode() in told.body


async def test_moved_to_rule_in_reverse_mode_names_the_public_address(stage):
    proxy, origin, _ = await stage(upstream=UPSTREAM, public_url="https://feeds.example")
    proxy.rule("/feed.rss", moved_to=origin.url("/new.rss"), announce_as="xml")

    told = (await proxy.get("/feed.rss")).expect(200)

    assert b"<newLocation>https://feeds.example/new.rss</newLocation>" in told.body


async def test_gone_rule_answers_410(stage):
    proxy, origin, _ = await a_copy(stage)
    proxy.rule("/feed.rss", gone=True)

    assert (await proxy.get("/feed.rss")).expect(410).cache == "feedproxy; detail=gone"
    assert origin.requests == 1


async def test_gone_rule_answers_with_an_xml_document(stage):
    proxy, _, _ = await a_copy(stage)
    proxy.rule("/feed.rss", gone=True, announce_as="xml")

    told = (await proxy.get("/feed.rss")).expect(200, cache="detail=gone")

    assert b"<newLocation/>" in told.body or b"<newLocation></newLocation>" in told.body


async def test_gone_rule_has_no_effect_after_it_is_removed(stage):
    proxy, _, _ = await a_copy(stage)
    proxy.rule("/feed.rss", gone=True)
    await proxy.get("/feed.rss")

    proxy.rule("/feed.rss", gone=False)

    (await proxy.get("/feed.rss")).expect(200)


# -- other rules


async def test_bad_update_is_forwarded_if_on_bad_update_is_pass(stage):
    proxy, origin, _ = await a_copy(stage, on_bad_update="pass")
    origin.break_down(404)

    (await proxy.get("/feed.rss")).expect(404)


async def test_bad_update_in_another_format_is_accepted_if_on_bad_update_is_pass(stage):
    proxy, origin, _ = await a_copy(stage, on_bad_update="pass")
    broken = b"<rss version='2.0'><channel><title>still here"
    origin.publish("/feed.rss", broken, cache_control="max-age=60")

    (await proxy.get("/feed.rss")).expect(200, body=broken)


async def test_rule_applies_to_its_feeds_only(stage):
    proxy, origin, clock = await stage(site_interval=0)
    for path in ("/kept.rss", "/passed.rss"):
        origin.publish(path, a_feed("good"), cache_control="max-age=60")
        await proxy.get(path)
    proxy.rule("/passed.rss", on_bad_update="pass")
    clock.advance(minutes=10)
    origin.break_down(404)

    (await proxy.get("/passed.rss")).expect(404)
    (await proxy.get("/kept.rss")).expect(200, cache="detail=refused")


@pytest.mark.parametrize("fields", [{}, {"authorization": "Basic eDp5"}], ids=["without", "with credentials"])
async def test_paused_feed_is_not_fetched_even_if_http_forbids_its_stale_copy(stage, fields):
    proxy, origin, clock = await stage(site_interval=0)
    origin.publish("/feed.rss", a_feed(), cache_control="max-age=60, must-revalidate")
    await proxy.get("/feed.rss", **fields)
    asked = origin.requests
    proxy.rule("/feed.rss", **PAUSE)

    clock.advance(minutes=10)
    for _ in range(2):
        seen = (await proxy.get("/feed.rss", **fields)).expect(503, cache="detail=paused")
        assert seen.fields.get("retry-after") == "86400"
    proxy.rule("/feed.rss", feed_min_interval=60)

    assert origin.requests == asked
    (await proxy.get("/feed.rss", **fields)).expect(200)


async def test_paused_feed_is_not_fetched_after_its_copy_was_purged(stage):
    proxy, origin, _ = await stage(site_interval=0)
    origin.publish("/feed.rss", a_feed())
    await proxy.get("/feed.rss")
    proxy.rule("/feed.rss", **PAUSE)

    await proxy.service.admin.purge(origin.url("/feed.rss"))

    (await proxy.get("/feed.rss")).expect(503, cache="detail=paused")
    assert origin.requests == 1


async def test_feed_min_interval_rule_postpones_requests(stage):
    proxy, origin, clock = await stage(site_interval=0)
    for path in ("/slow.rss", "/other.rss"):
        origin.publish(path, a_feed(), cache_control="max-age=60")
        await proxy.get(path)
    proxy.rule("/slow.rss", feed_min_interval=3600)
    clock.advance(minutes=10)

    (await proxy.get("/slow.rss")).expect(200, cache="hit; detail=floor")
    (await proxy.get("/other.rss")).expect(200, cache="fwd=stale")


async def test_feed_usm_and_self_link_rules_leave_the_feed_unchanged(stage):
    proxy, origin, _ = await stage(site_interval=0)
    for path in ("/plain.rss", "/other.rss"):
        origin.publish(path, a_feed("x"), content_type="text/xml")
    proxy.rule("/plain.rss", feed_usm=False, self_link="off")

    plain = (await proxy.get("/plain.rss")).expect(200, body=a_feed("x"))
    other = (await proxy.get("/other.rss")).expect(200)

    assert plain.fields.get("content-type") == "text/xml"
    assert other.fields.get("content-type") == "application/rss+xml"
    assert origin.url("/other.rss").encode() in other.body


# -- what is remembered for the operator's page


async def test_version_records_have_time_size_and_item_count(stage):
    proxy, origin, clock = await stage()
    began, seen = clock.now(), []
    for titles in (("one",), ("two", "one"), ("three", "two", "one")):
        origin.publish("/feed.rss", a_feed(*titles), cache_control="max-age=600")
        seen.append((clock.now() - began, (await proxy.get("/feed.rss")).tag))
        clock.advance(minutes=11)
    await proxy.get("/feed.rss")  # a 304 is no version

    held = proxy.service.store.get(origin.url("/feed.rss"))

    assert [each.items for each in held.version_records] == [1, 2, 3]
    assert [each.at - began for each in held.version_records] == [at for at, _ in seen]
    assert held.version_records[-1].size == len(held.variants[-1].content.bodies["identity"])
    told = version_views(load(dump(held)))
    assert [each["new"] for each in told] == [1, 1, None]
    assert [each["changed"] for each in told] == [0, 0, None]


async def test_version_records_are_limited_to_the_latest(stage):
    proxy, origin, clock = await stage()
    for number in range(VERSION_RECORDS_MAX + 3):
        origin.publish("/feed.rss", a_feed(f"entry {number}"), cache_control="max-age=600")
        await proxy.get("/feed.rss")
        clock.advance(minutes=11)

    held = proxy.service.store.get(origin.url("/feed.rss"))

    assert len(held.version_records) == VERSION_RECORDS_MAX
    assert version_views(held)[-1]["new"] is None
    assert version_views(held)[0] == {
        **version_views(held)[0],
        "new": 1,
        "changed": 0,
        "gone": 1,
        "items": 1,
    }
