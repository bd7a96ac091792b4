"""Unsafe requests are forwarded and invalidate stored responses."""

import asyncio

import pytest

from feedproxy.http.message import Fields, Response
from feedproxy.request.context import Entrance
from tests.stages.origin import a_feed
from tests.stages.play import UPSTREAM
from tests.waiting import PATIENCE

PASSED = "fwd=method; detail=pass-through"


async def a_copy(door, *paths, **settings):
    """A door whose proxy holds these feeds, fresh for a day; their origin has a newer version of each."""
    proxy, origin, clock = await door(site_interval=0, feed_min_interval=0, **settings)
    for path in paths:
        origin.publish(path, a_feed("old"), cache_control="max-age=86400")
        (await proxy.get(path)).expect(200, cache="stored")
        origin.publish(path, a_feed("new"), cache_control="max-age=86400")
    return proxy, origin, clock


def says(status: int, **fields: str):
    lines = Fields((name.replace("_", "-").title(), value) for name, value in fields.items())
    return lambda _: Response(status, lines, b"" if status in (204, 304) else b"done")


async def is_asked_anew(proxy, path: str) -> bool:
    seen = (await proxy.get(path)).expect(200)
    assert (b"new" in seen.body) != ("hit" in seen.cache)
    return b"new" in seen.body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "MKCOL"])
async def test_invalidation_by_unsafe_method_marks_the_target(door, method):
    proxy, origin, _ = await a_copy(door, "/feed.rss")
    origin.methods[method] = says(200)

    (await proxy.send(method, "/feed.rss", body=b"x=1")).expect(200, cache=PASSED, body=b"done")

    assert await is_asked_anew(proxy, "/feed.rss")


@pytest.mark.parametrize("method", ["OPTIONS", "PROPFIND", "REPORT", "SEARCH"])
async def test_invalidation_is_not_caused_by_safe_methods(door, method):
    proxy, origin, _ = await a_copy(door, "/feed.rss")
    origin.methods[method] = says(200)

    (await proxy.send(method, "/feed.rss")).expect(200, cache=PASSED)

    assert not await is_asked_anew(proxy, "/feed.rss")


@pytest.mark.parametrize("status", [200, 201, 204, 303])
async def test_invalidation_follows_every_success_and_redirect(door, status):
    proxy, origin, _ = await a_copy(door, "/feed.rss")
    origin.methods["POST"] = says(status, location="/elsewhere")

    (await proxy.send("POST", "/feed.rss")).expect(status)

    assert await is_asked_anew(proxy, "/feed.rss")


@pytest.mark.parametrize("status", [400, 403, 404, 500, 503])
async def test_invalidation_is_not_caused_by_failed_requests(door, status):
    proxy, origin, _ = await a_copy(door, "/feed.rss")
    origin.methods["POST"] = says(status)

    (await proxy.send("POST", "/feed.rss")).expect(status)

    assert not await is_asked_anew(proxy, "/feed.rss")


@pytest.mark.parametrize("name", ["location", "content_location"])
async def test_invalidation_includes_location_and_content_location_of_the_same_origin(door, name):
    proxy, origin, _ = await a_copy(door, "/feed.rss", "/other.rss")
    origin.methods["POST"] = says(201, **{name: "/feed.rss"})

    (await proxy.send("POST", "/entries")).expect(201)

    assert await is_asked_anew(proxy, "/feed.rss")
    assert not await is_asked_anew(proxy, "/other.rss")


async def test_invalidation_excludes_locations_of_other_origins(door):
    """Else anybody could have anybody's copies thrown away."""
    proxy, origin, _ = await a_copy(door, "/feed.rss")
    here = origin.url("/feed.rss")
    # The same machine by another name is another origin.
    elsewhere = here.replace("127.0.0.1", "localhost")
    origin.publish("/feed.rss", a_feed("old"), cache_control="max-age=86400")
    (await proxy.ask("/" + elsewhere)).expect(200, cache="stored")
    origin.methods["POST"] = says(201, location=elsewhere)

    await proxy.send("POST", "/entries")

    (await proxy.ask("/" + elsewhere)).expect(200, cache="hit")


