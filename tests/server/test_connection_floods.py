"""Memory that clients cause whose requests differ each time is bounded by bytes, not only by number."""

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


async def test_log_lines_of_other_readers_are_dropped_after_a_second(front: Opened) -> None:
    proxy = await front()
    line = await proxy.warm()
    (recipe,) = proxy.listener._caches[False].by_key.values()
    for number in range(20):
        await line.ask(proxy.get().replace(b"Reader/1.0", b"Reader/%d" % number))
    assert recipe.log_lines

    proxy.listener.tick(proxy.listener._now + 1)

    assert not recipe.log_lines


async def test_response_template_keeps_its_size(front: Opened) -> None:
    """The table subtracts the same size that it has added, although Age changes meanwhile."""
    proxy = await front()
    line = await proxy.warm()
    table = proxy.listener._caches[False]
    ((key, recipe),) = table.by_key.items()
    weight = recipe.size()

    for seconds in (1, 10, 1000):
        proxy.clock.advance(seconds)
        await line.ask(proxy.get())
        assert recipe.size() == weight
    for data in list(table.by_bytes):
        table.remove_bytes(data)
    table.remove(key)

    assert table.size == 0
    await until(lambda: not proxy.listener._handler.access_logger.log_lines)
