"""The admin listener, tested over loopback."""

import asyncio
import json
import mmap
import re
import resource
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from feedproxy.cache.cache_status import CacheStatus, Fwd
from feedproxy.clock import ManualClock
from feedproxy.errors import CannotListen, UsageError
from feedproxy.refresh.refresh_events import RefreshEnded
from feedproxy.request.feed_id import feed_id
from feedproxy.store.resource import Failures, Relocation, RelocationKind
from feedproxy.workers.worker_context import HEARTBEAT, WorkerContext
from tests.stages.admin import NOW, TARGET, Proxy, a_resource

EVIL = "<script>alert(1)</script>"
SECRET = "https://example.com/private.xml?token=hunter2hunter2"


async def test_page_without_feeds_is_served(proxy: Proxy) -> None:
    status, text = await proxy.get("/")

    assert status == 200
    assert "No feed has been requested yet" in text


async def test_status_page_shows_totals_and_feeds(proxy: Proxy) -> None:
    await proxy.keep(a_resource(title="Morgenblatt"))
    proxy.read(TARGET, "NetNewsWire (RSS Reader)", 2)
    for _ in range(3):
        proxy.app.metrics.count_response("gateway", 200, CacheStatus(hit=True), 1000, 0.001)
    proxy.app.metrics.count_response("gateway", 200, CacheStatus(fwd=Fwd.URI_MISS), 1000, 0.001)
    proxy.app.metrics.count_fetch(200, "", 1000, 0.1)

    _, text = await proxy.get("/")
    view = await proxy.json("/status")

    assert "Morgenblatt" in text
    assert "75.0" in text
    assert view["requests"]["hit_share"] == 0.75
    assert view["requests"]["saved"] == 3
    assert view["subscribers"] == 2
    assert view["states"]["fresh"] == 1


@pytest.mark.parametrize("path", ["/", "/feeds", "/feeds?q=%3Cscript%3Ealert(1)%3C/script%3E", "/feeds/ID"])
async def test_text_from_publishers_and_readers_is_escaped_on_every_page(proxy: Proxy, path: str) -> None:
    resource = a_resource(title=EVIL, version=EVIL, link=f"https://example.com/{EVIL}")
    failures = Failures(1, NOW - 60, NOW - 60, EVIL, NOW + 60)
    sighting = Relocation(RelocationKind.MOVED, f"https://example.org/{EVIL}", NOW, NOW, 1)
    await proxy.keep(replace(resource, failures=failures, relocation=sighting))
    proxy.read(TARGET, f"Reader{EVIL}/1.0 ({EVIL} 5 subscribers; feed-id={EVIL})")
    proxy.read(TARGET, EVIL)

    status, text = await proxy.get(path.replace("ID", feed_id(TARGET)))

    assert status == 200
    assert "<script>" not in text


async def test_pages_forbid_inline_scripts_framing_and_storing(proxy: Proxy) -> None:
    async with proxy.session.get(proxy.admin.url) as answer:
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Server"] == "feedproxy"


@pytest.mark.parametrize("path", ["/", "/feeds", "/feeds/ID", "/api/feeds", "/api/feeds/ID", "/metrics"])
async def test_secrets_in_addresses_are_not_shown(proxy: Proxy, path: str) -> None:
    moved = Relocation(RelocationKind.MOVED, SECRET + "2", NOW, NOW, 2, confirmed=True)
    await proxy.keep(replace(a_resource(SECRET, title=""), relocation=moved))
    proxy.read(SECRET, "curl/8")

    status, text = await proxy.get(path.replace("ID", feed_id(SECRET)))

    assert status == 200
    assert "hunter2" not in text


async def test_feed_is_available_as_json_with_all_details(proxy: Proxy) -> None:
    await proxy.keep(a_resource())
    proxy.read(TARGET, "Feedly/1.0 (+http://www.feedly.com/fetcher.html; 41 subscribers)")
    proxy.read(TARGET, "curl/8")

    view = await proxy.json(f"/feeds/{feed_id(TARGET)}")

    assert view["target"] == TARGET
    assert view["state"] == "fresh"
    assert view["reason"].startswith("fresh for another 50 min: max-age of 1 h")
    assert (view["age"], view["lifetime"], view["fresh"], view["held"]) == (600, 3600, True, None)
    assert view["sizes"] == {"identity": 900, "gzip": 100}
    assert view["validators"]["origin"] == {"etag": '"theirs"'}
    # Without a checksum of the coded bytes, the tag names the coding alone (http/etag.py).
    assert re.fullmatch(r'"ours(~[0-9a-f]{8})?-gzip"', view["validators"]["ours"]["gzip"])
    assert view["subscribers"]["total"] == 42
    assert view["subscribers"]["claims"][0]["count"] == 41
    assert view["subscribers"]["readers"] == {"curl": 1}
    assert view["next_fetch"]["at"] < view["expires"]  # prefetched before it expires


