"""Requests of one reader do not affect the copy that others share."""

import pytest

from feedproxy.http.message import Fields, Response
from feedproxy.refresh.ingest import offload
from feedproxy.request.context import Entrance
from tests.stages.origin import a_feed


async def with_a_stale_copy(stage, **settings):
    proxy, origin, clock = await stage(**settings)
    origin.publish("/feed.rss", a_feed("good"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    clock.advance(minutes=10)
    return proxy, origin, clock


@pytest.mark.parametrize("changed", [False, True], ids=["not-modified", "changed"])
@pytest.mark.parametrize("fields", [{"cache_control": "no-store"}, {"authorization": "Basic eDp5"}])
async def test_shared_copy_is_kept_after_a_response_that_must_not_be_stored(stage, fields, changed):
    proxy, origin, clock = await with_a_stale_copy(stage)
    if changed:
        origin.publish("/feed.rss", a_feed("for one"), cache_control="max-age=60")
    (await proxy.get("/feed.rss", **fields)).expect(200)
    origin.break_down(503)
    clock.advance(minutes=10)

    seen = (await proxy.get("/feed.rss")).expect(200)

    assert b"good" in seen.body


@pytest.mark.parametrize("status", [401, 403, 410, 429, 503])
async def test_shared_copy_is_unaffected_by_refused_credentials(stage, status):
    proxy, origin, clock = await with_a_stale_copy(stage)

    def refuse(request):
        if "authorization" in request.fields:
            return Response(status, Fields([("Content-Type", "text/plain"), ("Retry-After", "9999")]), b"not you")
        return Response(200, Fields([("Content-Type", "application/rss+xml")]), a_feed("new"))

    origin.speak(refuse)
    await proxy.get("/feed.rss", authorization="Basic eDp5")
    clock.advance(minutes=2)

    seen = (await proxy.get("/feed.rss")).expect(200)

    assert b"new" in seen.body


async def test_gateway_removes_fields_that_select_another_resource(stage):
    """The answer would be kept, and given to all others."""
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed())

    await proxy.get(
        "/feed.rss",
        x_original_url="/admin",
        x_rewrite_url="/admin",
        x_host="elsewhere.example",
        x_forwarded_scheme="http",
        x_forwarded_prefix="/elsewhere",
        x_http_method_override="DELETE",
        x_api_key="passes",
    )

    passed = {name.lower() for name, _ in origin.heard if name.lower().startswith("x-")}
    assert passed == {"x-api-key"}


async def test_gateway_removes_fields_that_apply_to_a_whole_web_origin(stage):
    """One site could else speak for all that are read through it."""
    proxy, origin, _ = await stage()
    spoken = {
        "strict_transport_security": "max-age=31536000; includeSubDomains",
        "nel": '{"report_to":"x","max_age":9}',
        "report_to": '{"group":"x","max_age":9,"endpoints":[{"url":"https://elsewhere.example/"}]}',
        "alt_svc": 'h3="elsewhere.example:443"',
        "clear_site_data": '"*"',
    }
    origin.publish("/page", b"hello", content_type="text/plain", cache_control="max-age=60", **spoken)

    seen = (await proxy.get("/page")).expect(200)

    assert {name.lower() for name, _ in seen.fields}.isdisjoint(name.replace("_", "-") for name in spoken)


async def test_shared_copy_replaces_an_internal_error(stage, monkeypatch, caplog):
    proxy, origin, clock = await with_a_stale_copy(stage)
    origin.publish("/feed.rss", a_feed("poison"), cache_control="max-age=60")

    def stumble(*_, **__):
        raise RecursionError("as deep as no feed ever was")

    with monkeypatch.context() as patch:
        patch.setattr(offload, "ingest", stumble)
        seen = (await proxy.get("/feed.rss")).expect(200, cache="detail=internal-error")
    assert b"good" in seen.body
    assert f"response of {origin.url('/feed.rss')} not processed" in caplog.text

    clock.advance(hours=1)
    assert b"poison" in (await proxy.get("/feed.rss")).expect(200).body


@pytest.mark.parametrize("name", ["x_filler", "accept", "accept_language", "cache_control"])
async def test_shared_copy_is_updated_despite_a_field_that_the_origin_refuses(stage, name):
    """Sent whenever the origin may be asked, it would keep the feed in back-off until no copy is left."""
    proxy, origin, clock = await stage()

    def fussy(request):
        if any(len(value) > 4000 for _, value in request.fields):
            return Response(400, Fields([("Content-Type", "text/html")]), b"Bad Request")
        lines = [("Content-Type", "application/rss+xml"), ("Cache-Control", "max-age=60"), ("Vary", "Accept-Language")]
        return Response(200, Fields(lines), a_feed(f"hour {clock.now() // 3600:.0f}"))

    origin.speak(fussy)
    await proxy.get("/feed.rss")
    for _ in range(30):
        clock.advance(hours=1)
        (await proxy.get("/feed.rss", **{name: "y" * 5000})).expect(200)

    assert f"hour {clock.now() // 3600:.0f}".encode() in (await proxy.get("/feed.rss")).expect(200).body


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("lifetime", ["no-store", "max-age=60"])
async def test_gateway_answers_403_if_no_challenge_of_the_origin_can_be_answered_through_it(stage, method, lifetime):
    proxy, origin, _ = await stage()
    asks = [("Cache-Control", lifetime), ("WWW-Authenticate", "Digest realm=x, nonce=y"), ("WWW-Authenticate", "NTLM")]
    origin.speak(lambda _: Response(401, Fields(asks), b"who is it?"))

    for _ in range(2):
        seen = (await proxy.send(method, "/page")).expect(403, cache="detail=authentication")
        by_proxy = (await proxy.send(method, "/page", entrance=Entrance.PROXY)).expect(401)

        assert "www-authenticate" not in seen.fields
        assert method == "HEAD" or b"explicit proxy" in seen.body
        assert b"who is it" not in seen.body
        assert seen.fields.get("cache-control") == "no-store"
        assert by_proxy.fields.get_all("www-authenticate") == ["Digest realm=x, nonce=y", "NTLM"]


async def test_gateway_answers_403_to_a_streamed_request_if_no_challenge_can_be_answered_through_it(door):
    proxy, origin, _ = await door()
    asks = [("Content-Type", "text/plain"), ("WWW-Authenticate", "Negotiate")]
    origin.speak(lambda _: Response(401, Fields(asks), b"who is it?"))

    seen = (await proxy.send("POST", "/page", body=b"x")).expect(403, cache="detail=authentication")

    assert "www-authenticate" not in seen.fields
    assert seen.fields.get("content-security-policy") == "sandbox"
    assert b"explicit proxy" in seen.body
    assert b"who is it" not in seen.body


@pytest.mark.parametrize("status", [401, 200])
async def test_gateway_adds_the_origin_to_the_realm_and_drops_connection_authentication(stage, status):
    """To a browser all of them are one site, and a realm is known by its name."""
    proxy, origin, _ = await stage()
    asks = [("Content-Type", "text/plain"), ("WWW-Authenticate", 'Basic realm="other"'), ("WWW-Authenticate", "NTLM")]
    origin.speak(lambda _: Response(status, Fields(asks), b"who is it?"))

    seen = (await proxy.get("/page")).expect(status)
    by_proxy = (await proxy.send("GET", "/page", entrance=Entrance.PROXY)).expect(status)

    assert [value for name, value in seen.fields if name.lower() == "www-authenticate"] == [
        f'Basic realm="{origin.url("/").rstrip("/")} other"',
    ]
    assert by_proxy.fields.get_all("www-authenticate") == ['Basic realm="other"', "NTLM"]


async def test_forbidden_address_of_a_resolved_name_is_not_revealed(door, monkeypatch):
    proxy, _, _ = await door(allow_private=False)

    async def inside(name, port):
        return ["10.1.2.3"]

    monkeypatch.setattr(proxy.stage.app.parts.policy, "_lookup", inside)

    seen = (await proxy.ask("/http://intranet.corp/feed", method="POST")).expect(502, cache="detail=unreachable")

    assert b"10.1.2.3" not in seen.body
    assert b"intranet.corp" in seen.body
