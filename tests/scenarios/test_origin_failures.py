"""Failing origins: readers get the stored copy."""

import pytest

from feedproxy.errors import Forbidden
from feedproxy.http.message import Fields, Response
from feedproxy.upstream.upstream_errors import FetchTimeout, MalformedResponse, Unreachable
from tests.stages.addons import OnAddons
from tests.stages.admin import NOW, a_resource
from tests.stages.origin import a_feed
from tests.stages.play import OnService


def answers(status: int, body: bytes, *lines: tuple[str, str]):
    return lambda _: Response(status, Fields([("Content-Type", "text/html"), *lines]), body)


BAD = {
    "500": (500, "error-status"),
    "429": (429, "rate-limited"),
    "403": (403, "refused"),
    "404": (404, "refused"),
    "unreachable": (Unreachable("no route"), None),
    "html": (answers(200, b"<html><body>Welcome to our new site!</body></html>"), "html-where-feed"),
    "empty": (answers(200, b""), "empty"),
    "challenge": (answers(403, b"<html>Just a moment</html>", ("cf-mitigated", "challenge")), "challenge"),
    "ill-formed": (answers(200, b"<rss version='2.0'><channel><title>x</title>"), "ill-formed"),
    "undecodable": (answers(200, b"\x1f\x8b broken", ("Content-Encoding", "gzip")), "undecodable"),
}


