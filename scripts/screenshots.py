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
from feedproxy.admin.pages.health import StoreUsage  # noqa: E402
from feedproxy.admin.routes import start_admin_listener  # noqa: E402
from feedproxy.lab import score_page  # noqa: E402
from feedproxy.lab.record.exchange import merge_recordings  # noqa: E402
from feedproxy.lab.recording_scores import grade_recording  # noqa: E402
from feedproxy.lab.replay.replay_source import ReplayOptions  # noqa: E402
from feedproxy.request.feed_id import feed_id  # noqa: E402
from tests.lab.behaviour import CorrectReader, play  # noqa: E402
from tests.stages import lively  # noqa: E402

GAZETTE = Path(__file__).parent / "gazette.rss"
FEED = f"/feeds/{feed_id(lively.NEWS)}"
DISK = StoreUsage("/var/cache/feedproxy", 46_200_000_000, 120_000_000_000, 1_240_000_000, 10_000_000_000)
"""An artificial disk."""

DESK, PHONE = (1200, 860), (360, 740)
SIZES = {"score": (1000, 1080), "score-phone": (390, 1400)}
"""Sizes of the documents that are not 900 by 900."""
ADMIN_PAGES = (
    # name, path, size, theme
    ("status", "/", DESK, "light"),
    ("status-dark", "/", DESK, "dark"),
    ("status-phone", "/", PHONE, "light"),
    ("feeds", "/feeds", (1000, 760), "light"),
    ("feed", FEED, (1000, 1040), "light"),
    ("moves", "/moves", (1000, 660), "light"),
)


class Kestrel(CorrectReader):
    """A correct reader."""

    agent = "Kestrel/2.4 (+https://kestrel.example/; 12 subscribers)"
    address = "reader-4f1c22aa90d1"


class Sparrow(CorrectReader):
    """A reader that sends no conditions, ignores refusals and skipHours, and adopts no new address."""

    agent = "Sparrow/0.9 (+https://sparrow.example)"
    address = "reader-90aa117b53e2"

    def due(self, now: float) -> bool:
        """Poll every 47 minutes."""
        return now >= self.base + 2820

    def conditions(self, now: float) -> list[tuple[str, str]]:
        """Send no conditions."""
        self.base = now
        return []

    def adopt(self, target: str) -> None:
        """Keep the old address."""


class Script(CorrectReader):
    """A script that polls every eight minutes with the tag of the first answer."""

    agent = "python-requests/2.32.0"
    address = "reader-17cc80fe4d3a"

    def due(self, now: float) -> bool:
        """Poll every eight minutes."""
        return now >= self.base + 480

    def conditions(self, now: float) -> list[tuple[str, str]]:
        """Send the first tag."""
        self.base = now
        return [("If-None-Match", self.tag)] if self.tag else []

    def keep(self, tag: str, modified: str) -> None:
        """Store only the first tag."""
        self.tag = self.tag or tag


def graded_readers() -> str:
    """Return the page with the grades of three readers in three days, with skipped hours, failures and a move."""
    options = ReplayOptions(
        add=["ttl=60", "skipHours=1,2,3"], faults=["500@18h..21h", "retry-after-seconds@33h..36h", "redirect-301@50h"]
    )
    recordings = [play(reader(), options=options) for reader in (Kestrel, Sparrow, Script)]
    return score_page.render_html(grade_recording(merge_recordings(recordings), None))


async def take(folder: Path, program: str, documents: dict[str, str]) -> None:
    """Take all screenshots. `documents` are HTML pages by name."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program)
        store_usage._measure = lambda *_: DISK
        app = lively.a_runtime()
        admin = await start_admin_listener(app)
        await lively.furnish(app)
        try:
            for name, path, size, theme in ADMIN_PAGES:
                await _shoot(browser, folder / f"{name}.png", size, theme, admin.url + path)
            for name, text in documents.items():
                await _shoot(browser, folder / f"{name}.png", SIZES.get(name, (900, 900)), "light", "about:blank", text)
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
        "score": graded_readers(),
        "score-phone": graded_readers(),
        "as-html": printed("convert", str(GAZETTE), "--to", "html"),
        "check": printed("check", str(GAZETTE), "--format", "html").replace(str(GAZETTE), GAZETTE.name),
    }
    asyncio.run(take(folder, program, documents))
    for each in sorted(folder.glob("*.png")):
        print(f"{each.stat().st_size:>8,} {each.name}")


if __name__ == "__main__":
    main()
