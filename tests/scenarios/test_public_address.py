"""In reverse mode a feed has a public address, which clients use, and one at the upstream. Operators use both."""

import asyncio

import pytest

from feedproxy.http.message import Fields, Response
from feedproxy.request.context import Entrance
from feedproxy.upstream.upstream_errors import Unreachable
from tests.stages.origin import a_feed
from tests.stages.play import UPSTREAM
from tests.waiting import PATIENCE

PUBLIC = "https://feeds.example"
FORMS = ["upstream", "public"]
HTML = {"accept": "text/html"}


async def a_publisher(stage, **settings):
    """A proxy in front of an origin whose feed it holds."""
    proxy, origin, clock = await stage(upstream=UPSTREAM, public_url=PUBLIC + "/", **settings)
    origin.publish("/feed.rss", a_feed("old"), cache_control="max-age=600")
    await proxy.get("/feed.rss")
    clock.advance(minutes=5)
    return proxy, origin, clock


def address(form, origin, path):
    return origin.url(path) if form == "upstream" else PUBLIC + path


# -- rules


@pytest.mark.parametrize("form", FORMS)
async def test_rule_matches_a_feed_by_either_address(stage, form):
    proxy, origin, _ = await a_publisher(stage)
    proxy.rule(address(form, origin, "/feed.rss"), gone=True)

    (await proxy.get("/feed.rss")).expect(410)
    (await proxy.get("/other.rss")).expect(404)


@pytest.mark.parametrize("form", FORMS)
async def test_moved_to_rule_accepts_either_address(stage, form):
    proxy, origin, _ = await a_publisher(stage)
    proxy.rule(PUBLIC + "/old.rss", moved_to=address(form, origin, "/feed.rss"))

    assert (await proxy.get("/old.rss")).expect(301).location == PUBLIC + "/feed.rss"


@pytest.mark.parametrize("form", FORMS)
async def test_moved_to_rule_for_the_site_does_not_redirect_the_new_address(stage, form):
    proxy, origin, _ = await a_publisher(stage)
    proxy.rule(PUBLIC + "/*", moved_to=address(form, origin, "/feed.rss"))

    (await proxy.get("/feed.rss")).expect(200)
    (await proxy.get("/old.rss")).expect(301)


# -- deeds


@pytest.mark.parametrize("form", FORMS)
async def test_refresh_accepts_either_address(stage, form):
    proxy, origin, _ = await a_publisher(stage)
    origin.publish("/feed.rss", a_feed("new"), cache_control="max-age=600")

    done = await proxy.service.admin.refresh(address(form, origin, "/feed.rss"))

    assert (done.target, done.outcome) == (origin.url("/feed.rss"), "updated")
    assert b"new" in (await proxy.get("/feed.rss")).expect(200, cache="hit").body


@pytest.mark.parametrize("form", FORMS)
async def test_purge_accepts_either_address(stage, form):
    proxy, origin, _ = await a_publisher(stage)

    assert await proxy.service.admin.purge(address(form, origin, "/feed.rss")) == [origin.url("/feed.rss")]
    (await proxy.get("/feed.rss")).expect(200, cache="fwd=uri-miss")


@pytest.mark.parametrize("form", FORMS)
async def test_purge_by_pattern_accepts_either_address(stage, form):
    proxy, origin, _ = await a_publisher(stage)

    assert await proxy.service.admin.purge(pattern=address(form, origin, "/f*")) == [origin.url("/feed.rss")]
    assert await proxy.service.admin.purge(pattern=address(form, origin, "/f*")) == []


@pytest.mark.parametrize("form", FORMS)
async def test_cleared_ending_accepts_either_address(stage, form):
    proxy, origin, _ = await a_publisher(stage)
    origin.publish("/ended.rss", b"<redirect><newLocation/></redirect>", content_type="application/xml")
    (await proxy.get("/ended.rss")).expect(410)

    assert await proxy.service.admin.clear_relocation(address(form, origin, "/ended.rss"))


# -- what readers see


@pytest.mark.parametrize("how", [{}, HTML], ids=["problem", "page"])
async def test_error_page_and_move_in_reverse_mode_do_not_reveal_the_upstream(stage, how):
    proxy, origin, clock = await a_publisher(stage)
    proxy.rule("/old.rss", moved_to=origin.url("/feed.rss"))
    proxy.rule("/ended.rss", gone=True)
    origin.publish("/elsewhere.rss", b"", status=301, location=origin.url("/elsewhere.rss?again"))
    hidden = origin.base.removeprefix("http://").encode()

    told = [
        (await proxy.get("/old.rss", **how)).expect(301),
        (await proxy.get("/ended.rss", **how)).expect(410),
        (await proxy.get("/none.rss", cache_control="only-if-cached", **how)).expect(504),
    ]
    origin.break_down(Unreachable(f"{origin.base} cannot be reached"))
    told.append((await proxy.get("/unheard.rss", **how)).expect(502))
    clock.advance(minutes=1)
    told.append(await proxy.get("/unheard.rss", **how))

    for seen in told:
        assert hidden not in seen.body
        assert b"127.0.0.1" not in seen.body
    assert f"has moved to {PUBLIC}/feed.rss".encode() in told[0].body
    assert f"{PUBLIC}/old.rss".encode() in told[0].body
    assert f"{PUBLIC}/ended.rss".encode() in told[1].body


