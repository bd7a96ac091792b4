"""Lists of the feeds read through the proxy."""

import base64
import json
import shutil
import subprocess

import bcrypt
import pytest

from feedproxy.endpoints.feed_list import FeedList
from feedproxy.endpoints.imported_feeds import ImportedFeeds
from feedproxy.feed import opml
from feedproxy.server.mitm.connect_and_interception import is_intercepted
from feedproxy.subscribers.readers_for_public_lists import DistinctReaders
from tests.stages.origin import a_feed
from tests.stages.play import UPSTREAM
from tests.waiting import PATIENCE

PATH = "/feed.rss"


async def a_list(proxy, query: str = "", **fields: str) -> opml.SubscriptionList:
    seen = await proxy.ask(f"/-/feeds.opml{query}", **fields)
    seen.expect(200)
    assert (seen.fields.get("content-type") or "").startswith("text/x-opml")
    found = opml.read(seen.plain)
    assert found is not None
    return found


async def addresses(proxy, query: str = "?addresses=original") -> list[str]:
    return [each.address for each in (await a_list(proxy, query)).feeds]


async def test_feed_list_has_a_requested_feed_at_once(door):
    proxy, origin, _ = await door(list_readers_min=1)
    origin.publish(PATH, a_feed())
    assert await addresses(proxy) == []
    await proxy.get(PATH)

    found = await a_list(proxy)

    assert [each.address for each in found.feeds] == [f"{proxy.stage.name}/{origin.url(PATH)}"]
    assert (found.feeds[0].title, found.feeds[0].page) == ("News", "http://example.com/")
    assert await addresses(proxy) == [origin.url(PATH)]


async def test_feed_list_omits_page_addresses_with_secrets(door):
    proxy, origin, _ = await door(list_readers_min=1)
    for number, link in enumerate(("http://example.com/my?token=abc", "http://example.com/aB3xY9kLm0pQrZt7")):
        origin.publish(f"/{number}", a_feed().replace(b"http://example.com/", link.encode()))
        await proxy.get(f"/{number}")

    assert [each.page for each in (await a_list(proxy)).feeds] == ["", ""]


async def test_feed_list_omits_pages(door):
    proxy, origin, _ = await door(list_readers_min=1)
    origin.publish("/page", b"<!doctype html><p>hello", content_type="text/html")
    await proxy.get("/page")

    assert await addresses(proxy) == []


async def test_feed_list_keeps_a_feed_for_thirty_days(door):
    proxy, origin, clock = await door(list_readers_min=1)
    origin.publish(PATH, a_feed())
    await proxy.get(PATH)
    await proxy.stage.app.feed_list.save_requested()
    clock.advance(days=29)
    proxy.service.counts.prune(clock.now())
    assert await addresses(proxy) == [origin.url(PATH)]
    clock.advance(days=2)
    origin.publish("/other", a_feed())
    await proxy.get("/other")

    assert await addresses(proxy) == [origin.url("/other")]


async def test_feed_list_requires_three_distinct_readers_within_a_month(door):
    proxy, origin, clock = await door()
    origin.publish(PATH, a_feed(), cache_control="max-age=60")
    agents = ("NetNewsWire", "Thunderbird/128.0", "Newsboat/2.32")
    for agent in (agents[0], agents[0], agents[1]):
        await proxy.get(PATH, user_agent=agent)
        clock.advance(days=3)
        await proxy.stage.app.feed_list.save_requested()
    for _ in range(3):
        await proxy.get(PATH, user_agent=agents[1])
    assert await addresses(proxy) == []

    await proxy.get(PATH, user_agent=agents[2])
    assert await addresses(proxy) == [origin.url(PATH)]
    await proxy.stage.app.feed_list.save_requested()
    proxy.service.counts.distinct = DistinctReaders()  # as after a restart
    assert await addresses(proxy) == [origin.url(PATH)]
    clock.advance(days=31)
    origin.publish("/other", a_feed())
    for agent in agents:
        await proxy.get("/other", user_agent=agent)

    assert await addresses(proxy) == [origin.url("/other")]


@pytest.mark.parametrize("path", ["/feed.rss?token=abc", "/private/0f1e2d3c4b5a69788796a5b4c3d2e1f0/feed.xml"])
async def test_feed_list_omits_and_does_not_store_an_address_with_a_secret(door, path):
    proxy, origin, _ = await door(list_readers_min=1)
    origin.publish(path, a_feed())
    await proxy.get(path)
    await proxy.stage.app.feed_list.save_requested()

    assert await addresses(proxy) == []
    assert b"abc" not in (proxy.service.store.get_state("office-asked") or b"")


