"""Several variants of one target."""

import asyncio

import pytest

from feedproxy.clock import ManualClock
from feedproxy.http.content_negotiation import vary_names
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields, Request, Response
from feedproxy.request.context import Entrance
from feedproxy.upstream.upstream_errors import Unreachable
from tests.stages.origin import Origin, a_feed

WORDS = {"en": "good morning", "de": "guten Morgen", "fr": "bonjour"}
BASIC = "Basic bWU6c2VjcmV0"


def speaking(origin: Origin, clock: ManualClock, name: str, *, feed: bool = True, **more: str) -> None:
    """The origin answers with the value of this request field, and lists the field in Vary."""

    def answer(request: Request) -> Response:
        said = request.fields.combined(name) or "nothing"
        lines = [
            ("Date", format_http_date(clock.now())),
            ("Content-Type", "application/rss+xml" if feed else "text/plain"),
            ("Vary", name),
            ("Cache-Control", "max-age=600"),
        ]
        fields = Fields(lines)
        for key, value in more.items():
            fields = fields.with_field(key.replace("_", "-"), value)
        return Response(200, fields, a_feed(said) if feed else said.encode())

    origin.speak(answer)


async def test_variant_is_stored_for_each_language(stage):
    proxy, origin, clock = await stage(site_interval=0)
    speaking(origin, clock, "Accept-Language")

    for language in WORDS:
        (await proxy.get("/feed.rss", accept_language=language)).expect(200, cache="stored")
    for language in WORDS:
        seen = (await proxy.get("/feed.rss", accept_language=language)).expect(200, cache="hit")
        assert f"<title>{language}</title>".encode() in seen.body

    assert origin.requests == 3


async def test_variant_for_an_unknown_language_is_a_vary_miss(stage):
    proxy, origin, clock = await stage(site_interval=0)
    speaking(origin, clock, "Accept-Language")
    await proxy.get("/feed.rss", accept_language="en")

    (await proxy.get("/feed.rss", accept_language="de")).expect(200, cache="fwd=vary-miss; stored")
    (await proxy.get("/feed.rss")).expect(200, cache="fwd=vary-miss; stored")


async def test_variant_selection_ignores_case_and_whitespace_of_languages(stage):
    proxy, origin, clock = await stage()
    speaking(origin, clock, "Accept-Language")
    await proxy.get("/feed.rss", accept_language="de-AT, en;q=0.5")

    (await proxy.get("/feed.rss", accept_language="de-at,  en; q=0.5")).expect(200, cache="hit")


async def test_variant_selection_compares_every_field_in_vary(stage):
    proxy, origin, clock = await stage(site_interval=0)
    speaking(origin, clock, "Accept-Language", vary="Accept-Language, X-Layout")
    await proxy.get("/feed.rss", accept_language="de", x_layout="wide")

    (await proxy.get("/feed.rss", accept_language="de", x_layout="wide")).expect(200, cache="hit")
    (await proxy.get("/feed.rss", accept_language="de", x_layout="slim")).expect(200, cache="fwd=vary-miss")
    (await proxy.get("/feed.rss", accept_language="en")).expect(200, cache="fwd=vary-miss")


async def test_variant_that_is_stale_is_validated_with_its_own_etag(stage):
    proxy, origin, clock = await stage(site_interval=0, feed_hints="off")
    speaking(origin, clock, "Accept-Language", etag='"en"')
    await proxy.get("/feed.rss", accept_language="en")
    speaking(origin, clock, "Accept-Language", etag='"de"')
    await proxy.get("/feed.rss", accept_language="de")
    clock.advance(minutes=20)

    await proxy.get("/feed.rss", accept_language="en")

    assert origin.heard.get("if-none-match") == '"en"'


async def test_vary_star_causes_a_request_each_time(stage):
    proxy, origin, clock = await stage(site_interval=0)
    speaking(origin, clock, "Accept", vary="*")

    for count in range(1, 4):
        seen = (await proxy.get("/feed.rss")).expect(200)
        assert "hit" not in seen.cache
        assert origin.requests == count


