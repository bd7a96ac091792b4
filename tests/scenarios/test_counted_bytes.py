"""What the counters of bytes add up."""

from tests.stages.origin import a_feed

PATH = "/feed.rss"


async def test_only_a_new_stored_content_counts_as_stored_bytes(door):
    proxy, origin, clock = await door()

    def stored_bytes() -> float:
        proxy.stage.app.metrics.families()
        return proxy.stage.app.metrics.registry.get_sample_value("feedproxy_origin_stored_bytes_total")

    origin.publish(PATH, a_feed("one", ttl=60))
    (await proxy.get(PATH)).expect(200)
    first = stored_bytes()
    assert first > 0

    clock.advance(hours=2)
    (await proxy.get(PATH)).expect(200)  # confirmed by 304
    assert stored_bytes() == first

    clock.advance(hours=2)
    origin.publish(PATH, b"an error page", status=503)
    (await proxy.get(PATH)).expect(200)
    (await proxy.get("/missing")).expect(404)
    assert stored_bytes() == first

    clock.advance(hours=2)
    origin.publish(PATH, a_feed("one", "two", ttl=60))
    (await proxy.get(PATH)).expect(200)
    assert stored_bytes() > 2 * first
