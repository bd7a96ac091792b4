"""Screenshots for docs/images, of artificial feeds, with the installed Chromium.

    python scripts/screenshots.py [FOLDER]

The script requires the extra `test` (playwright) and a Chromium in the path. It makes no requests to the network.
"""

import asyncio
import contextlib
import io
import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, async_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from feedproxy import cli  # noqa: E402
from feedproxy.admin.pages import store_usage  # noqa: E402
from feedproxy.admin.pages.health import StorePlace  # noqa: E402
from feedproxy.admin.server import AdminServer  # noqa: E402
from feedproxy.request.upstream_request import feed_id  # noqa: E402
from tests.stages import lively  # noqa: E402

GAZETTE = Path(__file__).parent / "gazette.rss"
FEED = f"/feeds/{feed_id(lively.NEWS)}"
DISK = StorePlace("/var/cache/feedproxy", 46_200_000_000, 120_000_000_000, 1_240_000_000, 10_000_000_000)
"""An artificial disk."""

DESK, PHONE = (1200, 860), (360, 740)
ADMIN_PAGES = (
    # name, path, size, theme
    ("status", "/", DESK, "light"),
    ("status-dark", "/", DESK, "dark"),
    ("status-phone", "/", PHONE, "light"),
    ("feeds", "/feeds", (1000, 760), "light"),
    ("feed", FEED, (1000, 1040), "light"),
    ("moves", "/moves", (1000, 660), "light"),
)


async def take(folder: Path, program: str, documents: dict[str, str]) -> None:
    """Take all screenshots. `documents` are HTML pages by name."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program)
        store_usage.measure = lambda *_: DISK
        app = lively.a_runtime()
        admin = AdminServer(app)
        await admin.start()
        await lively.furnish(app)
        try:
            for name, path, size, theme in ADMIN_PAGES:
                await _shoot(browser, folder / f"{name}.png", size, theme, admin.url + path)
            for name, text in documents.items():
                await _shoot(browser, folder / f"{name}.png", (900, 900), "light", "about:blank", text)
        finally:
            await browser.close()
            await admin.stop()
            await app.close()


async def _shoot(browser: Browser, file: Path, size: tuple[int, int], theme: Any, address: str, text: str = "") -> None:
    viewport: Any = {"width": size[0], "height": size[1]}
    context = await browser.new_context(viewport=viewport, color_scheme=theme, reduced_motion="reduce")
    page = await context.new_page()
    await page.goto(address)
    if text:
        await page.set_content(text)
    else:
        await page.locator("#live.on").wait_for()
    await page.screenshot(path=file)
    await context.close()


def printed(*arguments: str) -> str:
    """Return the output of a command."""
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")) as out:
        cli.main(list(arguments))
        out.flush()
        return out.buffer.getvalue().decode()


def main() -> None:
    """Take the screenshots."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        raise SystemExit("no Chromium is installed")
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    documents = {
        "as-html": printed("convert", str(GAZETTE), "--to", "html"),
        "check": printed("check", str(GAZETTE), "--format", "html").replace(str(GAZETTE), GAZETTE.name),
    }
    asyncio.run(take(folder, program, documents))
    for each in sorted(folder.glob("*.png")):
        print(f"{each.stat().st_size:>8,} {each.name}")


if __name__ == "__main__":
    main()
