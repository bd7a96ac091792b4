"""Three entrances share one copy."""

import asyncio
import xmlrpc.client

import pytest

from feedproxy.http.message import Fields, Response
from feedproxy.request.context import ClientContext, Entrance
from feedproxy.request.upstream_and_public_urls import rewrite_location
from tests.stages.origin import a_feed
from tests.stages.play import UPSTREAM, Seen

LOOPBACK = "127.0.0.1"
"""The address of every client of the whole proxy."""
HTML = {"accept": "text/html"}


def is_sandboxed(seen: Seen) -> bool:
    policy = seen.fields.get("content-security-policy") or ""
    return "sandbox" in policy and seen.fields.get("x-content-type-options") == "nosniff"


# -- the gateway's grammar


async def test_gateway_target_is_the_rest_of_the_path_with_its_query(door):
    proxy, origin, _ = await door()
    origin.publish("/feed?format=rss&from=http://other.example/?a=b", a_feed("all of it"))

    seen = await proxy.ask("/" + origin.url("/feed?format=rss&from=http://other.example/?a=b"))

    assert b"all of it" in seen.expect(200).body
    assert origin.log[-1].target == origin.url("/feed?format=rss&from=http://other.example/?a=b")


async def test_gateway_target_with_one_slash_uses_the_same_copy(door):
    proxy, origin, _ = await door()
    origin.publish("/feed.rss", a_feed())
    await proxy.ask("/" + origin.url("/feed.rss"))

    (await proxy.ask("/" + origin.url("/feed.rss").replace("://", ":/"))).expect(200, cache="hit")


@pytest.mark.parametrize(
    "line", ["/origin.unknown/feed.rss", "/ftp://origin.example/feed", "/file:///etc/passwd", "/feed", "//x/y"]
)
async def test_gateway_target_without_http_gets_404_with_an_explanation(door, line):
    proxy, origin, _ = await door()

    seen = (await proxy.ask(line, **HTML)).expect(404, cache="detail=not-found")

    assert seen.fields.get("content-type") == "text/html; charset=utf-8"
    assert b"https://" in seen.body
    assert seen.fields.get("date")
    assert origin.requests == 0


async def test_gateway_target_with_user_information_is_refused(door):
    proxy, origin, _ = await door()
    origin.publish("/feed.rss", a_feed())

    for_somebody = origin.url("/feed.rss").replace("://", "://name:secret@")

    (await proxy.ask("/" + for_somebody)).expect(400, cache="detail=bad-target")
    assert origin.requests == 0


@pytest.mark.parametrize("spelling", ["http://feeds.example:80/a", "HTTP://Feeds.Example/a", "http:/feeds.example:/a"])
async def test_gateway_target_ignores_default_port_and_case(door, spelling):
    proxy, _, _ = await door()
    proxy.rule("http://feeds.example/a", gone=True)

    (await proxy.ask("/" + spelling)).expect(410, cache="detail=gone")


@pytest.mark.parametrize("spelling", ["/%66eed.rss", "/feed%2Erss", "/./feed.rss", "/a/../feed.rss", "/feed.rss#x"])
async def test_gateway_target_spellings_use_one_copy(door, spelling):
    proxy, origin, _ = await door()
    origin.publish("/feed.rss", a_feed())
    await proxy.ask("/" + origin.url("/feed.rss"))

    if "#" in spelling:  # no client sends a fragment, but some write one
        spelling = spelling.partition("#")[0]
    (await proxy.ask("/" + origin.url(spelling))).expect(200, cache="hit")

    assert origin.requests == 1


async def test_gateway_target_keeps_encoded_reserved_characters(door):
    proxy, origin, _ = await door()
    origin.publish("/a%2Fb?c=%26d", a_feed())

    (await proxy.ask("/" + origin.url("/a%2fb?c=%26d"))).expect(200)

    assert origin.log[-1].target == origin.url("/a%2Fb?c=%26d")


# -- one service behind them all


async def test_copy_from_the_gateway_answers_in_the_explicit_proxy(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed())
    await proxy.send("GET", "/feed.rss", entrance=Entrance.GATEWAY)

    (await proxy.send("GET", "/feed.rss", entrance=Entrance.PROXY)).expect(200, cache="hit")
    assert origin.requests == 1


async def test_copy_from_the_explicit_proxy_answers_at_the_gateway(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed())
    await proxy.send("GET", "/feed.rss", entrance=Entrance.PROXY, user_agent="reader/1")

    (await proxy.send("GET", "/feed.rss", entrance=Entrance.GATEWAY)).expect(200, cache="hit")
    assert origin.requests == 1


