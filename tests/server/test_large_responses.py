"""Large responses arrive entire and in order, also at clients that read slowly."""

import asyncio

from tests.server.conftest import Opened
from tests.stages.origin import a_feed


async def test_large_responses_are_entire_also_for_a_slow_client(front: Opened) -> None:
    proxy = await front()
    proxy.origin.publish("/large.rss", a_feed(*(f"entry {number} {'x' * 400}" for number in range(4000)), ttl=60))
    request = proxy.get("/large.rss").replace(b"Accept-Encoding: gzip", b"Accept-Encoding: identity")
    line = await proxy.warm(request)
    expected = (await line.ask(request)).body
    assert len(expected) > 1_000_000

    slow = await proxy.line()
    await slow.say(request)
    await asyncio.sleep(0)  # the proxy sends until the client's buffers are full
    await slow.say(request)

    assert (await slow.hear()).body == expected
    assert (await slow.hear()).body == expected
