"""Concurrent requests for one target cause one fetch."""

import asyncio
import contextlib
from collections.abc import Awaitable
from itertools import pairwise

import pytest

from feedproxy.http.message import Fields, Request, Response
from feedproxy.refresh.policy.refresh_ahead import own_jitter
from feedproxy.upstream.upstream_errors import Unreachable
from tests.stages.origin import Origin, a_feed
from tests.stages.play import Proxy, Seen


async def at_once(proxy: Proxy, origin: Origin, *readers: dict[str, str]) -> list[Seen]:
    """Send all requests before the origin answers the first."""
    origin.gate = asyncio.Event()
    before = origin.requests
    asking = [asyncio.ensure_future(proxy.get("/feed.rss", **fields)) for fields in readers]
    await origin.asked(before + 1)
    await everybody_waits()
    origin.gate.set()
    return await asyncio.gather(*asking)


async def everybody_waits() -> None:
    """Run the event loop until only the origin is awaited."""
    for _ in range(500):
        await asyncio.sleep(0)


async def while_time_passes[T](answer: Awaitable[T], monkeypatch: pytest.MonkeyPatch, *, step: float) -> T:
    """Return the answer. Advance the time of the event loop, by which timeouts are measured, until it is there."""
    loop, passed = asyncio.get_running_loop(), 0.0
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + passed)
    asking = asyncio.ensure_future(answer)
    while not asking.done():
        await everybody_waits()
        passed += step
    return await asking


async def test_collapsing_fetches_once_for_concurrent_requests_without_a_copy(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed("one"))

    seen = await at_once(proxy, origin, *({"user_agent": f"reader/{number}"} for number in range(200)))

    assert origin.requests == 1
    assert all(b"one" in each.expect(200).body for each in seen)
    first = [each for each in seen if "collapsed" not in each.cache and "hit" not in each.cache.split("; ")]
    assert len(first) == 1


async def test_collapsing_fetches_once_for_concurrent_requests_with_a_stale_copy(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("old"), cache_control="max-age=600")
    await proxy.get("/feed.rss")
    origin.publish("/feed.rss", a_feed("new"), cache_control="max-age=600")
    clock.advance(minutes=11)

    seen = await at_once(proxy, origin, *({} for _ in range(50)))

    assert origin.requests == 2
    assert all(b"new" in each.expect(200).body for each in seen)


async def test_collapsing_answers_each_client_with_its_own_coding_and_condition(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed(*map(str, range(60))), etag='"theirs"')

    plain, packed, known, part = await at_once(
        proxy, origin, {}, {"accept_encoding": "gzip"}, {"if_none_match": '"theirs"'}, {"accept_encoding": "br"}
    )

    assert origin.requests == 1
    assert plain.expect(200).body == packed.expect(200).plain == part.expect(200).plain
    known.expect(304)


async def test_collapsing_shares_a_failure_without_a_copy(stage):
    proxy, origin, _ = await stage()
    origin.break_down(Unreachable("no route"))

    seen = await at_once(proxy, origin, *({} for _ in range(20)))

    assert {each.status for each in seen} == {502}
    assert origin.requests == 1


async def test_collapsing_shares_a_failure_with_a_copy(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    clock.advance(minutes=10)
    origin.break_down(503)

    seen = await at_once(proxy, origin, *({} for _ in range(20)))

    assert all(b"good" in each.expect(200).body for each in seen)
    assert origin.requests == 2


async def test_collapsing_excludes_responses_that_must_not_be_stored(stage):
    proxy, origin, _ = await stage(site_interval=0)
    numbers = iter(range(100))

    def answer(_: Request) -> Response:
        lines = [("Content-Type", "application/rss+xml"), ("Cache-Control", "no-store")]
        return Response(200, Fields(lines), a_feed(f"number {next(numbers)}"))

    origin.speak(answer)

    seen = await at_once(proxy, origin, *({} for _ in range(5)))

    assert len({each.expect(200).body for each in seen}) == 5
    assert origin.requests == 5


@pytest.mark.parametrize("retry_after", [None, "300"])
async def test_waiting_requests_obey_the_pause_that_the_failed_request_causes(stage, retry_after):
    """HTTP forbids sharing the origin's response, but a request after the failure would have to wait."""
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed("one"), cache_control="no-store")
    await proxy.get("/feed.rss")
    fields = [("Retry-After", retry_after)] if retry_after else []
    origin.break_down(lambda _: Response(429, Fields(fields)))

    seen = await at_once(proxy, origin, *({} for _ in range(5)))

    assert origin.requests == 2
    pauses = [int(each.expect(503).fields.get("retry-after") or 0) for each in seen]
    assert pauses == [300] * 5 if retry_after else max(pauses) <= 120


