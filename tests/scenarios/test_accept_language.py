"""The first request for a feed with Accept-Language: its response is the shared copy unless it depends on the field."""

import pytest

from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields, Request, Response
from feedproxy.request.entrance import Entrance
from tests.scenarios.test_collapsing import at_once
from tests.stages.origin import a_feed

BASIC = "Basic bWU6c2VjcmV0"
GERMAN = "de-AT, de;q=0.9, *;q=0.1"


def negotiating(origin, clock, *, media_type="application/rss+xml", status=200, **lines):
    """The origin answers in the requested language, and has one Last-Modified for all languages."""

    def answer(request: Request) -> Response:
        language = (request.fields.get("accept-language") or "xx")[:2]
        fields = {"Content-Type": media_type, "Date": format_http_date(clock.now()), "Cache-Control": "max-age=600"}
        fields |= {name.replace("_", "-").title(): value.replace("LANG", language) for name, value in lines.items()}
        tag, date = request.fields.get("if-none-match"), request.fields.get("if-modified-since")
        if (tag == fields["Etag"]) if tag and "Etag" in fields else (date and date == fields.get("Last-Modified")):
            return Response(304, Fields(fields.items()))
        content = a_feed(language) if "rss" in media_type else language.encode()
        return Response(status, Fields(fields.items()), content)

    origin.speak(answer)


@pytest.mark.parametrize("entrance", [Entrance.GATEWAY, Entrance.PROXY])
@pytest.mark.parametrize("accept", ["", "application/rss+xml, */*;q=0.5"])
async def test_new_feed_requested_with_accept_language_is_fetched_once_for_all(stage, entrance, accept):
    proxy, origin, _ = await stage(site_interval=0)
    proxy.entrance = entrance
    origin.publish("/feed.rss", a_feed("one"), cache_control="max-age=600")
    fields = {"accept": accept} if accept else {}

    (await proxy.get("/feed.rss", accept_language=GERMAN, **fields)).expect(200, cache="fwd=uri-miss; stored")
    await proxy.settled()

    assert (origin.requests, origin.heard.get("accept-language")) == (1, GERMAN)
    for language in ({}, {"accept_language": "fr"}, {"accept_language": GERMAN}):
        (await proxy.get("/feed.rss", **language)).expect(200, cache="hit")
    assert origin.requests == 1


async def test_head_for_a_new_feed_with_accept_language_stores_the_shared_copy(stage):
    proxy, origin, _ = await stage(site_interval=0)
    origin.publish("/feed.rss", a_feed("one"), cache_control="max-age=600")

    assert (await proxy.head("/feed.rss", accept_language="de")).status == 200
    await proxy.settled()

    (await proxy.get("/feed.rss")).expect(200, cache="hit")
    assert origin.requests == 1


@pytest.mark.parametrize("control", ["max-age=0", "no-cache", "max-age=600"])
async def test_shared_copy_fetched_with_accept_language_is_not_fetched_again_at_once(stage, control):
    proxy, origin, _ = await stage(site_interval=0, feed_min_interval=0)
    origin.publish("/feed.rss", a_feed("one"), cache_control=control)

    await proxy.get("/feed.rss", accept_language="de")
    await proxy.settled()

    assert origin.requests == 1


@pytest.mark.parametrize(
    "language",
    [
        "evil-1",  # a primary subtag with four letters
        "de-x-private",
        "de-a1-b2-c3-d4",
        "de-languagetag",
        "de;q=1.5",
        "de;q=0.1234",
        "de;level=1",
        "de/at",
        "de, , en",
        "de-AT, " * 19 + "de",
    ],
)
async def test_feed_requested_with_an_unusual_accept_language_is_fetched_for_it_alone(stage, language):
    proxy, origin, clock = await stage(site_interval=0)
    negotiating(origin, clock)

    await proxy.get("/feed.rss", accept_language=language)
    await proxy.settled()

    assert b"<title>xx</title>" in (await proxy.get("/feed.rss")).expect(200, cache="hit").body
    assert origin.requests == 2


async def test_feed_requested_with_several_lines_of_accept_language_is_fetched_for_them_alone(stage):
    proxy, origin, clock = await stage(site_interval=0)
    negotiating(origin, clock)

    lines = Fields([("Accept-Language", "de"), ("Accept-Language", "en")])
    await proxy.stage.send("GET", "/feed.rss", lines, entrance=Entrance.GATEWAY, address="192.0.2.1")
    await proxy.settled()

    assert b"<title>xx</title>" in (await proxy.get("/feed.rss")).expect(200, cache="hit").body


