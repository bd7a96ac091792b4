"""The lifetime of a copy: HTTP's directives, feed hints and limits."""

import pytest

from feedproxy.http.date import format_http_date
from feedproxy.request.feed_id import surrogate_key
from tests.stages.origin import a_feed
from tests.stages.play import UPSTREAM


async def test_skip_hours_hold_the_copy_without_contacting_the_origin(stage):
    proxy, origin, clock = await stage()
    skipped = "<skipHours><hour>13</hour><hour>14</hour></skipHours>"
    origin.publish("/feed.rss", a_feed(extra=skipped), cache_control="max-age=600")
    await proxy.get("/feed.rss")  # at noon
    clock.advance(hours=1, minutes=30)

    (await proxy.get("/feed.rss")).expect(200, cache="hit; detail=skip-hours", age=5400)
    assert origin.requests == 1

    clock.advance(hours=1, minutes=31)
    (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale")


async def test_held_copy_is_labelled_stale_with_its_reason(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed(ttl=60), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    clock.advance(minutes=30)

    (await proxy.get("/feed.rss")).expect(200, cache="hit; ttl=-1740; detail=ttl-hint", age=1800)


async def test_must_revalidate_prevents_holding(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed(ttl=60), cache_control="max-age=60, must-revalidate")
    await proxy.get("/feed.rss")
    clock.advance(minutes=30)

    (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale; fwd-status=304")


async def test_heuristic_hints_apply_only_without_explicit_freshness(stage):
    proxy, origin, clock = await stage(feed_hints="heuristic")
    origin.publish("/said.rss", a_feed(ttl=60), cache_control="max-age=60")
    origin.publish("/silent.rss", a_feed(ttl=60))
    await proxy.get("/said.rss")
    await proxy.get("/silent.rss")
    clock.advance(minutes=30)

    (await proxy.get("/said.rss")).expect(200, cache="fwd=stale")
    (await proxy.get("/silent.rss")).expect(200, cache="hit")


async def test_hints_off_ignores_ttl(stage):
    proxy, origin, clock = await stage(feed_hints="off", default_lifetime=600)
    origin.publish("/feed.rss", a_feed(ttl=600))
    await proxy.get("/feed.rss")
    clock.advance(minutes=11)

    (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale")


async def test_ttl_hint_is_stated_as_max_age_without_explicit_freshness(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed(ttl=60))
    await proxy.get("/feed.rss")
    clock.advance(minutes=20)

    seen = (await proxy.get("/feed.rss")).expect(200, age=1200)

    assert seen.fields.get("cache-control") == "max-age=3600"


@pytest.mark.parametrize("fetched", ["before", "within"])
async def test_skip_hours_are_stated_as_max_age_without_explicit_freshness(stage, fetched):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed(extra="<skipHours><hour>13</hour><hour>14</hour></skipHours>"))
    clock.advance(minutes=50 if fetched == "before" else 70)
    await proxy.get("/feed.rss")
    clock.advance(minutes=40)

    seen = (await proxy.get("/feed.rss")).expect(200, age=2400)

    assert seen.fields.get("cache-control") == f"max-age={130 * 60 if fetched == 'before' else 110 * 60}"
    assert origin.requests == 1


async def test_cache_control_of_the_origin_is_forwarded_unchanged(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed(ttl=60), cache_control="max-age=5, public")

    seen = await proxy.get("/feed.rss")

    assert seen.fields.get("cache-control") == "max-age=5, public"


async def test_no_cache_request_is_forwarded_after_the_floor(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed(ttl=60))
    await proxy.get("/feed.rss")
    clock.advance(seconds=30)
    (await proxy.get("/feed.rss", cache_control="no-cache", sec_fetch_mode="navigate")).expect(200, cache="hit")
    clock.advance(seconds=31)

    (await proxy.get("/feed.rss", cache_control="no-cache", sec_fetch_mode="navigate")).expect(
        200, cache="fwd=request; fwd-status=304"
    )


async def test_only_if_cached_without_a_copy_gets_504_without_contacting_the_origin(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed())

    (await proxy.get("/feed.rss", cache_control="only-if-cached")).expect(504, cache="detail=only-if-cached")

    assert origin.requests == 0


async def test_stale_while_revalidate_answers_at_once_and_refreshes_in_the_background(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("old"), cache_control="max-age=60, stale-while-revalidate=600")
    await proxy.get("/feed.rss")
    origin.publish("/feed.rss", a_feed("new"), cache_control="max-age=60, stale-while-revalidate=600")
    clock.advance(minutes=3)

    stale = (await proxy.get("/feed.rss")).expect(200, cache="hit; detail=stale-while-revalidate")
    assert b"old" in stale.body
    await origin.asked(2)
    await proxy.settled()
    assert b"new" in (await proxy.get("/feed.rss")).expect(200, cache="hit").body


async def test_page_is_stored_only_with_explicit_freshness(stage):
    proxy, origin, clock = await stage()
    origin.publish("/page", b"<html>hello</html>", content_type="text/html", validators=False)
    origin.publish("/kept", b"<html>hello</html>", content_type="text/html", cache_control="max-age=60")

    await proxy.get("/page")
    (await proxy.get("/page")).expect(200, cache="fwd=uri-miss")
    await proxy.get("/kept")
    (await proxy.get("/kept")).expect(200, cache="hit", body=b"<html>hello</html>")
    clock.advance(seconds=61)
    (await proxy.get("/kept")).expect(200, cache="fwd=stale; fwd-status=304")


@pytest.mark.parametrize(
    ("said", "lifetime"),
    [
        ({}, 86_400),
        ({"cache_control": "max-age=300"}, 300),
        ({"cache_control": "max-age=200000"}, 200_000),
        ({"cache_control": "no-store"}, 0),
    ],
)
async def test_feed_behind_a_redirect_is_fresh_no_longer_than_the_redirect(stage, said, lifetime):
    proxy, origin, clock = await stage(site_interval=0)
    for path, title in (("/1.rss", "one"), ("/2.rss", "two")):
        origin.publish(path, a_feed(title), cache_control="max-age=31536000, immutable, public", age="1000")
    origin.publish("/feed.rss", b"", status=302, location="/1.rss", **said)
    first = (await proxy.get("/feed.rss")).expect(200)
    origin.publish("/feed.rss", b"", status=302, location="/2.rss", **said)

    assert first.fields.get("cache-control") == f"max-age={1000 + lifetime}, public"
    if lifetime:
        clock.advance(lifetime - 1)
        assert b"one" in (await proxy.get("/feed.rss")).expect(200, cache="hit").plain
    clock.advance(61)
    assert b"two" in (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale").plain
    assert (await proxy.get("/2.rss")).expect(200).fields.get("cache-control") == "max-age=31536000, immutable, public"


# -- fields for somebody (RFC 9213)


@pytest.mark.parametrize("name", ["cache-control", "expires"])
async def test_targeted_field_behind_a_redirect_is_limited_to_the_redirect(stage, name):
    proxy, origin, clock = await stage(upstream=UPSTREAM, site_interval=0)
    minute = {"cache-control": "max-age=60", "expires": format_http_date(clock.now() + 60)}[name]
    said = {name.replace("-", "_"): minute, "cdn_cache_control": "s-maxage=31536000, public"}
    origin.publish("/1.rss", a_feed("one"), **said)
    origin.publish("/feed.rss", b"", status=302, location="/1.rss", cache_control="max-age=300")
    first = (await proxy.get("/feed.rss")).expect(200)
    origin.publish("/2.rss", a_feed("two"), **said)
    origin.publish("/feed.rss", b"", status=302, location="/2.rss", cache_control="max-age=300")

    assert first.fields.get(name) == minute
    assert first.fields.get("cdn-cache-control") == "max-age=300, public"
    clock.advance(299)
    assert b"one" in (await proxy.get("/feed.rss")).expect(200, cache="hit").plain
    clock.advance(61)
    assert b"two" in (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale").plain


@pytest.mark.parametrize(
    ("targeted_fields", "redirect", "content", "lifetime"),
    [
        ("reverse", "max-age=100", {"cdn_cache_control": "max-age=600"}, 100),
        ("reverse", "max-age=100", {"cache_control": "max-age=600"}, 100),
        ("reverse", "max-age=900", {"cdn_cache_control": "max-age=600"}, 600),
        ("off", "max-age=100", {"cache_control": "max-age=600"}, 300),
    ],
)
async def test_targeted_field_of_a_redirect_limits_the_lifetime(stage, targeted_fields, redirect, content, lifetime):
    proxy, origin, clock = await stage(upstream=UPSTREAM, site_interval=0, targeted_fields=targeted_fields)
    origin.publish("/1.rss", a_feed("one"), **content)
    origin.publish(
        "/feed.rss", b"", status=302, location="/1.rss", cache_control="max-age=300", cdn_cache_control=redirect
    )
    (await proxy.get("/feed.rss")).expect(200)

    clock.advance(lifetime - 1)
    (await proxy.get("/feed.rss")).expect(200, cache="hit")
    clock.advance(2)
    (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale")


@pytest.mark.parametrize(
    ("where", "targeted_fields", "obeyed"),
    [
        ({}, "reverse", False),
        ({}, "always", True),
        ({"upstream": UPSTREAM}, "reverse", True),
        ({"upstream": UPSTREAM}, "off", False),
    ],
)
async def test_cdn_cache_control_is_obeyed_as_targeted_fields_states(stage, where, targeted_fields, obeyed):
    proxy, origin, clock = await stage(**where, targeted_fields=targeted_fields)
    said = {"cache_control": "max-age=60", "cdn_cache_control": "max-age=600"}
    origin.publish("/page", b"<html>hello</html>", content_type="text/html", **said)
    await proxy.get("/page")

    clock.advance(minutes=5)
    seen = (await proxy.get("/page")).expect(200, cache="hit" if obeyed else "fwd=stale")
    assert seen.fields.get("cdn-cache-control") == "max-age=600"


@pytest.mark.parametrize("targeted", ["no-store", "public"])
@pytest.mark.parametrize("state_freshness", [True, False])
async def test_targeted_field_without_lifetime_leaves_max_age_for_clients(stage, targeted, state_freshness):
    proxy, origin, clock = await stage(upstream=UPSTREAM, state_freshness=state_freshness)
    origin.publish("/feed.rss", a_feed(ttl=60), cache_control="max-age=100", cdn_cache_control=targeted)

    for _ in range(3):
        seen = (await proxy.get("/feed.rss")).expect(200)

        assert seen.fields.get_all("cache-control") == ["max-age=100"]
        clock.advance(2)


async def test_targeted_fields_may_be_set_by_rule(stage):
    proxy, origin, clock = await stage()
    proxy.rule("/ours", targeted_fields="always")
    for path in ("/ours", "/theirs"):
        origin.publish(
            path, b"text", content_type="text/plain", cache_control="max-age=600", cdn_cache_control="no-store"
        )
        await proxy.get(path)

    clock.advance(minutes=5)
    (await proxy.get("/ours")).expect(200, cache="fwd=uri-miss")
    (await proxy.get("/theirs")).expect(200, cache="hit")


# -- what we say of it ourselves


@pytest.mark.parametrize("said", ["private", "no-store", "no-cache", "Private, must-revalidate"])
@pytest.mark.parametrize("states_freshness", [True, False])
async def test_hint_does_not_replace_a_directive_that_forbids_reuse(stage, said, states_freshness):
    proxy, origin, _ = await stage(upstream=UPSTREAM, state_freshness=states_freshness)
    origin.publish("/feed.rss", a_feed(ttl=60), cache_control=said)

    for _ in range(2):
        seen = await proxy.get("/feed.rss")
        assert seen.fields.get_all("cache-control") == [said]
        assert "cdn-cache-control" not in seen.fields


@pytest.mark.parametrize("states_freshness", [True, False])
async def test_hint_is_added_beside_other_directives_of_the_origin(stage, states_freshness):
    proxy, origin, _ = await stage(upstream=UPSTREAM, state_freshness=states_freshness)
    origin.publish("/feed.rss", a_feed(ttl=60), cache_control='public, x="a, b", stale-if-error=60')

    for _ in range(2):
        seen = await proxy.get("/feed.rss")
        lifetime, rest = seen.fields.get_all("cache-control")
        assert lifetime.startswith("max-age=")
        assert rest == 'public, x="a, b", stale-if-error=60'


async def test_surrogate_key_is_added_to_those_of_the_origin(stage):
    proxy, origin, _ = await stage(upstream=UPSTREAM, state_freshness=True)
    origin.publish("/feed.rss", a_feed(ttl=60), surrogate_key="blog news")
    origin.publish("/page", b"text", content_type="text/plain", surrogate_key="blog")

    for _ in range(2):
        feed, page = await proxy.get("/feed.rss"), await proxy.get("/page")
        assert feed.fields.get("surrogate-key") == f"blog news {surrogate_key(origin.url('/feed.rss'))}"
        assert page.fields.get("surrogate-key") == "blog"


async def test_surrogate_key_and_lifetime_are_stated_for_a_move(stage):
    proxy, origin, _ = await stage(upstream=UPSTREAM, state_freshness=True)
    proxy.rule("/old.rss", moved_to=origin.url("/new.rss"))

    seen = (await proxy.get("/old.rss")).expect(301)

    assert seen.fields.get("surrogate-key") == surrogate_key(origin.url("/old.rss"))
    assert seen.fields.get("cdn-cache-control") == seen.fields.get("cache-control") == "max-age=3600"


@pytest.mark.parametrize("directive", ["stale-while-revalidate", "stale-if-error"])
async def test_page_without_lifetime_and_validator_is_stored_if_it_may_be_used_stale(stage, directive):
    proxy, origin, clock = await stage()
    control = f"max-age=0, {directive}=60"
    origin.publish("/page", b"one", content_type="text/plain", cache_control=control, validators=False)
    (await proxy.get("/page")).expect(200, cache="fwd=uri-miss; stored")
    clock.advance(seconds=30)
    origin.break_down(503)

    (await proxy.get("/page")).expect(200, body=b"one")
    clock.advance(seconds=60)
    (await proxy.get("/page")).expect(503)


async def test_page_without_lifetime_and_validator_is_not_stored_if_it_must_be_validated(stage):
    proxy, origin, _ = await stage()
    control = "max-age=0, stale-while-revalidate=60, must-revalidate"
    origin.publish("/page", b"one", content_type="text/plain", cache_control=control, validators=False)

    seen = (await proxy.get("/page")).expect(200, body=b"one")

    assert "stored" not in seen.cache
