"""A response of the publisher invalidates a group of feeds (RFC 9875)."""

from feedproxy.http.message import Fields, Response
from feedproxy.request.context import Entrance
from feedproxy.store.resource_codec import dump, load
from tests.stages.origin import a_feed
from tests.stages.play import UPSTREAM

FEEDS = {"/news": '"news", "all"', "/sport": '"sport", "all"', "/plain": "", "/case": '"News"'}


async def a_publisher(door, **settings):
    """A publisher's proxy that holds these feeds, fresh for a day; their origin has a newer version of each."""
    proxy, origin, clock = await door(site_interval=0, feed_min_interval=0, **{"upstream": UPSTREAM, **settings})
    for title in ("old", "new"):
        for path, groups in FEEDS.items():
            fields = {"cache_groups": groups} if groups else {}
            origin.publish(path, a_feed(title), cache_control="max-age=86400", **fields)
            if title == "old":
                await get(proxy, path)
    return proxy, origin, clock


async def get(proxy, path: str):
    entrance = Entrance.REVERSE if proxy.stage.settings.get("upstream") else Entrance.GATEWAY
    return (await proxy.get(path, entrance=entrance)).expect(200)


async def write(proxy, origin, value: str, *, method: str = "POST", status: int = 200):
    fields = Fields([("Cache-Group-Invalidation", value)])
    origin.methods[method] = lambda _: Response(status, fields, b"done")
    entrance = Entrance.REVERSE if proxy.stage.settings.get("upstream") else Entrance.GATEWAY
    return await proxy.send(method, "/form", entrance=entrance, body=b"x=1")


async def renewed(proxy) -> set[str]:
    """The feeds whose new version the proxy fetches on request."""
    return {path for path in FEEDS if b"<title>new</title>" in (await get(proxy, path)).plain}


async def test_cache_group_in_response_to_a_form_is_invalidated(door):
    proxy, origin, _ = await a_publisher(door)

    seen = await write(proxy, origin, '"news"')

    assert seen.status == 200
    assert await renewed(proxy) == {"/news"}


async def test_cache_group_of_several_feeds_is_invalidated_as_a_whole(door):
    proxy, origin, _ = await a_publisher(door)

    await write(proxy, origin, '"unknown", "all";x=1')

    assert await renewed(proxy) == {"/news", "/sport"}


async def test_cache_group_invalidation_does_not_cascade(door):
    # "further grouped invalidations are not triggered by a grouped invalidation" -- RFC 9875, section 2.2.1
    proxy, origin, _ = await a_publisher(door)

    await write(proxy, origin, '"sport"')

    assert await renewed(proxy) == {"/sport"}


async def test_cache_group_is_kept_after_error_safe_method_or_invalid_field(door):
    proxy, origin, _ = await a_publisher(door)

    await write(proxy, origin, '"all"', status=403)
    await write(proxy, origin, '"all"', method="SEARCH")
    await write(proxy, origin, "all")
    await write(proxy, origin, '"all", 5')

    assert await renewed(proxy) == set()


async def test_cache_group_is_kept_in_gateway_mode(door):
    proxy, origin, _ = await a_publisher(door, upstream="")

    await write(proxy, origin, '"all"')

    assert await renewed(proxy) == set()


async def test_cache_groups_are_kept_in_the_stored_form(door):
    proxy, origin, _ = await a_publisher(door)

    stored = load(dump(proxy.stage.service.store.get(origin.url("/news"))))

    assert stored.variants[0].fields.get("cache-groups") == '"news", "all"'
