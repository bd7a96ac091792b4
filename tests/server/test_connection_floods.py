"""Memory that clients cause whose requests differ each time is bounded by bytes, not only by number."""

import pytest

from feedproxy.server.fastpath import access_log
from tests.server.conftest import Opened, until

LONG = "x" * 4000


async def test_overlong_head_is_answered_and_not_cached(front: Opened) -> None:
    proxy = await front(score_readers=200)
    line = await proxy.warm()
    table, waiter = proxy.listener._caches[False], proxy.listener._handler
    size, guests = table.size, len(waiter.access_logger._clients)
    asked = proxy.service_calls

    for number in range(5):
        for field in (f"User-Agent: {number}{LONG}", f"Accept: {number}{LONG}", f"X-Pad: {number}{LONG}"):
            for _ in range(2):
                answer = await line.ask(proxy.get("/feed.rss", field))
                assert (answer.status, answer.cache) == (200, "feedproxy; hit; ttl=3600")

    assert proxy.service_calls == asked + 30, "each was asked of the service"
    assert (table.size, len(waiter.access_logger._clients)) == (size, guests)
    assert len(waiter.app.live_scores) == 1, "nor is anybody judged by it"


async def test_cached_log_lines_are_dropped_when_the_response_changes_its_age(front: Opened) -> None:
    proxy = await front(log_format="text")
    line = await proxy.warm()
    (recipe,) = proxy.listener._caches[False].templates.values()
    for number in range(20):
        await line.ask(proxy.get().replace(b"Reader/1.0", b"Reader/%d" % number))
    assert recipe.log_lines

    proxy.listener.tick(proxy.listener._now + 1)
    assert recipe.log_lines, "later requests within the second use them"
    proxy.clock.advance(2)
    await line.ask(proxy.get())
    proxy.listener.tick(proxy.listener._now + 1)
    assert not recipe.log_lines
    assert recipe.log_line, "this line states the new age"
    proxy.clock.advance(2)
    proxy.listener.tick(proxy.listener._now + 1)

    assert not recipe.log_line


async def test_number_of_cached_log_lines_is_limited(front: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_log, "CACHED_LINES_MAX", 5)
    proxy = await front(log_format="text")
    line = await proxy.warm()
    (recipe,) = proxy.listener._caches[False].templates.values()

    for number in range(20):
        await line.ask(proxy.get().replace(b"Reader/1.0", b"Reader/%d" % number))

    assert len(proxy.listener._handler.access_logger._cached_lines) <= 5
    assert len(recipe.log_lines or ()) <= 5


async def test_response_template_keeps_its_size(front: Opened) -> None:
    """The table subtracts the same size that it has added, although Age changes meanwhile."""
    proxy = await front()
    line = await proxy.warm()
    table = proxy.listener._caches[False]
    ((key, recipe),) = table.templates.items()
    weight = recipe.size()

    for seconds in (1, 10, 1000):
        proxy.clock.advance(seconds)
        await line.ask(proxy.get())
        assert recipe.size() == weight
    table.remove(key)

    assert table.size == 0
    await until(lambda: not proxy.listener._handler.access_logger.batch.lines)
