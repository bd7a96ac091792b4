"""Import of feed lists through the admin listener."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from feedproxy.admin.routes import start_admin_listener
from feedproxy.app import App
from feedproxy.clock import ManualClock
from feedproxy.feed import opml
from tests.stages.admin import NOW, Proxy
from tests.stages.origin import Origin, OriginFetcher

OPTIONS = {"admin": "127.0.0.1:0", "store": "memory:", "site_interval": 0}
LIST = opml.write(opml.SubscriptionList("Ours", (opml.Subscription("https://a.example/1", "One", folder=("F",)),)))


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    clock = ManualClock(NOW)
    app = App(clock, make_client=lambda _: OriginFetcher(Origin(clock)))
    app.configure(OPTIONS)
    app.ready = True
    admin = await start_admin_listener(app)
    made = Proxy(app, admin, aiohttp.ClientSession())
    yield made
    await made.session.close()
    await admin.stop()
    await app.close()


async def test_list_is_imported_and_exported(proxy: Proxy) -> None:
    status, told, _ = await proxy.post("/opml?name=Newsroom", LIST)

    assert status == 200
    assert told == {
        "ok": True,
        "title": "Newsroom",
        "feeds": 1,
        "added": 1,
        "known": 0,
        "passed_over": 0,
        "intercepted": [],
    }
    status, text = await proxy.get("/opml")
    assert status == 200
    assert "<dateModified>" in text
    back = opml.read(text.encode())
    assert back is not None
    assert (back.title, back.feeds) == ("Newsroom", (opml.Subscription("https://a.example/1", "One", folder=("F",)),))
    assert opml.read((await proxy.json("/opml"))["document"].encode()) == back


async def test_hosts_are_decrypted_on_explicit_request_only(proxy: Proxy) -> None:
    assert (await proxy.post("/opml?intercept=no", LIST))[1]["intercepted"] == []
    assert (await proxy.post("/opml?intercept=1", LIST))[1]["intercepted"] == ["a.example"]


async def test_invalid_or_large_list_is_refused(proxy: Proxy) -> None:
    assert (await proxy.post("/opml", b"<html></html>"))[0] == 400
    assert (await proxy.post("/opml", b""))[0] == 400
    assert (await proxy.post("/opml", b" " * (opml.CONTENT_MAX + 1)))[0] == 413


@pytest.mark.parametrize("form", ["multipart/form-data", "multipart/form-data; boundary=x"])
async def test_unreadable_form_is_refused(proxy: Proxy, form: str) -> None:
    assert (await proxy.post("/opml", LIST, Content_Type=form))[0] == 400


async def test_post_from_another_sites_page_imports_nothing(proxy: Proxy) -> None:
    status, _, _ = await proxy.post("/opml", LIST, Origin="https://evil.example")

    assert status == 403
    assert proxy.app.feed_list.imported.feeds == ()


@pytest.mark.parametrize(
    "own", ["http://127.0.0.1:8080", "http://localhost:8080", "http://[::1]:8080", "https://feeds.example"]
)
async def test_own_gateway_addresses_in_a_list_are_imported_as_the_feeds_addresses(proxy: Proxy, own: str) -> None:
    proxy.app.configure({**OPTIONS, "public_url": "https://feeds.example/"})
    proxy.app.listeners.add(8080, for_readers=True)
    written = opml.write(
        opml.SubscriptionList(
            "",
            (
                opml.Subscription(f"{own}/https://a.example/1?x=/y"),
                opml.Subscription(f"{own}/http:/a.example/2"),
                opml.Subscription(f"{own}/-/as/rss/https://a.example/3"),
                opml.Subscription(f"{own}/-/changes.xml"),
                opml.Subscription("https://a.example/1?x=/y"),
                opml.Subscription("http://other.example:80/https://a.example/4"),
            ),
        )
    )

    _, told, _ = await proxy.post("/opml", written)

    assert (told["added"], told["passed_over"]) == (4, 2)
    assert [each.address for each in proxy.app.feed_list.imported.feeds] == [
        "https://a.example/1?x=/y",
        "http://a.example/2",
        "https://a.example/3",
        "http://other.example/https://a.example/4",
    ]


async def test_public_addresses_in_a_list_are_imported_as_upstream_addresses_in_reverse_mode(proxy: Proxy) -> None:
    reverse = {"upstream": "http://origin.example", "public_url": "https://www.example.org"}
    proxy.app.configure({**OPTIONS, **reverse})

    await proxy.post("/opml", opml.write(opml.SubscriptionList("", (opml.Subscription("https://www.example.org/1"),))))

    assert [each.address for each in proxy.app.feed_list.imported.feeds] == ["http://origin.example/1"]


@pytest.mark.parametrize(
    "damaged",
    [LIST[: LIST.index(b"</body>")], LIST.replace(b"<body>", b"<body>" + b"<outline text='F'>" * 300)],
    ids=["cut off", "nested too deeply"],
)
async def test_incomplete_list_is_refused_and_changes_nothing(proxy: Proxy, damaged: bytes) -> None:
    await proxy.post("/opml", LIST)

    status, told, _ = await proxy.post("/opml?replace=1", damaged)

    assert status == 400
    assert "Nothing was imported" in str(told)
    assert (await proxy.json("/opml"))["feeds"] == 1
