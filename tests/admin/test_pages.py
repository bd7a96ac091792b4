"""The operator's pages: their contents, no secrets, and no need for scripts."""

import asyncio
import re
import socket
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from feedproxy.clock import DAY, ManualClock
from feedproxy.request.feed_id import feed_id
from feedproxy.store.resource import Failures, Relocation, RelocationKind, Resource
from feedproxy.telemetry.traffic_history import TrafficCounts
from feedproxy.web import templates
from feedproxy.web.display_formats import iso
from tests.stages import lively
from tests.stages.admin import NOW, TARGET, Proxy, a_resource
from tests.waiting import PATIENCE

TOKEN = "hunter2hunter2hunter2"
PAGES = ("/", "/feeds", "/feeds/ID", "/moves", "/readers", "/notifications", "/purge?id=ID", "/purge?pattern=*")
APIS = ("/api/status", "/api/history", "/api/feeds", "/api/feeds/ID", "/api/moves", "/api/readers")


def text_of(page: str) -> str:
    """Return the visible text of a page on one line."""
    return " ".join(re.sub(r"<[^>]+>", "", page).split())


async def test_first_page_summarizes_health_and_savings(proxy: Proxy) -> None:
    await proxy.keep(a_resource())
    proxy.app.parts.history_recorder.history.add(
        TrafficCounts(requests=200, hits=190, fetches=12, sent=400_000, received=30_000), NOW
    )
    proxy.app.parts.history_recorder.history.add(TrafficCounts(requests=1000, hits=990, fetches=10), NOW - 3 * DAY)

    _, page = await proxy.get("/")
    seen, view = text_of(page), await proxy.json("/status")

    assert "Running normally" in seen
    assert "200 requests today (UTC), 95.0 % served from the cache." in seen
    assert "12 requests to origins" in seen
    assert "In the last 30 days: 1 178 of 1 200 requests" in seen
    assert (view["health"], view["headline"], view["findings"]) == ("good", "Running normally", [])
    assert view["today"]["bytes_spared"] == 370_000
    assert (await proxy.json("/history"))["days"][0]["requests"] == 1000


async def test_uptime_does_not_change_when_the_clock_is_set(proxy: Proxy) -> None:
    clock = proxy.app.clock
    assert isinstance(clock, ManualClock)
    clock.advance(minutes=1)
    clock.set(NOW + 30 * DAY)
    clock.advance(minutes=1)

    view = await proxy.json("/status")

    assert view["uptime"] == 120
    assert view["started"] == iso(NOW + 30 * DAY - 60)


@pytest.mark.parametrize(
    ("options", "address"),
    [
        ({}, "http://127.0.0.1:8080/https://example.com/feed.xml"),
        ({"listen": "0.0.0.0:8080"}, f"http://{socket.gethostname()}:8080/https://example"),
        ({"listen": "18110"}, "http://127.0.0.1:18110/https://example"),
        ({"listen": ":8080", "public_url": "https://feeds.example.org/"}, "https://feeds.example.org/https://example"),
        ({"upstream": "https://origin.example"}, None),
    ],
)
async def test_first_page_of_a_new_proxy_explains_how_to_begin(
    make_proxy: Callable[..., Any], options: dict[str, str], address: str | None
) -> None:
    proxy: Proxy = await make_proxy(**options)

    seen = text_of((await proxy.get("/"))[1])

    assert "Ready for the first feed" in seen
    assert ("subscribe to" in seen) is (address is not None)
    assert address is None or address in seen