async def test_invalidated_copy_may_be_confirmed_with_304(door):
    proxy, origin, _ = await door(site_interval=0, feed_min_interval=0)
    origin.publish("/feed.rss", a_feed("same"), cache_control="max-age=86400")
    await proxy.get("/feed.rss")
    origin.methods["POST"] = says(200)
    await proxy.send("POST", "/feed.rss")

    (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale; fwd-status=304; stored")
    (await proxy.get("/feed.rss")).expect(200, cache="hit")


async def test_invalidated_copy_is_not_confirmed_by_head_without_validators(door):
    proxy, origin, _ = await door()
    origin.publish("/page", b"old", content_type="text/html", cache_control="max-age=60", validators=False)
    await proxy.get("/page")
    origin.methods["POST"] = says(204)
    await proxy.send("POST", "/page")
    origin.publish("/page", b"new", content_type="text/html", cache_control="max-age=60", validators=False)

    (await proxy.head("/page")).expect(200, cache="fwd=stale")

    (await proxy.get("/page")).expect(200, cache="fwd=stale; stored", body=b"new")


async def test_invalidated_copy_does_not_replace_a_failure(door):
    proxy, origin, _ = await a_copy(door, "/feed.rss")
    origin.methods["POST"] = says(200)
    await proxy.send("POST", "/feed.rss")
    origin.break_down(503)

    (await proxy.get("/feed.rss")).expect(503)


async def test_invalidated_copy_is_fetched_despite_the_floor(door):
    proxy, origin, clock = await door(site_interval=0)
    origin.publish("/feed.rss", a_feed("old"), cache_control="max-age=86400")
    await proxy.get("/feed.rss")
    clock.advance(seconds=5)
    origin.publish("/feed.rss", a_feed("new"), cache_control="max-age=86400")
    origin.methods["PUT"] = says(204)
    (await proxy.send("PUT", "/feed.rss", body=b"<rss/>")).expect(204)

    assert await is_asked_anew(proxy, "/feed.rss")


async def test_invalidation_includes_every_variant(door):
    proxy, origin, _ = await door(site_interval=0, feed_min_interval=0)
    origin.publish("/feed.rss", a_feed("old"), cache_control="max-age=86400", vary="Accept-Language")
    for language in ("de", "en"):
        await proxy.get("/feed.rss", accept_language=language)
    origin.publish("/feed.rss", a_feed("new"), cache_control="max-age=86400", vary="Accept-Language")
    origin.methods["POST"] = says(200)

    await proxy.send("POST", "/feed.rss")

    for language in ("de", "en"):
        assert b"new" in (await proxy.get("/feed.rss", accept_language=language)).body


@pytest.mark.parametrize("entrance", [Entrance.GATEWAY, Entrance.PROXY])
async def test_forwarded_post_keeps_content_and_end_to_end_fields(door, entrance):
    proxy, origin, _ = await door()
    origin.methods["POST"] = lambda request: Response(
        201, Fields([("X-Was", request.fields.get("x-is") or ""), ("Connection", "x-hop"), ("X-Hop", "1")]), b"made"
    )

    seen = await proxy.send("POST", "/form", entrance=entrance, body=b"x" * 100_000, x_is="this", content_type="a/b")

    seen.expect(201, cache=PASSED, body=b"made")
    assert seen.fields.get("x-was") == "this"
    assert "x-hop" not in seen.fields
    assert origin.heard.get("content-type") == "a/b"
    assert proxy.service.via in (origin.heard.get("via") or "")


async def test_invalidation_in_reverse_mode_follows_a_post_of_the_publisher(door):
    proxy, origin, _ = await a_copy(door, "/feed.rss", upstream=UPSTREAM)
    origin.methods["POST"] = says(200)

    (await proxy.send("POST", "/feed.rss")).expect(200)

    assert await is_asked_anew(proxy, "/feed.rss")


async def test_forwarded_post_to_an_unreachable_origin_gets_an_error_page_of_the_proxy(door):
    proxy, origin, _ = await door()
    origin.break_down()

    seen = await proxy.send("POST", "/form", body=b"x", accept="text/html")

    assert seen.status == 502
    assert b"mitmproxy" not in seen.body


async def test_get_with_content_is_forwarded_and_not_stored(door):
    """Its answer may depend on that content, which no cache compares (RFC 9110, section 9.3.1)."""
    proxy, _origin, _ = await a_copy(door, "/feed.rss")

    seen = (await proxy.send("GET", "/feed.rss", body=b"which one?")).expect(200, cache="fwd=bypass")

    assert b"new" in seen.body
    assert b"old" in (await proxy.get("/feed.rss")).expect(200, cache="hit").body


async def test_collapsing_ignores_refresh_started_before_invalidation(door):
    proxy, origin, clock = await door(site_interval=0, feed_min_interval=0)
    origin.publish("/feed.rss", a_feed("old"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    clock.advance(minutes=2)
    origin.gate = gate = asyncio.Event()
    before = asyncio.ensure_future(proxy.get("/feed.rss"))
    await origin.asked(2)
    origin.gate = None
    origin.methods["PUT"] = says(204)
    await proxy.send("PUT", "/feed.rss", body=b"<rss/>")
    origin.publish("/feed.rss", a_feed("new"), cache_control="max-age=60")

    after = asyncio.ensure_future(proxy.get("/feed.rss"))
    await asyncio.wait_for(origin.asked(4), PATIENCE)
    gate.set()
    await before

    assert b"new" in (await after).expect(200).body
    await proxy.settled()
    assert b"new" in (await proxy.get("/feed.rss")).body