async def test_copy_in_reverse_mode_is_stored_under_its_origin_address(stage):
    proxy, origin, _ = await stage(upstream=UPSTREAM)
    origin.publish("/feed.rss", a_feed())

    (await proxy.get("/feed.rss")).expect(200, cache="stored")

    assert proxy.service.store.get(origin.url("/feed.rss")) is not None


# -- the gateway is one web origin for the whole web


async def test_gateway_responses_are_sandboxed(door):
    proxy, origin, _ = await door()
    origin.publish("/feed.rss", a_feed(), etag='"one"')
    origin.publish("/page", b"<html></html>", content_type="text/html", cache_control="max-age=9")
    origin.publish("/away", b"", status=302, location="/page")
    origin.methods["POST"] = lambda _: Response(200, Fields([("Content-Type", "text/html")]), b"<script>")
    gateway = "/" + origin.url("/feed.rss")

    answers = {
        "200": await proxy.ask(gateway),
        "304": await proxy.ask(gateway, if_none_match='"one"'),
        "412": await proxy.ask(gateway, if_match='"another"'),
        "206": await proxy.ask(gateway, range="bytes=0-3"),
        "416": await proxy.ask(gateway, range="bytes=9999999-"),
        "404 of the origin": await proxy.ask("/" + origin.url("/nothing")),
        "302": await proxy.ask("/" + origin.url("/away")),
        "a page": await proxy.ask("/" + origin.url("/page")),
        "HEAD": await proxy.ask(gateway, method="HEAD"),
        "504": await proxy.ask("/" + origin.url("/x"), cache_control="only-if-cached"),
        "no scheme": await proxy.ask("/nothing", **HTML),
        "bad target": await proxy.ask("/http://a@b/"),
        "no endpoint": await proxy.ask("/-/nothing"),
        "POST": await proxy.ask("/" + origin.url("/form"), method="POST"),
    }
    proxy.rule("/feed.rss", moved_to=origin.url("/new.rss"))
    answers["301"] = await proxy.ask(gateway)
    proxy.rule("/feed.rss", moved_to="", gone=True)
    answers["410"] = await proxy.ask(gateway)
    origin.break_down()
    answers["502"] = await proxy.ask("/" + origin.url("/unreachable"), **HTML)

    assert not [(name, seen.status) for name, seen in answers.items() if not is_sandboxed(seen)]
    for name in ("200", "304", "412", "206", "416", "504", "301", "410", "502"):
        assert answers[name].status == int(name)


async def test_gateway_removes_cookies_of_client_and_origin(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed(), set_cookie="session=1")

    seen = await proxy.get("/feed.rss", cookie="session=1")

    assert "set-cookie" not in seen.fields
    assert "cookie" not in origin.heard
    seen.expect(200, cache="stored")


async def test_gateway_removes_cookies_and_referrer_of_a_form(door):
    proxy, origin, _ = await door()
    origin.methods["POST"] = lambda _: Response(200, Fields([("Set-Cookie", "a=b")]), b"done")

    seen = await proxy.send("POST", "/form", body=b"x=1", cookie="session=1", referer="http://proxy.example/http://x/")

    seen.expect(200, cache="fwd=method", body=b"done")
    assert "set-cookie" not in seen.fields
    assert not [name for name in ("cookie", "referer", "origin") if name in origin.heard]


async def test_explicit_proxy_sends_set_cookie_to_the_client_that_caused_it_only(stage):
    proxy, origin, _ = await stage()
    proxy.entrance = Entrance.PROXY
    origin.publish("/feed.rss", a_feed(), set_cookie="session=1", cache_control="max-age=600")

    first = await proxy.get("/feed.rss")
    second = (await proxy.get("/feed.rss")).expect(200, cache="hit")

    assert first.fields.get("set-cookie") == "session=1"
    assert "set-cookie" not in second.fields


@pytest.mark.parametrize("where", [{}, {"upstream": UPSTREAM, "state_freshness": True}])
async def test_response_with_a_cookie_for_one_client_gets_no_lifetime_of_the_feeds_schedule(stage, where):
    """The lifetime would permit a cache in front to store the cookie for all clients."""
    proxy, origin, _ = await stage(**where)
    if not where:
        proxy.entrance = Entrance.PROXY
    hinted = a_feed().replace(b"<title>", b"<ttl>60</ttl><title>", 1)
    origin.publish("/feed.rss", hinted, set_cookie="session=1")

    first, second = [(await proxy.get("/feed.rss")).expect(200) for _ in range(2)]

    assert first.fields.get("set-cookie") == "session=1"
    assert not {"cache-control", "cdn-cache-control"} & {name.lower() for name, _ in first.fields}
    assert "max-age=3600" in (second.fields.get("cache-control") or "")


