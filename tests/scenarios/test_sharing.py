"""One copy serves many readers."""

import asyncio

from tests.stages.origin import a_feed
from tests.stages.play import UPSTREAM


async def test_a_second_reader_within_the_ttl_costs_the_origin_nothing(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed(ttl=60))

    (await proxy.get("/feed.rss")).expect(200, cache="fwd=uri-miss; stored")
    clock.advance(minutes=59)

    (await proxy.get("/feed.rss")).expect(200, cache="hit", age=59 * 60)
    assert origin.requests == 1


async def test_two_hundred_readers_at_once_cost_the_origin_one_request(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed("one"))
    origin.gate = asyncio.Event()

    readers = [asyncio.ensure_future(proxy.get("/feed.rss")) for _ in range(200)]
    await origin.asked()
    origin.gate.set()
    seen = await asyncio.gather(*readers)

    assert {each.status for each in seen} == {200}
    assert origin.requests == 1


async def test_a_reader_that_has_the_current_copy_gets_304_in_every_coding(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed(*map(str, range(40))), validators=False)
    plain = await proxy.get("/feed.rss")
    packed = await proxy.get("/feed.rss", accept_encoding="gzip")

    assert plain.tag != packed.tag
    for tag in (plain.tag, packed.tag, f"W/{packed.tag}", packed.tag.strip('"')):
        (await proxy.get("/feed.rss", if_none_match=tag)).expect(304, body=b"")
    assert origin.requests == 1


async def test_a_stale_copy_is_confirmed_by_the_origin_without_its_content(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed(), cache_control="max-age=600")
    await proxy.get("/feed.rss")
    clock.advance(minutes=11)

    (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale; fwd-status=304; stored", age=0)

    assert "if-none-match" in origin.log[-1].fields


async def test_the_origin_hears_how_many_read(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed(), cache_control="max-age=600")
    await proxy.get("/feed.rss", user_agent="Feedly/1.0 (+http://www.feedly.com/fetcher.html; 41 subscribers)")
    await proxy.get("/feed.rss", user_agent="NetNewsWire (RSS Reader; https://netnewswire.com/)")
    clock.advance(minutes=11)

    await proxy.get("/feed.rss", user_agent="NetNewsWire (RSS Reader; https://netnewswire.com/)")

    assert "42 subscribers" in (origin.log[-1].fields.get("user-agent") or "")


async def test_who_comes_while_a_copy_is_renewed_waits_for_the_new_one(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("old", ttl=60))
    await proxy.get("/feed.rss")
    clock.advance(minutes=61)
    origin.publish("/feed.rss", a_feed("new", ttl=60))
    origin.gate = asyncio.Event()

    first = asyncio.ensure_future(proxy.get("/feed.rss"))
    await origin.asked(2)
    second = asyncio.ensure_future(proxy.get("/feed.rss"))
    await asyncio.wait([second], timeout=0.05)
    origin.gate.set()

    for seen in await asyncio.gather(first, second):
        assert b"new" in seen.expect(200).body
    assert origin.requests == 2


async def test_a_pages_cookie_for_everybody_is_everybodys_and_a_feeds_is_not(stage):
    proxy, origin, _ = await stage(upstream=UPSTREAM)
    said = {"set_cookie": "language=en", "cache_control": "public, max-age=600"}
    origin.publish("/page", b"<html></html>", content_type="text/html", **said)
    origin.publish("/feed.rss", a_feed(), **said)

    for path in ("/page", "/feed.rss"):
        assert (await proxy.get(path)).expect(200, cache="stored").fields.get("set-cookie") == "language=en"

    assert (await proxy.get("/page")).expect(200, cache="hit").fields.get_all("set-cookie") == ["language=en"]
    assert "set-cookie" not in (await proxy.get("/feed.rss")).expect(200, cache="hit").fields


async def test_a_pages_cookie_for_one_who_was_known_is_his_alone(stage):
    proxy, origin, _ = await stage(upstream=UPSTREAM)
    origin.publish("/page", b"<html></html>", content_type="text/html", set_cookie="s=1", cache_control="max-age=600")

    first = await proxy.get("/page", cookie="s=0")
    second = (await proxy.get("/page", cookie="s=0")).expect(200, cache="hit")
    (await proxy.get("/page")).expect(200, cache="stored")

    assert first.fields.get_all("set-cookie") == ["s=1"]
    assert "set-cookie" not in second.fields
