"""Polling of pages: an unchanged page is answered with 304, so an open page can request itself every few seconds."""

from collections.abc import Callable
from typing import Any

import pytest

from feedproxy.cache.cache_status import CacheStatus
from feedproxy.web.templates import page_entity_tag
from tests.stages.admin import Proxy


async def test_page_has_a_weak_tag_that_answers_304_until_something_changes(proxy: Proxy) -> None:
    url = proxy.admin.url + "/feeds"
    async with proxy.session.get(url, headers={"Accept": "text/html"}) as first:
        tag = first.headers["ETag"]
        assert first.status == 200
        assert first.headers["Cache-Control"] == "no-store"
    assert tag.startswith('W/"')

    async with proxy.session.get(url, headers={"Accept": "text/html", "If-None-Match": tag}) as unchanged:
        assert (unchanged.status, await unchanged.read()) == (304, b"")
        assert unchanged.headers["ETag"] == tag


async def test_page_is_sent_again_when_a_count_changes(proxy: Proxy) -> None:
    async with proxy.session.get(proxy.admin.url + "/", headers={"Accept": "text/html"}) as first:
        tag = first.headers["ETag"]
    proxy.app.metrics.count_response("gateway", 200, CacheStatus(hit=True), 10, 0.001)
    proxy.app.metrics.count_fetch(200, "", 10, 0.1)

    headers = {"Accept": "text/html", "If-None-Match": tag}
    async with proxy.session.get(proxy.admin.url + "/", headers=headers) as changed:
        assert changed.status == 200
        assert changed.headers["ETag"] != tag


def test_page_tag_does_not_depend_on_the_time_of_rendering() -> None:
    page = b'<p>12 feeds</p><p id="as-of" data-live>as of %s</p>'

    assert page_entity_tag(page % b"noon") == page_entity_tag(page % b"night")
    assert page_entity_tag(page) != page_entity_tag(page.replace(b"12", b"13"))


@pytest.mark.parametrize("name", ["feeds", "readers", "notifications", "configuration"])
async def test_every_page_can_be_polled(proxy: Proxy, name: str) -> None:
    async with proxy.session.get(f"{proxy.admin.url}/{name}", headers={"Accept": "text/html"}) as page:
        assert page.headers["ETag"]


async def test_event_stream_does_not_exist(proxy: Proxy) -> None:
    assert (await proxy.get("/events"))[0] == 404


async def test_page_with_a_known_tag_needs_the_token(make_proxy: Callable[..., Any]) -> None:
    proxy: Proxy = await make_proxy(admin_token="a-long-token-of-mine")

    async with proxy.session.get(proxy.admin.url + "/feeds", headers={"If-None-Match": "*"}) as refused:
        assert refused.status == 401
