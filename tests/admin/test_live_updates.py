"""Live pages: an event when there is something new, a bounded number of listeners, an end with the proxy."""

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from feedproxy.admin import live_updates
from feedproxy.cache.cache_status import CacheStatus
from tests.stages.admin import TARGET, Proxy
from tests.waiting import PATIENCE


async def next_event(answer: aiohttp.ClientResponse, name: str) -> str:
    """Its data. Events of other names are passed over."""
    async with asyncio.timeout(PATIENCE):
        async for line in answer.content:
            if line == f"event: {name}\n".encode():
                return (await answer.content.readline()).decode().removeprefix("data: ").strip()
    raise AssertionError("the stream has ended")


async def test_whoever_listens_is_told_when_there_is_something_new(proxy: Proxy) -> None:
    async with proxy.session.get(proxy.admin.url + "/events") as answer:
        assert answer.content_type == "text/event-stream"
        assert answer.headers["Cache-Control"] == "no-store"
        assert (await answer.content.readline()) == b"retry: 5000\n"
        proxy.runtime.metrics.answered("gateway", 200, CacheStatus(hit=True), 10, 0.001)
        proxy.runtime.metrics.fetched(TARGET, 200, "", 10, 0.1)

        told = await next_event(answer, "changed")

    assert '"answered": 1' in told
    assert '"origin_requests": 1' in told


async def test_a_look_that_fails_once_ends_nothing(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(live_updates, "LOOKED", 0.02)
    totals, failures = proxy.runtime.metrics.totals, iter([ZeroDivisionError()])

    def failing(*arguments: Any) -> Any:
        if error := next(failures, None):
            raise error
        return totals(*arguments)

    async with proxy.session.get(proxy.admin.url + "/events") as answer:
        await answer.content.readline()
        monkeypatch.setattr(proxy.runtime.metrics, "totals", failing)
        proxy.runtime.metrics.answered("gateway", 200, CacheStatus(hit=True), 10, 0.001)

        assert '"answered": 1' in await next_event(answer, "changed")

    assert "could not be told" in caplog.text


async def test_listeners_are_bounded_and_counted_off_when_they_go(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_updates, "LISTENERS_MAX", 2)
    monkeypatch.setattr(live_updates, "HEARTBEAT", 0.05)
    url = proxy.admin.url + "/events"
    first, second = await proxy.session.get(url), await proxy.session.get(url)

    async with proxy.session.get(url) as third:
        assert third.status == 503
    first.close()
    async with asyncio.timeout(PATIENCE):
        while True:  # until the heart-beat has found that nobody is there
            async with proxy.session.get(url) as again:
                if again.status == 200:
                    break
            await asyncio.sleep(0.02)
    second.close()


async def test_a_silent_stream_has_a_heart_beat(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_updates, "HEARTBEAT", 0.05)

    async with proxy.session.get(proxy.admin.url + "/events") as answer, asyncio.timeout(PATIENCE):
        async for line in answer.content:
            if line.startswith(b":"):
                return
    raise AssertionError("no heart-beat")


async def test_streams_end_when_the_proxy_does(proxy: Proxy) -> None:
    async with proxy.session.get(proxy.admin.url + "/events") as answer:
        await answer.content.readline()
        async with asyncio.timeout(PATIENCE):
            await proxy.admin.stop()
            while await answer.content.readline():
                pass


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
async def test_pages_of_others_hear_nothing(proxy: Proxy, headers: dict[str, str], status: int) -> None:
    async with proxy.session.get(proxy.admin.url + "/events", headers=headers) as answer:
        assert answer.status == status


async def test_with_a_token_the_events_are_for_those_who_know_it(make_proxy: Callable[..., Any]) -> None:
    proxy: Proxy = await make_proxy(admin_token="a-long-token-of-mine")

    assert (await proxy.get("/events"))[0] == 401
