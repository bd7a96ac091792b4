"""Fields of an origin that browsers interpret have no effect on the gateway's own web origin."""

import contextlib
from typing import Any

import pytest

from tests.live.browser import PATIENCE, a_browser
from tests.live.origin import Asked, Handler, Origin
from tests.live.product import Feedproxy

pytestmark = pytest.mark.asyncio

PAGE = b"""<!doctype html><title>evil</title><script>
try { document.cookie = "script=1; path=/" } catch {}
try { navigator.serviceWorker.register(location.pathname + "?worker", {scope: "/"}) } catch {}
</script>"""


async def test_origin_fields_have_no_effect_on_the_gateways_web_origin(proxy: Feedproxy, origin: Origin) -> None:
    fields: dict[str, Any] = {
        "Set_Cookie": "sid=evil; Path=/",
        "Clear_Site_Data": '"cookies", "storage"',
        "Service_Worker_Allowed": "/",
        "Strict_Transport_Security": "max-age=31536000",
        "Alt_Svc": 'h2="evil.example:443"',
        "Refresh": "0; url=/evil",
    }
    for path, status in (("/page.html", 200), ("/refused.html", 403), ("/broken.html", 500)):
        origin.publish(path, PAGE, status, Content_Type="text/html", **fields)
    origin.publish("/feed.xml", b"<rss version='2.0'><channel><title>x</title></channel></rss>", **fields)
    async with a_browser() as browser:
        context = await browser.new_context()
        context.set_default_timeout(PATIENCE)
        page = await context.new_page()
        landing = f"{proxy.base}/"
        await page.goto(landing)
        await context.add_cookies([{"name": "own", "value": "kept", "url": landing}])
        for path in ("/page.html", "/refused.html", "/broken.html", "/feed.xml"):
            await page.goto(f"{proxy.base}/{origin.url(path)}", wait_until="load")
        await page.goto(landing)

        cookies = {each["name"] for each in await context.cookies()}

    assert cookies == {"own"}
    assert context.service_workers == []
    assert page.url == landing
    assert origin.asked("/evil") == []


async def test_no_site_gets_the_password_for_the_realm_of_another(proxy: Feedproxy, origin: Origin) -> None:
    api = pytest.importorskip("playwright.async_api", reason="not installed: playwright")
    site, other_site = origin.url(""), origin.url("", host="localhost")
    realm = f'realm="{site} news"'
    challenges = [f"Basic {realm}", f'Basic realm="x", Other a=b, {realm}', f"Other a=b, Basic {realm}"]
    paths = [f"/foreign-{number}/" for number in range(len(challenges))]

    def ask_for_password(handler: Handler, asked: Asked) -> None:
        status = 401 if asked.fields["Authorization"] is None else 200
        handler.say(status, b"news", Content_Type="text/plain", WWW_Authenticate='Basic realm="news"')

    origin.stage("/own/", ask_for_password)
    for path, challenge in zip(paths, challenges, strict=True):
        origin.publish(path, b"who?", 401, WWW_Authenticate=challenge)
    async with a_browser() as browser:
        page = await browser.new_page()
        page.set_default_timeout(PATIENCE)
        base_with_password = proxy.base.replace("//", "//alice:secret@")
        for address in (f"{base_with_password}/{site}/own/", *[f"{proxy.base}/{other_site}{path}" for path in paths]):
            with contextlib.suppress(api.Error):  # the browser shows no page for some 401s
                await page.goto(address)

    assert [asked.fields["Authorization"] is not None for asked in origin.asked("/own/")] == [False, True]
    for path in paths:
        assert {asked.fields["Authorization"] for asked in origin.asked(path)} == {None}