async def test_finding_is_the_first_sentence_of_the_page(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy.app.ready = False
    monkeypatch.setattr(proxy.app, "problems", lambda: ("Redis cannot be reached.",))

    seen, view = text_of((await proxy.get("/"))[1]), await proxy.json("/status")

    assert "Something is wrong" in seen
    assert "The listener for readers is not open" in seen
    assert "Redis cannot be reached." in seen
    assert [each["level"] for each in view["findings"]] == ["bad", "degraded"]


@pytest.mark.parametrize(
    ("detail", "advice"),
    [
        ("unreachable", "Open the address in a browser."),
        ("unreachable", "If its certificate is from your own CA, set ssl_verify_upstream_trusted_ca."),
        ("rate-limited", "asks for fewer requests"),
        ("html-where-feed", "feedproxy discover"),
        ("no-such-detail", "feedproxy tries again"),
    ],
)
async def test_failing_feed_is_shown_with_advice(proxy: Proxy, detail: str, advice: str) -> None:
    await proxy.keep(replace(a_resource(), failures=Failures(2, NOW - 600, NOW - 60, detail, NOW + 600)))

    assert advice in (await proxy.json("/feeds"))["feeds"][0]["advice"]
    assert advice in text_of((await proxy.get("/"))[1])
    assert "1 feed needs attention" in text_of((await proxy.get("/"))[1])


async def test_page_of_an_address_without_a_feed_states_what_is_missing(proxy: Proxy) -> None:
    await proxy.keep(Resource(TARGET, failures=Failures(1, NOW - 60, NOW - 60, "rate-limited", NOW + 600)))

    _, page = await proxy.get(f"/feeds/{feed_id(TARGET)}")

    assert "No feed has been received from this address." in page
    assert "No copy is stored." in page
    assert "No reader has been counted in the last 24 h." in page


async def test_versions_of_a_feed_are_shown_with_their_new_entries(proxy: Proxy) -> None:
    feed = lively.a_feed(lively.NEWS, "The Harbour Gazette", 12)
    await proxy.keep(feed)

    view = await proxy.json(f"/feeds/{feed_id(lively.NEWS)}")
    _, page = await proxy.get(f"/feeds/{feed_id(lively.NEWS)}")

    assert [each["items"] for each in view["versions"]] == [22, 21, 19, 18, 15, 14, 12]
    assert [each["new"] for each in view["versions"]] == [1, 2, 1, 3, 1, 2, None]
    assert view["versions"][1]["changed"] == view["versions"][1]["gone"] == 0
    assert view["versions"][0]["size"] == len(feed.variants[-1].content.bodies["identity"])
    assert "first known version" in page


async def test_moves_are_listed_with_remaining_readers_and_advice(proxy: Proxy) -> None:
    moved = Relocation(RelocationKind.MOVED, "https://example.org/new.xml", NOW - DAY, NOW - 60, 3, confirmed=True)
    told = Relocation(RelocationKind.MOVED, "https://example.org/2.xml", NOW - 60, NOW - 60, 1)
    await proxy.keep(replace(a_resource(), relocation=moved), replace(a_resource(TARGET + "2"), relocation=told))
    proxy.read(TARGET, "curl/8", 3)

    view, seen = await proxy.json("/moves"), text_of((await proxy.get("/moves"))[1])

    assert [(each["target"], each["moved_to"]) for each in view["feeds"]] == [
        (TARGET, "https://example.org/new.xml"),
        (TARGET + "2", "https://example.org/2.xml"),
    ]
    assert "1 feed has moved or ended" in seen
    assert "3 subscribers still request the old addresses" in seen
    assert "1 further move or end is not confirmed yet" in seen
    assert "it takes effect when the origin repeats it at least 1 h later" in seen
    assert "Undo the move" in seen


async def test_purge_from_a_page_requires_confirmation(proxy: Proxy) -> None:
    await proxy.keep(a_resource(), a_resource(TARGET + "2"), a_resource("https://example.org/other.xml"))
    proxy.read(TARGET, "curl/8", 2)

    seen = text_of((await proxy.get("/purge?pattern=https://example.com/*"))[1])
    none = text_of((await proxy.get("/purge?pattern=https://nobody.example/*"))[1])

    assert "Purge 2 copies?" in seen
    assert "with 2 subscribers" in seen
    assert "other.xml" not in seen
    assert "No copy to purge" in none
    assert len(list(proxy.app.service.store.targets())) == 3


async def test_readers_are_counted_over_all_feeds(proxy: Proxy) -> None:
    await proxy.keep(a_resource(), a_resource(TARGET + "2"))
    for target in (TARGET, TARGET + "2"):
        proxy.read(target, "Newsboat/2.32 (Linux x86_64)", 3)
        proxy.read(target, "Feedly/1.0 (+http://www.feedly.com/fetcher.html; 41 subscribers)")

    view = await proxy.json("/readers")

    assert view["subscriptions"] == [
        {"reader": "feedly", "direct": 0, "claimed": 82},
        {"reader": "Newsboat", "direct": 6, "claimed": 0},
    ]


@pytest.mark.parametrize("path", [*PAGES, *APIS, "/metrics"])
async def test_pages_contain_no_secret(make_proxy: object, path: str) -> None:
    secret = f"https://reader:pass{TOKEN}@example.com/private.xml?token={TOKEN}"
    proxy: Proxy = await make_proxy(admin_token=f"admin{TOKEN}", ping_sinks=(f"https://sink.example/?key={TOKEN}",))  # type: ignore[operator]
    target = f"https://example.com/private.xml?token={TOKEN}"
    moved = Relocation(RelocationKind.MOVED, secret, NOW - 60, NOW - 60, 2, confirmed=True)
    failed = Failures(1, NOW - 60, NOW - 60, "unreachable", NOW + 60)
    await proxy.keep(
        replace(a_resource(target, title="", link=secret, hubs=(secret,)), relocation=moved),
        replace(a_resource(target + "2"), failures=failed),
    )
    proxy.read(target, "curl/8")
    asked = {"Authorization": f"Bearer admin{TOKEN}"}

    status, text = await proxy.get(path.replace("ID", feed_id(target)), **asked)

    assert status == 200
    assert TOKEN not in text
    assert TOKEN not in (await proxy.get("/nothing", **asked))[1]


async def test_pages_run_their_own_script_only_and_load_nothing_from_other_hosts(proxy: Proxy) -> None:
    await proxy.keep(a_resource())
    for path in PAGES:
        async with proxy.session.get(proxy.admin.url + path.replace("ID", feed_id(TARGET))) as answer:
            page, policy = await answer.text(), answer.headers["Content-Security-Policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert re.findall(r"<script[^>]*>", page) == [f'<script src="{_asset("live")}" defer>']
        assert " style=" not in page
        assert not re.search(r' on[a-z]+="', page)
        assert not re.search(r'(?:src|href)="(?:https?:)?//(?!example\.)', page)


async def test_style_and_script_are_cached_under_names_that_change_with_their_content(proxy: Proxy) -> None:
    for name in ("admin", "live"):
        async with proxy.session.get(proxy.admin.url + _asset(name)) as answer:
            assert answer.status == 200
            assert answer.headers["Cache-Control"] == "max-age=31536000"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert (await proxy.get("/assets/admin.css"))[0] == 404
    assert (await proxy.get("/assets/..%2fpages.py"))[0] == 404


async def test_first_page_is_smaller_than_48_kb(proxy: Proxy) -> None:
    for each in lively.feeds():
        await proxy.keep(each)
    lively.write_history(proxy.app)

    page = (await proxy.get("/"))[1].encode()
    found = [templates.asset(_asset(name).rpartition("/")[2]) for name in ("admin", "live")]
    assets = sum(len(asset[1]) for asset in found if asset is not None)

    assert len(page) < 48_000
    assert assets < 28_000


async def test_ten_thousand_feeds_are_shown_in_pages(proxy: Proxy) -> None:
    for number in range(10_000):
        await proxy.keep(Resource(f"https://example.com/{number}", failures=Failures(1, NOW, NOW, "timeout", NOW + 60)))

    async with asyncio.timeout(PATIENCE):
        status, page = await proxy.get("/feeds?q=777&sort=title&page=1")
        _, first = await proxy.get("/")

    assert status == 200
    assert page.count('<th scope="row">') == 19  # 777, 7770 to 7779 and 1777 to 9777
    assert "of 10\u202f000" in page
    assert "and 9\u202f992 more" in first
    assert len(page) < 80_000


def _asset(name: str) -> str:
    return next(f"/assets/{each}" for each in templates._assets() if each.startswith(name))
