"""Failures of requests with credentials, cookies or unusual fields: each client's polls wait, and only its own."""

import pytest

from feedproxy.http.message import Fields, Response
from feedproxy.refresh.policy.client_keyed_failures import NO_RECORD, RECORDS_MAX, KeyedFailures, KeyedRecord
from feedproxy.request.context import Entrance
from feedproxy.store.resource import NO_FAILURES, Failures
from feedproxy.upstream.upstream_errors import Unreachable
from tests.stages.origin import Origin, a_feed

ANN, BOB = "Basic YW5uOng=", "Basic Ym9iOng="


def fail_with(origin: Origin, status: int, **fields: str) -> None:
    lines = [("Content-Type", "text/plain"), *((name.replace("_", "-"), value) for name, value in fields.items())]
    origin.break_down(lambda _: Response(status, Fields(lines), b"no"))


def personal_requests(origin: Origin) -> int:
    """Return the number of requests with the client's cookie. Background refreshes of a shared copy have none."""
    return sum("cookie" in request.fields for request in origin.log)


def requests_in_german(origin: Origin) -> int:
    """Return the number of clients' requests in this language. Background refreshes of a shared copy have none."""
    return sum(request.fields.get("accept-language") == "de" for request in origin.log)


@pytest.mark.parametrize("failure", [503, 429, Unreachable("no route")])
async def test_personal_feed_is_served_during_back_off_without_contacting_the_origin(stage, failure):
    proxy, origin, clock = await stage(site_interval=0)
    own = {"cookie": "ann=1", "entrance": Entrance.PROXY}
    origin.publish("/feed.rss", a_feed("mine"), cache_control="public, max-age=60", vary="Cookie")
    await proxy.get("/feed.rss", **own)
    clock.advance(minutes=10)
    origin.break_down(failure)
    (await proxy.get("/feed.rss", **own)).expect(200)
    asked = personal_requests(origin)

    for _ in range(3):
        clock.advance(seconds=5)
        seen = (await proxy.get("/feed.rss", **own)).expect(200, cache="hit")
        assert b"mine" in seen.body
        assert "detail=back-off" in seen.cache

    assert personal_requests(origin) == asked
    origin.recover()
    clock.advance(minutes=10)
    (await proxy.get("/feed.rss", **own)).expect(200, cache="fwd=stale; fwd-status=304")
    clock.advance(minutes=10)
    fail_with(origin, 503)
    (await proxy.get("/feed.rss", **own)).expect(200, cache="fwd=stale; fwd-status=503")


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("name", ["authorization", "cookie"])
async def test_retry_after_for_one_client_delays_its_requests_only(stage, name, status):
    proxy, origin, clock = await stage(site_interval=0)
    fail_with(origin, status, Retry_After="600")
    await proxy.get("/feed.rss", entrance=Entrance.PROXY, **{name: "ann=1"})
    clock.advance(seconds=60)

    refused = await proxy.get("/feed.rss", entrance=Entrance.PROXY, **{name: "ann=1"})

    refused.expect(503, cache="detail=retry-after")
    assert refused.fields.get("retry-after") == "540"
    assert origin.requests == 1
    await proxy.get("/feed.rss", entrance=Entrance.PROXY, **{name: "bob=1"})
    assert origin.requests == 2
    clock.advance(seconds=540)
    origin.recover()
    origin.publish("/feed.rss", a_feed("mine"), cache_control="private")
    (await proxy.get("/feed.rss", entrance=Entrance.PROXY, **{name: "ann=1"})).expect(200)


@pytest.mark.parametrize("cache_control", ["no-store", "max-age=60"])
async def test_retry_after_for_a_request_with_a_field_in_vary_delays_requests_with_its_value(stage, cache_control):
    proxy, origin, clock = await stage(site_interval=0)
    origin.publish("/feed.rss", a_feed("mine"), cache_control=cache_control, vary="Accept-Language")
    for _ in range(2):
        (await proxy.get("/feed.rss", accept_language="de")).expect(200)
    clock.advance(days=20)
    fail_with(origin, 503, Retry_After="600")
    (await proxy.get("/feed.rss", accept_language="de")).expect(503, cache="fwd-status=503")
    asked = requests_in_german(origin)

    for _ in range(2):
        clock.advance(seconds=20)
        (await proxy.get("/feed.rss", accept_language="de")).expect(503, cache="detail=retry-after")

    assert requests_in_german(origin) == asked
    (await proxy.get("/feed.rss", accept_language="fr")).expect(503, cache="fwd-status=503")