async def test_explicit_proxy_does_not_share_set_cookie_with_collapsed_requests(stage):
    proxy, origin, _ = await stage()
    proxy.entrance = Entrance.PROXY
    origin.publish("/feed.rss", a_feed(), set_cookie="session=1", cache_control="max-age=600")
    origin.gate = asyncio.Event()

    readers = [asyncio.ensure_future(proxy.get("/feed.rss")) for _ in range(5)]
    await origin.asked()
    for _ in range(200):  # all of them have to be here before the origin answers
        await asyncio.sleep(0)
    origin.gate.set()
    seen = await asyncio.gather(*readers)

    with_cookie = [each for each in seen if "set-cookie" in each.fields]
    assert len(with_cookie) == origin.requests


async def test_explicit_proxy_forwards_cookies_and_keys_the_response(stage):
    proxy, origin, _ = await stage()
    proxy.entrance = Entrance.PROXY
    origin.speak(lambda request: Response(200, Fields(), (request.fields.get("cookie") or "nobody").encode()))

    (await proxy.get("/page", cookie="me=1")).expect(200, body=b"me=1")
    (await proxy.get("/page")).expect(200, body=b"nobody")


async def test_gateway_removes_referrer_and_client_address(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed())

    await proxy.get("/feed.rss", referer="http://proxy.example/http://secret.example/", x_forwarded_for="203.0.113.9")

    assert "referer" not in origin.heard
    assert "x-forwarded-for" not in origin.heard


# -- Location stays inside


async def test_location_at_the_gateway_is_rewritten_to_the_gateway(stage):
    proxy, origin, _ = await stage()
    origin.publish("/page", b"", status=302, location="/other?x=1")
    origin.publish("/other?x=1", b"<html></html>", content_type="text/html")

    assert (await proxy.get("/page")).expect(302).location == f"{proxy.stage.name}/{origin.url('/other?x=1')}"


async def test_location_in_the_explicit_proxy_is_unchanged(stage):
    proxy, origin, _ = await stage()
    proxy.entrance = Entrance.PROXY
    origin.publish("/page", b"", status=302, location="/other")
    origin.publish("/other", b"<html></html>", content_type="text/html")

    assert (await proxy.get("/page")).expect(302).location == "/other"


async def test_location_keeps_its_fragment(stage):
    proxy, origin, _ = await stage()
    for said in ("/other#part 2", origin.url("/other#part%202")):
        origin.publish("/page", b"", status=302, location=said)

        seen = await proxy.get("/page", cache_control="no-cache")

        assert seen.expect(302).location == f"{proxy.stage.name}/{origin.url('/other')}#part%202"


async def test_content_location_at_the_gateway_is_rewritten_to_the_gateway(stage):
    proxy, origin, _ = await stage()
    for said in ("feed.en.rss", "/folder/feed.en.rss", origin.url("/folder/feed.en.rss")):
        origin.publish("/folder/feed.rss", a_feed(), content_location=said)

        seen = (await proxy.get("/folder/feed.rss", cache_control="no-cache", accept="text/html")).expect(200)

        assert seen.fields.get("content-location") == f"{proxy.stage.name}/{origin.url('/folder/feed.en.rss')}"


async def test_relative_link_at_the_gateway_becomes_the_address_at_the_origin(stage):
    proxy, origin, _ = await stage()
    said = '</hub>; rel="hub"; title="see <a>, <b>", <feed.rss#x>; rel=self, <https://x.example>; rel=hub, <>; rel=me'
    origin.publish("/folder/feed.rss", a_feed(), link=said)
    origin.publish("/old.rss", b"", status=302, location="/folder/feed.rss")
    at = origin.url("/folder/feed.rss")

    for path in ("/folder/feed.rss", "/old.rss"):
        assert (await proxy.get(path)).expect(200).fields.get("link") == (
            f'<{origin.url("/hub")}>; rel="hub"; title="see <a>, <b>", <{at}#x>; rel=self,'
            f" <https://x.example>; rel=hub, <{at}>; rel=me"
        )