async def test_vary_user_agent_is_ignored_for_a_feed_fetched_by_the_proxy(stage):
    proxy, origin, clock = await stage()
    speaking(origin, clock, "User-Agent")
    await proxy.get("/feed.rss", user_agent="reader/1")

    (await proxy.get("/feed.rss", user_agent="other/2")).expect(200, cache="hit")
    assert origin.requests == 1
    assert (origin.heard.get("user-agent") or "").startswith("feedproxy/")


async def test_vary_user_agent_in_explicit_proxy_keeps_variants_of_a_page(stage):
    proxy, origin, clock = await stage()
    proxy.entrance = Entrance.PROXY
    speaking(origin, clock, "User-Agent", feed=False)

    (await proxy.get("/page", user_agent="reader/1")).expect(200, body=b"reader/1")
    (await proxy.get("/page", user_agent="other/2")).expect(200, cache="fwd=vary-miss", body=b"other/2")
    (await proxy.get("/page", user_agent="reader/1")).expect(200, cache="hit", body=b"reader/1")


async def test_vary_user_agent_separates_gateway_and_explicit_proxy(stage):
    proxy, origin, clock = await stage()
    speaking(origin, clock, "User-Agent", feed=False)
    await proxy.send("GET", "/page", entrance=Entrance.GATEWAY, user_agent="reader/1")

    seen = await proxy.send("GET", "/page", entrance=Entrance.PROXY, user_agent="reader/1")

    seen.expect(200, cache="fwd=vary-miss", body=b"reader/1")


async def test_vary_accept_encoding_makes_no_variants_of_a_feed(stage):
    proxy, origin, clock = await stage()
    speaking(origin, clock, "Accept-Encoding")

    for coding in ("identity", "gzip", "br", "zstd", "gzip;q=0.5, br"):
        assert b"gzip, br, zstd" in (await proxy.get("/feed.rss", accept_encoding=coding)).expect(200).plain

    assert origin.requests == 1


# -- credentials


async def test_response_to_credentials_is_not_stored(stage):
    proxy, origin, clock = await stage(site_interval=0)
    speaking(origin, clock, "Authorization", vary="Accept")

    mine = (await proxy.get("/feed.rss", authorization=BASIC)).expect(200)
    yours = (await proxy.get("/feed.rss")).expect(200)

    assert BASIC.encode() in mine.body
    assert b"stored" not in mine.cache.encode()
    assert b"nothing" in yours.body
    assert "hit" not in yours.cache


@pytest.mark.parametrize("permission", ["public, max-age=600", "s-maxage=600", "must-revalidate, max-age=600"])
async def test_response_to_credentials_is_reused_for_the_same_credentials_if_permitted(stage, permission):
    """RFC 9111, 3.5, would let everybody have it. The origin may not have thought of who asks."""
    proxy, origin, clock = await stage(site_interval=0)
    speaking(origin, clock, "Authorization", vary="Accept", cache_control=permission)

    (await proxy.get("/feed.rss", authorization=BASIC)).expect(200, cache="stored")
    mine = (await proxy.get("/feed.rss", authorization=BASIC)).expect(200, cache="hit")
    yours = (await proxy.get("/feed.rss")).expect(200, cache="stored")

    assert BASIC.encode() in mine.body
    assert BASIC.encode() not in yours.body


async def test_vary_authorization_separates_shared_responses(stage):
    proxy, origin, clock = await stage(site_interval=0)
    speaking(origin, clock, "Authorization", cache_control="public, max-age=600")

    await proxy.get("/feed.rss", authorization=BASIC)
    assert b"nothing" in (await proxy.get("/feed.rss")).expect(200).body
    mine = await proxy.get("/feed.rss", authorization=BASIC)

    assert BASIC.encode() in mine.expect(200, cache="hit").body


async def test_response_to_credentials_does_not_replace_a_failure(stage):
    proxy, origin, clock = await stage(site_interval=0)
    speaking(origin, clock, "Authorization", vary="Accept")
    await proxy.get("/feed.rss", authorization=BASIC)
    clock.advance(minutes=20)
    origin.break_down(503)

    seen = await proxy.get("/feed.rss")

    assert seen.status == 503
    assert BASIC.encode() not in seen.body


