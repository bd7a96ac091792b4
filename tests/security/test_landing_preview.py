"""The preview of the landing page is a reader's request: with the same rules and limits, and without client data."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from feedproxy.refresh.policy.paused_and_blocked import FeedDecision
from tests.scenarios.conftest import _stages
from tests.stages.front import OnFront
from tests.stages.origin import a_feed

PAGE = {"accept": "text/html"}


@pytest.fixture
async def door() -> AsyncIterator[Any]:
    async for opened in _stages(OnFront):
        yield opened


async def test_repeated_preview_sends_one_request_to_the_origin(door: Any) -> None:
    proxy, origin, clock = await door(feed_min_interval=60)
    origin.publish("/feed.rss", a_feed("An entry"), cache_control="max-age=0")

    for number in range(10):
        fields = {"cache_control": "no-cache", "pragma": "no-cache", "user_agent": f"{number}", "range": "bytes=0-1"}
        seen = (await proxy.ask(f"/?url={origin.url('/feed.rss')}", **PAGE, **fields)).expect(200)
        assert b"An entry" in seen.body
        clock.advance(1)

    assert origin.requests == 1


async def test_preview_sends_no_client_data_to_the_origin(door: Any) -> None:
    proxy, origin, _ = await door()
    origin.publish("/feed.rss", a_feed("An entry"), cache_control="max-age=600")
    fields = {"authorization": "Basic eDp5", "cookie": "a=b", "x_forwarded_host": "evil.example", "x_odd": "odd"}

    await proxy.ask(f"/?url={origin.url('/feed.rss')}", **PAGE, **fields)

    sent = {name.lower() for name, _ in origin.heard}
    assert sent.isdisjoint({"authorization", "cookie", "x-forwarded-host", "x-odd", "referer"})


@pytest.mark.parametrize("status", [301, 302, 307])
async def test_preview_of_a_listener_of_the_proxy_is_refused(door: Any, status: int) -> None:
    proxy, origin, _ = await door()
    own = proxy.stage.name.replace("127.0.0.1", "localhost")
    origin.publish("/on", b"", status=status, location=f"{own}/-/feeds.opml")

    for address in (f"{own}/-/feeds.opml", origin.url("/on"), f"{proxy.stage.name}/-/feeds.opml"):
        seen = await proxy.ask(f"/?url={address}", **PAGE)
        assert b"Feeds read here" not in seen.body
        assert b"<opml" not in seen.body


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]", "0"])
async def test_preview_of_a_private_address_is_refused(door: Any, host: str) -> None:
    proxy, origin, _ = await door(allow_private=False)
    origin.publish("/feed.rss", a_feed("INSIDE"))
    port = origin.base.rpartition(":")[2]

    seen = await proxy.ask(f"/?url=http://{host}:{port}/feed.rss", **PAGE)

    assert b"INSIDE" not in seen.body
    assert origin.requests == 0


async def test_preview_of_a_blocked_feed_contains_no_password(door: Any) -> None:
    proxy, origin, _ = await door()
    origin.publish("/feed.rss", a_feed("An entry"))
    await proxy.stage.app.parts.decisions.decide(origin.url("/feed.rss"), FeedDecision.BLOCKED)

    seen = (await proxy.ask(f"/?url={origin.url('/feed.rss')}", **PAGE)).expect(200)

    assert b"An entry" not in seen.body
    assert b"blocked" in seen.body
    assert b"password" not in seen.body
    assert origin.requests == 0
