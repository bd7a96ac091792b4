"""A feed converted to other formats."""

import json

import feedparser
import pytest

from feedproxy.errors import Overload
from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.convert.read.from_document import read
from feedproxy.http.field_values import split_list
from feedproxy.proxy.representations.conversion_cache import ConversionCache
from feedproxy.refresh.ingest.helper_pool import HelpersExited
from tests.stages.origin import a_feed
from tests.stages.play import UPSTREAM

PATH = "/feed.rss"


def as_format(origin, name: str, path: str = PATH) -> str:
    return f"/-/as/{name}/{origin.url(path)}"


def vary_names_of(seen) -> list[str]:
    return split_list(seen.fields.combined("vary") or "")


async def a_stage(door, **settings):
    proxy, origin, clock = await door(**settings)
    origin.publish(PATH, a_feed("one", "two"), cache_control="max-age=600")
    return proxy, origin, clock


@pytest.mark.parametrize("name", FORMATS)
async def test_conversion_exists_for_every_format(door, name):
    proxy, origin, _ = await a_stage(door)

    seen = await proxy.ask(as_format(origin, name))

    seen.expect(200, cache="fwd=uri-miss; stored")
    assert seen.fields.get("content-type") == FORMATS[name].media_type
    assert seen.fields.get("x-content-type-options") == "nosniff"
    assert "sandbox" in (seen.fields.get("content-security-policy") or "")
    assert b"News" in seen.plain


async def test_conversion_to_all_formats_causes_one_request_to_the_origin(door):
    proxy, origin, _ = await a_stage(door)
    for name in FORMATS:
        await proxy.ask(as_format(origin, name))

    seen = await proxy.ask(as_format(origin, "json"))

    seen.expect(200, cache="hit")
    assert origin.requests == 1
    assert [item["title"] for item in json.loads(seen.plain)["items"]] == ["one", "two"]


@pytest.mark.parametrize("name", ["rss", "rdf", "atom", "json"])
async def test_conversion_names_its_own_address_and_the_original_feed(door, name):
    proxy, origin, _ = await a_stage(door)

    for host in ("feeds.example", "192.0.2.80:8080"):
        feed = read((await proxy.ask(as_format(origin, name), host=host)).expect(200).plain)

        assert feed is not None
        assert feed.address == f"http://{host}{as_format(origin, name)}"
        assert feed.first_href("via") == origin.url(PATH)


async def test_conversion_to_opml_names_the_feed(door):
    proxy, origin, _ = await a_stage(door)

    seen = (await proxy.ask(as_format(origin, "opml"))).expect(200)

    assert f'xmlUrl="{origin.url(PATH)}"'.encode() in seen.plain


async def test_conversion_has_the_freshness_of_its_feed(door):
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


async def test_conversion_has_a_strong_etag_for_each_format_and_coding(door):
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


async def test_conversion_with_a_current_etag_gets_304(door):
    proxy, origin, _ = await a_stage(door)
    first = await proxy.ask(as_format(origin, "atom"), accept_encoding="gzip")

    seen = await proxy.ask(as_format(origin, "atom"), accept_encoding="br", if_none_match=first.tag)

    seen.expect(304, body=b"")
    assert seen.fields.get("cache-control") == first.fields.get("cache-control")


async def test_conversion_gets_304_with_the_tag_of_the_clients_coding(door):
    proxy, origin, _ = await a_stage(door)
    first = await proxy.ask(as_format(origin, "atom"), accept_encoding="gzip")

    both = await proxy.ask(as_format(origin, "atom"), accept_encoding="br, gzip", if_none_match=first.tag)
    br = await proxy.ask(as_format(origin, "atom"), accept_encoding="br", if_none_match=first.tag)

    assert both.expect(304).tag == first.tag
    assert br.expect(304).tag != first.tag


async def test_conversion_with_the_etag_of_another_format_gets_200(door):
    proxy, origin, _ = await a_stage(door)
    first = await proxy.ask(as_format(origin, "atom"))

    (await proxy.ask(as_format(origin, "rss"), if_none_match=first.tag)).expect(200)


async def test_conversion_of_a_page_gets_406(door):
    proxy, origin, _ = await a_stage(door)
    origin.publish("/page", b"<!doctype html><title>x</title><p>hello", content_type="text/html")

    seen = await proxy.ask(as_format(origin, "atom", "/page"))

    seen.expect(406, cache="fwd=uri-miss; detail=not-a-feed")
    assert seen.cache.count("feedproxy;") == 1
    told = json.loads(seen.plain)
    assert (told["code"], told["title"]) == ("not-a-feed", "This document is not a feed")
    assert "not a feed" in told["detail"]


@pytest.mark.parametrize("error", [Overload("no process is free"), HelpersExited("the process has ended")])
async def test_conversion_without_a_helper_gets_503_with_retry_after(door, error, monkeypatch):
    proxy, origin, _ = await a_stage(door)

    async def fail(*_, **__):
        raise error

    monkeypatch.setattr(ConversionCache, "get", fail)

    seen = await proxy.ask(as_format(origin, "atom"))

    seen.expect(503)
    assert seen.fields.get("retry-after") == dict(error.fields)["Retry-After"]


async def test_conversion_of_a_protected_feed_gets_401(door):
    proxy, origin, _ = await a_stage(door, readers=("alice",))

    seen = await proxy.ask(as_format(origin, "atom"))

    seen.expect(401)
    assert origin.requests == 0


async def test_conversion_to_an_unknown_format_gets_404_with_the_known_formats(door):
    proxy, origin, _ = await a_stage(door)

    seen = await proxy.ask(as_format(origin, "storable"))

    seen.expect(404)
    assert "rss, rdf, atom" in json.loads(seen.plain)["detail"]
    assert origin.requests == 0


