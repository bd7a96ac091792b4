"""The first request for a feed with Accept-Language: its response is the shared copy unless it depends on the field."""

import asyncio

import pytest

from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields, Request, Response
from feedproxy.request.context import Entrance
from tests.scenarios.test_collapsing import at_once
from tests.stages.origin import a_feed

BASIC = "Basic bWU6c2VjcmV0"
GERMAN = "de-AT, de;q=0.9, *;q=0.1"
MODIFIED = "Fri, 20 Nov 2026 11:00:00 GMT"


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


def changes_of(proxy):
    """Return the list to which the target of each announced change is added."""
    changed: list[str] = []
    proxy.service.events.feed_changed.subscribe(lambda event: changed.append(event.resource.target))
    return changed


@pytest.mark.parametrize("entrance", [Entrance.GATEWAY, Entrance.PROXY])
@pytest.mark.parametrize("accept", ["", "application/rss+xml, */*;q=0.5"])
async def test_new_feed_requested_with_accept_language_is_fetched_once_for_all_languages(stage, entrance, accept):
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
    negotiating(origin, clock, last_modified=MODIFIED)

    await proxy.get("/feed.rss", accept_language="de")
    clock.advance(minutes=20)
    (await proxy.get("/feed.rss", accept_language="de")).expect(200, cache="fwd-status=304")

    assert origin.heard.get("if-modified-since") == MODIFIED


@pytest.mark.parametrize("by_client", [True, False], ids=["client", "background"])
@pytest.mark.parametrize("tag", ['"LANG"', '"same"', 'W/"same"', ""], ids=["own", "strong", "weak", "none"])
async def test_refresh_of_a_copy_fetched_with_accept_language_gets_the_language_for_all(stage, tag, by_client):
    """The origin has the same validators for all languages, and would confirm the copy of any of them."""
    proxy, origin, clock = await stage(site_interval=0, feed_hints="off")
    validators = {"last_modified": MODIFIED} | ({"etag": tag} if tag else {})
    negotiating(origin, clock, **validators)
    assert b"<title>de</title>" in (await proxy.get("/feed.rss", accept_language="de")).expect(200).body
    clock.advance(minutes=20)

    if by_client:
        await proxy.get("/feed.rss", accept_language="de")
    else:
        await proxy.service.admin.refresh(origin.url("/feed.rss"))

    assert [name for name, _ in origin.heard if name.lower().startswith("if-")] == []
    assert b"<title>xx</title>" in (await proxy.get("/feed.rss")).expect(200, cache="hit").body

    clock.advance(minutes=20)
    await proxy.service.admin.refresh(origin.url("/feed.rss"))
    assert origin.heard.get("if-modified-since") == MODIFIED


async def test_another_language_in_the_first_update_is_no_change_of_the_feed(stage):
    proxy, origin, clock = await stage(site_interval=0, feed_hints="off")
    changed = changes_of(proxy)
    negotiating(origin, clock)
    await proxy.get("/feed.rss", accept_language="de")
    await proxy.settled()
    changed.clear()

    clock.advance(minutes=20)
    await proxy.service.admin.refresh(origin.url("/feed.rss"))
    assert changed == []

    origin.speak(lambda request: Response(200, Fields([("Content-Type", "application/rss+xml")]), a_feed("new")))
    clock.advance(minutes=20)
    await proxy.service.admin.refresh(origin.url("/feed.rss"))
    assert changed == [origin.url("/feed.rss")]


async def test_content_pushed_for_a_copy_in_a_clients_language_is_a_change_of_the_feed(stage):
    proxy, origin, clock = await stage(site_interval=0, feed_hints="off")
    changed = changes_of(proxy)
    negotiating(origin, clock)
    await proxy.get("/feed.rss", accept_language="de")
    await proxy.settled()
    changed.clear()

    await proxy.service.admin.apply_push(origin.url("/feed.rss"), a_feed("new", "de"), "application/rss+xml")

    assert changed == [origin.url("/feed.rss")]


