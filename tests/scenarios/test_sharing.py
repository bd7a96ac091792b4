"""One copy serves many readers."""

import asyncio

import pytest

from tests.stages.origin import a_feed
from tests.stages.play import UPSTREAM


async def test_fresh_ttl_copy_is_reused_without_contacting_the_origin(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed(ttl=60))

    (await proxy.get("/feed.rss")).expect(200, cache="fwd=uri-miss; stored")
    clock.advance(minutes=59)

    (await proxy.get("/feed.rss")).expect(200, cache="hit", age=59 * 60)
    assert origin.requests == 1


async def test_fresh_copy_with_a_current_etag_in_any_coding_gets_304(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed(*map(str, range(40))), validators=False)
    plain = await proxy.get("/feed.rss")
    packed = await proxy.get("/feed.rss", accept_encoding="gzip")

    assert plain.tag != packed.tag
    for tag in (plain.tag, packed.tag, f"W/{packed.tag}", packed.tag.strip('"')):
        (await proxy.get("/feed.rss", if_none_match=tag)).expect(304, body=b"")
    assert origin.requests == 1


async def test_stale_copy_is_validated_and_freshened_by_a_304(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed(), cache_control="max-age=600")
    await proxy.get("/feed.rss")
    clock.advance(minutes=11)

    (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale; fwd-status=304; stored", age=0)

    assert "if-none-match" in origin.log[-1].fields


async def test_subscriber_count_is_sent_to_the_origin(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed(), cache_control="max-age=600")
    await proxy.get("/feed.rss", user_agent="Feedly/1.0 (+http://www.feedly.com/fetcher.html; 41 subscribers)")
    await proxy.get("/feed.rss", user_agent="NetNewsWire (RSS Reader; https://netnewswire.com/)")
    clock.advance(minutes=11)

    await proxy.get("/feed.rss", user_agent="NetNewsWire (RSS Reader; https://netnewswire.com/)")

    assert "42 subscribers" in (origin.log[-1].fields.get("user-agent") or "")


async def test_collapsed_request_waits_for_the_new_version(stage):
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


async def test_set_cookie_of_a_public_page_is_stored_and_that_of_a_feed_is_not(stage):
    proxy, origin, _ = await stage(upstream=UPSTREAM)
    said = {"set_cookie": "language=en", "cache_control": "public, max-age=600"}
    origin.publish("/page", b"<html></html>", content_type="text/html", **said)
    origin.publish("/feed.rss", a_feed(), **said)

    for path in ("/page", "/feed.rss"):
        assert (await proxy.get(path)).expect(200, cache="stored").fields.get("set-cookie") == "language=en"

    assert (await proxy.get("/page")).expect(200, cache="hit").fields.get_all("set-cookie") == ["language=en"]
    assert "set-cookie" not in (await proxy.get("/feed.rss")).expect(200, cache="hit").fields


async def test_set_cookie_for_a_request_with_a_cookie_is_not_stored(stage):
    proxy, origin, _ = await stage(upstream=UPSTREAM)
    origin.publish("/page", b"<html></html>", content_type="text/html", set_cookie="s=1", cache_control="max-age=600")

    first = await proxy.get("/page", cookie="s=0")
    second = (await proxy.get("/page", cookie="s=0")).expect(200, cache="hit")
    (await proxy.get("/page")).expect(200, cache="stored")

    assert first.fields.get_all("set-cookie") == ["s=1"]
    assert "set-cookie" not in second.fields


@pytest.mark.parametrize(
    "fields", [{"x_odd": "1", "accept": "text/plain"}, {"authorization": "Basic eDp5"}], ids=["field", "credentials"]
)
async def test_stale_keyed_response_answers_while_the_origin_asks_for_a_pause(stage, fields):
    """The pause is that of the shared copy, and no shared copy is stored."""
    proxy, origin, clock = await stage()
    origin.publish("/page", b"mine", content_type="text/plain", cache_control="public, max-age=60, stale-if-error=9999")
    await proxy.get("/page", **fields)
    origin.publish("/page", b"", status=503, content_type="text/plain", retry_after="3600")
    (await proxy.get("/page")).expect(503)
    clock.advance(minutes=5)

    (await proxy.get("/page", **fields)).expect(200, body=b"mine")


async def test_content_of_a_205_is_removed(stage):
    """A client that reads no content of a 205 would take it for the next response."""
    proxy, origin, _ = await stage()
    origin.publish("/form", b"HTTP/1.1 200 OK", status=205, content_type="text/plain", cache_control="max-age=60")

    for _ in range(2):
        seen = (await proxy.get("/form")).expect(205, body=b"")
        assert seen.fields.get("content-length") == "0"