async def test_back_off_of_a_feed_with_vary_grows_with_each_failure(stage):
    proxy, origin, clock = await stage(site_interval=0)
    origin.publish("/feed.rss", a_feed("mine"), cache_control="max-age=60", vary="Accept-Language")
    for _ in range(2):
        (await proxy.get("/feed.rss", accept_language="de")).expect(200)
    clock.advance(minutes=10)
    fail_with(origin, 503)
    asked = origin.requests

    for _ in range(120):
        clock.advance(minutes=2)
        (await proxy.get("/feed.rss", accept_language="de")).expect(200)

    # 8 to 10 attempts. Without growth, each request would be an attempt.
    assert origin.requests - asked < 20


async def test_private_feed_that_is_not_stored_is_requested_once_per_interval_during_back_off(stage):
    proxy, origin, clock = await stage(site_interval=0)
    origin.publish("/feed.rss", a_feed("mine"), cache_control="private, no-store")
    for _ in range(2):
        (await proxy.get("/feed.rss", authorization=ANN)).expect(200)
    fail_with(origin, 503)
    (await proxy.get("/feed.rss", authorization=ANN)).expect(503, cache="fwd-status=503")
    asked = origin.requests

    clock.advance(seconds=20)
    (await proxy.get("/feed.rss", authorization=ANN)).expect(503, cache="detail=back-off")
    assert origin.requests == asked
    clock.advance(seconds=1000)
    (await proxy.get("/feed.rss", authorization=ANN)).expect(503, cache="fwd-status=503")
    assert origin.requests == asked + 1


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_refusal_of_credentials_delays_no_request(stage, status):
    proxy, origin, clock = await stage(site_interval=0)
    origin.publish("/feed.rss", a_feed("mine"), cache_control="private")
    await proxy.get("/feed.rss", authorization=ANN)
    fail_with(origin, status, www_authenticate="Basic")

    for asked in (2, 3):
        clock.advance(seconds=5)
        (await proxy.get("/feed.rss", authorization=ANN)).expect(status)
        assert origin.requests == asked


async def test_page_for_a_browser_is_requested_in_spite_of_retry_after(stage):
    proxy, origin, _clock = await stage()
    fail_with(origin, 503, Retry_After="600")

    for asked in (1, 2):
        seen = await proxy.get("/page", entrance=Entrance.PROXY, accept="text/html,*/*;q=0.8", cookie="ann=1")
        seen.expect(503, body=b"no")
        assert origin.requests == asked


def test_records_are_bounded_and_contain_no_fields() -> None:
    records, failing = KeyedFailures(), KeyedRecord(failures=Failures(1, detail="error-status", next_try=60.0))
    key = Fields([("Authorization", ANN)])

    records.put("https://x.example/", key, None, failing)

    assert records.get("https://x.example/", Fields([("authorization", ANN)]), None) == failing
    for target, other, agent in (
        ("https://y.example/", key, None),
        ("https://x.example/", Fields([("Authorization", BOB)]), None),
        ("https://x.example/", key, "reader/1"),
    ):
        assert records.get(target, other, agent) == NO_RECORD
    assert ANN not in repr(vars(records._records))
    records.put("https://x.example/", key, None, NO_RECORD)
    assert records.get("https://x.example/", key, None) == NO_RECORD
    for number in range(RECORDS_MAX + 10):
        records.put(f"https://{number}.example/", key, None, failing)
    assert len(records._records) == RECORDS_MAX


async def test_client_with_its_own_fields_is_told_the_retry_after_of_a_429(stage):
    proxy, origin, _ = await stage(site_interval=0)
    fail_with(origin, 429, Retry_After="600")

    for fields in ({"cookie": "ann=1", "entrance": Entrance.PROXY}, {"accept": "text/html"}, {}):
        seen = await proxy.get("/feed.rss", **fields)

        assert seen.expect(503, cache="detail=rate-limited").fields.get("retry-after") == "600"
        await proxy.service.admin.purge(origin.url("/feed.rss"))


async def test_head_does_not_make_failures_for_one_language_count_for_all_clients(stage):
    proxy, origin, clock = await stage(site_interval=0)
    fields = {"content_type": "text/plain", "cache_control": "max-age=60", "vary": "Accept-Language"}
    origin.publish("/page", b"page", validators=False, **fields)
    german = {"accept_language": "de", "entrance": Entrance.PROXY}
    (await proxy.get("/page", entrance=Entrance.PROXY)).expect(200)
    (await proxy.get("/page", **german)).expect(200)
    clock.advance(minutes=10)
    fail_with(origin, 503, Retry_After="600")
    (await proxy.get("/page", **german)).expect(503, cache="fwd-status=503")
    clock.advance(seconds=601)
    origin.recover()

    (await proxy.head("/page", **german)).expect(200, cache="fwd-status=200")

    resource = proxy.service.store.get(origin.url("/page"))
    assert resource.failures == NO_FAILURES
