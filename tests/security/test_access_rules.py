"""Access rules hold for every path to a feed: redirects, formats, secret addresses, ranges, deltas and old copies."""

import re
from pathlib import Path
from typing import Any

import pytest

from feedproxy.access.secret_tokens import issue
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.http import uri
from feedproxy.http.message import Fields
from feedproxy.http.target_uri.gateway_path import gateway_path
from feedproxy.request.context import Entrance
from feedproxy.store.resource import Resource
from tests.scenarios.conftest import _stages
from tests.scenarios.test_access import a_feed, files, says  # noqa: F401 -- a fixture
from tests.security.wire import exchange
from tests.stages.front import OnFront
from tests.stages.play import UPSTREAM, OnProxy, Seen

HIDDEN = b"HIDDEN"
SECRET = "/secret/feed.rss"
RULES: dict[str, dict[str, Any]] = {"readers": {"readers": ("bob",)}, "private": {"private": True}}
STATUSES = [301, 302, 303, 307, 308]


@pytest.fixture
async def door():
    """Yield a function that opens the whole proxy, with fast path and ordinary listener compared."""
    async for opened in _stages(OnFront):
        yield opened


@pytest.fixture
async def protected(door, files, request):  # noqa: F811
    """Yield a function that opens a proxy before an origin with a protected feed and addresses that redirect to it."""

    async def make(rule: str = "readers", **settings):
        def lead(path: str, location: str, status: int = 302) -> None:
            origin.publish(path, b"", status=status, location=location)

        proxy, origin, clock = await door(**files, **settings)
        origin.publish(SECRET, a_feed("HIDDEN"), cache_control="public, max-age=600")
        proxy.rule("/secret/*", **RULES[rule])
        for status in STATUSES:
            lead(f"/{status}", SECRET, status)
        lead("/two", "/301")
        lead("/absolute", origin.url(SECRET))
        lead("/host", origin.url(SECRET).replace("127.0.0.1", "localhost"))
        lead("/spelled", "/secret%2ffeed.rss")
        origin.publish(
            "/spelled2", b"", status=302, location="//" + origin.url("/").split("/")[2] + "//secret/feed.rss"
        )
        lead("/by-secret", "/secret/on")
        lead("/secret/on", "/public.rss")
        origin.publish("/public.rss", a_feed("OPEN"))
        xml = f"<redirect><newLocation>{origin.url(SECRET)}</newLocation></redirect>"
        origin.publish("/xml", xml.encode(), content_type="text/xml")
        return proxy, origin, clock

    return make


WAYS = [*map(str, STATUSES), "two", "absolute", "host", "spelled", "spelled2", "by-secret", "xml"]


def assert_nothing_revealed(seen: Seen) -> None:
    assert HIDDEN not in seen.plain, seen
    assert seen.status in (200, 301, 302, 303, 304, 307, 308, 401, 406, 502), seen
    assert b"OPEN" not in seen.plain, "the way leads through what is protected"


@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize("where", [{}, {"upstream": UPSTREAM}], ids=["gateway", "reverse"])
async def test_redirect_to_a_protected_feed_is_not_followed(protected, rule, where):
    proxy, origin, clock = await protected(rule, **where)
    entrances = [proxy.entrance] + ([] if where else [Entrance.PROXY])

    for _ in range(2):
        for way in WAYS:
            for entrance in entrances:
                assert_nothing_revealed(await proxy.send("GET", f"/{way}", entrance=entrance))
                assert_nothing_revealed(await proxy.send("HEAD", f"/{way}", entrance=entrance))
                assert_nothing_revealed(await proxy.send("GET", f"/{way}", entrance=entrance, range="bytes=0-50"))
                assert_nothing_revealed(
                    await proxy.send("GET", f"/{way}", entrance=entrance, a_im="feed", if_none_match='"x"')
                )
                reload = {"cache_control": "no-cache", "sec_fetch_mode": "navigate"}
                assert_nothing_revealed(await proxy.send("GET", f"/{way}", entrance=entrance, **reload))
            converted = f"/-/as/json/{way}" if where else f"/-/as/json/{origin.url('/' + way)}"
            assert_nothing_revealed(await proxy.ask(converted))
        clock.advance(7200)

    assert all(not each.target.endswith(SECRET) for each in origin.log)
    assert HIDDEN not in (await proxy.ask("/-/feeds.opml")).plain
    assert b"secret" not in (await proxy.ask("/-/changes.xml")).plain


async def test_redirect_to_a_protected_feed_is_forwarded_and_its_target_requires_authentication(protected):
    proxy, origin, _ = await protected()

    for status in STATUSES:
        seen = (await proxy.get(f"/{status}")).expect(status)
        assert seen.location.endswith(gateway_path(origin.url(SECRET)))
    (await proxy.get(SECRET)).expect(401)
    (await proxy.get(SECRET, authorization=says("bob"))).expect(200)
    (await proxy.get("/302", authorization=says("bob"))).expect(302)


async def test_redirect_of_a_foreign_site_to_a_protected_feed_is_not_followed(protected, monkeypatch):
    """The foreign site is another name of the same origin."""
    proxy, origin, _ = await protected()
    foreign = origin.url("/absolute").replace("127.0.0.1", "localhost")
    proxy.rule(origin.url("/absolute"), readers=())

    assert_nothing_revealed(await proxy.ask(f"/{foreign}"))
    assert_nothing_revealed(await proxy.ask(f"/-/as/html/{foreign}"))