async def test_refusal_401_is_not_reused_for_a_request_with_credentials(stage):
    proxy, origin, _ = await stage()

    def guarded(request: Request) -> Response:
        if request.fields.get("authorization") == BASIC:
            return Response(200, Fields([("Content-Type", "application/rss+xml")]), a_feed("members"))
        return Response(401, Fields([("WWW-Authenticate", 'Basic realm="x"')]), b"who are you?")

    origin.speak(guarded)

    (await proxy.get("/feed.rss")).expect(401)
    assert b"members" in (await proxy.get("/feed.rss", authorization=BASIC)).expect(200).body
    refused = (await proxy.get("/feed.rss")).expect(401)
    assert b"members" not in refused.body
    assert refused.fields.get("www-authenticate") == f'Basic realm="{origin.url("")} x"'


async def test_own_response_to_credentials_is_repeated_between_hits_of_other_clients(stage):
    proxy, origin, _ = await stage(site_interval=0)

    def answer(request: Request) -> Response:
        fields = Fields([("Content-Type", "application/rss+xml"), ("Cache-Control", "public, max-age=600")])
        return Response(200, fields, a_feed(request.fields.get("x-api-key") or "everybody"))

    origin.speak(answer)
    (await proxy.get("/feed.rss", x_api_key="alice")).expect(200)
    (await proxy.get("/feed.rss")).expect(200)

    for _ in range(4):
        assert b"everybody" in (await proxy.get("/feed.rss")).expect(200, cache="hit").body
        assert b"alice" in (await proxy.get("/feed.rss", x_api_key="alice")).expect(200, cache="hit").body


# -- cookies, private, no-store


@pytest.mark.parametrize("status", [200, 304])
async def test_stored_page_is_removed_after_a_response_with_no_store(stage, status):
    proxy, origin, clock = await stage()
    page = {"content_type": "text/plain", "etag": '"1"'}
    origin.publish("/page", b"for everybody", cache_control="max-age=60", **page)
    await proxy.get("/page")
    clock.advance(minutes=2)
    if status == 200:
        page["etag"] = '"2"'
    origin.publish("/page", b"for everybody", cache_control="no-store", **page)
    await proxy.get("/page")
    origin.break_down(Unreachable("no route"))

    assert (await proxy.get("/page")).status == 502


async def test_response_to_credentials_is_not_shared_after_a_304_without_permission(stage):
    proxy, origin, clock = await stage(shared_fields=("authorization",))
    page = {"content_type": "text/plain", "etag": '"1"'}
    origin.publish("/page", b"text", cache_control="s-maxage=60", **page)
    await proxy.get("/page", authorization="Basic eDp5")
    clock.advance(minutes=2)
    origin.publish("/page", b"text", cache_control="max-age=60", **page)

    (await proxy.get("/page")).expect(200, cache="fwd-status=304")
    (await proxy.get("/page")).expect(200, cache="fwd=uri-miss")


async def test_head_for_a_redirected_page_gets_the_redirect(stage):
    proxy, origin, clock = await stage()
    origin.publish("/page", b"text", content_type="text/plain", cache_control="max-age=60")
    await proxy.get("/page")
    clock.advance(minutes=2)
    origin.publish("/page", b"", status=301, location="/nowhere")

    assert (await proxy.head("/page")).status == 301


async def test_response_to_a_cookie_is_stored_only_with_explicit_freshness(stage):
    proxy, origin, _clock = await stage(site_interval=0)
    proxy.entrance = Entrance.PROXY
    origin.publish("/said.rss", a_feed(), cache_control="max-age=600")
    origin.publish("/silent.rss", a_feed())

    (await proxy.get("/said.rss", cookie="a=b")).expect(200, cache="stored")
    await proxy.get("/silent.rss", cookie="a=b")
    assert "hit" not in (await proxy.get("/silent.rss")).expect(200).cache


async def test_vary_cookie_separates_responses(stage):
    proxy, origin, clock = await stage(site_interval=0)
    proxy.entrance = Entrance.PROXY
    speaking(origin, clock, "Cookie")

    assert b"a=1" in (await proxy.get("/feed.rss", cookie="a=1")).body
    assert b"a=2" in (await proxy.get("/feed.rss", cookie="a=2")).body
    assert b"nothing" in (await proxy.get("/feed.rss")).body
    assert b"a=1" in (await proxy.get("/feed.rss", cookie="a=1")).expect(200, cache="hit").body