async def test_conversion_of_an_invalid_target_gets_400(door):
    proxy, _, _ = await door()

    (await proxy.ask("/-/as/atom/http://name:word@example.com/feed")).expect(400)


async def test_conversion_in_reverse_mode_accepts_feeds_of_the_upstream_only(door):
    proxy, origin, _ = await a_stage(door, upstream=UPSTREAM)

    (await proxy.ask(f"/-/as/atom{PATH}")).expect(200)
    (await proxy.ask(as_format(origin, "atom"))).expect(200, cache="hit")
    (await proxy.ask("/-/as/atom/http://elsewhere.example/feed")).expect(403)


async def test_conversion_for_head_has_the_fields_of_get(door):
    proxy, origin, _ = await a_stage(door)
    whole = await proxy.ask(as_format(origin, "atom"))

    seen = await proxy.ask(as_format(origin, "atom"), method="HEAD")

    seen.expect(200, body=b"")
    assert seen.tag == whole.tag
    assert seen.fields.get("content-length") == str(len(whole.body))


async def test_conversion_forwards_an_error_of_the_origin(door):
    proxy, origin, _ = await a_stage(door)

    (await proxy.ask(as_format(origin, "atom", "/nowhere"))).expect(404)


@pytest.mark.parametrize("announce_as", ["http", "xml"])
async def test_conversion_of_a_moved_feed_redirects_to_the_same_format(door, announce_as):
    proxy, origin, _ = await a_stage(door, moved_to="https://new.example/feed", announce_as=announce_as)

    seen = await proxy.ask(as_format(origin, "json"))

    seen.expect(301)
    assert seen.location.endswith("/-/as/json/https://new.example/feed")


@pytest.mark.parametrize("announce_as", ["http", "xml"])
async def test_conversion_of_an_ended_feed_gets_410(door, announce_as):
    proxy, origin, _ = await a_stage(door, gone=True, announce_as=announce_as)

    (await proxy.ask(as_format(origin, "json"))).expect(410)


# -- by Accept


async def test_negotiation_sends_the_format_that_accept_prefers(stage):
    proxy, _, _ = await a_stage(stage, negotiate=True)

    seen = await proxy.get(PATH, accept="application/atom+xml")

    seen.expect(200)
    assert seen.fields.get("content-type") == FORMATS["atom"].media_type
    assert "accept" in [word.strip().lower() for word in (seen.fields.combined("vary") or "").split(",")]
    model = read(seen.plain)
    assert model is not None
    assert model.version == "1.0"


@pytest.mark.parametrize("accept", ["*/*", "application/rss+xml", "application/xml, */*;q=0.1", "image/png"])
async def test_negotiation_sends_the_original_if_accept_allows_it_or_names_no_format(stage, accept):
    proxy, _, _ = await a_stage(stage, negotiate=True)

    seen = await proxy.get(PATH, accept=accept)

    seen.expect(200)
    assert (seen.fields.get("content-type") or "").startswith("application/rss+xml")
    assert "accept" in [word.strip().lower() for word in (seen.fields.combined("vary") or "").split(",")]


async def test_negotiation_is_off_without_a_rule(stage):
    proxy, _, _ = await a_stage(stage)

    seen = await proxy.get(PATH, accept="application/atom+xml")

    assert (seen.fields.get("content-type") or "").startswith("application/rss+xml")


async def test_negotiation_validates_each_format_by_its_own_etag(stage):
    proxy, _, _ = await a_stage(stage, negotiate=True)
    first = await proxy.get(PATH, accept="application/feed+json")
    whole = await proxy.get(PATH, accept="*/*")

    (await proxy.get(PATH, accept="application/feed+json", if_none_match=first.tag)).expect(304)
    (await proxy.get(PATH, accept="application/feed+json", if_none_match=whole.tag)).expect(200)
    (await proxy.get(PATH, accept="*/*", if_none_match=whole.tag)).expect(304)
    (await proxy.get(PATH, accept="*/*", if_none_match=first.tag)).expect(200)


async def test_response_to_a_request_without_accept_varies_by_accept(stage):
    proxy, _, _ = await a_stage(stage, negotiate=True)

    for _ in range(2):
        assert "Accept" in vary_names_of((await proxy.get(PATH)).expect(200))


async def test_negotiation_evaluates_conditions_and_ranges_of_a_page(stage):
    proxy, origin, _ = await stage(negotiate=True)
    origin.publish("/page", b"0123456789", content_type="text/plain", cache_control="max-age=600")
    tag = (await proxy.get("/page", accept="*/*")).expect(200).tag

    (await proxy.get("/page", accept="*/*", if_none_match=tag)).expect(304)
    (await proxy.get("/page", accept="*/*", if_match='"other"')).expect(412)
    assert (await proxy.get("/page", accept="*/*", range="bytes=2-4")).expect(206).body == b"234"


async def test_negotiation_evaluates_conditions_of_a_feed_that_is_not_stored_yet(stage):
    proxy, origin, _ = await a_stage(stage, negotiate=True)
    tag = (await proxy.get(PATH, accept="*/*")).expect(200).tag
    await proxy.service.admin.purge(origin.url(PATH))

    (await proxy.get(PATH, accept="*/*", if_none_match=tag)).expect(304)

    assert origin.requests == 2


async def test_negotiation_does_not_convert_a_response_with_no_transform(stage):
    proxy, origin, _ = await stage(negotiate=True)
    origin.publish(PATH, a_feed("one"), cache_control="max-age=600, no-transform")

    seen = (await proxy.get(PATH, accept="application/atom+xml")).expect(200)

    assert seen.body == a_feed("one")
    assert "Accept" in vary_names_of(seen)
