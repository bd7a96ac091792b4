"""Scripts of other web origins read feeds where the operator permits it (option `cors`)."""

import pytest

from feedproxy.request.context import Entrance
from tests.stages.origin import a_feed

PATH = "/feed.rss"
PREFLIGHT = {
    "origin": "https://reader.example",
    "access_control_request_method": "GET",
    "access_control_request_headers": "if-none-match",
}


async def test_preflight_for_a_feed_is_answered_without_contacting_the_origin(door):
    proxy, origin, _ = await door(cors=True)
    origin.publish(PATH, a_feed("one"))
    await proxy.get(PATH)

    seen = (await proxy.send("OPTIONS", PATH, **PREFLIGHT)).expect(204)

    assert seen.fields.get("access-control-allow-origin") == "*"
    assert seen.fields.get("access-control-allow-methods") == "GET, HEAD"
    assert seen.fields.get("access-control-allow-headers") == "*"
    assert "access-control-allow-credentials" not in seen.fields
    assert origin.requests == 1


async def test_preflight_for_the_conversion_of_a_feed_is_answered(door):
    proxy, origin, _ = await door(cors=True)
    origin.publish(PATH, a_feed("one"))
    origin.publish("/api", b"{}", content_type="application/json")
    await proxy.get(PATH)
    await proxy.get("/api")

    seen = (await proxy.ask("/-/as/json/" + origin.url(PATH), method="OPTIONS", **PREFLIGHT)).expect(204)
    refused = await proxy.ask("/-/as/json/" + origin.url("/api"), method="OPTIONS", **PREFLIGHT)

    assert seen.fields.get("access-control-allow-origin") == "*"
    assert refused.status == 405
    assert "access-control-allow-origin" not in refused.fields


async def test_preflight_for_a_public_list_is_answered(door):
    proxy, _, _ = await door(cors=True)
    for path in ("/-/feeds.opml", "/-/changes.xml", "/-/shortChanges.xml", "/-/changes/2027/01/15/09.xml"):
        seen = (await proxy.ask(path, method="OPTIONS", **PREFLIGHT)).expect(204)

        assert seen.fields.get("access-control-allow-origin") == "*"
        assert seen.fields.get("access-control-allow-methods") == "GET, HEAD"


async def test_preflight_for_other_endpoints_and_without_cors_is_refused(door):
    proxy, _, _ = await door(cors=True)
    assert (await proxy.ask("/-/proxy.pac", method="OPTIONS", **PREFLIGHT)).status == 405
    assert (await proxy.ask("/-/hub", method="OPTIONS", **PREFLIGHT)).status == 405

    without, _, _ = await door()
    assert (await without.ask("/-/feeds.opml", method="OPTIONS", **PREFLIGHT)).status == 405


@pytest.mark.parametrize(
    "changed",
    [
        {"access_control_request_method": "PUT"},
        {"access_control_request_method": ""},
        {"origin": ""},
        {"access_control_request_headers": "if-none-match, Authorization"},
    ],
    ids=["method that changes", "no method", "no origin", "credentials"],
)
async def test_preflight_with_other_method_or_without_origin_is_forwarded(door, changed):
    proxy, origin, _ = await door(cors=True)
    origin.publish(PATH, a_feed("one"))
    await proxy.get(PATH)
    fields = {name: value for name, value in {**PREFLIGHT, **changed}.items() if value}

    seen = await proxy.send("OPTIONS", PATH, **fields)

    assert origin.requests == 2
    assert seen.fields.get("access-control-allow-methods") is None


async def test_preflight_is_forwarded_for_a_target_that_is_not_a_stored_feed(door):
    proxy, origin, _ = await door(cors=True)
    origin.publish("/api", b"{}", content_type="application/json")
    await proxy.get("/api")

    await proxy.send("OPTIONS", "/api", **PREFLIGHT)

    assert origin.requests == 2


async def test_preflight_is_forwarded_if_cors_is_off(door):
    proxy, origin, _ = await door()
    origin.publish(PATH, a_feed("one"))
    await proxy.get(PATH)

    await proxy.send("OPTIONS", PATH, **PREFLIGHT)

    assert origin.requests == 2