async def test_feed_list_omits_a_feed_that_a_rule_makes_private(door):
    proxy, origin, _ = await door(list_readers_min=1)
    origin.publish(PATH, a_feed())
    await proxy.get(PATH)
    assert await addresses(proxy) == [origin.url(PATH)]

    proxy.rule(PATH, private=True)

    assert await addresses(proxy) == []


async def test_feed_list_omits_a_feed_fetched_with_a_password(door):
    proxy, origin, _ = await door(list_readers_min=1)
    origin.publish(PATH, a_feed(), cache_control="public, max-age=60")
    await proxy.get(PATH, authorization="Basic eDp5")

    assert await addresses(proxy) == []


async def test_feed_list_omits_a_feed_without_a_copy(door):
    """Only its copy tells that it was fetched without a password."""
    proxy, origin, _ = await door(list_readers_min=1)
    origin.publish(PATH, a_feed())
    await proxy.get(PATH)
    assert await addresses(proxy) == [origin.url(PATH)]

    await proxy.service.store.delete(origin.url(PATH))

    assert await addresses(proxy) == []


async def test_feed_list_has_the_new_address_of_a_moved_feed_and_omits_a_gone_feed(door):
    proxy, origin, _ = await door(list_readers_min=1)
    origin.publish("/old", a_feed())
    origin.publish("/over", a_feed())
    await proxy.get("/old")
    await proxy.get("/over")
    proxy.rule("/old", moved_to="https://new.example/feed")
    proxy.rule("/over", gone=True)

    assert await addresses(proxy) == ["https://new.example/feed"]


@pytest.mark.parametrize(("status", "is_listed"), [(401, False), (451, False), (404, True), (503, True)])
async def test_feed_list_omits_a_feed_while_its_origin_restricts_access(door, status, is_listed):
    proxy, origin, clock = await door(list_readers_min=1)
    origin.publish(PATH, a_feed(ttl=60))
    await proxy.get(PATH)
    clock.advance(hours=2)
    origin.publish(PATH, b"no", status=status)
    (await proxy.get(PATH)).expect(200 if is_listed else status)
    assert await addresses(proxy) == ([origin.url(PATH)] if is_listed else [])

    clock.advance(hours=2)
    origin.publish(PATH, a_feed(ttl=60))
    (await proxy.get(PATH)).expect(200)

    assert await addresses(proxy) == [origin.url(PATH)]


async def test_feed_list_has_validators_and_gets_304(door):
    proxy, origin, clock = await door(list_readers_min=1)
    origin.publish(PATH, a_feed())
    await proxy.get(PATH)
    first = await proxy.ask("/-/feeds.opml")

    (await proxy.ask("/-/feeds.opml", if_none_match=first.tag)).expect(304, body=b"")
    (await proxy.ask("/-/feeds.opml", if_modified_since=first.fields.get("last-modified"))).expect(304)
    head = await proxy.ask("/-/feeds.opml", method="HEAD")
    head.expect(200, body=b"")
    assert head.fields.get("content-length") == str(len(first.body))
    clock.advance(minutes=10)
    origin.publish("/other", a_feed())
    await proxy.get("/other")
    again = await proxy.ask("/-/feeds.opml", if_none_match=first.tag)
    again.expect(200)
    assert again.tag != first.tag


async def test_feed_list_states_when_it_was_modified(door):
    proxy, origin, clock = await door(list_readers_min=1)
    origin.publish(PATH, a_feed())
    await proxy.get(PATH)
    first = await proxy.ask("/-/feeds.opml")
    clock.advance(minutes=10)
    second = await proxy.ask("/-/feeds.opml")
    origin.publish("/other", a_feed())
    await proxy.get("/other")
    third = await proxy.ask("/-/feeds.opml")

    assert b"<dateModified>Fri, 20 Nov 2026 12:00:00 GMT</dateModified>" in first.plain
    assert second.plain == first.plain
    assert b"<dateModified>Fri, 20 Nov 2026 12:10:00 GMT</dateModified>" in third.plain
    assert third.fields.get("last-modified") == "Fri, 20 Nov 2026 12:10:00 GMT"