async def test_location_of_a_move_stays_in_its_entrance(stage):
    proxy, origin, _ = await stage()
    new = origin.url("/new.rss")
    proxy.rule("/old.rss", moved_to=new)

    by_gateway = await proxy.send("GET", "/old.rss", entrance=Entrance.GATEWAY)
    by_proxy = await proxy.send("GET", "/old.rss", entrance=Entrance.PROXY)

    assert by_gateway.expect(301).location == f"{proxy.stage.name}/{new}"
    assert by_proxy.expect(301).location == new


async def test_location_after_a_form_is_rewritten_to_the_gateway(door):
    proxy, origin, _ = await door()
    origin.methods["POST"] = lambda _: Response(303, Fields([("Location", "/done")]))

    assert (await proxy.send("POST", "/form")).expect(303).location == f"{proxy.stage.name}/{origin.url('/done')}"


# -- what is ours


async def test_endpoint_that_is_unknown_gets_404_and_is_not_forwarded(door):
    proxy, origin, _ = await door()

    (await proxy.ask("/-/nothing")).expect(404, cache="detail=not-found")
    (await proxy.ask("/-/nothing", method="POST")).expect(404)

    assert origin.requests == 0


async def test_endpoint_prefix_in_absolute_form_is_forwarded_to_the_origin(door):
    proxy, origin, _ = await door()
    origin.publish("/-/x", b"theirs", content_type="text/plain")

    (await proxy.ask(origin.url("/-/x"))).expect(200, body=b"theirs")


async def test_endpoint_prefix_in_reverse_mode_is_not_forwarded_to_the_upstream(door):
    proxy, origin, _ = await door(upstream=UPSTREAM)
    origin.publish("/-/x", b"theirs", content_type="text/plain")

    (await proxy.ask("/-/x")).expect(404)

    assert origin.requests == 0


# -- reverse


async def test_reverse_mode_location_and_self_link_name_the_public_host(stage):
    proxy, origin, _ = await stage(upstream=UPSTREAM, public_url="https://feeds.example/")
    origin.publish("/feed.rss", a_feed())
    origin.publish("/page", b"", status=302, location=origin.url("/other"))
    origin.publish("/other", b"<html></html>", content_type="text/html")
    origin.publish("/out", b"", status=302, location="https://elsewhere.example/x")

    assert b'href="https://feeds.example/feed.rss"' in (await proxy.get("/feed.rss")).expect(200).body
    assert (await proxy.get("/page")).expect(302).location == "https://feeds.example/other"
    assert (await proxy.get("/out")).location == "https://elsewhere.example/x"


async def test_reverse_mode_references_name_the_public_host(stage):
    proxy, origin, _ = await stage(upstream=UPSTREAM, public_url="https://feeds.example/")
    links = f'<{origin.url("/feed.rss")}>; rel="self", </x>; rel="next", <https://hub.example/>; rel="hub"'
    origin.publish("/feed.rss", a_feed(), content_location=origin.url("/feed.en.rss"), link=links)
    origin.publish("/page", b"", status=302, location=origin.url("/other#part"))

    seen = (await proxy.get("/feed.rss")).expect(200)

    assert seen.fields.get("content-location") == "https://feeds.example/feed.en.rss"
    assert seen.fields.get("link") == links.replace(origin.url("/"), "https://feeds.example/")
    assert (await proxy.get("/page")).expect(302).location == "https://feeds.example/other#part"


@pytest.mark.parametrize("said", ["/other", "other?x=1", "//feeds.example/other", "/other#part"])
async def test_reverse_mode_keeps_a_relative_location_of_equal_meaning(stage, said):
    public = "http://feeds.example/"  # as the upstream's, by http
    proxy, origin, _ = await stage(upstream=UPSTREAM, public_url=public)
    origin.publish("/folder/page", b"", status=302, location=said)

    assert (await proxy.get("/folder/page")).expect(302).location == said


async def test_reverse_mode_rewrites_a_relative_location_into_another_folder():
    visit = ClientContext(Entrance.REVERSE, "https://feeds.example/news", "192.0.2.1")
    upstream = "http://127.0.0.1:8000/blog"

    def seen(location):
        return rewrite_location(location, visit, target=upstream + "/2026/page", upstream=upstream)

    assert seen("other") == "other"
    assert seen("/blog/other") == "https://feeds.example/news/other"
    assert seen("../../blog/other") == "https://feeds.example/news/other"
    assert seen("//127.0.0.1:8000/blog/other") == "https://feeds.example/news/other"


