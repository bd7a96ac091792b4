"""Feeds are added, imported, paused and blocked on the operator's pages."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from feedproxy.admin.routes import start_admin_listener
from feedproxy.app import App
from feedproxy.clock import ManualClock
from feedproxy.feed import opml
from feedproxy.request.feed_id import feed_id
from tests.stages.admin import NOW, TARGET, Proxy, a_resource
from tests.stages.origin import Origin, OriginFetcher, a_feed

HTML = "text/html"


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    origin = Origin(ManualClock(NOW))
    app = App(origin.clock, make_client=lambda _: OriginFetcher(origin))
    app.configure({"admin": "127.0.0.1:0", "store": "memory:", "site_interval": 0, "polling": "off"})
    origin.publish("/feed.xml", a_feed("An entry"))
    app.ready = True
    admin = await start_admin_listener(app)
    made = Proxy(app, admin, aiohttp.ClientSession())
    made.origin = origin  # type: ignore[attr-defined]
    yield made
    await made.session.close()
    await admin.stop()
    await app.close()


async def test_pasted_address_is_added_and_fetched(proxy: Proxy) -> None:
    target = proxy.origin.url("/feed.xml")  # type: ignore[attr-defined]

    status, told, _ = await proxy.post("/add", {"url": f" feed:{target} "})

    assert (status, told["ok"], told["added"], told["target"]) == (200, True, True, target)
    assert proxy.app.service.admin.is_feed(target)
    assert [each.address for each in proxy.app.feed_list.imported.feeds] == [target]
    status, _, location = await proxy.post("/add", {"url": target}, Accept=HTML)
    assert status == 303
    assert "It is on the list already" in (await proxy.get(location))[1]


async def test_text_that_is_no_address_is_not_added(proxy: Proxy) -> None:
    assert (await proxy.post("/add", {"url": "nonsense"}))[0] == 400
    assert proxy.app.feed_list.imported.feeds == ()


async def test_list_is_imported_by_a_form_that_reports_the_result(proxy: Proxy) -> None:
    form = aiohttp.FormData()
    listing = opml.write(opml.SubscriptionList("Ours", (opml.Subscription("https://a.example/1"),)))
    form.add_field("file", listing, filename="feeds.opml", content_type="text/xml")

    status, _, location = await proxy.post("/opml", form, Accept=HTML)

    assert status == 303
    assert "1 added, 0 already there, 0 skipped" in (await proxy.get(location))[1]
    assert [each.address for each in proxy.app.feed_list.imported.feeds] == ["https://a.example/1"]


async def test_feed_is_paused_and_resumed(proxy: Proxy) -> None:
    await proxy.keep(a_resource())
    identifier = feed_id(TARGET)

    status, _, location = await proxy.post("/pause", {"id": identifier}, Accept=HTML)

    assert (status, location.partition("?")[0]) == (303, f"/feeds/{identifier}")
    assert "Paused: the stored copy is served." in (await proxy.get(location))[1]
    (feed,) = (await proxy.json("/feeds"))["feeds"]
    assert (feed["paused"], feed["next_fetch"]["words"]) == (True, "the operator has paused this feed")
    assert (await proxy.post("/allow", {"id": identifier}))[1]["changed"] is True
    assert (await proxy.json("/feeds"))["decided"] == []


async def test_blocked_feed_loses_its_copy_and_stays_listed_until_it_is_allowed(proxy: Proxy) -> None:
    await proxy.keep(a_resource(), a_resource("https://example.com/other.xml"))

    _, told, _ = await proxy.post("/block", {"url": TARGET})

    assert told["decision"] == "blocked"
    assert proxy.app.service.store.get(TARGET) is None
    assert proxy.app.service.store.get("https://example.com/other.xml") is not None
    assert (await proxy.json("/feeds"))["decided"] == [{"id": feed_id(TARGET), "target": TARGET, "decision": "blocked"}]
    assert "Unblock" in (await proxy.get("/feeds"))[1]
    assert (await proxy.post("/add", {"url": TARGET}))[0] == 400
    assert (await proxy.post("/allow", {"id": feed_id(TARGET)}))[0] == 200
    assert proxy.app.settings_for(TARGET).readers == ()


async def test_post_from_another_sites_page_is_refused_for_all_actions(proxy: Proxy) -> None:
    for action in ("add", "pause", "block", "allow"):
        assert (await proxy.post(f"/{action}", {"url": TARGET}, Origin="https://evil.example"))[0] == 403
    assert proxy.app.parts.decisions.list_all() == []
