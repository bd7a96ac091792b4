"""A Chromium for the tests of pages, and axe-core, which finds accessibility errors."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from platformdirs import user_cache_path

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

PATIENCE = 60_000
"""Milliseconds that a test waits for an event of a page. It is long because the machine may be busy."""

AXE = "axe-core@4"

WITHOUT_POPUPS = """\
#!/bin/sh
for word; do
    shift
    case $word in --disable-features=*) word=$word,WebUIOmniboxPopup,WebUIOmniboxAimPopup ;; esac
    set -- "$@" "$word"
done
exec "$PROGRAM" "$@"
"""
"""Start the program without the two pages behind the address bar of each window, which a process for each window loads
for a second of processor time. An option of our own would replace the features that Playwright disables.
"""


@asynccontextmanager
async def a_browser(*arguments: str) -> AsyncIterator[Any]:
    """Start a browser, or skip the test with the name of the missing program."""
    if PROGRAM is None:
        pytest.skip("not installed: chromium")
    api = pytest.importorskip("playwright.async_api", reason="not installed: playwright")
    async with api.async_playwright() as playwright:
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "chromium"
            script.write_text(WITHOUT_POPUPS, encoding="utf-8")
            script.chmod(0o700)
            launched = await playwright.chromium.launch(
                executable_path=script,
                args=["--disable-dev-shm-usage", *arguments],
                env={**os.environ, "PROGRAM": PROGRAM},
                timeout=PATIENCE,
            )
        try:
            yield launched
        finally:
            await launched.close()


async def axe_core() -> str:
    """Return the source of axe-core, installed once into the user's cache folder, or skip the test."""
    place = user_cache_path("feedproxy") / "axe"
    if os.access(place.parent.parent, os.W_OK):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    else:
        place = Path(tempfile.gettempdir()) / f"feedproxy-axe-{os.getuid()}"
        place.mkdir(mode=0o700, exist_ok=True)
    file = place / "node_modules" / "axe-core" / "axe.min.js"
    if not file.is_file():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("not installed: npm, for axe-core")
        await _installed(npm, place)
    if not file.is_file():
        pytest.skip("npm could not install axe-core")
    return file.read_text(encoding="utf-8")


async def _installed(npm: str, place: Path) -> None:
    arguments = ("install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(place), AXE)
    running = await asyncio.create_subprocess_exec(
        npm, *arguments, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(90):
            await running.wait()
    except TimeoutError:
        running.kill()
        await running.wait()