async def test_reverse_mode_location_of_a_move_names_the_public_host(stage):
    proxy, origin, _ = await stage(upstream=UPSTREAM, public_url="https://feeds.example/")
    proxy.rule("/old.rss", moved_to=origin.url("/new.rss"))

    assert (await proxy.get("/old.rss")).expect(301).location == "https://feeds.example/new.rss"


async def test_reverse_mode_sends_the_host_of_the_upstream(door):
    proxy, origin, _ = await door(upstream=UPSTREAM)
    origin.publish("/feed.rss", a_feed())
    origin.methods["POST"] = lambda _: Response(200, Fields(), b"done")
    its_name = origin.base.removeprefix("http://")

    await proxy.ask("/feed.rss", host="feeds.example")
    assert origin.heard.get("host") in (None, its_name)  # None: the client writes it, and there is none on that stage

    (await proxy.ask("/form", method="POST", host="feeds.example")).expect(200)
    assert origin.heard.get("host") == its_name


async def test_reverse_mode_refuses_another_host(door):
    proxy, origin, _ = await door(upstream=UPSTREAM)

    (await proxy.ask("http://elsewhere.example/feed.rss")).expect(400, cache="detail=bad-target")
    assert origin.requests == 0


async def test_reverse_mode_forwards_cookies(stage):
    proxy, origin, _ = await stage(upstream=UPSTREAM)
    origin.publish("/page", b"<html></html>", content_type="text/html", set_cookie="a=b")

    seen = await proxy.get("/page", cookie="c=d")

    assert seen.fields.get("set-cookie") == "a=b"
    assert origin.heard.get("cookie") == "c=d"
    assert "content-security-policy" not in seen.fields


# -- who stands in front of us


@pytest.mark.parametrize(("trusted", "readers"), [((), 1), ((LOOPBACK,), 3)])
async def test_x_forwarded_for_is_accepted_from_trusted_proxies_only(door, trusted, readers):
    proxy, origin, clock = await door(trusted_proxies=trusted)
    origin.publish("/feed.rss", a_feed())

    for address in ("203.0.113.1", "203.0.113.2", "203.0.113.3, 127.0.0.1"):
        await proxy.send("GET", "/feed.rss", address=LOOPBACK, x_forwarded_for=address, user_agent="reader/1")

    assert proxy.service.counts.view(origin.url("/feed.rss"), clock.now()).direct == readers


@pytest.mark.parametrize(
    ("named", "said", "base"),
    [
        ("x-forwarded-for", {"x_forwarded_proto": "https"}, "https://feeds.example"),
        ("x-forwarded-for", {"x_forwarded_host": "cdn.example"}, "http://feeds.example"),
        ("x-forwarded-for", {"forwarded": "for=203.0.113.1;proto=https;host=cdn.example"}, "http://feeds.example"),
        ("forwarded", {"forwarded": "for=203.0.113.1;proto=https;host=cdn.example"}, "https://cdn.example"),
        ("forwarded", {"x_forwarded_proto": "https"}, "http://feeds.example"),
    ],
)
async def test_public_address_is_read_from_the_named_field_of_trusted_proxies(door, named, said, base):
    proxy, origin, _ = await door(trusted_proxies=(LOOPBACK,), forwarded_by=named)
    proxy.rule("/old.rss", moved_to=origin.url("/new.rss"))

    told = await proxy.send("GET", "/old.rss", address=LOOPBACK, host="feeds.example", **said)

    assert told.expect(301).location == f"{base}/{origin.url('/new.rss')}"


async def test_public_address_ignores_x_forwarded_fields_of_other_clients(door):
    proxy, origin, _ = await door()
    proxy.rule("/old.rss", moved_to=origin.url("/new.rss"))

    told = await proxy.get("/old.rss", x_forwarded_host="evil.example", x_forwarded_proto="https")

    assert told.expect(301).location == f"{proxy.stage.name}/{origin.url('/new.rss')}"


async def test_request_with_own_via_is_refused_as_a_loop(stage):
    proxy, origin, _ = await stage()

    (await proxy.get("/feed.rss", via=f"1.1 {proxy.service.pseudonym}")).expect(508, cache="detail=loop")

    assert origin.requests == 0


async def test_reverse_mode_accepts_absolute_form_with_its_own_names(door):
    proxy, origin, _ = await door(upstream=UPSTREAM, public_url="http://feeds.example/")
    origin.publish("/feed.rss", a_feed())

    for name in ("http://feeds.example", origin.base):
        (await proxy.ask(f"{name}/feed.rss")).expect(200)


