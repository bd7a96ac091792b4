"""The operator's pages in a real browser: search, clicks, live updates, small screens, dark mode, no JavaScript."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from msgspec.structs import replace

from feedproxy.admin.admin_listener import AdminListener
from feedproxy.admin.routes import start_admin_listener
from feedproxy.app import App
from feedproxy.cache.cache_status import CacheStatus
from feedproxy.clock import ManualClock
from feedproxy.endpoints.landing_page import Preview, preview_page
from feedproxy.http.message import Fields
from feedproxy.refresh.refresh_events import RefreshEnded
from feedproxy.refresh.refresh_result import RefreshRecord
from feedproxy.request.feed_id import feed_id
from feedproxy.scoring.scored_request import Poll
from feedproxy.store.resource import Failures, Relocation, RelocationKind
from feedproxy.subscribers.reader_pseudonyms import Pseudonym
from feedproxy.telemetry.recent_activity import RequestActivity
from feedproxy.web.templates import page as page_of
from tests.live.browser import PATIENCE, a_browser, axe_core
from tests.stages import lively
from tests.stages.admin import NOW, a_resource
from tests.stages.origin import Origin, a_feed

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(400)]

GAZETTE = f"/feeds/{feed_id(lively.NEWS)}"
PAGES = (
    "/",
    "/feeds",
    "/feeds?q=nothing-is-like-this",
    GAZETTE,
    "/moves",
    "/readers",
    "/notifications",
    "/configuration",
    "/purge?pattern=*",
)
DESK, PHONE = {"width": 1280, "height": 800}, {"width": 360, "height": 740}


@dataclass
class Office:
    """A proxy with its admin listener, an origin, and a browser."""

    app: App
    admin: AdminListener
    origin: Origin
    browser: Any
    complaints: list[str] = field(default_factory=list)
    """Errors that the browser reported: in scripts, in loading, and violations of the content security policy."""

    async def page(self, **options: Any) -> Any:
        """Open a page with empty caches."""
        context = await self.browser.new_context(viewport=options.pop("viewport", DESK), **options)
        context.set_default_timeout(PATIENCE)
        page = await context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(f"{page.url}: {error}"))
        page.on(
            "console",
            lambda said: self.complaints.append(f"{page.url}: {said.text}") if said.type == "error" else None,
        )
        return page

    def url(self, path: str) -> str:
        return self.admin.url + path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Any]:
    # As if a name server resolved a foreign name to this machine. One process for all pages: otherwise each navigation
    # starts one.
    arguments = ("--renderer-process-limit=1", "--disable-site-isolation-trials")
    async with a_browser("--host-resolver-rules=MAP rebound.example 127.0.0.1", *arguments) as launched:
        yield launched


@pytest_asyncio.fixture(loop_scope="module")
async def office(browser: Any) -> AsyncIterator[Office]:
    origin = Origin(ManualClock(NOW - lively.UP))
    app = lively.a_runtime(origin, relocation_spacing=1)
    admin = await start_admin_listener(app)
    await lively.furnish(app)
    made = Office(app, admin, origin, browser)
    yield made
    for context in browser.contexts:
        await context.close()
    await admin.stop()
    await app.close()


async def test_every_page_fits_a_small_screen_without_browser_errors(office: Office) -> None:
    sizes: tuple[dict[str, Any], ...] = (
        {"viewport": DESK},
        {"viewport": PHONE, "color_scheme": "dark", "is_mobile": True},
    )
    for options in sizes:
        page = await office.page(**options)
        for path in PAGES:
            answer = await page.goto(office.url(path))
            assert answer.status == 200, path
            wide = await page.evaluate("document.documentElement.scrollWidth")
            assert wide <= options["viewport"]["width"], f"{path} is {wide} px wide"
            assert await page.locator("main h1").count() == 1, path
    assert office.complaints == []


async def test_axe_reports_nothing_serious_in_either_theme(office: Office) -> None:
    source = await axe_core()
    found = []
    page = await office.page(reduced_motion="reduce")
    for path in (*PAGES, "/no-such-page"):
        await page.set_viewport_size(DESK)
        await page.emulate_media(color_scheme="light")
        await page.goto(office.url(path))
        await page.evaluate(source)
        # The page itself does not depend on the theme and the size, so one copy shows both.
        for scheme, viewport in (("light", DESK), ("dark", PHONE)):
            await page.set_viewport_size(viewport)
            await page.emulate_media(color_scheme=scheme)
            told = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            found += [
                f"{scheme} {path}: {each['id']} ({each['impact']}): {each['nodes'][0]['html'][:120]}"
                for each in told["violations"]
                if each["impact"] in ("serious", "critical")
            ]
    assert found == []


async def test_theme_follows_the_system(office: Office) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        page = await office.page(color_scheme=scheme)
        await page.goto(office.url("/"))
        colours[scheme] = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colours["light"] != colours["dark"]


async def test_feed_can_be_searched_read_refreshed_and_purged_without_javascript(office: Office) -> None:
    target = office.origin.url("/harbour.rss")
    office.origin.publish("/harbour.rss", a_feed("First"))
    await office.app.service.admin.refresh(target)
    page = await office.page(java_script_enabled=False)

    await page.goto(office.url("/feeds"))
    await page.get_by_label("Search").fill("harbour.rss")
    await page.get_by_role("button", name="Show").click()
    assert await page.locator("table.feeds tbody tr").count() == 1
    await page.locator("table.feeds tbody a").click()
    assert "fresh" in await page.locator("#state").inner_text()

    office.origin.publish("/harbour.rss", a_feed("First", "Second"))
    assert isinstance(office.app.clock, ManualClock)
    office.app.clock.advance(minutes=10)
    await page.get_by_role("button", name="Refresh now").click()
    assert "The origin has sent a new version." in await page.get_by_role("status").first.inner_text()
    versions = page.locator("section[aria-labelledby=versions] tbody tr")
    assert [" ".join((await each.inner_text()).split()) for each in await versions.all()] == [
        f"now {len(_body(office, target))} B 2 1 new",
        "10 min ago " + " ".join((await versions.nth(1).inner_text()).split()[3:]),
    ]

    await page.get_by_role("link", name="Purge from cache").click()
    assert "Purge 1 copy?" in await page.locator("h1").inner_text()
    assert office.app.service.store.get(target) is not None
    await page.get_by_role("button", name="Purge it").click()
    assert "Purged" in await page.get_by_role("status").first.inner_text()
    assert office.app.service.store.get(target) is None
    assert office.complaints == []


async def test_live_update_appears_without_a_reload_and_keeps_the_users_input(office: Office) -> None:
    page = await office.page()
    await page.goto(office.url("/"))
    await page.evaluate("window.sameDocument = true")
    await page.locator("#live.on").wait_for()
    await page.get_by_label("Address of the feed").fill("https://example.com/half-typed")
    await page.locator("summary").click()

    for _ in range(1_000_000 // 50):
        office.app.metrics.count_response("gateway", 200, CacheStatus(hit=True), 50, 0.001)
    await page.locator("#summary", has_text="27\u202f059 requests").wait_for()

    assert await page.evaluate("window.sameDocument")
    assert await page.get_by_label("Address of the feed").input_value() == "https://example.com/half-typed"
    assert await page.locator("details").first.evaluate("each => each.open")

    office.app.ready = False
    await page.locator("#first.bad h1", has_text="Something is wrong").wait_for()
    assert (await page.title()).startswith("Something is wrong")

    await office.admin.stop()
    await page.locator("#live", has_text="not live").wait_for()
    assert [each for each in office.complaints if "ERR_" not in each] == []


async def test_keyboard_reaches_the_content_with_visible_focus(office: Office) -> None:
    page = await office.page()
    await page.goto(office.url("/"))

    await page.keyboard.press("Tab")
    await page.locator("a.skip:focus", has_text="To the content").wait_for()
    assert await page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    await page.keyboard.press("Enter")
    await page.locator("#main:focus").wait_for()
    await page.keyboard.press("Tab")
    await page.locator("main :focus").wait_for()
    assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


async def test_page_of_another_site_can_neither_post_nor_read_nor_use_its_own_host_name(
    office: Office,
) -> None:
    async def hostile(_: web.Request) -> web.Response:
        form = (
            f"<form method=post action='{office.url('/purge')}'><input name=pattern value='*'><button>x</button></form>"
        )
        return web.Response(text=f"<!DOCTYPE html><title>x</title>{form}", content_type="text/html")

    application = web.Application()
    application.router.add_get("/", hostile)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    held = len(list(office.app.service.store.targets()))
    try:
        page = await office.page()
        # Another port is another origin, but the same site.
        await page.goto(f"http://localhost:{runner.addresses[0][1]}/")
        async with page.expect_response(office.url("/purge")) as answered:
            await page.get_by_role("button", name="x").click()
        assert (await answered.value).status == 403
        heard = await (await office.page()).goto(office.url("/api/status").replace("127.0.0.1", "rebound.example"))
        assert heard.status == 421
        shown = await (await office.page()).goto(office.url("/").replace("127.0.0.1", "rebound.example"))
        assert shown.status == 421
    finally:
        await runner.cleanup()
    assert len(list(office.app.service.store.targets())) == held


def _body(office: Office, target: str) -> bytes:
    held = office.app.service.store.get(target)
    assert held is not None
    return held.variants[-1].content.bodies["identity"]


async def test_pages_fit_a_small_screen_with_any_text_from_readers_and_publishers(office: Office) -> None:
    app, long = office.app, "W" * 300
    target = f"https://{'w' * 60}.example/{long}/{long}"
    now = app.clock.now()
    await app.service.store.put(
        replace(
            a_resource(target, title=long, version=long, link=f"https://example.com/{long}"),
            failures=Failures(3, now - 60, now - 60, "unreachable", now + 60),
            relocation=Relocation(RelocationKind.MOVED, f"https://example.org/{long}", now, now, 1),
        )
    )
    for agent in (f"{long}/1.0 ({long})", f"{long} 5 subscribers; feed-id={long}"):
        app.service.counts.record_read(target, Pseudonym(7, 8), agent, now)
        app.recent_activity.record_request(
            RequestActivity(now, "gateway", "GET", target, 200, 1, f"feedproxy; detail={long}", agent)
        )
    asked, answer = Fields([("User-Agent", long)]), Fields([("ETag", '"a"')])
    for second in range(20):
        app.live_scores.record(
            "192.0.2.9", long, target, now + second, lambda n: Poll(n, now, target, asked, 200, answer, size=900)
        )
    failed = RefreshRecord(now, "background", 404, "failed", "error-status", f"{long} {target}", is_missing_feed=True)
    app.recent_activity.on_refresh_ended(RefreshEnded(target, failed))
    app.recent_activity.on_refresh_ended(RefreshEnded(f"{target}/nothing", failed))
    page = await office.page(viewport=PHONE, is_mobile=True)

    for path in (*PAGES, f"/feeds/{feed_id(target)}"):
        await page.goto(office.url(path))
        await page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        wide = await page.evaluate("document.documentElement.scrollWidth")
        assert wide <= PHONE["width"], f"{path} is {wide} px wide"
    preview = preview_page(Preview(target, long, ((long, "2026-11-20"),), long), "http://127.0.0.1:8080")
    for name, document in (
        ("landing", preview.body),
        ("error", page_of("error.html", status=404, code="x", message=long)),
    ):
        await page.set_content(document.decode())
        wide = await page.evaluate("document.documentElement.scrollWidth")
        assert wide <= PHONE["width"], f"the {name} page is {wide} px wide"


async def test_names_of_readers_are_not_broken_on_a_small_screen(office: Office) -> None:
    page = await office.page(viewport={"width": 390, "height": 844}, is_mobile=True)

    for path in (GAZETTE, "/readers"):
        await page.goto(office.url(path))
        # Found and measured in one step, because a live update replaces the elements.
        lines = await page.evaluate(
            "() => [...document.querySelectorAll('th bdi')].find(name => name.textContent.includes('Thunderbird'))"
            ".getClientRects().length"
        )
        assert lines == 1, path


async def test_texts_of_options_have_the_width_of_a_small_screen(office: Office) -> None:
    page = await office.page(viewport={"width": 390, "height": 844}, is_mobile=True)

    await page.goto(office.url("/configuration"))

    assert await page.evaluate("document.querySelector('.options th[scope=row]').clientWidth") > 300