@pytest.mark.parametrize("directive", ["no-store", "private", "private, max-age=600"])
async def test_private_or_no_store_response_is_fetched_for_each_request(stage, directive):
    proxy, origin, _clock = await stage(site_interval=0)
    numbers = iter(range(10))

    def answer(_: Request) -> Response:
        lines = [("Content-Type", "application/rss+xml"), ("Cache-Control", directive)]
        return Response(200, Fields(lines), a_feed(f"number {next(numbers)}"))

    origin.speak(answer)

    assert b"number 0" in (await proxy.get("/feed.rss")).expect(200).body
    assert b"number 1" in (await proxy.get("/feed.rss")).expect(200).body


async def test_variants_of_a_target_are_limited(stage):
    proxy, origin, clock = await stage(site_interval=0)
    speaking(origin, clock, "X-Anything", feed=False)

    await asyncio.gather(*(proxy.get("/page", x_anything=str(number)) for number in range(20)))

    held = proxy.service.store.get(origin.url("/page"))
    assert held is not None
    assert len(held.variants) <= 8


@pytest.mark.parametrize("directive", ["private", "no-cache"])
async def test_private_or_no_cache_field_is_sent_with_the_first_response_only(stage, directive):
    proxy, origin, _ = await stage()
    origin.publish(
        "/page", b"text", content_type="text/plain", cache_control=f'max-age=60, {directive}="x-mine"', x_mine="1"
    )

    first = (await proxy.get("/page")).expect(200, cache="stored")
    second = (await proxy.get("/page")).expect(200, cache="hit")

    assert first.fields.get("x-mine") == "1"
    assert "x-mine" not in second.fields


@pytest.mark.parametrize(
    "document",
    [
        '{"title": "Cart", "items": [{"id": 0, "of": "WHOSE"}]}',
        "<feed><cow>WHOSE</cow></feed>",
        "<rss><memory>WHOSE</memory></rss>",
        "<rss><channel><title>WHOSE</title><frequency/></channel></rss>",
    ],
)
async def test_document_with_only_the_root_of_a_feed_keeps_its_vary_and_freshness(stage, document):
    proxy, origin, clock = await stage(site_interval=0)
    json = document.startswith("{")
    label = "application/json" if json else "application/xml"

    def answer(request: Request) -> Response:
        said = request.fields.combined("X-Api-Key") or "nobody"
        lines = [("Date", format_http_date(clock.now())), ("Content-Type", label), ("Vary", "X-Api-Key")]
        return Response(200, Fields([*lines, ("ETag", '"1"')]), document.replace("WHOSE", said).encode())

    origin.speak(answer)

    for whose in ("ann", "bob", "ann"):
        seen = (await proxy.get("/list", x_api_key=whose)).expect(200)
        assert (seen.plain.decode(), seen.fields.get("content-type")) == (document.replace("WHOSE", whose), label)
        assert "hit" not in seen.cache
    assert origin.requests == 3


async def test_accept_language_is_sent_for_a_new_target_of_a_site_with_a_feed_of_one_language(stage):
    proxy, origin, clock = await stage(site_interval=0)
    origin.publish("/first.rss", a_feed("one"), cache_control="max-age=600")
    await proxy.get("/first.rss", accept_language="de")
    await proxy.settled()
    speaking(origin, clock, "Accept-Language")

    for path, language in (("/second.rss", "de"), ("/third.rss", "fr")):
        seen = (await proxy.get(path, accept_language=language)).expect(200, cache="stored")
        assert f"<title>{language}</title>".encode() in seen.body


@pytest.mark.parametrize("control", ["no-store", "private"])
async def test_feed_that_is_not_stored_comes_in_the_language_of_each_request(stage, control):
    proxy, origin, clock = await stage(site_interval=0, feed_min_interval=0)
    speaking(origin, clock, "Accept-Language", cache_control=control)
    await proxy.get("/feed.rss", accept_language="en")
    await proxy.settled()
    asked = origin.requests

    for language in ("en", "de", "de", "fr"):
        seen = (await proxy.get("/feed.rss", accept_language=language)).expect(200)
        assert f"<title>{language}</title>".encode() in seen.plain
    assert b"<title>nothing</title>" in (await proxy.get("/feed.rss")).expect(200).plain

    assert origin.requests == asked + 5
    assert all(request.fields.get("accept-language") != "en" for request in origin.log[asked + 1 :])


