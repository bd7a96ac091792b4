"""Counting of readers, and the number that origins receive."""

import re

import pytest

from feedproxy.request.context import Entrance
from tests.stages.origin import Origin, a_feed

FEEDLY = "Feedly/1.0 (+http://www.feedly.com/fetcher.html; {} subscribers; like FeedFetcher-Google)"
NEWSBLUR = "NewsBlur Feed Fetcher - {} subscribers - http://www.newsblur.com/site/1/x"
FEED_ID = re.compile(r"feed-id=([0-9a-f]+)")


def told(origin: Origin) -> str:
    """The subscriber count in the User-Agent of the proxy: `2 subscribers`, or nothing."""
    found = re.search(r"\d+ subscribers?", origin.heard.get("user-agent") or "")
    return found[0] if found else ""


def feed_id(origin: Origin) -> str:
    found = FEED_ID.search(origin.heard.get("user-agent") or "")
    assert found is not None, origin.heard
    return found[1]


async def a_feed_read_by(stage, *agents: str, **settings):
    """A stage with a stale copy of a feed that each of these agents has requested."""
    proxy, origin, clock = await stage(**settings)
    origin.publish("/feed.rss", a_feed(), cache_control="max-age=600")
    for agent in agents:
        await proxy.get("/feed.rss", user_agent=agent)
    clock.advance(minutes=11)
    return proxy, origin, clock


async def test_subscriber_count_includes_the_first_reader_in_its_own_request(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed())

    await proxy.get("/feed.rss", user_agent="reader/1")

    assert told(origin) == "1 subscriber"
    assert (origin.heard.get("user-agent") or "").startswith("feedproxy/")


async def test_subscriber_count_has_each_reader_once(stage):
    proxy, origin, _ = await a_feed_read_by(stage, "reader/1", "reader/1", "reader/1")

    await proxy.get("/feed.rss", user_agent="reader/1")

    assert told(origin) == "1 subscriber"


async def test_subscriber_count_distinguishes_readers_by_user_agent(stage):
    proxy, origin, _ = await a_feed_read_by(stage, "reader/1", "other/2")

    await proxy.get("/feed.rss", user_agent="third/3")

    assert told(origin) == "3 subscribers"


async def test_subscriber_count_distinguishes_readers_by_address(door):
    proxy, origin, clock = await door(trusted_proxies=("127.0.0.1", "192.0.2.1"))
    origin.publish("/feed.rss", a_feed(), cache_control="max-age=600")
    for address in ("203.0.113.1", "203.0.113.2", "203.0.113.1"):
        await proxy.get("/feed.rss", user_agent="reader/1", x_forwarded_for=address)
    clock.advance(minutes=11)

    await proxy.get("/feed.rss", user_agent="reader/1", x_forwarded_for="203.0.113.1")

    assert told(origin) == "2 subscribers"


async def test_subscriber_count_adds_claims_of_services_and_not_the_services(stage):
    proxy, origin, _ = await a_feed_read_by(stage, FEEDLY.format(40), NEWSBLUR.format(7), "reader/1")

    await proxy.get("/feed.rss", user_agent="reader/1")

    assert told(origin) == "48 subscribers"


async def test_subscriber_count_uses_the_largest_claim_of_a_service(stage):
    proxy, origin, _ = await a_feed_read_by(stage, FEEDLY.format(40), FEEDLY.format(12), FEEDLY.format(40))

    await proxy.get("/feed.rss", user_agent=FEEDLY.format(12))

    assert told(origin) == "40 subscribers"


async def test_subscriber_claim_that_jumps_is_accepted_after_a_second_sighting(stage):
    proxy, origin, clock = await a_feed_read_by(stage, FEEDLY.format(5))
    await proxy.get("/feed.rss", user_agent=FEEDLY.format(500_000))
    assert told(origin) == "5 subscribers"
    clock.advance(minutes=61)
    await proxy.get("/feed.rss", user_agent=FEEDLY.format(500_000))

    assert told(origin) == "500000 subscribers"


async def test_subscriber_claim_is_limited_by_claim_max(stage):
    proxy, origin, _ = await stage(claim_max=1000)
    origin.publish("/feed.rss", a_feed())

    await proxy.get("/feed.rss", user_agent=FEEDLY.format(999_999_999))

    assert told(origin) == "1000 subscribers"


async def test_subscriber_count_omits_readers_outside_the_window(stage):
    proxy, origin, clock = await a_feed_read_by(stage, "reader/1", "other/2", FEEDLY.format(40))
    clock.advance(hours=24)

    await proxy.get("/feed.rss", user_agent="reader/1")

    assert told(origin) == "1 subscriber"