async def test_waiting_requests_for_a_page_obey_retry_after(stage):
    proxy, origin, _ = await stage()
    origin.break_down(lambda _: Response(503, Fields([("Retry-After", "300")])))

    seen = await at_once(proxy, origin, *({} for _ in range(5)))

    assert origin.requests == 1
    assert [each.expect(503).fields.get("retry-after") for each in seen] == ["300"] * 5


async def test_collapsing_excludes_requests_with_credentials(stage):
    proxy, origin, _ = await stage(site_interval=0)

    def answer(request: Request) -> Response:
        said = request.fields.get("authorization") or "nobody"
        return Response(200, Fields([("Content-Type", "application/rss+xml")]), a_feed(said))

    origin.speak(answer)

    seen = await at_once(
        proxy, origin, {"authorization": "Basic YQ=="}, {"authorization": "Basic Yg=="}, {}, {"authorization": "x"}
    )

    for each, said in zip(seen, (b"Basic YQ==", b"Basic Yg==", b"nobody", b"<title>x<"), strict=True):
        assert said in each.expect(200).body
        assert "collapsed" not in each.cache


async def test_collapsing_shares_a_varying_response_with_matching_requests_only(stage):
    proxy, origin, _ = await stage(site_interval=0)

    def answer(request: Request) -> Response:
        lines = [("Content-Type", "application/rss+xml"), ("Vary", "Accept-Language"), ("Cache-Control", "max-age=60")]
        return Response(200, Fields(lines), a_feed(request.fields.get("accept-language") or "none"))

    origin.speak(answer)

    seen = await at_once(proxy, origin, *({"accept_language": name} for name in ("de", "en", "de", "fr")))

    for each, name in zip(seen, ("de", "en", "de", "fr"), strict=True):
        assert f"<title>{name}</title>".encode() in each.expect(200).body


async def test_collapsing_continues_the_fetch_after_one_client_disconnects(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed("one"))
    origin.gate = asyncio.Event()
    impatient = asyncio.ensure_future(proxy.get("/feed.rss"))
    await origin.asked()
    patient = asyncio.ensure_future(proxy.get("/feed.rss"))
    await everybody_waits()

    impatient.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await impatient
    await everybody_waits()
    origin.gate.set()

    assert b"one" in (await patient).expect(200).body
    (await proxy.get("/feed.rss")).expect(200, cache="hit")
    assert origin.requests == 1


async def test_collapsing_stores_the_response_after_all_clients_disconnect(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed("one"))
    origin.gate = asyncio.Event()
    impatient = asyncio.ensure_future(proxy.get("/feed.rss"))
    await origin.asked()
    impatient.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await impatient

    origin.gate.set()
    await proxy.settled()

    (await proxy.get("/feed.rss")).expect(200, cache="hit")
    assert origin.requests == 1