async def test_date_of_a_copy_in_a_clients_language_does_not_confirm_the_language_for_all(stage):
    """The origin has one date for all languages, and answers no condition."""
    proxy, origin, clock = await stage(site_interval=0, feed_hints="off")

    def answer(request: Request) -> Response:
        lines = {"Content-Type": "application/rss+xml", "Cache-Control": "max-age=600", "Last-Modified": MODIFIED}
        return Response(200, Fields(lines.items()), a_feed(request.fields.get("accept-language") or "xx"))

    origin.speak(answer)
    first = (await proxy.get("/feed.rss", accept_language="de")).expect(200)
    assert first.fields.get("last-modified") == MODIFIED

    for _ in range(2):
        clock.advance(minutes=20)
        await proxy.service.admin.refresh(origin.url("/feed.rss"))
        seen = (await proxy.get("/feed.rss", if_modified_since=MODIFIED)).expect(200, cache="hit")
        assert b"<title>xx</title>" in seen.body
        date = seen.fields.get("last-modified")
        (await proxy.get("/feed.rss", if_modified_since=date)).expect(304)


async def test_fetches_in_many_languages_record_no_change_of_a_feed_with_vary_accept_language(stage):
    proxy, origin, clock = await stage(site_interval=0)
    changed = changes_of(proxy)
    negotiating(origin, clock, vary="Accept-Language")
    for fields in ({}, {"accept_language": "fr"}):  # the second fetch adds the first one to the history
        await proxy.get("/feed.rss", **fields)
        await proxy.settled()
    before = proxy.service.store.get(origin.url("/feed.rss"))
    changed.clear()

    for number in range(1, 13):
        await proxy.get("/feed.rss", accept_language=f"{('de', 'en')[number % 2]};q=0.{number:03}")
        await proxy.settled()

    after = proxy.service.store.get(origin.url("/feed.rss"))
    assert changed == []
    assert (after.changes, after.version_records) == (before.changes, before.version_records)
    assert origin.requests > 8  # more than the variants that are stored


async def test_change_is_noticed_after_a_further_language_was_fetched(stage):
    """The feed is the same in all languages, although its Vary names the field."""
    proxy, origin, clock = await stage(site_interval=0, feed_hints="off")
    changed = changes_of(proxy)
    origin.publish("/feed.rss", a_feed("one"), cache_control="max-age=600", vary="Accept-Language")
    await proxy.get("/feed.rss")
    await proxy.settled()
    changed.clear()
    origin.publish("/feed.rss", a_feed("two", "one"), cache_control="max-age=600", vary="Accept-Language")

    await proxy.get("/feed.rss", accept_language="de")
    await proxy.settled()
    clock.advance(minutes=20)
    await proxy.get("/feed.rss")
    await proxy.settled()

    assert changed == [origin.url("/feed.rss")]


async def test_requests_with_and_without_a_language_record_no_change_of_a_no_store_feed(stage):
    proxy, origin, clock = await stage(site_interval=0, feed_min_interval=0)
    changed = changes_of(proxy)
    negotiating(origin, clock, vary="Accept-Language", cache_control="no-store")
    await proxy.get("/feed.rss")
    await proxy.settled()
    before = proxy.service.store.get(origin.url("/feed.rss"))
    changed.clear()

    for fields in ({"accept_language": "de"}, {}, {"accept_language": "fr"}, {}):
        await proxy.get("/feed.rss", **fields)
        await proxy.settled()

    after = proxy.service.store.get(origin.url("/feed.rss"))
    assert changed == []
    assert after.changes == before.changes
    assert after.channel.content_digest == before.channel.content_digest


async def test_collapsing_fetches_a_known_page_in_several_languages_at_the_same_time(stage):
    proxy, origin, clock = await stage(site_interval=0)
    negotiating(origin, clock, media_type="text/plain")
    for language in ("de", "fr"):
        await proxy.get("/page", accept_language=language)
    clock.advance(minutes=20)
    origin.gate, before = asyncio.Event(), origin.requests

    requests = [
        asyncio.ensure_future(proxy.get("/page", accept_language=language)) for language in ("de", "fr", "it", "de")
    ]
    await origin.asked(before + 3)
    origin.gate.set()

    assert [seen.expect(200).body for seen in await asyncio.gather(*requests)] == [b"de", b"fr", b"it", b"de"]
    assert origin.requests == before + 3


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


async def test_response_in_a_requested_language_does_not_replace_a_copy_fetched_at_the_same_time(stage):
    proxy, origin, clock = await stage(site_interval=0)
    negotiating(origin, clock)

    plain, german = await at_once(proxy, origin, {}, {"accept_language": "de"})

    assert b"<title>xx</title>" in plain.expect(200).body
    assert b"<title>de</title>" in german.expect(200).body
    assert b"<title>xx</title>" in (await proxy.get("/feed.rss")).expect(200, cache="hit").body