@pytest.mark.parametrize("line", ["/../secret", "/%2e%2e/secret", "/deeper/../../../secret"])
async def test_reverse_mode_dot_segments_stay_below_the_path_of_the_upstream(door, line):
    proxy, origin, _ = await door(upstream=f"{UPSTREAM}/feeds/")
    origin.publish("/secret", b"not for readers", content_type="text/plain")
    origin.publish("/feeds/secret", b"for readers", content_type="text/plain")

    (await proxy.ask(line)).expect(200, body=b"for readers")


async def test_reverse_mode_replaces_forwarded_fields_of_the_client(door):
    proxy, origin, _ = await door(upstream=UPSTREAM)
    origin.methods["POST"] = lambda _: Response(200, Fields(), b"done")

    await proxy.ask(
        "/form",
        method="POST",
        host="feeds.example",
        x_forwarded_for="198.51.100.7",
        x_forwarded_host="elsewhere.example",
        x_forwarded_prefix="/elsewhere",
        x_real_ip="198.51.100.7",
        x_client_ip="198.51.100.7",
        true_client_ip="198.51.100.7",
        cf_connecting_ip="198.51.100.7",
        forwarded="for=198.51.100.7",
    )

    assert origin.heard.get_all("x-forwarded-host") == ["feeds.example"]
    assert "198.51.100.7" not in "".join(value for _, value in origin.heard)
    assert not {"x-real-ip", "forwarded", "x-forwarded-prefix"} & {name.lower() for name, _ in origin.heard}


@pytest.mark.parametrize("name", ["x_client_ip", "x_cluster_client_ip", "true_client_ip", "x_originating_ip"])
async def test_origin_gets_no_field_with_the_address_of_a_client(door, name):
    proxy, origin, _ = await door()
    origin.publish("/page", b"text", content_type="text/plain")

    (await proxy.get("/page", accept="text/html", x_color="blue", **{name: "198.51.100.7"})).expect(200)

    assert "x-color" in origin.heard
    assert name.replace("_", "-") not in origin.heard


# -- methods


@pytest.mark.parametrize("method", ["POST", "DELETE", "TRACE"])
async def test_landing_page_allows_get_and_head_only(door, method):
    proxy, origin, _ = await door()

    seen = (await proxy.ask("/", method=method)).expect(405, cache="detail=method")

    assert seen.fields.get("allow") == "GET, HEAD"
    assert is_sandboxed(seen)
    assert origin.requests == 0


@pytest.mark.parametrize("entrance", [Entrance.GATEWAY, Entrance.PROXY])
async def test_trace_is_refused(door, entrance):
    """It would tell a script what its reader's browser adds to a request."""
    proxy, origin, _ = await door()

    seen = (await proxy.send("TRACE", "/feed.rss", entrance=entrance, cookie="a=b")).expect(405, cache="detail=method")

    assert "TRACE" not in seen.fields.get("allow")
    assert b"a=b" not in seen.body
    assert origin.requests == 0


async def test_trace_refusal_in_reverse_mode_does_not_reveal_the_upstream(door):
    proxy, origin, _ = await door(upstream=UPSTREAM)

    seen = (await proxy.send("TRACE", "/feed.rss")).expect(405)

    assert origin.base.encode() not in seen.body


async def test_options_with_max_forwards_zero_is_answered_by_the_proxy(door):
    proxy, origin, _ = await door()

    seen = (await proxy.send("OPTIONS", "/feed.rss", max_forwards="0")).expect(200)

    assert "GET" in seen.fields.get("allow")
    assert seen.body == b""
    assert origin.requests == 0


@pytest.mark.parametrize(("said", "heard"), [("5", "4"), ("1", "0"), ("soon", "soon")])
async def test_options_forwards_a_decremented_max_forwards(door, said, heard):
    proxy, origin, _ = await door()
    origin.publish("/feed.rss", a_feed())

    await proxy.send("OPTIONS", "/feed.rss", max_forwards=said)

    assert origin.heard.get("max-forwards") == heard


# -- gateway addresses as people paste them