async def test_feed_list_is_empty_if_every_reader_must_authenticate(door, tmp_path):
    users = tmp_path / "users"
    users.write_text("bob:" + bcrypt.hashpw(b"word", bcrypt.gensalt(4)).decode())
    proxy, origin, _ = await door(list_readers_min=1, readers=("*",), users_file=str(users))
    origin.publish(PATH, a_feed(), cache_control="max-age=600")
    bob = "Basic " + base64.b64encode(b"bob:word").decode()
    (await proxy.get(PATH, authorization=bob)).expect(200)

    assert (await a_list(proxy, authorization=bob)).feeds == ()
    assert (await a_list(proxy)).feeds == ()


async def test_feed_list_is_sandboxed(door):
    proxy, _, _ = await door(list_readers_min=1)

    seen = await proxy.ask("/-/feeds.opml")

    assert "sandbox" in (seen.fields.get("content-security-policy") or "")
    assert seen.fields.get("x-content-type-options") == "nosniff"


async def test_feed_list_refuses_unknown_parameters_and_methods(door):
    proxy, _, _ = await door(list_readers_min=1)

    (await proxy.ask("/-/feeds.opml?addresses=secret")).expect(400)
    (await proxy.ask("/-/feeds.opml", method="POST")).expect(405)


async def test_feed_list_in_reverse_mode_has_public_addresses(door):
    proxy, origin, _ = await door(upstream=UPSTREAM, public_url="https://feeds.example", list_readers_min=1)
    origin.publish(PATH, a_feed())
    await proxy.ask(PATH)

    assert await addresses(proxy, "") == ["https://feeds.example/feed.rss"]
    assert await addresses(proxy) == ["https://feeds.example/feed.rss"]
    (await proxy.ask("/-/proxy.pac")).expect(404)


# -- imports


def a_file(*outlines: str) -> opml.SubscriptionList:
    found = opml.read(
        f'<opml version="2.0"><head><title>Office</title></head><body>{"".join(outlines)}</body></opml>'.encode()
    )
    assert found is not None
    return found


async def test_imported_list_keeps_its_folders_and_is_fetched_at_site_interval(door):
    proxy, origin, clock = await door(site_interval=5, polling="balanced")
    for path in ("/a", "/b"):
        origin.publish(path, a_feed(path), cache_control="max-age=600")
    office = proxy.stage.app.feed_list
    listing = a_file(
        f'<outline text="News"><outline text="A" xmlUrl="{origin.url("/a")}"/></outline>',
        f'<outline text="B" xmlUrl="{origin.url("/b")}"/>',
    )

    outcome = await office.import_list(listing)

    assert (len(outcome.added), outcome.known, outcome.hosts) == (2, 0, ())
    found = await a_list(proxy, "?addresses=original")
    assert found.title == "Office"
    assert [(each.title, each.folder) for each in found.feeds] == [("A", ("News",)), ("B", ())]
    await origin.asked(1)
    clock.advance(seconds=5)
    await origin.asked(2)
    (await proxy.get("/a")).expect(200, cache="hit")


async def test_imported_list_counts_as_one_request_of_a_reader(door):
    proxy, origin, clock = await door(polling="balanced")
    origin.publish("/a", a_feed(), cache_control="max-age=1800")
    office = proxy.stage.app.feed_list
    await office.import_list(a_file(f'<outline xmlUrl="{origin.url("/a")}"/>'))
    await origin.asked(1)

    assert office.imports.count_since(origin.url("/a"), clock.now() - 60) == 1
    assert office.imports.count_since(origin.url("/a"), clock.now() + 60) == 0
    assert office.imports.count_since(origin.url("/b"), 0) == 0


async def test_imported_list_is_added_or_replaced(door):
    proxy, _, _ = await door(list_readers_min=1)
    office = proxy.stage.app.feed_list
    await office.import_list(a_file('<outline xmlUrl="http://a.example/a"/>'), name="Ours")

    outcome = await office.import_list(
        a_file('<outline xmlUrl="http://a.example/a"/><outline xmlUrl="http://a.example/b"/>')
    )

    assert (outcome.added, outcome.known) == (("http://a.example/b",), 1)
    assert (await a_list(proxy)).title == "Ours"
    await office.import_list(a_file('<outline xmlUrl="http://a.example/c"/>'), replace=True)
    assert await addresses(proxy) == ["http://a.example/c"]


async def test_imported_list_omits_addresses_with_secrets(door):
    proxy, _, _ = await door(list_readers_min=1)
    await proxy.stage.app.feed_list.import_list(
        a_file('<outline xmlUrl="http://a.example/a?token=abc"/><outline xmlUrl="http://a.example/b"/>')
    )

    assert await addresses(proxy) == ["http://a.example/b"]


