"""Chromium stores a feed as a dictionary, and gets its next version compressed with it."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.live.browser import PATIENCE, a_browser
from tests.live.origin import Origin, a_feed
from tests.live.product import Feedproxy, ask

pytestmark = pytest.mark.asyncio

VERSIONS = 5
"""Number of published versions. The browser stores dictionaries asynchronously, so some versions are sent without
one.
"""

OLD = [f"{number} {os.urandom(40).hex()}" for number in range(60)]

FETCH = """async (url) => {
  const response = await fetch(url, {cache: "no-cache"});
  return [response.status, await response.text()];
}"""


async def test_chromium_gets_the_next_version_of_a_feed_as_dcz(start: Callable[..., Feedproxy], origin: Origin) -> None:
    proxy = start(cors=True, reload_interval=0)
    origin.publish("/page.html", b"<!doctype html><title>a reader</title>", Content_Type="text/html")
    url = proxy.gateway(origin.url("/feed.xml"))
    codings: list[str] = []

    async def note(response: Any) -> None:
        if response.url == url:
            codings.append((await response.all_headers()).get("content-encoding", ""))

    async with a_browser() as browser:
        context = await browser.new_context()
        context.set_default_timeout(PATIENCE)
        page = await context.new_page()
        await page.goto(origin.url("/page.html"))
        page.on("response", note)
        for number in range(VERSIONS):
            titles = [f"news {each}" for each in range(number)] + OLD
            origin.publish(
                "/feed.xml", a_feed(*titles), Content_Type="application/rss+xml", Cache_Control="max-age=600"
            )
            current = ask(url, fields={"Cache_Control": "no-cache"})

            status, text = await page.evaluate(FETCH, url)

            assert status == 200
            assert text.encode() == current.body
            assert text.count("<title>news ") == number
            if codings[-1:] == ["dcz"]:
                break
            await page.wait_for_timeout(500)

    assert codings[0] != "dcz"
    assert codings[-1] == "dcz", codings