@pytest.mark.parametrize("rule", [{"readers": ("*",)}, {"private": True}], ids=["readers", "private"])
async def test_preflight_for_a_protected_or_private_feed_permits_nothing(door, rule):
    proxy, origin, _ = await door(cors=True)
    origin.publish(PATH, a_feed("one"))
    await proxy.get(PATH)
    proxy.rule(PATH, **rule)

    seen = await proxy.send("OPTIONS", PATH, **PREFLIGHT)

    assert "access-control-allow-origin" not in seen.fields


async def test_first_response_for_a_language_may_be_read(stage):
    """A redirect may depend on Accept-Language, so the first response is for clients with this language only."""
    proxy, origin, _ = await stage(cors=True)
    origin.publish(PATH, a_feed("one"), cache_control="max-age=600")
    origin.publish("/news", b"", status=302, location=PATH, content_type="text/plain")

    seen = (await proxy.get("/news", accept_language="de", origin="https://reader.example")).expect(200)
    own = {"cookie": "a=1", "entrance": Entrance.PROXY}
    private = (await proxy.get(PATH, accept_language="de", origin="https://reader.example", **own)).expect(200)

    assert seen.fields.get("access-control-allow-origin") == "*"
    assert "access-control-allow-origin" not in private.fields


async def test_feed_that_must_not_be_transformed_may_be_read(stage):
    proxy, origin, _ = await stage(cors=True)
    origin.publish(PATH, a_feed("one"), cache_control="max-age=600, no-transform")

    for _ in range(2):
        seen = (await proxy.get(PATH, origin="https://reader.example")).expect(200)
        assert seen.fields.get("access-control-allow-origin") == "*"


READER = {"origin": "https://reader.example"}


@pytest.mark.parametrize("status", [404, 410, 503])
async def test_failure_of_a_known_feed_may_be_read(stage, status):
    proxy, origin, clock = await stage(cors=True, stale_max=0, feed_min_interval=0, site_interval=0)
    origin.publish(PATH, a_feed("one"), cache_control="max-age=60")
    await proxy.get(PATH)
    origin.publish(PATH, b"no", status=status, content_type="text/plain")
    clock.advance(3600 * 48)

    seen = await proxy.get(PATH, **READER)
    converted = await proxy.get(PATH, accept="application/feed+json", **READER)

    assert seen.status >= 400
    assert seen.fields.get("access-control-allow-origin") == "*"
    assert converted.fields.get("access-control-allow-origin") == "*"


async def test_failure_of_an_unknown_or_private_target_permits_nothing(stage):
    proxy, origin, clock = await stage(cors=True, stale_max=0, feed_min_interval=0, site_interval=0)
    origin.publish(PATH, a_feed("one"), cache_control="max-age=60")
    await proxy.get(PATH)
    for path in (PATH, "/unknown"):
        origin.publish(path, b"no", status=404, content_type="text/plain")
    clock.advance(3600 * 48)

    unknown = await proxy.get("/unknown", **READER)
    personal = await proxy.get(PATH, authorization="Basic YTpi", **READER)
    proxy.rule(PATH, private=True)
    private = await proxy.get(PATH, **READER)

    for seen in (unknown, personal, private):
        assert seen.status == 404
        assert "access-control-allow-origin" not in seen.fields


async def test_conditional_response_of_a_conversion_may_be_read(door):
    proxy, origin, _ = await door(cors=True)
    origin.publish(PATH, a_feed("one"), cache_control="max-age=600")
    path = "/-/as/json/" + origin.url(PATH)
    first = (await proxy.ask(path, **READER)).expect(200)

    seen = (await proxy.ask(path, if_none_match=first.fields.get("etag"), **READER)).expect(304)

    assert seen.fields.get("access-control-allow-origin") == "*"


@pytest.mark.parametrize("is_on", [True, False])
async def test_lists_of_public_feeds_may_be_read(door, is_on):
    proxy, _, _ = await door(cors=is_on)

    for path in ("/-/feeds.opml", "/-/changes.xml"):
        seen = (await proxy.ask(path, **READER)).expect(200)
        assert (seen.fields.get("access-control-allow-origin") == "*") is is_on