@pytest.mark.parametrize("vary", ["Accept-Language", "Accept-Encoding, accept-language"])
async def test_feed_whose_vary_names_accept_language_is_a_variant(stage, vary):
    proxy, origin, clock = await stage(site_interval=0)
    negotiating(origin, clock, vary=vary)

    for language in ("de", "fr"):
        seen = (await proxy.get("/feed.rss", accept_language=language)).expect(200, cache="stored")
        assert f"<title>{language}</title>".encode() in seen.body
    assert b"<title>de</title>" in (await proxy.get("/feed.rss", accept_language="de")).expect(200, cache="hit").body


async def test_feed_with_content_language_is_stored_for_that_accept_language_only(stage):
    proxy, origin, clock = await stage(site_interval=0)
    negotiating(origin, clock, content_language="LANG")

    assert b"<title>de</title>" in (await proxy.get("/feed.rss", accept_language="de")).expect(200).body
    await proxy.settled()

    assert b"<title>xx</title>" in (await proxy.get("/feed.rss")).expect(200, cache="hit").body
    assert b"<title>xx</title>" in (await proxy.get("/feed.rss", accept_language="fr")).expect(200, cache="hit").body
    assert origin.requests == 2


@pytest.mark.parametrize("status", [200, 404])
async def test_page_or_error_is_stored_for_its_accept_language_only(stage, status):
    proxy, origin, clock = await stage(site_interval=0)
    negotiating(origin, clock, media_type="text/plain", status=status)

    for fields, language in (({"accept_language": "de"}, b"de"), ({"accept_language": "fr"}, b"fr"), ({}, b"xx")):
        (await proxy.get("/page", **fields)).expect(status, cache="stored", body=language)
    (await proxy.get("/page", accept_language="de")).expect(status, cache="hit", body=b"de")


@pytest.mark.parametrize("control", ["private, max-age=600", "no-store"])
async def test_response_that_is_not_stored_has_the_requested_language(stage, control):
    proxy, origin, clock = await stage(site_interval=0)
    negotiating(origin, clock, cache_control=control)

    seen = (await proxy.get("/feed.rss", accept_language="de")).expect(200)

    assert b"<title>de</title>" in seen.body
    assert "stored" not in seen.cache
    assert b"<title>xx</title>" in (await proxy.get("/feed.rss")).expect(200).body


async def test_request_with_no_store_and_accept_language_makes_no_shared_copy(stage):
    proxy, origin, clock = await stage(site_interval=0)
    negotiating(origin, clock)

    await proxy.get("/feed.rss", accept_language="de", cache_control="no-store")
    await proxy.settled()

    assert b"<title>xx</title>" in (await proxy.get("/feed.rss")).expect(200).body


@pytest.mark.parametrize("field", ["authorization", "x_api_key"])
async def test_request_with_credentials_and_accept_language_makes_no_shared_copy(stage, field):
    proxy, origin, clock = await stage(site_interval=0)
    negotiating(origin, clock, cache_control="public, max-age=600")

    await proxy.get("/feed.rss", accept_language="de", **{field: BASIC})
    await proxy.settled()

    assert b"<title>xx</title>" in (await proxy.get("/feed.rss")).expect(200).body


@pytest.mark.parametrize("status", [301, 302])
async def test_redirect_by_language_is_no_shared_copy(stage, status):
    proxy, origin, _ = await stage(site_interval=0)

    def answer(request: Request) -> Response:
        language = request.fields.get("accept-language") or "xx"
        if request.target.endswith("/feed.rss"):
            return Response(status, Fields([("Location", f"/{language}.rss")]))
        named = request.target.rpartition("/")[2].partition(".")[0]
        lines = [("Content-Type", "application/rss+xml"), ("Cache-Control", "max-age=600")]
        return Response(200, Fields(lines), a_feed(named))

    origin.speak(answer)

    assert b"<title>de</title>" in (await proxy.get("/feed.rss", accept_language="de")).expect(200).body
    await proxy.settled()

    assert b"<title>xx</title>" in (await proxy.get("/feed.rss")).expect(200).body
    resource = proxy.service.store.get(origin.url("/feed.rss"))
    assert resource is not None
    assert resource.relocation is None or resource.relocation.location.endswith("/xx.rss")


