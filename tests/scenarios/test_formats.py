"""A feed converted to other formats."""

import json

import feedparser
import pytest

from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.convert.read.from_document import read
from tests.stages.origin import a_feed
from tests.stages.play import UPSTREAM

PATH = "/feed.rss"


def as_format(origin, name: str, path: str = PATH) -> str:
    return f"/-/as/{name}/{origin.url(path)}"


async def a_stage(door, **settings):
    proxy, origin, clock = await door(**settings)
    origin.publish(PATH, a_feed("one", "two"), cache_control="max-age=600")
    return proxy, origin, clock


@pytest.mark.parametrize("name", FORMATS)
async def test_a_feed_can_be_had_in_every_format(door, name):
    proxy, origin, _ = await a_stage(door)

    seen = await proxy.ask(as_format(origin, name))

    seen.expect(200, cache="fwd=uri-miss; stored")
    assert seen.fields.get("content-type") == FORMATS[name].media_type
    assert seen.fields.get("x-content-type-options") == "nosniff"
    assert "sandbox" in (seen.fields.get("content-security-policy") or "")
    assert b"News" in seen.plain


async def test_all_formats_cost_the_origin_one_request(door):
    proxy, origin, _ = await a_stage(door)
    for name in FORMATS:
        await proxy.ask(as_format(origin, name))

    seen = await proxy.ask(as_format(origin, "json"))

    seen.expect(200, cache="hit")
    assert origin.requests == 1
    assert proxy.service.conversions.documents_parsed <= 1, (
        "0 where this process has just read the same for another test"
    )
    assert [item["title"] for item in json.loads(seen.plain)["items"]] == ["one", "two"]


@pytest.mark.parametrize("name", ["rss", "rdf", "atom", "json"])
async def test_rendering_names_the_address_it_was_asked_for_at_as_its_own(door, name):
    proxy, origin, _ = await a_stage(door)

    for host in ("feeds.example", "192.0.2.80:8080"):
        feed = read((await proxy.ask(as_format(origin, name), host=host)).expect(200).plain)

        assert feed is not None
        assert feed.address == f"http://{host}{as_format(origin, name)}"
        assert feed.first_href("via") == origin.url(PATH)


async def test_list_of_a_feed_in_opml_names_the_feed_itself(door):
    proxy, origin, _ = await a_stage(door)

    seen = (await proxy.ask(as_format(origin, "opml"))).expect(200)

    assert f'xmlUrl="{origin.url(PATH)}"'.encode() in seen.plain


async def test_a_rendering_is_as_fresh_as_its_feed(door):
    proxy, origin, clock = await a_stage(door)
    await proxy.ask(as_format(origin, "atom"))
    clock.advance(minutes=9)
    (await proxy.ask(as_format(origin, "atom"))).expect(200, cache="hit; ttl=60", age=540)
    origin.publish(PATH, a_feed("three"), cache_control="max-age=600")
    clock.advance(minutes=2)

    seen = await proxy.ask(as_format(origin, "atom"))

    seen.expect(200, cache="fwd=stale; stored")
    assert seen.fields.get("cache-control") == "max-age=600"
    assert [entry.title for entry in feedparser.parse(seen.plain).entries] == ["three"]


async def test_every_format_and_coding_has_a_strong_tag_of_its_own(door):
    proxy, origin, _ = await a_stage(door)
    tags = set()
    for name in ("rss", "atom", "csv"):
        for coding in ("identity", "gzip", "br", "zstd"):
            seen = await proxy.ask(as_format(origin, name), accept_encoding=coding)
            assert (seen.fields.get("content-encoding") or "identity") == coding
            assert "accept-encoding" in (seen.fields.combined("vary") or "").lower()
            tags.add(seen.tag)

    assert len(tags) == 12
    assert not any(tag.startswith("W/") for tag in tags)


async def test_a_reader_that_has_the_rendering_gets_304(door):
    proxy, origin, _ = await a_stage(door)
    first = await proxy.ask(as_format(origin, "atom"), accept_encoding="gzip")

    seen = await proxy.ask(as_format(origin, "atom"), accept_encoding="br", if_none_match=first.tag)

    seen.expect(304, body=b"")
    assert seen.fields.get("cache-control") == first.fields.get("cache-control")


async def test_the_tag_of_one_format_is_none_of_another(door):
    proxy, origin, _ = await a_stage(door)
    first = await proxy.ask(as_format(origin, "atom"))

    (await proxy.ask(as_format(origin, "rss"), if_none_match=first.tag)).expect(200)