async def test_accept_selects_page_or_json(proxy: Proxy) -> None:
    await proxy.keep(a_resource())

    _, page = await proxy.get("/feeds", Accept="text/html,*/*;q=0.5")
    _, text = await proxy.get("/feeds", Accept="application/json")

    assert page.startswith("<!DOCTYPE html>")
    assert json.loads(text)["total"] == 1


async def test_table_can_be_searched_sorted_filtered_and_paged(proxy: Proxy) -> None:
    for number in range(120):
        target = f"https://example.com/{number:03}.xml"
        await proxy.keep(a_resource(target, title=f"Feed {number:03}", max_age=60 if number % 2 else 3600))
    proxy.read("https://example.com/077.xml", "curl/8", 5)

    async def titles(query: str) -> list[str]:
        return [row["title"] for row in (await proxy.json(f"/feeds?{query}"))["feeds"]]

    assert (await titles(""))[0] == "Feed 077"
    assert len(await titles("")) == 50
    assert len(await titles("page=3")) == 20
    assert await titles("q=FEED+10&sort=title&per_page=2") == ["Feed 100", "Feed 101"]
    assert len(await titles("state=stale&per_page=1000")) == 60
    assert len(await titles("page=99&per_page=nonsense&sort=nonsense")) == 20
    _, text = await proxy.get("/feeds?page=2&q=feed")
    assert "page 2 of 3" in text
    assert '<option value="state">state</option>' in text


@pytest.mark.parametrize("by_peer", [False, True])
async def test_page_shows_changes_since_the_last_request(proxy: Proxy, *, by_peer: bool) -> None:
    await proxy.keep(a_resource(title="Before"))
    assert "Before" in (await proxy.get("/"))[1]

    await proxy.keep(a_resource(title="After"))
    if by_peer:
        proxy.app.events.updated_by_peer.emit(TARGET)
    else:
        proxy.app.events.refresh_ended.emit(RefreshEnded(TARGET, None))
    await proxy.post(f"/purge?url={TARGET}x")

    assert "After" in (await proxy.get("/"))[1]


async def test_unknown_paths_and_ids_are_not_found(proxy: Proxy) -> None:
    status, page = await proxy.get("/https://example.com/feed.xml", Accept="text/html")
    assert status == 404
    assert "Feed readers connect to the address in the option listen." in page
    assert (await proxy.get("/feeds/0123456789abcdef"))[0] == 404
    assert (await proxy.get("/api/feeds/0123456789abcdef"))[0] == 404


async def test_get_of_an_action_changes_nothing(proxy: Proxy) -> None:
    await proxy.keep(a_resource())

    for deed in ("api/purge", "refresh", "undo"):
        assert (await proxy.get(f"/{deed}?url={TARGET}"))[0] == 405
    assert (await proxy.get(f"/purge?url={TARGET}"))[0] == 200  # asks for confirmation

    assert proxy.app.service.store.get(TARGET) is not None


async def test_purge_removes_a_target(proxy: Proxy) -> None:
    await proxy.keep(a_resource(), a_resource(TARGET + "2"))

    status, told, _ = await proxy.post(f"/purge?url={TARGET}")

    assert (status, told) == (200, {"ok": True, "purged": 1, "targets": [TARGET]})
    assert list(proxy.app.service.store.targets()) == [TARGET + "2"]


async def test_purge_removes_all_targets_that_match_a_pattern(proxy: Proxy) -> None:
    await proxy.keep(a_resource("https://a.example/1"), a_resource("https://a.example/2"), a_resource())

    _, told, _ = await proxy.post("/api/purge?pattern=https://a.example/*")

    assert told["purged"] == 2
    assert list(proxy.app.service.store.targets()) == [TARGET]


async def test_undo_removes_a_move(proxy: Proxy) -> None:
    moved = Relocation(RelocationKind.MOVED, "https://example.org/", NOW, NOW, 2, confirmed=True)
    await proxy.keep(replace(a_resource(), relocation=moved))
    assert (await proxy.json(f"/feeds/{feed_id(TARGET)}"))["state"] == "moved"

    assert (await proxy.post(f"/undo?url={TARGET}"))[1]["undone"] is True
    assert (await proxy.json(f"/feeds/{feed_id(TARGET)}"))["state"] == "fresh"
    assert (await proxy.post(f"/undo?url={TARGET}"))[1]["undone"] is False