async def test_language_in_shared_fields_stays_in_the_shared_copy(stage):
    proxy, origin, clock = await stage(site_interval=0, shared_fields=("Accept-Language",))
    negotiating(origin, clock, last_modified="Fri, 20 Nov 2026 11:00:00 GMT")

    await proxy.get("/feed.rss", accept_language="de")
    clock.advance(minutes=20)
    (await proxy.get("/feed.rss", accept_language="de")).expect(200, cache="fwd-status=304")

    assert origin.heard.get("if-modified-since") == "Fri, 20 Nov 2026 11:00:00 GMT"


@pytest.mark.parametrize("by_client", [True, False], ids=["client", "background"])
@pytest.mark.parametrize("tag", ['"LANG"', 'W/"same"', ""], ids=["strong", "weak", "none"])
async def test_refresh_of_a_copy_fetched_with_accept_language_gets_the_language_for_all(stage, tag, by_client):
    """The origin has one date for all languages, and would confirm the copy of any of them by it."""
    proxy, origin, clock = await stage(site_interval=0, feed_hints="off")
    validators = {"last_modified": "Fri, 20 Nov 2026 11:00:00 GMT"} | ({"etag": tag} if tag else {})
    negotiating(origin, clock, **validators)
    assert b"<title>de</title>" in (await proxy.get("/feed.rss", accept_language="de")).expect(200).body
    clock.advance(minutes=20)

    if by_client:
        await proxy.get("/feed.rss", accept_language="de")
    else:
        await proxy.service.admin.refresh(origin.url("/feed.rss"))

    sent = [(name, value) for name, value in origin.heard if name.lower().startswith("if-")]
    assert sent == ([("If-None-Match", '"de"')] if tag == '"LANG"' else [])
    assert b"<title>xx</title>" in (await proxy.get("/feed.rss")).expect(200, cache="hit").body

    clock.advance(minutes=20)
    await proxy.service.admin.refresh(origin.url("/feed.rss"))
    assert origin.heard.get("if-modified-since") == "Fri, 20 Nov 2026 11:00:00 GMT"


async def test_copy_fetched_with_accept_language_is_validated_by_its_strong_tag(stage):
    proxy, origin, clock = await stage(site_interval=0, feed_hints="off")
    negotiating(origin, clock, etag='"same"', last_modified="Fri, 20 Nov 2026 11:00:00 GMT")
    await proxy.get("/feed.rss", accept_language="de")
    for date in (None, "Fri, 20 Nov 2026 11:00:00 GMT"):
        clock.advance(minutes=20)
        (await proxy.get("/feed.rss")).expect(200, cache="fwd-status=304")
        assert (origin.heard.get("if-none-match"), origin.heard.get("if-modified-since")) == ('"same"', date)


async def test_collapsing_fetches_a_new_feed_once_for_concurrent_requests_with_several_languages(stage):
    proxy, origin, _ = await stage(site_interval=0)
    origin.publish("/feed.rss", a_feed("one"), cache_control="max-age=600")

    seen = await at_once(proxy, origin, *({"accept_language": name} for name in ("de", "en", "fr", "de") * 5))
    await proxy.settled()

    assert all(b"one" in each.expect(200).body for each in seen)
    assert origin.requests == 1


async def test_collapsing_answers_concurrent_requests_for_a_page_in_their_languages(stage):
    proxy, origin, clock = await stage(site_interval=0)
    negotiating(origin, clock, media_type="text/plain")

    seen = await at_once(proxy, origin, *({"accept_language": name} for name in ("de", "en", "de", "en")))

    assert [each.expect(200).body for each in seen] == [b"de", b"en", b"de", b"en"]
    assert origin.requests == 2


async def test_copy_that_is_fetched_meanwhile_is_not_replaced_by_one_in_a_language(stage):
    proxy, origin, clock = await stage(site_interval=0)
    negotiating(origin, clock)

    plain, german = await at_once(proxy, origin, {}, {"accept_language": "de"})

    assert b"<title>xx</title>" in plain.expect(200).body
    assert b"<title>de</title>" in german.expect(200).body
    assert b"<title>xx</title>" in (await proxy.get("/feed.rss")).expect(200, cache="hit").body