PASTED = [
    ("/feed:https://feeds.example/a.xml", "https://feeds.example/a.xml"),
    ("/feed:https:/feeds.example/a.xml", "https://feeds.example/a.xml"),
    ("/feed://feeds.example/a.xml", "http://feeds.example/a.xml"),
    ("/feed:/feeds.example/a.xml", "https://feeds.example/a.xml"),
    ("/FEED:feeds.example/a.xml", "https://feeds.example/a.xml"),
    ("/feeds.example/a.xml", "https://feeds.example/a.xml"),
    ("/feeds.example/a.xml?b=c", "https://feeds.example/a.xml?b=c"),
    ("/www.example.com", "https://www.example.com/"),
    ("/localhost:8000/a.xml", "https://localhost:8000/a.xml"),
    ("/wiki.firm:8080/a.xml", "https://wiki.firm:8080/a.xml"),
    ("/192.0.2.7/a.xml", "https://192.0.2.7/a.xml"),
    ("/https%3A%2F%2Ffeeds.example%2Fa.xml", "https://feeds.example/a.xml"),
    ("/https%3a%2f%2ffeeds.example%3a8443%2fa%2520b%3fc%3dd", "https://feeds.example:8443/a%20b?c=d"),
    ("/http%3A//feeds.example/a%3Fb%3Dc", "http://feeds.example/a?b=c"),
    ("/https%3A%2F%2Ffeeds.example%2Fa?b=%2F", "https://feeds.example/a?b=%2F"),
    ("/https%253A%252F%252Ffeeds.example%252Fa", "https://feeds.example/a"),
    ("/feed%3Ahttps%3A%2F%2Ffeeds.example%2Fa", "https://feeds.example/a"),
    ("/feed:https%3A%2F%2Ffeeds.example%2Fa", "https://feeds.example/a"),
    ("/%20https://feeds.example/a", "https://feeds.example/a"),
    ("/https//feeds.example/a", "https://feeds.example/a"),
    ("/https:feeds.example/a", "https://feeds.example/a"),
    ("/https:///feeds.example/a", "https://feeds.example/a"),
]

FILES = [
    "/apple-touch-icon.png",
    "/wp-login.php",
    "/.well-known/x",
    "/index.html",
    "/sitemap.xml?a",
    "/.env",
    "/a/b.com",
]

GUESSED = {
    "/wiki.firm/feed": "/https://wiki.firm/feed",
    "/ftp://feeds.example/feed": "/https://feeds.example/feed",
    "/feed": "/https://example.com/feed.xml",
}


async def test_pasted_address_is_redirected_to_the_gateway_form(door):
    proxy, origin, _ = await door()

    for line, meant in PASTED:
        seen = await proxy.ask(line)

        assert seen.status == 301, line
        assert seen.location == f"{proxy.stage.name}/{meant}", line
        assert is_sandboxed(seen)
    assert origin.requests == 0


async def test_pasted_gateway_address_is_redirected_to_the_inner_feed(door):
    proxy, origin, _ = await door()

    seen = await proxy.ask(f"/{proxy.stage.name}/{proxy.stage.name}/https://feeds.example/a")

    assert seen.expect(301).location == f"{proxy.stage.name}/https://feeds.example/a"
    assert origin.requests == 0


async def test_pasted_conversion_address_is_redirected_with_another_endpoint_prefix(door):
    proxy, origin, _ = await door(endpoint_prefix="/own/")

    seen = await proxy.ask(f"/{proxy.stage.name}/own/as/atom/https://feeds.example/a")

    assert seen.expect(301).location == f"{proxy.stage.name}/https://feeds.example/a"
    assert origin.requests == 0


async def test_pasted_address_is_redirected_to_the_same_access_check(door):
    proxy, origin, _ = await door()
    proxy.rule("https://feeds.example/secret/*", readers=("bob",))

    seen = (await proxy.ask("/feeds.example/x/..%2fsecret/feed")).expect(301)

    (await proxy.ask(seen.location.removeprefix(proxy.stage.name))).expect(401)
    assert origin.requests == 0


async def test_pasted_file_name_gets_404(door):
    proxy, _, _ = await door()

    for line in FILES:
        (await proxy.ask(line, **HTML)).expect(404, cache="detail=not-found")


async def test_pasted_address_with_an_uncertain_correction_is_named_on_the_error_page(door):
    proxy, _, _ = await door()

    for line, right in GUESSED.items():
        seen = (await proxy.ask(line, **HTML)).expect(404, cache="detail=not-found")

        assert f"{proxy.stage.name}{right}" in seen.body.decode()


async def test_pasted_address_with_user_information_is_refused(door):
    proxy, _, _ = await door()

    for line in ("/feed:https://name:word@feeds.example/", "/https%3A%2F%2Fname%3Aword%40a.example%2F"):
        (await proxy.ask(line)).expect(400, cache="detail=bad-target")


async def test_pasted_address_in_reverse_mode_is_a_path_of_the_upstream(door):
    proxy, origin, _ = await door(upstream=UPSTREAM)
    origin.publish("/feed:https://feeds.example/a.xml", a_feed())
    origin.publish("/feeds.example/a.xml", a_feed())

    (await proxy.ask("/feeds.example/a.xml")).expect(200)
    (await proxy.ask("/feed:https://feeds.example/a.xml")).expect(200)