async def test_feed_that_becomes_multilingual_and_not_storable_comes_in_the_requested_language(stage):
    proxy, origin, clock = await stage(site_interval=0, feed_min_interval=0)
    origin.publish("/feed.rss", a_feed("one"), cache_control="max-age=60")
    await proxy.get("/feed.rss")
    clock.advance(minutes=5)
    speaking(origin, clock, "Accept-Language", cache_control="no-store")

    seen = (await proxy.get("/feed.rss", accept_language="de", cache_control="no-cache")).expect(200)

    assert b"<title>de</title>" in seen.plain


async def test_unusual_value_of_a_field_in_vary_causes_one_request_each(stage):
    proxy, origin, clock = await stage(site_interval=0, feed_min_interval=0)
    speaking(origin, clock, "Accept-Language", cache_control="no-store")
    await proxy.get("/feed.rss")
    await proxy.settled()
    asked = origin.requests

    for _ in range(3):
        seen = (await proxy.get("/feed.rss", accept_language="<de>")).expect(200)
        assert b"<title>nothing</title>" in seen.plain

    assert origin.requests == asked + 3


@pytest.mark.parametrize("control", ["max-age=60", "no-store"])
async def test_fetches_in_alternating_languages_record_no_change_of_the_feed(stage, control):
    """The origin answers no condition, and each fetch brings another language than the one before."""
    proxy, origin, clock = await stage(site_interval=0, feed_min_interval=0)
    changed: list[str] = []
    proxy.service.events.feed_changed.subscribe(lambda event: changed.append(event.resource.target))
    speaking(origin, clock, "Accept-Language", cache_control=control)
    for language in ("de", "en"):
        await proxy.get("/feed.rss", accept_language=language)
        await proxy.settled()
    changed.clear()
    resource = proxy.service.store.get(origin.url("/feed.rss"))
    before = len(resource.changes)

    for language in ("de", "en", "de", "en"):
        clock.advance(minutes=5)
        (await proxy.get("/feed.rss", accept_language=language)).expect(200, cache="fwd-status=200")
        await proxy.settled()

    assert changed == []
    assert len(proxy.service.store.get(origin.url("/feed.rss")).changes) == before


# -- background refreshes of variants


SWR = "public, max-age=60, stale-while-revalidate=86400"


async def test_stale_variant_is_refreshed_in_the_background_with_its_own_fields(stage):
    proxy, origin, clock = await stage(site_interval=0)
    edition = 0

    def answer(request: Request) -> Response:
        language = request.fields.get("accept-language") or "en"
        fields = {"Content-Type": "text/plain", "Cache-Control": SWR, "Vary": "Accept-Language"}
        return Response(200, Fields(fields.items()), f"{language} {edition}".encode())

    origin.speak(answer)
    await proxy.get("/page")
    await proxy.get("/page", accept_language="de")

    for edition in range(1, 4):
        clock.advance(minutes=10)
        seen = (await proxy.get("/page", accept_language="de")).expect(200, cache="detail=stale-while-revalidate")
        assert seen.body == f"de {edition - 1}".encode()
        await proxy.settled()

    assert [request.fields.get("accept-language") for request in origin.log] == [None, *["de"] * 4]


@pytest.mark.parametrize("name", ["authorization", "cookie"])
async def test_stale_response_to_credentials_is_refreshed_before_it_is_sent(stage, name):
    proxy, origin, clock = await stage(site_interval=0)
    origin.publish("/page", b"old", content_type="text/plain", cache_control=SWR)
    await proxy.get("/page", entrance=Entrance.PROXY, **{name: "mine"})

    origin.publish("/page", b"new", content_type="text/plain", cache_control=SWR)
    clock.advance(minutes=10)

    seen = await proxy.get("/page", entrance=Entrance.PROXY, **{name: "mine"})
    seen.expect(200, cache="fwd=stale", body=b"new")
    assert [request.fields.get(name) for request in origin.log] == ["mine", "mine"]