async def test_slow_fetch_does_not_age_a_response_that_was_stored_meanwhile(stage):
    proxy, origin, clock = await stage()
    page = {"content_type": "text/plain", "vary": "Accept-Language", "cache_control": "max-age=600"}
    origin.publish("/page", b"page", **page)
    await proxy.get("/page", accept_language="en")
    origin.gate = gate = asyncio.Event()
    slow = asyncio.ensure_future(proxy.get("/page", accept_language="de"))
    await origin.asked(2)
    origin.gate = None
    clock.advance(seconds=30)
    await proxy.get("/page", accept_language="fr")

    gate.set()
    (await slow).expect(200)

    (await proxy.get("/page", accept_language="fr")).expect(200, cache="hit", age=0)


async def test_answer_timeout_serves_the_stale_copy_and_continues_the_fetch(stage, monkeypatch):
    proxy, origin, clock = await stage(answer_timeout=3)
    origin.publish("/feed.rss", a_feed("old"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    origin.publish("/feed.rss", a_feed("new"), cache_control="max-age=60")
    clock.advance(minutes=10)
    origin.gate = asyncio.Event()

    asking = asyncio.gather(proxy.get("/feed.rss"), proxy.get("/nothing-held.rss"))
    seen = await while_time_passes(asking, monkeypatch, step=3)

    assert b"old" in seen[0].expect(200, cache="detail=timeout", age=600).body
    seen[1].expect(504, cache="detail=timeout")
    origin.gate.set()
    await proxy.settled()
    assert b"new" in (await proxy.get("/feed.rss")).expect(200, cache="hit").body


async def test_site_interval_postpones_a_request_for_another_feed(stage):
    proxy, origin, clock = await stage()
    for path in ("/a.rss", "/b.rss"):
        origin.publish(path, a_feed(path), cache_control="max-age=60")
        await proxy.get(path)
    clock.advance(minutes=10)
    (await proxy.get("/a.rss")).expect(200, cache="fwd=stale")

    (await proxy.get("/b.rss")).expect(200, cache="hit; detail=site-interval")

    clock.advance(seconds=1)
    (await proxy.get("/b.rss")).expect(200, cache="fwd=stale")


async def test_stale_feeds_of_one_site_requested_at_once_are_refreshed_one_after_the_other(stage):
    proxy, origin, clock = await stage(polling="off")
    paths = [f"/{name}.rss" for name in "abcde"]
    for path in paths:
        origin.publish(path, a_feed("old"), cache_control="max-age=600")
        await proxy.get(path)
        origin.publish(path, a_feed("new"), cache_control="max-age=600")
    clock.advance(minutes=11)
    asked = origin.requests
    for path in paths:
        (await proxy.get(path)).expect(200)
        (await proxy.get(path)).expect(200)  # a second poll causes no second refresh
    await proxy.settled()
    assert origin.requests == asked + 1

    for step in range(1, 41):
        clock.advance(seconds=0.25)
        await everybody_waits()
        assert origin.requests <= asked + 1 + step / 4

    assert origin.requests == asked + len(paths)
    for path in paths:
        assert b"new" in (await proxy.get(path)).expect(200, cache="hit").body


def path_with_jitter(origin: Origin, at_least: float) -> str:
    """Return the path of a feed that waits this part of a second longer than others, or up to a tenth more."""
    paths = (f"/{number}.rss" for number in range(1000))
    return next(path for path in paths if at_least <= own_jitter(origin.url(path)) < at_least + 0.1)


async def test_refreshes_that_site_interval_defers_wait_without_a_fetch_lease(stage):
    proxy, origin, clock = await stage(polling="off")
    paths = ["/a.rss", *(path_with_jitter(origin, at_least) for at_least in (0.1, 0.4, 0.7))]
    for path in paths:
        origin.publish(path, a_feed("old"))
        await proxy.get(path)
    clock.advance(minutes=30)
    asked, admin, leases = origin.requests, proxy.service.admin, []
    coordination = proxy.service.store.coordination
    acquire = coordination.acquire_lease

    async def acquire_lease(target, **options):
        leases.append((target, clock.now()))
        return await acquire(target, **options)

    coordination.acquire_lease = acquire_lease
    await admin.refresh(origin.url(paths[0]))
    for path in paths[1:]:
        assert (await admin.refresh(origin.url(path))).outcome == "later"

    for _ in range(80):
        clock.advance(seconds=0.125)
        await everybody_waits()

    assert origin.requests == asked + len(paths)
    times = [at for _, at in leases]
    assert all(later - earlier >= 1 for earlier, later in pairwise(times))


async def test_waiting_refresh_of_a_stale_feed_is_omitted_if_a_client_fetches_the_feed(stage):
    proxy, origin, clock = await stage(polling="off")
    for path in ("/a.rss", "/b.rss"):
        origin.publish(path, a_feed(path), cache_control="max-age=60")
        await proxy.get(path)
    clock.advance(minutes=10)
    await proxy.get("/a.rss")
    (await proxy.get("/b.rss")).expect(200, cache="hit; detail=site-interval")
    clock.advance(seconds=1)
    (await proxy.get("/b.rss")).expect(200, cache="fwd=stale")
    asked = origin.requests

    for _ in range(8):
        clock.advance(seconds=0.5)
        await everybody_waits()

    assert origin.requests == asked


async def test_site_interval_delays_a_request_whose_copy_must_be_validated(stage):
    proxy, origin, clock = await stage()
    for path in ("/a.rss", "/b.rss"):
        origin.publish(path, a_feed(path), cache_control="max-age=60, must-revalidate")
        await proxy.get(path)
    clock.advance(minutes=10)
    (await proxy.get("/a.rss")).expect(200, cache="fwd=stale")
    asked = origin.requests

    waiting = asyncio.ensure_future(proxy.get("/b.rss"))
    while not proxy.service.admin.active_refreshes:  # noqa: ASYNC110 (no event to wait for)
        await asyncio.sleep(0)
    await everybody_waits()
    assert origin.requests == asked
    clock.advance(seconds=1)

    (await waiting).expect(200, cache="fwd=stale; fwd-status=304")


async def test_request_to_a_site_with_an_exhausted_limit_is_answered_at_once(stage):
    proxy, origin, clock = await stage()
    for path, directives in (("/a.rss", ""), ("/b.rss", ""), ("/strict.rss", ", must-revalidate")):
        origin.publish(path, a_feed(path), cache_control=f"max-age=60{directives}")
        await proxy.get(path)
    clock.advance(minutes=10)
    origin.break_down(lambda _: Response(429, Fields([("Retry-After", "300")])))
    (await proxy.get("/a.rss")).expect(200, cache="detail=rate-limited")
    asked = origin.requests

    (await proxy.get("/b.rss")).expect(200, cache="hit; detail=retry-after")
    refused = (await proxy.get("/strict.rss")).expect(503, cache="detail=retry-after")

    assert refused.fields.get("retry-after") == "300"
    assert origin.requests == asked


async def test_site_interval_of_a_rule_postpones_requests(stage):
    proxy, origin, clock = await stage()
    for path in ("/a.rss", "/b.rss"):
        proxy.rule(path, site_interval=60)
        origin.publish(path, a_feed(path), cache_control="max-age=60")
        await proxy.get(path)
    clock.advance(minutes=10)
    await proxy.get("/a.rss")
    clock.advance(seconds=59)
    (await proxy.get("/b.rss")).expect(200, cache="hit; detail=site-interval")

    clock.advance(seconds=1)

    (await proxy.get("/b.rss")).expect(200, cache="fwd=stale")


async def test_refresh_by_operator_joins_the_request_in_progress(stage):
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed("old"), cache_control="max-age=600")
    await proxy.get("/feed.rss")
    clock.advance(minutes=11)
    origin.gate = asyncio.Event()
    reader = asyncio.ensure_future(proxy.get("/feed.rss"))
    await origin.asked(2)

    operator = asyncio.ensure_future(proxy.service.admin.refresh(origin.url("/feed.rss")))
    await everybody_waits()
    origin.gate.set()

    (await reader).expect(200)
    assert (await operator).outcome in ("confirmed", "later")
    assert origin.requests == 2