@pytest.mark.parametrize("name", BAD)
async def test_bad_update_keeps_the_stored_copy(stage, name):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    clock.advance(minutes=10)
    what, detail = BAD[name]
    origin.break_down(what)

    seen = (await proxy.get("/feed.rss")).expect(200)

    assert b"good" in seen.body
    assert int(seen.fields.get("age") or 0) == 600
    if detail:
        seen.expect(200, cache=f"detail={detail}")

    origin.recover()
    clock.advance(hours=7)
    (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale; fwd-status=304")


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_for_a_stored_page_delays_further_requests(stage, status):
    proxy, origin, clock = await stage()
    origin.publish("/page", b"<html>one</html>", content_type="text/html", cache_control="max-age=60")
    await proxy.get("/page")
    clock.advance(minutes=2)
    origin.speak(answers(status, b"", ("Retry-After", "600")))

    (await proxy.get("/page")).expect(503)
    for _ in range(3):
        (await proxy.get("/page")).expect(503, cache="detail=retry-after")
    assert origin.requests == 2

    origin.recover()
    clock.advance(seconds=601)
    (await proxy.get("/page")).expect(200, cache="fwd=stale; fwd-status=304", body=b"<html>one</html>")


@pytest.mark.parametrize("status", [401, 404, 410, 413])
async def test_retry_after_of_an_error_that_is_no_limit_delays_no_request_for_a_page(stage, status):
    proxy, origin, _ = await stage()
    origin.speak(answers(status, b"", ("Retry-After", "600")))

    for _ in range(2):
        (await proxy.get("/page")).expect(status)
    assert origin.requests == 2


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_of_a_streamed_response_delays_further_requests(door, status):
    proxy, origin, clock = await door(buffer_max=100_000)
    if isinstance(proxy.stage, OnAddons):
        pytest.skip("its origin has no buffer_max, so that nothing streams")
    origin.publish("/large", b"x" * 200_000, content_type="audio/mpeg")
    for _ in range(2):
        (await proxy.get("/large")).expect(200)
    origin.speak(answers(status, b"", ("Retry-After", "600")))
    asked = origin.requests

    (await proxy.get("/large")).expect(status, cache="fwd=bypass")
    for _ in range(4):
        (await proxy.get("/large")).expect(503)
    assert origin.requests == asked + 2

    origin.recover()
    clock.advance(seconds=601)
    assert len((await proxy.get("/large")).expect(200).body) == 200_000


async def test_site_rate_limit_postpones_requests_for_other_feeds_of_the_site(stage):
    proxy, origin, clock = await stage()
    for path in ("/one.rss", "/two.rss"):
        origin.publish(path, a_feed("good"), cache_control="max-age=60")
        await proxy.get(path)
        clock.advance(seconds=2)
    clock.advance(minutes=10)
    origin.speak(answers(429, b"", ("Retry-After", "600")))
    await proxy.get("/one.rss")
    requests = origin.requests

    (await proxy.get("/two.rss")).expect(200, cache="hit")
    assert origin.requests == requests
    origin.recover()
    clock.advance(minutes=11)
    (await proxy.get("/two.rss")).expect(200, cache="fwd=stale")


async def test_site_rate_limit_of_an_unknown_address_does_not_postpone_feeds(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    clock.advance(minutes=10)
    origin.speak(answers(429, b"", ("Retry-After", "600")))
    await proxy.get("/other")
    origin.recover()

    (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale; fwd-status=304")


async def test_feed_without_a_copy_obeys_retry_after_during_a_longer_back_off(stage):
    proxy, origin, clock = await stage(site_interval=0)
    origin.publish("/feed.rss", a_feed(), cache_control="no-store")
    (await proxy.get("/feed.rss")).expect(200)
    origin.speak(answers(503, b"", ("Retry-After", "600")))
    asked = origin.requests

    for _ in range(4 * 30):
        clock.advance(minutes=2)
        (await proxy.get("/feed.rss")).expect(503)

    assert origin.requests - asked <= 4 * 6


@pytest.mark.parametrize(("retry_after", "detail"), [("300", "retry-after"), (None, "back-off")])
async def test_feed_without_a_copy_is_not_requested_in_a_pause_within_the_minimum_interval(stage, retry_after, detail):
    proxy, origin, clock = await stage(feed_min_interval=900, site_interval=0)
    origin.publish("/feed.rss", a_feed(), cache_control="no-store")
    (await proxy.get("/feed.rss")).expect(200)
    clock.advance(minutes=20)
    origin.speak(answers(503, b"", *([("Retry-After", retry_after)] if retry_after else [])))
    (await proxy.get("/feed.rss")).expect(503)
    asked = origin.requests

    (await proxy.get("/feed.rss")).expect(503, cache=f"detail={detail}")

    assert origin.requests == asked


async def test_back_off_after_a_failure_serves_the_copy_without_contacting_the_origin(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    clock.advance(minutes=10)
    origin.break_down(503)
    await proxy.get("/feed.rss")
    asked = origin.requests

    for _ in range(5):
        (await proxy.get("/feed.rss")).expect(200, cache="hit")

    assert origin.requests == asked


async def test_retry_after_postpones_requests_of_all_readers(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    clock.advance(minutes=10)
    origin.break_down(answers(429, b"", ("Retry-After", "7200")))
    (await proxy.get("/feed.rss")).expect(200, cache="detail=rate-limited")
    asked = origin.requests
    origin.recover()
    clock.advance(minutes=119)

    (await proxy.get("/feed.rss")).expect(200, cache="hit; detail=retry-after")
    assert origin.requests == asked

    clock.advance(minutes=2)
    (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale")


async def test_rate_limit_without_a_copy_is_answered_503_with_retry_after(stage):
    proxy, origin, _ = await stage()
    origin.break_down(answers(429, b"", ("Retry-After", "120")))

    seen = (await proxy.get("/feed.rss")).expect(503, cache="fwd=uri-miss; fwd-status=429; detail=rate-limited")
    assert seen.fields.get("retry-after") == "120"
    (await proxy.get("/feed.rss")).expect(503, cache="detail=retry-after")
    assert origin.requests == 1


async def test_stale_copy_with_must_revalidate_does_not_replace_a_failure(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=60, must-revalidate")
    await proxy.get("/feed.rss")
    clock.advance(minutes=10)
    origin.break_down(503)

    (await proxy.get("/feed.rss")).expect(503)


@pytest.mark.parametrize("status", [401, 451])
async def test_refusal_401_or_451_is_forwarded_and_ends_reuse_of_the_copy(stage, status):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    clock.advance(minutes=10)
    origin.break_down(status)

    (await proxy.get("/feed.rss")).expect(status)
    assert (await proxy.get("/feed.rss")).status != 200


async def test_stale_copy_replaces_failures_for_seven_days(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    origin.break_down(500)
    clock.advance(days=6, hours=23)
    (await proxy.get("/feed.rss")).expect(200, cache="detail=error-status")

    clock.advance(hours=7)

    (await proxy.get("/feed.rss")).expect(500)


async def test_ill_formed_update_is_accepted_after_three_sightings_over_six_hours(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    broken = b"<rss version='2.0'><channel><title>still here"
    origin.publish("/feed.rss", broken, cache_control="max-age=60")

    for _ in range(3):
        clock.advance(hours=2)
        assert b"good" in (await proxy.get("/feed.rss")).expect(200).body
    clock.advance(hours=7)

    assert (await proxy.get("/feed.rss")).expect(200).body == broken


@pytest.mark.parametrize("error", [Unreachable("x"), FetchTimeout("x"), MalformedResponse("x")])
async def test_failure_without_a_copy_gets_an_error_page_of_the_proxy(stage, error):
    proxy, origin, _ = await stage()
    origin.break_down(error)

    seen = await proxy.get("/feed.rss", accept="text/html")

    assert seen.status in (502, 504)
    assert "text/html" in (seen.fields.get("content-type") or "")
    assert b"Traceback" not in seen.body
    assert b"mitmproxy" not in seen.body


PAGE = {"content_type": "text/html", "cache_control": "max-age=60"}


@pytest.mark.parametrize("error", [Unreachable("x"), FetchTimeout("x"), MalformedResponse("x")])
async def test_stale_page_answers_for_an_unreachable_origin_up_to_the_limit(stage, error):
    proxy, origin, clock = await stage()
    origin.publish("/page", b"<html>hello</html>", **PAGE)
    await proxy.get("/page")
    origin.break_down(error)

    clock.advance(days=6)
    seen = (await proxy.get("/page")).expect(200, body=b"<html>hello</html>", cache="fwd=stale", age=6 * 86_400)
    assert seen.cache.rpartition("detail=")[2] in ("unreachable", "timeout", "broken-message")

    clock.advance(days=2)
    assert (await proxy.get("/page")).status in (502, 504)


@pytest.mark.parametrize("control", ["must-revalidate", "proxy-revalidate", "no-cache", "s-maxage=2"])
async def test_stale_page_that_requires_validation_does_not_replace_a_failure(stage, control):
    proxy, origin, clock = await stage()
    origin.publish("/page", b"<html>hello</html>", content_type="text/html", cache_control=f"max-age=2, {control}")
    await proxy.get("/page")
    origin.break_down(Unreachable("no route"))

    clock.advance(seconds=3)
    assert (await proxy.get("/page")).status == 502


async def test_error_response_of_the_origin_for_a_page_is_forwarded(stage):
    proxy, origin, clock = await stage()
    origin.publish("/page", b"<html>hello</html>", **PAGE)
    await proxy.get("/page")
    origin.break_down(answers(503, b"", ("Retry-After", "600")))

    clock.advance(minutes=2)
    assert (await proxy.get("/page")).status == 503
    assert (await proxy.get("/page")).status == 503  # left in peace, and nobody is told another story meanwhile


async def test_forbidden_address_without_a_copy_has_no_fwd_in_cache_status(stage):
    proxy, origin, _ = await stage(allow_private=False)
    origin.break_down(Forbidden("not here"))  # on the whole proxy the address itself is reason enough

    assert (await proxy.get("/feed.rss")).expect(403).cache == "feedproxy; detail=forbidden-address"


# On the other stages, the target has a literal address, whose copy does not answer.
@pytest.mark.parametrize("stage", [OnService, OnAddons], ids=["service", "addons"], indirect=True)
async def test_copy_of_a_name_with_a_forbidden_address_is_a_hit(stage):
    proxy, origin, clock = await stage(allow_private=False)
    origin.break_down(Forbidden("not here"))
    two_hours_ago = (NOW - clock.now()) / 60 + 120
    await proxy.service.store.put(a_resource(origin.url("/feed.rss"), minutes_ago=two_hours_ago, max_age=3600))

    seen = (await proxy.get("/feed.rss")).expect(200, cache="hit; detail=forbidden-address")

    assert "fwd" not in seen.cache


async def test_ill_formed_feed_without_a_well_formed_version_is_updated(stage):
    proxy, origin, clock = await stage()
    linked = "<atom:link xmlns:atom='http://www.w3.org/2005/Atom' rel='self' href='http://example.com/feed.rss'/>"
    item = "<item><title>{} & ill-formed</title></item>"
    ill = f"<rss version='2.0'><channel><title>T</title>{linked}{item}</channel></rss>"
    origin.publish("/feed.rss", ill.format("first").encode(), cache_control="max-age=60")
    (await proxy.get("/feed.rss")).expect(200)
    clock.advance(minutes=10)
    origin.publish("/feed.rss", ill.format("second").encode(), cache_control="max-age=60")

    seen = (await proxy.get("/feed.rss")).expect(200)

    assert b"second" in seen.body


async def test_recovered_origin_is_contacted_for_the_first_request_after_stale_max(stage):
    proxy, origin, clock = await stage(stale_max=86_400, polling="off")
    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    origin.break_down(503)
    for _ in range(9):
        clock.advance(hours=7)
        await proxy.get("/feed.rss")
    origin.recover()
    clock.advance(minutes=2)

    (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale")


async def test_failed_origin_without_a_usable_copy_is_contacted_once_per_floor(stage):
    proxy, origin, clock = await stage(stale_max=86_400, polling="off", feed_min_interval=600)
    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    origin.break_down(503)
    for _ in range(9):
        clock.advance(hours=7)
        await proxy.get("/feed.rss")
    asked = origin.requests

    for _ in range(20):
        clock.advance(minutes=1)
        await proxy.get("/feed.rss")

    assert origin.requests - asked == 2


@pytest.mark.parametrize("stated", [{}, {"cache_control": "max-age=86400"}])
async def test_ill_formed_first_copy_is_marked_and_fetched_again_after_a_minute(stage, stated):
    whole = a_feed("one", "two", "three", ttl=60)
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", whole[: len(whole) // 2], **stated)

    (await proxy.get("/feed.rss")).expect(200, cache="fwd=uri-miss; stored; ttl=60; detail=ill-formed")
    clock.advance(seconds=40)
    (await proxy.get("/feed.rss")).expect(200, cache="hit; ttl=20; detail=ill-formed")
    assert origin.requests == 1
    clock.advance(seconds=21)
    origin.publish("/feed.rss", whole, **stated)

    seen = (await proxy.get("/feed.rss")).expect(200, cache="fwd=stale; fwd-status=200; stored")

    assert (seen.plain.count(b"<item>"), "detail" in seen.cache) == (3, False)


async def test_ill_formed_feed_is_fetched_at_growing_intervals(stage):
    proxy, origin, clock = await stage(default_lifetime=1800, lifetime_min=300)
    origin.publish("/feed.rss", a_feed("one", "two")[:-20], validators=False)

    for _ in range(3 * 60):
        (await proxy.get("/feed.rss")).expect(200)
        clock.advance(minutes=1)

    # After 0, 1, 2, 4, 8, 16 and 32 minutes, and then as often as any other.
    assert 9 <= origin.requests <= 14
    assert "ill-formed" not in (await proxy.get("/feed.rss")).cache


async def test_ill_formed_feed_is_not_fetched_in_skip_hours(stage):
    proxy, origin, clock = await stage()
    hours = "<skipHours>" + "".join(f"<hour>{hour}</hour>" for hour in range(12, 15)) + "</skipHours>"
    origin.publish("/feed.rss", a_feed("one").replace(b"<item>", hours.encode() + b"<item>", 1)[:-20])

    for _ in range(85):
        (await proxy.get("/feed.rss")).expect(200)
        clock.advance(minutes=2)

    assert origin.requests == 1