async def test_subscriber_count_includes_hits(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed(ttl=1440), cache_control="max-age=86400")
    await proxy.get("/feed.rss", user_agent="reader/1")
    for number in range(4):
        clock.advance(hours=5)
        (await proxy.get("/feed.rss", user_agent=f"other/{number}")).expect(200, cache="hit")
    clock.advance(hours=5)  # the first reader has left the window, the others have not

    await proxy.get("/feed.rss", user_agent="last/1")

    assert told(origin) == "5 subscribers"


@pytest.mark.parametrize("entrance", [Entrance.GATEWAY, Entrance.PROXY])
async def test_subscriber_count_includes_readers_of_both_entrances(stage, entrance):
    proxy, origin, clock = await a_feed_read_by(stage, "reader/1")
    await proxy.send("GET", "/feed.rss", entrance=entrance, user_agent="other/2")
    clock.advance(minutes=11)

    await proxy.send("GET", "/feed.rss", entrance=entrance, user_agent="other/2")

    assert told(origin) == "2 subscribers"


async def test_subscriber_count_in_explicit_proxy_includes_the_first_reader_of_a_new_feed(stage):
    proxy, origin, clock = await stage()
    proxy.entrance = Entrance.PROXY
    origin.publish("/feed.rss", a_feed(), cache_control="max-age=600")

    await proxy.get("/feed.rss", user_agent="reader/1")
    assert origin.heard.get("user-agent") == "reader/1"  # nobody knew that it is a feed
    clock.advance(minutes=11)
    await proxy.get("/feed.rss", user_agent="other/2")

    assert told(origin) == "2 subscribers"


async def test_user_agent_for_a_page_in_explicit_proxy_is_forwarded(stage):
    proxy, origin, clock = await stage()
    proxy.entrance = Entrance.PROXY
    origin.publish("/page", b"<html></html>", content_type="text/html")

    for _ in range(2):
        await proxy.get("/page", user_agent="Mozilla/5.0")
        assert origin.heard.get("user-agent") == "Mozilla/5.0"
        clock.advance(hours=1)


async def test_feed_id_is_stable_and_unique_to_a_feed(stage):
    proxy, origin, clock = await stage(site_interval=0)
    origin.publish("/a.rss", a_feed("a"), cache_control="max-age=600")
    origin.publish("/b.rss", a_feed("b"), cache_control="max-age=600")

    await proxy.get("/a.rss")
    first = feed_id(origin)
    await proxy.get("/b.rss")
    other = feed_id(origin)
    clock.advance(hours=30)
    await proxy.send("GET", "/a.rss", entrance=Entrance.PROXY)

    assert feed_id(origin) == first
    assert other != first


async def test_subscriber_count_is_sent_with_a_refresh_and_unchanged_by_it(stage):
    proxy, origin, _clock = await a_feed_read_by(stage, "reader/1", "other/2")

    await proxy.service.admin.refresh(origin.url("/feed.rss"))

    assert told(origin) == "2 subscribers"


async def test_subscriber_count_is_absent_without_readers(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed())

    await proxy.service.admin.refresh(origin.url("/feed.rss"))

    assert told(origin) == ""


async def test_subscriber_count_of_another_feedproxy_is_forwarded(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed())

    await proxy.get("/feed.rss", user_agent="feedproxy/1.0 (+http://office.example/; 17 subscribers; feed-id=abcdef)")

    assert told(origin) == "17 subscribers"


async def test_reader_address_is_not_sent_to_the_origin(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed())

    await proxy.get("/feed.rss", forwarded="for=203.0.113.1", x_real_ip="203.0.113.1", x_forwarded_for="203.0.113.1")

    assert not [value for _, value in origin.heard if "203.0.113.1" in value or "192.0.2.1" in value]


async def test_subscriber_count_in_reverse_mode_includes_the_first_reader(stage):
    proxy, origin, clock = await stage(upstream="the origin")
    origin.publish("/feed.rss", a_feed(), cache_control="max-age=600")

    await proxy.get("/feed.rss", user_agent=FEEDLY.format(40))
    assert told(origin) == "40 subscribers"
    clock.advance(minutes=11)
    await proxy.get("/feed.rss", user_agent="reader/1")

    assert told(origin) == "41 subscribers"


@pytest.mark.parametrize("entrance", [Entrance.GATEWAY, Entrance.PROXY])
async def test_subscriber_count_is_kept_for_feeds_only(stage, entrance):
    proxy, origin, _ = await a_feed_read_by(stage, "reader/1")
    origin.publish("/page", b"<html></html>", content_type="text/html")
    for path in ("/page", "/made-up/1", "/made-up/2"):
        await proxy.send("GET", path, entrance=entrance, user_agent="other/2")

    assert proxy.service.counts.targets() == [origin.url("/feed.rss")]


async def test_subscriber_count_is_kept_after_a_purge(stage):
    proxy, origin, _ = await a_feed_read_by(stage, "reader/1", "other/2")
    assert await proxy.service.admin.purge(origin.url("/feed.rss"))

    await proxy.get("/feed.rss", user_agent="third/3")

    assert told(origin) == "3 subscribers"