@pytest.fixture
async def origin() -> Any:
    """Run an origin on loopback and yield its address."""
    body = b'<rss version="2.0"><channel><title>News</title><link>http://e/</link><description/></channel></rss>'

    async def feed(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/rss+xml")

    application = web.Application()
    application.router.add_get("/feed", feed)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_refresh_contacts_the_origin_and_reports_the_result(proxy: Proxy, origin: str) -> None:
    status, told, _ = await proxy.post(f"/refresh?url={origin}/feed")

    assert (status, told["outcome"], told["ok"]) == (200, "updated", True)
    assert (await proxy.json("/feeds"))["feeds"][0]["title"] == "News"


async def test_refresh_before_the_minimum_interval_is_accepted_for_later(proxy: Proxy, origin: str) -> None:
    await proxy.post(f"/refresh?url={origin}/feed")

    status, told, _ = await proxy.post(f"/refresh?url={origin}/feed")

    assert (status, told["outcome"], told["ok"]) == (202, "later", True)
    assert told["at"] is not None


async def test_failed_refresh_is_reported(proxy: Proxy, origin: str) -> None:
    await proxy.post(f"/refresh?url={origin}/feed")
    await proxy.app.service.admin.purge(f"{origin}/feed")

    told = (await proxy.post("/refresh?url=http://127.0.0.1:1/feed"))[1]

    assert (told["outcome"], told["ok"]) == ("failed", False)


async def test_refresh_of_an_address_that_returns_404_is_no_success(proxy: Proxy, origin: str) -> None:
    told = (await proxy.post(f"/refresh?url={origin}/fed"))[1]

    assert (told["outcome"], told["status"], told["ok"]) == ("not-stored", 404, False)


async def test_refresh_of_an_invalid_address_is_a_bad_request(proxy: Proxy) -> None:
    assert (await proxy.post("/refresh?url=ftp://example.com/"))[0] == 400
    assert (await proxy.post("/refresh"))[0] == 400
    assert (await proxy.post(f"/refresh?url={TARGET}&pattern=*"))[0] == 400


async def test_form_on_admin_page_redirects_to_a_page_with_the_result(proxy: Proxy) -> None:
    await proxy.keep(a_resource(SECRET))
    await proxy.get("/")
    form = {"Accept": "text/html", "Origin": proxy.admin.url, "Sec_Fetch_Site": "same-origin"}

    status, _, location = await proxy.post("/undo", {"id": feed_id(SECRET)}, **form)

    assert status == 303
    assert location.startswith(f"/feeds/{feed_id(SECRET)}?done=")
    assert "No move or end was stored" in (await proxy.get(location))[1]


async def test_result_text_cannot_be_injected_by_a_link(proxy: Proxy) -> None:
    assert "Call+this" not in (await proxy.get("/?done=Call+this+number"))[1]
    assert "Call this" not in (await proxy.get("/?done=Call+this+number"))[1]


async def test_cross_site_post_has_no_effect(proxy: Proxy) -> None:
    await proxy.keep(a_resource())

    status, _, _ = await proxy.post(f"/purge?url={TARGET}", Origin="https://evil.example")

    assert status == 403
    assert proxy.app.service.store.get(TARGET) is not None


async def test_unknown_host_name_gets_421(proxy: Proxy) -> None:
    assert (await proxy.get("/api/feeds", Host="evil.example"))[0] == 421


async def test_missing_token_gets_401(make_proxy: Callable[..., Any]) -> None:
    proxy = await make_proxy(admin_token="secret")

    async with proxy.session.get(proxy.admin.url) as answer:
        assert answer.status == 401
        assert "Bearer" in answer.headers["WWW-Authenticate"]
    assert (await proxy.get("/", Authorization="Bearer secret"))[0] == 200
    assert (await proxy.get("/healthz"))[0] == 200


async def test_admin_address_outside_of_loopback_without_a_token_stops_the_start(
    make_proxy: Callable[..., Any],
) -> None:
    with pytest.raises(UsageError, match="admin_token"):
        await make_proxy(admin="0.0.0.0:0")


async def test_address_in_use_is_reported_in_one_line(proxy: Proxy, make_proxy: Callable[..., Any]) -> None:
    with pytest.raises(CannotListen, match="cannot listen"):
        await make_proxy(admin=proxy.admin.url.removeprefix("http://"))


async def test_readyz_is_200_only_while_clients_are_accepted(proxy: Proxy) -> None:
    assert await proxy.get("/readyz") == (200, "ready\n")

    proxy.app.ready = False
    assert (await proxy.get("/readyz"))[0] == 503

    proxy.app.ready = proxy.app.draining = True
    assert (await proxy.get("/readyz"))[0] == 503
    assert (await proxy.get("/healthz"))[0] == 200


async def test_readyz_is_503_until_each_worker_has_started(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    beats = mmap.mmap(-1, 2 * HEARTBEAT.size)
    lifeline = socket.socket()
    first, second = (
        WorkerContext(index, 2, Path("/nowhere"), (), (), lifeline, b"", -1, (), beats, logs_start=not index)
        for index in range(2)
    )
    monkeypatch.setattr(proxy.app, "worker", first)

    first.record_heartbeat()
    assert (await proxy.get("/readyz"))[0] == 503

    second.record_heartbeat()
    assert (await proxy.get("/readyz"))[0] == 200

    HEARTBEAT.pack_into(beats, HEARTBEAT.size, 0.0)  # the second worker starts again
    assert (await proxy.get("/readyz"))[0] == 200
    lifeline.close()


async def test_readyz_of_a_restarted_worker_is_200_while_another_worker_restarts(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats = mmap.mmap(-1, 2 * HEARTBEAT.size)
    with socket.socket() as lifeline:
        restarted = WorkerContext(0, 2, Path("/nowhere"), (), (), lifeline, b"", -1, (), beats)
        monkeypatch.setattr(proxy.app, "worker", restarted)

        assert await proxy.get("/readyz") == (200, "ready\n")


async def test_shortage_of_descriptors_is_shown(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await proxy.get("/healthz") == (200, "ok\n")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (8, 8))
    assert "all of the 8 files" in (await proxy.get("/healthz"))[1]
    assert "all of the 8 files" in (await proxy.get("/api/status"))[1]


async def test_values_that_could_not_be_written_are_shown_by_a_live_and_ready_proxy(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    await proxy.get("/")
    monkeypatch.setattr(type(proxy.app.service.store), "unwritten_count", 3)

    assert await proxy.get("/healthz") == (200, "ok\nstore: 3 values could not be written yet\n")
    assert await proxy.get("/readyz") == (200, "ready\n")
    await proxy.app.close()
    assert await proxy.get("/healthz") == (200, "ok\n")


async def test_request_does_not_open_a_closed_proxy(proxy: Proxy) -> None:
    await proxy.get("/")
    await proxy.app.close()

    assert (await proxy.get("/"))[0] == 503
    assert not proxy.app.is_open


async def test_metrics_contain_no_addresses(proxy: Proxy) -> None:
    await proxy.keep(a_resource())
    proxy.read(TARGET, "Feedly/1.0 (+http://www.feedly.com/fetcher.html; 41 subscribers)")
    proxy.app.connections = 7

    status, text = await proxy.get("/metrics")

    assert status == 200
    for line in ("feedproxy_stored_resources 1.0", "feedproxy_subscribers 41.0", "feedproxy_connections 7.0"):
        assert line in text
    assert "feedproxy_updates_under_way 0.0" in text
    assert "process_resident_memory_bytes" in text
    assert "://" not in text


UPSTREAM, PUBLIC = "http://127.0.0.1:8000", "https://feeds.example"


@pytest.fixture
async def publisher(make_proxy: Callable[..., Any]) -> Proxy:
    """Run a proxy in front of an origin, with a feed of its own."""
    proxy: Proxy = await make_proxy(upstream=UPSTREAM, public_url=PUBLIC + "/")
    await proxy.keep(a_resource(UPSTREAM + "/feed.xml"))
    return proxy


@pytest.mark.parametrize("base", [UPSTREAM, PUBLIC])
async def test_feed_in_reverse_mode_is_shown_and_found_by_both_addresses(publisher: Proxy, base: str) -> None:
    (row,) = (await publisher.json(f"/feeds?q={base}/feed"))["feeds"]
    _, page = await publisher.get(f"/feeds/{row['id']}")

    assert (row["target"], row["upstream"]) == (f"{PUBLIC}/feed.xml", f"{UPSTREAM}/feed.xml")
    assert f"{PUBLIC}/feed.xml" in page
    assert f"{UPSTREAM}/feed.xml" in page


@pytest.mark.parametrize("base", [UPSTREAM, PUBLIC])
async def test_action_in_reverse_mode_accepts_both_addresses(publisher: Proxy, base: str) -> None:
    _, added, _ = await publisher.post(f"/add?url={base}/feed.xml")
    _, undone, _ = await publisher.post(f"/undo?url={base}/feed.xml")
    _, purged, _ = await publisher.post(f"/purge?url={base}/feed.xml")

    assert (added["target"], added["upstream"]) == (f"{PUBLIC}/feed.xml", f"{UPSTREAM}/feed.xml")
    assert (undone["target"], undone["upstream"]) == (f"{PUBLIC}/feed.xml", f"{UPSTREAM}/feed.xml")
    assert (purged["purged"], purged["targets"]) == (1, [f"{PUBLIC}/feed.xml"])


async def test_action_by_the_public_address_redirects_to_the_feeds_page(publisher: Proxy) -> None:
    _, _, location = await publisher.post("/undo", {"url": f"{PUBLIC}/feed.xml"}, Accept="text/html")

    assert location.startswith(f"/feeds/{feed_id(UPSTREAM + '/feed.xml')}?")


async def test_move_in_reverse_mode_shows_the_public_address(publisher: Proxy) -> None:
    moved = Relocation(RelocationKind.MOVED, UPSTREAM + "/new.xml", NOW, NOW, 2, confirmed=True)
    await publisher.keep(replace(a_resource(UPSTREAM + "/old.xml"), relocation=moved))

    view = await publisher.json(f"/feeds/{feed_id(UPSTREAM + '/old.xml')}")

    assert view["sighting"]["location"] == PUBLIC + "/new.xml"
    assert view["reason"].startswith(f"readers are redirected to {PUBLIC}/new.xml")


@pytest.mark.parametrize("base", [UPSTREAM, PUBLIC])
async def test_pattern_in_reverse_mode_matches_both_addresses(publisher: Proxy, base: str) -> None:
    _, told, _ = await publisher.post(f"/refresh?pattern={base}/*")

    assert (told["matched"], told["refreshed"][0]["target"]) == (1, f"{PUBLIC}/feed.xml")


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [("https://example.com/feed.xml?x=[1]", 1), ("*[1]", 1), ("https://example.com/feed.xm?*", 0), ("*[2-9]", 0)],
)
async def test_refresh_and_purge_match_a_pattern_alike(proxy: Proxy, pattern: str, matched: int) -> None:
    await proxy.keep(a_resource("https://example.com/feed.xml?x=[1]", minutes_ago=0))  # within the minimum interval

    _, refreshed, _ = await proxy.post("/refresh", {"pattern": pattern})
    _, purged, _ = await proxy.post("/purge", {"pattern": pattern})

    assert (refreshed["matched"], purged["purged"]) == (matched, matched)


async def test_refresh_of_a_pattern_waits_for_the_slots_of_a_site(proxy: Proxy) -> None:
    clock = proxy.app.clock
    assert isinstance(clock, ManualClock)
    await proxy.keep(*(a_resource(f"http://127.0.0.1:1/{number}.xml") for number in range(4)))

    asked = asyncio.ensure_future(proxy.post("/refresh?pattern=http://127.0.0.1:1/*"))
    while not asked.done():
        await asyncio.wait({asked}, timeout=0.05)
        clock.advance(1)

    _, told, _ = await asked
    assert [each["outcome"] for each in told["refreshed"]] == ["failed"] * 4  # no server listens
    assert clock.now() - NOW >= 3


FORMS = {
    "multipart/form-data; boundary=x": b"url=https://example.com/",
    "multipart/form-data": b"",
    "multipart/form-data; boundary=y": (
        b"--y\r\nContent-Transfer-Encoding: odd\r\nContent-Disposition: form-data; name=url\r\n\r\nx\r\n--y--\r\n"
    ),
    "multipart/form-data; boundary=z": b"--z\r\nno field\r\n\r\n",
    "application/x-www-form-urlencoded; charset=odd": b"url=x",
    "application/x-www-form-urlencoded; charset=utf-16": b"url",
}


@pytest.mark.parametrize(
    ("path", "form"),
    [("/opml", "text/xml"), ("/add", "application/x-www-form-urlencoded"), ("/add", "text/plain")],
    ids=["list", "form", "not read"],
)
async def test_undecodable_content_gets_400_without_a_traceback(
    proxy: Proxy, path: str, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        status, _, _ = await proxy.post(path, b"no gzip", content_type=form, content_encoding="gzip")

    assert status == 400
    assert "Traceback" not in caplog.text
    assert "internal error" not in caplog.text


@pytest.mark.parametrize("form", FORMS)
async def test_unreadable_form_gets_400_without_a_traceback(
    proxy: Proxy, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    for path in ("/add", "/block", "/subscription", "/ping"):
        status, _, _ = await proxy.post(path, FORMS[form], content_type=form)
        assert status == 400, path
    assert "Traceback" not in caplog.text
    assert "failed at" not in caplog.text