async def test_moved_to_rule_sends_a_page_that_says_so(stage):
    proxy, origin, _ = await stage()
    proxy.rule("/old.rss", moved_to=origin.url("/feed.rss"))

    assert b"This feed has moved" in (await proxy.get("/old.rss", **HTML)).expect(301).body


async def test_gone_page_at_the_gateway_names_the_target(stage):
    proxy, origin, _ = await stage()
    proxy.rule("/ended.rss", gone=True)

    assert origin.url("/ended.rss").encode() in (await proxy.get("/ended.rss")).expect(410).body


async def test_gone_page_in_reverse_mode_without_public_url_names_the_requested_address(stage):
    proxy, _, _ = await stage(upstream=UPSTREAM)
    proxy.rule("/ended.rss", gone=True)

    assert f"{proxy.stage.name}/ended.rss".encode() in (await proxy.get("/ended.rss")).expect(410).body


async def test_forwarded_post_that_fails_in_reverse_mode_does_not_reveal_the_upstream(door):
    proxy, origin, _ = await door(upstream=UPSTREAM, public_url=PUBLIC)
    origin.methods["POST"] = lambda _: Response(200, Fields(), b"done")
    origin.break_down(Unreachable("no route"))

    told = await proxy.send("POST", "/form")

    assert told.status >= 500
    assert origin.base.encode() not in told.body


async def test_public_url_and_upstream_may_have_paths(stage):
    proxy, _, _ = await stage(upstream="http://127.0.0.1:1/blog", public_url=PUBLIC + "/news/")
    assert proxy.service.admin.to_upstream_url(PUBLIC + "/news/feed.rss") == "http://127.0.0.1:1/blog/feed.rss"
    assert proxy.service.admin.to_upstream_url(PUBLIC + "/feed.rss") == PUBLIC + "/feed.rss"


# -- what was promised, and what is left of it


@pytest.mark.parametrize("by", ["target", "pattern"])
async def test_postponed_refresh_is_cancelled_by_a_purge(stage, by):
    proxy, origin, clock = await a_publisher(stage, feed_min_interval=600)
    assert (await proxy.service.admin.refresh(origin.url("/feed.rss"))).outcome == "later"

    await asyncio.sleep(0)
    if by == "target":
        await proxy.service.admin.purge(PUBLIC + "/feed.rss")
    else:
        await proxy.service.admin.purge(pattern=PUBLIC + "/*")
    clock.advance(hours=1)
    for _ in range(20):
        await asyncio.sleep(0)
    await proxy.settled()

    assert origin.requests == 1
    assert proxy.service.store.get(origin.url("/feed.rss")) is None


async def test_postponed_refresh_is_kept_after_invalidation(door):
    proxy, origin, clock = await a_publisher(door, feed_min_interval=600)
    origin.methods["POST"] = lambda _: Response(204, Fields())
    assert (await proxy.service.admin.refresh(origin.url("/feed.rss"))).outcome == "later"

    (await proxy.send("POST", "/feed.rss")).expect(204)
    await asyncio.sleep(0)
    clock.advance(minutes=6)

    await asyncio.wait_for(origin.asked(3), PATIENCE)


# -- what the operator sees


async def test_log_in_reverse_mode_names_the_public_address(door, caplog):
    caplog.set_level("INFO", "feedproxy.access")
    proxy, origin, _ = await door(upstream=UPSTREAM, public_url=PUBLIC, log_format="text")
    origin.publish("/feed.rss", a_feed())

    await proxy.get("/feed.rss")

    assert [line for line in caplog.messages if f"reverse GET {PUBLIC}/feed.rss 200" in line]


@pytest.mark.parametrize("linked", [True, False])
async def test_self_link_without_public_url_never_names_the_upstream_and_is_kept_if_present(stage, linked):
    proxy, origin, _ = await stage(upstream=UPSTREAM)
    link = '<atom:link rel="self" href="https://www.example.com/feed" xmlns:atom="http://www.w3.org/2005/Atom"/>'
    origin.publish("/feed", a_feed("one", extra=link if linked else ""))

    seen = (await proxy.get("/feed", entrance=Entrance.REVERSE)).expect(200)

    assert (b'rel="self" href="https://www.example.com/feed"' in seen.plain) == linked
    assert origin.base.encode() not in seen.plain