async def test_imported_list_is_kept_by_the_store(door):
    proxy, _, clock = await door(list_readers_min=1)
    here = proxy.stage.app
    await here.feed_list.import_list(a_file('<outline text="x" xmlUrl="http://a.example/a"/>'), intercept=True)

    other = FeedList(here.service, ImportedFeeds(here.service.store), clock, here.settings_for, lambda: 0)

    assert [each.address for each in (await other.public()).feeds] == ["http://a.example/a"]
    assert other.imported.hosts == here.feed_list.imported.hosts == frozenset()


async def test_imported_list_that_is_invalid_in_the_store_counts_as_empty(door):
    proxy, _, _ = await door(list_readers_min=1)
    for raw in (
        b"[1]",
        b"{",
        b'{"feeds": [[1]]}',
        b'{"feeds": 7}',
        b'{"version": 2, "asked": {"http://a.example/": [[-1, 5]]}}',
    ):
        await proxy.service.store.put_state("office-list", raw)
        await proxy.service.store.put_state("office-asked", raw)

        assert await addresses(proxy) == []


# -- proxy.pac


def went(pac: bytes, *urls: str) -> list[str]:
    """The result of FindProxyForURL for each URL, from a JavaScript engine."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no engine for JavaScript: nodejs is not installed")
    asked = json.dumps([[url, url.split("/")[2]] for url in urls])
    told = f"{asked}.map(function (each) {{ return FindProxyForURL(each[0], each[1]); }})"
    script = f"{pac.decode()}\nconsole.log(JSON.stringify({told}));"
    done = subprocess.run([node, "-"], input=script, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return list(json.loads(done.stdout))


async def test_proxy_pac_sends_known_and_intercepted_hosts_through_the_proxy(door):
    proxy, _, _ = await door(intercept=("*.inter.example", "one.example"))
    office = proxy.stage.app.feed_list
    await office.import_list(a_file('<outline xmlUrl="http://known.example/a"/><outline xmlUrl="http://__proto__/a"/>'))

    seen = await proxy.ask("/-/proxy.pac")

    seen.expect(200)
    assert seen.fields.get("content-type") == "application/x-ns-proxy-autoconfig"
    name = proxy.stage.name.removeprefix("http://")
    urls = {
        "http://known.example/a": True,
        "https://KNOWN.example/b": True,
        "https://www.known.example/b": False,
        "https://a.b.inter.example/": True,
        "https://xinter.example/": False,
        "http://one.example/": True,
        "ftp://known.example/": False,
        "https://other.example/": False,
        "https://constructor/": False,
        "https://__proto__/": True,
    }
    assert dict(zip(urls, went(seen.plain, *urls), strict=True)) == {
        url: f"PROXY {name}; DIRECT" if through else "DIRECT" for url, through in urls.items()
    }


async def test_proxy_pac_omits_hosts_of_private_feeds(door):
    proxy, _, _ = await door(list_readers_min=1)
    outlines = '<outline xmlUrl="https://secret.example/a?token=x"/><outline xmlUrl="https://open.example/a"/>'
    await proxy.stage.app.feed_list.import_list(a_file(outlines), intercept=True)

    seen = await proxy.ask("/-/proxy.pac")

    assert b"secret.example" not in seen.plain
    assert b"open.example" in seen.plain


async def test_proxy_pac_has_validators(door):
    proxy, _, _ = await door(list_readers_min=1)
    first = await proxy.ask("/-/proxy.pac")

    (await proxy.ask("/-/proxy.pac", if_none_match=first.tag)).expect(304)


async def test_proxy_pac_omits_an_invalid_host(door):
    proxy, _, _ = await door(list_readers_min=1)

    seen = await proxy.ask("/-/proxy.pac", host='x"; alert(1); "')

    assert b"alert" not in seen.plain


async def test_intercepted_hosts_are_added_by_the_operator_only(door):
    proxy, origin, _ = await door(list_readers_min=1)
    origin.publish(PATH, a_feed())
    await proxy.get(PATH)
    app = proxy.stage.app
    outline = '<outline xmlUrl="https://feeds.example/a"/>'
    await app.feed_list.import_list(a_file(outline))
    assert not is_intercepted("feeds.example", app)

    outcome = await app.feed_list.import_list(a_file(outline), intercept=True)

    assert outcome.hosts == ("feeds.example",)
    assert is_intercepted("Feeds.example", app)
    assert not is_intercepted("www.feeds.example", app)
