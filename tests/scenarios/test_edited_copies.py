"""A changed setting that edits feeds applies to stored copies: the proxy fetches the original again."""

import pytest

from feedproxy.refresh.ingest.edit_settings import settings_digest
from feedproxy.settings import Settings
from tests.stages.origin import a_feed
from tests.stages.play import UPSTREAM

PUBLIC = "https://feeds.example/"
CHANGES = [
    {"self_link": "off"},
    {"self_link_text": True},
    {"feed_usm": False},
    {"announce": ("hub",)},
]


def written(seen):
    """The content and fields that depend on the settings of these tests."""
    return seen.body, seen.fields.get("content-type"), seen.fields.combined("link")


async def a_publisher(stage):
    """A proxy in reverse mode. Its feed has a validator and a long freshness lifetime."""
    proxy, origin, clock = await stage(upstream=UPSTREAM, public_url=PUBLIC, feed_min_interval=0, site_interval=0)
    origin.publish("/feed.rss", a_feed("one"), etag='"1"', content_type="text/xml", cache_control="max-age=86400")
    return proxy, origin, clock


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
async def test_edited_copy_in_reverse_mode_follows_changed_settings_at_once(stage, change):
    proxy, origin, _ = await a_publisher(stage)
    before = (await proxy.get("/feed.rss")).expect(200)

    proxy.rule(PUBLIC + "*", **change)

    after = (await proxy.get("/feed.rss")).expect(200)
    assert written(after) != written(before)
    assert "fwd=stale; fwd-status=200" in after.cache
    (await proxy.get("/feed.rss")).expect(200, cache="hit")
    proxy.rule(PUBLIC + "*", **{name: getattr(Settings(), name) for name in change})
    assert written(await proxy.get("/feed.rss")) == written(before)
    assert origin.requests == 3


async def test_edited_copy_of_earlier_settings_replaces_a_failure(stage):
    proxy, origin, _ = await a_publisher(stage)
    before = await proxy.get("/feed.rss")
    proxy.rule(PUBLIC + "*", self_link="off")
    origin.break_down()

    assert written((await proxy.get("/feed.rss")).expect(200)) == written(before)


async def test_edited_copy_with_no_transform_is_fetched_once_after_a_change(stage):
    proxy, origin, _ = await a_publisher(stage)
    origin.publish("/feed.rss", a_feed("one"), etag='"1"', cache_control="max-age=86400, no-transform")
    await proxy.get("/feed.rss")
    proxy.rule(PUBLIC + "*", self_link="off")

    for _ in range(3):
        await proxy.get("/feed.rss")

    assert origin.requests == 2


async def test_edited_copy_in_gateway_mode_follows_changed_settings_when_stale(stage):
    proxy, origin, clock = await stage(feed_min_interval=0, site_interval=0, stale_while_refreshing=0)
    origin.publish("/feed.rss", a_feed("one"), etag='"1"', cache_control="max-age=600")
    before = await proxy.get("/feed.rss")
    proxy.rule("*", self_link="off")
    assert written((await proxy.get("/feed.rss")).expect(200, cache="hit")) == written(before)

    clock.advance(minutes=11)

    after = (await proxy.get("/feed.rss")).expect(200)
    assert b'rel="self"' in before.body
    assert b'rel="self"' not in after.body
    clock.advance(minutes=11)
    assert "fwd-status=304" in (await proxy.get("/feed.rss")).cache


@pytest.mark.parametrize(
    "other",
    [
        {"feed_usm": False},
        {"rdf_media_type": "application/rdf+xml"},
        {"self_link": "correct"},
        {"self_link_text": True},
        {"upstream": "http://127.0.0.1:8000"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_settings_digest_differs_for_each_setting_that_edits_feeds(other):
    assert settings_digest(Settings()) == ""
    assert settings_digest(Settings(**other)) != ""


def test_settings_digest_differs_after_public_url_is_set():
    before = Settings(upstream="http://127.0.0.1:8000")

    assert settings_digest(Settings(upstream=before.upstream, public_url=PUBLIC)) != settings_digest(before)