async def test_target_that_is_no_feed_gets_an_error_page(door):
    proxy, origin, _ = await a_stage(door)
    origin.publish("/page", b"<!doctype html><title>x</title><p>hello", content_type="text/html")

    seen = await proxy.ask(as_format(origin, "atom", "/page"))

    seen.expect(406)
    told = json.loads(seen.plain)
    assert told["code"] == "not-a-feed"
    assert "not a feed" in told["detail"]


async def test_who_may_not_have_the_feed_may_not_have_it_in_another_format(door):
    proxy, origin, _ = await a_stage(door, readers=("alice",))

    seen = await proxy.ask(as_format(origin, "atom"))

    seen.expect(401)
    assert origin.requests == 0


async def test_an_unknown_format_is_not_found_and_the_known_ones_are_named(door):
    proxy, origin, _ = await a_stage(door)

    seen = await proxy.ask(as_format(origin, "storable"))

    seen.expect(404)
    assert "rss, rdf, atom" in json.loads(seen.plain)["detail"]
    assert origin.requests == 0


async def test_what_cannot_be_a_target_is_none_here_either(door):
    proxy, _, _ = await door()

    (await proxy.ask("/-/as/atom/http://name:word@example.com/feed")).expect(400)


async def test_in_front_of_an_origin_only_its_own_feeds_are_converted(door):
    proxy, origin, _ = await a_stage(door, upstream=UPSTREAM)

    (await proxy.ask(f"/-/as/atom{PATH}")).expect(200)
    (await proxy.ask(as_format(origin, "atom"))).expect(200, cache="hit")
    (await proxy.ask("/-/as/atom/http://elsewhere.example/feed")).expect(403)


async def test_head_has_the_fields_of_get(door):
    proxy, origin, _ = await a_stage(door)
    whole = await proxy.ask(as_format(origin, "atom"))

    seen = await proxy.ask(as_format(origin, "atom"), method="HEAD")

    seen.expect(200, body=b"")
    assert seen.tag == whole.tag
    assert seen.fields.get("content-length") == str(len(whole.body))


async def test_the_origins_own_refusal_reaches_the_reader(door):
    proxy, origin, _ = await a_stage(door)

    (await proxy.ask(as_format(origin, "atom", "/nowhere"))).expect(404)


async def test_a_moved_feed_leads_to_its_new_address_in_the_same_format(door):
    proxy, origin, _ = await a_stage(door, moved_to="https://new.example/feed")

    seen = await proxy.ask(as_format(origin, "json"))

    seen.expect(301)
    assert seen.location.endswith("/-/as/json/https://new.example/feed")


# -- by Accept


async def test_where_a_rule_allows_it_accept_chooses_the_format(stage):
    proxy, _, _ = await a_stage(stage, negotiate=True)

    seen = await proxy.get(PATH, accept="application/atom+xml")

    seen.expect(200)
    assert seen.fields.get("content-type") == FORMATS["atom"].media_type
    assert "accept" in [word.strip().lower() for word in (seen.fields.combined("vary") or "").split(",")]
    model = read(seen.plain)
    assert model is not None
    assert model.version == "1.0"


@pytest.mark.parametrize("accept", ["*/*", "application/rss+xml", "application/xml, */*;q=0.1", "image/png"])
async def test_a_reader_that_is_content_gets_the_feed_as_it_is(stage, accept):
    proxy, _, _ = await a_stage(stage, negotiate=True)

    seen = await proxy.get(PATH, accept=accept)

    seen.expect(200)
    assert (seen.fields.get("content-type") or "").startswith("application/rss+xml")
    assert "accept" in [word.strip().lower() for word in (seen.fields.combined("vary") or "").split(",")]


async def test_without_a_rule_accept_chooses_nothing(stage):
    proxy, _, _ = await a_stage(stage)

    seen = await proxy.get(PATH, accept="application/atom+xml")

    assert (seen.fields.get("content-type") or "").startswith("application/rss+xml")


async def test_a_negotiated_rendering_is_validated_by_its_own_tag(stage):
    proxy, _, _ = await a_stage(stage, negotiate=True)
    first = await proxy.get(PATH, accept="application/feed+json")
    whole = await proxy.get(PATH, accept="*/*")

    (await proxy.get(PATH, accept="application/feed+json", if_none_match=first.tag)).expect(304)
    (await proxy.get(PATH, accept="application/feed+json", if_none_match=whole.tag)).expect(200)
    (await proxy.get(PATH, accept="*/*", if_none_match=whole.tag)).expect(304)
    (await proxy.get(PATH, accept="*/*", if_none_match=first.tag)).expect(200)