async def test_xml_rpc_ping_at_the_root_of_the_gateway_is_accepted(door):
    proxy, origin, clock = await door(site_interval=0)
    origin.publish("/feed.rss", a_feed("one"), cache_control="max-age=3600")
    await proxy.ask(f"/{origin.url('/feed.rss')}")
    clock.advance(minutes=5)

    call = xmlrpc.client.dumps(("News", origin.url("/feed.rss")), "weblogUpdates.ping").encode()
    told = (await proxy.ask("/RPC2", method="POST", body=call, content_type="text/xml")).expect(200)

    [answer], _ = xmlrpc.client.loads(told.body)
    assert isinstance(answer, dict)
    assert answer["flerror"] is False
    await origin.asked(2)
    (await proxy.ask("/RPC2")).expect(405)


async def test_xml_rpc_at_the_root_in_reverse_mode_is_forwarded_to_the_upstream(door):
    proxy, origin, _ = await door(upstream=UPSTREAM)
    origin.methods["POST"] = lambda _: Response(200, Fields(), b"the upstream's")

    told = await proxy.ask("/RPC2", method="POST", body=b"<methodCall/>", content_type="text/xml")

    assert told.expect(200).body == b"the upstream's"


async def test_pasted_address_with_post_is_refused(door):
    proxy, _, _ = await door()

    (await proxy.ask("/feeds.example/a.xml", method="POST")).expect(405, cache="detail=method")


async def test_pasted_address_is_converted(door):
    proxy, origin, _ = await door()
    origin.publish("/feed.rss", a_feed("An entry"))

    for pasted in (f"feed:{origin.url('/feed.rss')}", origin.url("/feed.rss").replace(":", "%3A").replace("/", "%2F")):
        assert b"An entry" in (await proxy.ask(f"/-/as/atom/{pasted}")).expect(200).body
    (await proxy.ask("/-/as/atom/feed")).expect(404)


# -- the landing page


async def test_landing_page_previews_a_feed_as_text_and_counts_no_subscriber(door):
    proxy, origin, _ = await door()
    origin.publish("/feed.rss", a_feed("<![CDATA[<b>Bold</b><script>alert(1)</script>]]>"))

    seen = (await proxy.ask(f"/?url={origin.url('/feed.rss')}", **HTML)).expect(200)

    text = seen.body.decode()
    assert f'value="{proxy.stage.name}/{origin.url("/feed.rss")}"' in text
    assert "Bold" in text
    assert "<script" not in text
    assert is_sandboxed(seen)
    assert not proxy.service.counts.contains(origin.url("/feed.rss"))
    assert "1 subscriber" not in (origin.heard.get("user-agent") or "")


async def test_landing_page_finds_the_feed_of_a_page(door):
    proxy, origin, _ = await door()
    link = f'<link rel="alternate" type="application/rss+xml" href="{origin.url("/feed.rss")}">'
    origin.publish("/", f"<html><head>{link}</head></html>".encode(), content_type="text/html")
    origin.publish("/feed.rss", a_feed("An entry"))

    text = (await proxy.ask(f"/?url={origin.url('/')}", **HTML)).expect(200).body.decode()

    assert f'value="{proxy.stage.name}/{origin.url("/feed.rss")}"' in text
    assert "An entry" in text


async def test_landing_page_hides_a_protected_feed_also_behind_a_redirect(door):
    proxy, origin, _ = await door()
    origin.publish("/feed.rss", a_feed("An entry"))
    origin.publish("/moved", b"", status=301, location=origin.url("/feed.rss"))
    proxy.rule("/feed.rss", readers=("bob",))

    for path in ("/feed.rss", "/moved"):
        seen = (await proxy.ask(f"/?url={origin.url(path)}", **HTML)).expect(200)
        assert b"An entry" not in seen.body


async def test_landing_page_states_why_there_is_no_feed(door):
    proxy, origin, _ = await door()
    origin.publish("/page", b"<html></html>", content_type="text/html")
    origin.publish("/members", b"", status=403)

    for path, reason in (
        ("/nothing", b"There is no feed at this address: the site answered 404."),
        ("/members", b"There is no feed to show: the site answered 403."),
        ("/page", b"This document is not a feed"),
    ):
        assert reason in (await proxy.ask(f"/?url={origin.url(path)}", **HTML)).expect(200).body