@pytest.mark.parametrize("varies_by", [None, "User-Agent", "User-Agent, Accept"])
@pytest.mark.parametrize("agent", [None, "browser/1.0"])
async def test_stale_page_of_the_explicit_proxy_is_refreshed_in_the_background_for_its_clients(stage, agent, varies_by):
    proxy, origin, clock = await stage(site_interval=0)
    fields = {"accept": "text/html"} if varies_by and "Accept" in varies_by else {}
    fields |= {"user_agent": agent} if agent else {}
    answers = {"content_type": "text/plain", "cache_control": SWR} | ({"vary": varies_by} if varies_by else {})
    origin.publish("/page", b"old", **answers)
    await proxy.get("/page", entrance=Entrance.PROXY, **fields)

    origin.publish("/page", b"new", **answers)
    clock.advance(minutes=10)
    seen = await proxy.get("/page", entrance=Entrance.PROXY, **fields)
    seen.expect(200, cache="detail=stale-while-revalidate", body=b"old")
    await proxy.settled()

    (await proxy.get("/page", entrance=Entrance.PROXY, **fields)).expect(200, cache="hit", body=b"new")
    assert [request.fields.get("user-agent") for request in origin.log] == [agent, agent]


@pytest.mark.parametrize("agent", [None, "browser/1.0"])
async def test_refresh_of_a_page_by_the_operator_replaces_the_page_of_its_clients(stage, agent):
    proxy, origin, _clock = await stage(site_interval=0)
    fields = {"user_agent": agent} if agent else {}
    answers = {"content_type": "text/plain", "cache_control": SWR, "vary": "User-Agent"}
    origin.publish("/page", b"old", **answers)
    await proxy.get("/page", entrance=Entrance.PROXY, **fields)
    origin.publish("/page", b"new", **answers)

    await proxy.service.admin.refresh(origin.url("/page"))

    (await proxy.get("/page", entrance=Entrance.PROXY, **fields)).expect(200, cache="hit", body=b"new")


@pytest.mark.parametrize("control", ["no-store", "private", "max-age=0"])
@pytest.mark.parametrize("accept", ["*/*", "application/rss+xml"])
async def test_page_that_is_not_stored_is_requested_with_the_fields_by_which_it_varies(stage, accept, control):
    proxy, origin, _clock = await stage(site_interval=0)

    def answer(request: Request) -> Response:
        fields = {"Content-Type": "text/plain", "Cache-Control": control, "Vary": "X-Edition"}
        return Response(200, Fields(fields.items()), (request.fields.get("x-edition") or "none").encode())

    origin.speak(answer)
    for edition in ("north", "south"):
        seen = await proxy.get("/page", entrance=Entrance.GATEWAY, accept=accept, x_edition=edition)
        seen.expect(200, body=edition.encode())
    (await proxy.get("/page", entrance=Entrance.GATEWAY, accept=accept)).expect(200, body=b"none")

    assert [request.fields.get("x-edition") for request in origin.log] == [None, "north", "south", None]


async def test_unstored_page_that_varies_by_a_field_of_the_proxy_is_requested_once(stage):
    proxy, origin, _clock = await stage(site_interval=0)
    origin.publish("/page", b"x", content_type="text/plain", cache_control="no-store", vary="User-Agent, Accept")

    (await proxy.get("/page", x_edition="north", user_agent="reader/1")).expect(200, body=b"x")

    assert origin.requests == 1


async def test_feed_behind_a_redirect_varies_as_the_redirect_does(stage):
    proxy, origin, clock = await stage(site_interval=0)

    def speak(request: Request) -> Response:
        is_reader = (request.fields.combined("accept") or "").startswith("application/rss+xml")
        if request.target.endswith("/feed.rss"):
            return Response(
                200, Fields([("Content-Type", "text/xml"), ("Cache-Control", "max-age=60")]), a_feed("news")
            )
        if is_reader:
            return Response(302, Fields([("Location", "/feed.rss"), ("Vary", "Accept")]))
        return Response(200, Fields([("Content-Type", "text/html"), ("Vary", "Accept")]), b"<html>home</html>")

    origin.speak(speak)
    reader, browser = "application/rss+xml, */*;q=0.1", "text/html,application/xhtml+xml,*/*;q=0.8"

    for _ in range(2):
        for accept, content in ((reader, b"news"), (browser, b"home"), (reader, b"news"), ("text/plain", b"home")):
            seen = (await proxy.get("/", accept=accept)).expect(200)
            assert content in seen.plain
            assert "accept" in vary_names(seen.fields)
        clock.advance(minutes=10)