async def test_token_for_the_redirecting_address_is_not_valid_for_its_target(protected, files):  # noqa: F811
    proxy, origin, clock = await protected()
    _, token = issue(Path(files["tokens_file"]), "carol", origin.url("/*"))
    clock.advance(1)

    for way in WAYS:
        assert_nothing_revealed(await proxy.ask(f"/-/with/{token}/{origin.url('/' + way)}"))
        assert_nothing_revealed(await proxy.ask(f"/-/with/{token}/-/as/json/{origin.url('/' + way)}"))
    (await proxy.ask(f"/-/with/{token}/{origin.url(SECRET)}")).expect(403)


async def test_redirect_between_feeds_of_the_same_readers_is_followed(protected):
    proxy, origin, _ = await protected()
    origin.publish("/secret/old", b"", status=302, location=SECRET)
    origin.publish("/bobs", b"", status=302, location=SECRET)
    origin.publish("/alls", b"", status=302, location=SECRET)
    proxy.rule("/bobs", readers=("bob",))
    proxy.rule("/alls", readers=("*",))

    for way in ("/secret/old", "/bobs"):
        assert HIDDEN in (await proxy.get(way, authorization=says("bob"))).expect(200).plain
    (await proxy.get("/alls", authorization=says("bob"))).expect(302)
    assert HIDDEN in (await proxy.get("/bobs", authorization=says("bob"))).expect(200).plain
    (await proxy.get("/bobs")).expect(401)


async def test_copy_stored_before_a_protecting_rule_is_not_served(door, files):  # noqa: F811
    proxy, origin, clock = await door(**files)
    origin.publish(SECRET, a_feed("HIDDEN"), cache_control="public, max-age=86400")
    origin.publish("/alias", b"", status=301, location=SECRET)
    for _ in range(2):
        assert HIDDEN in (await proxy.get("/alias")).expect(200).plain
    assert HIDDEN in (await proxy.ask(f"/-/as/json/{origin.url('/alias')}")).expect(200).plain

    proxy.rule("/secret/*", readers=("bob",))

    for _ in range(2):
        assert_nothing_revealed(await proxy.get("/alias"))
        assert_nothing_revealed(await proxy.ask(f"/-/as/json/{origin.url('/alias')}"))
        assert_nothing_revealed(await proxy.get("/alias", a_im="feed", if_none_match='"x"'))
        assert HIDDEN not in (await proxy.ask("/-/feeds.opml")).plain
    origin.break_down()
    assert HIDDEN not in (await proxy.get("/alias")).plain
    clock.advance(100)
    assert HIDDEN not in (await proxy.get("/alias")).plain


async def test_copy_of_unknown_origin_is_not_served_if_rules_protect_feeds(door, files):  # noqa: F811
    """An earlier version of feedproxy stored such copies, locally or in the fleet's Redis."""
    proxy, origin, clock = await door(**files)
    origin.publish("/alias", b"", status=302, location=SECRET)
    origin.publish(SECRET, a_feed("HIDDEN"))
    proxy.rule("/secret/*", readers=("bob",))
    target = uri.normalise(origin.url("/alias"))
    fields = Fields([("Content-Type", "application/rss+xml"), ("Cache-Control", "max-age=9999")])
    old = StoredResponse(target, 200, fields, Content(Bodies({"identity": a_feed("HIDDEN")})), clock.now(), clock.now())
    await proxy.service.store.put(Resource(target, (old,)))

    assert_nothing_revealed(await proxy.get("/alias"))


async def test_known_feed_that_redirects_to_a_protected_one_forwards_the_redirect(protected):
    proxy, origin, clock = await protected()
    origin.publish("/known", a_feed("ITS OWN"))
    (await proxy.get("/known")).expect(200)
    clock.advance(7200)
    origin.publish("/known", b"", status=302, location=SECRET)

    for _ in range(3):
        seen = await proxy.get("/known")
        assert_nothing_revealed(seen)
        assert seen.status == 302
        clock.advance(100)


async def test_refused_connect_authenticates_no_later_request_on_its_connection(protected):
    """The connection may be that of a proxy with many users."""
    proxy, origin, _ = await protected(intercept=["127.0.0.1"], connect_ports=["443"])
    proxy.rule("https://127.0.0.1:81/*", readers=("bob",))
    connect = f"CONNECT 127.0.0.1:81 HTTP/1.1\r\nHost: 127.0.0.1:81\r\nProxy-Authorization: {says('bob')}\r\n\r\n"
    request = f"GET {origin.url(SECRET)} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"

    said = await exchange(proxy.stage.base, connect.encode(), request.encode())

    assert re.findall(rb"HTTP/1\.1 (\d+) ", said) == [b"403", b"407"]
    assert HIDDEN not in said


@pytest.fixture
async def door_without_fast_path():
    """Yield a function that opens the whole proxy without the fast path, which a recording switches off."""
    async for opened in _stages(OnProxy):
        yield opened


@pytest.mark.parametrize("rule", list(RULES))
async def test_recording_omits_address_and_content_of_a_protected_feed(door_without_fast_path, files, rule, tmp_path):  # noqa: F811
    proxy, origin, _ = await door_without_fast_path(**files, record=str(tmp_path / "week.har"))
    proxy.rule("/secret/*", **RULES[rule])
    origin.publish(SECRET, a_feed("HIDDEN"))
    origin.publish("/open.rss", a_feed("OPEN"))

    assert HIDDEN in (await proxy.get(SECRET, authorization=says("bob"))).expect(200).plain
    (await proxy.get("/open.rss")).expect(200)

    recorded = (tmp_path / "week.har").read_bytes()
    assert b"OPEN" in recorded
    assert HIDDEN not in recorded
    assert SECRET.encode() not in recorded
