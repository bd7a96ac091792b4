"""The version that a client keeps is the dictionary of the next version (RFC 9842)."""

import asyncio
import base64
import hashlib
import random
from typing import Any

import pytest

from feedproxy.http.coding.compression_dictionary import decode, parse_use_as_dictionary
from feedproxy.request.context import Entrance
from feedproxy.store.resource_codec import dump, load
from tests.stages.origin import a_feed
from tests.stages.play import Seen

PATH = "/feed.rss"
NOISE = random.Random(9842)
OLD = tuple(NOISE.randbytes(40).hex() for _ in range(60))
"""Items with little in common, as the words of real ones have."""
CODINGS = "gzip, br, zstd, dcz"
ON = {"compression_dictionaries": "always"}


def publish(origin: Any, *items: str, path: str = PATH, cache_control: str = "max-age=60", **fields: str) -> None:
    origin.publish(path, a_feed(*items, *OLD), cache_control=cache_control, **fields)


def name_of(content: bytes) -> str:
    return f":{base64.b64encode(hashlib.sha256(content).digest()).decode()}:"


def vary(seen: Seen) -> set[str]:
    return {name.strip().lower() for name in (seen.fields.combined("vary") or "").split(",")}


def is_dcz(seen: Seen) -> bool:
    return seen.fields.get("content-encoding") == "dcz"


async def a_reader(stage: Any, **settings: Any) -> Any:
    """A stage whose origin has news since the reader got the feed: `old` is the content that the reader keeps."""
    proxy, origin, clock = await stage(**{**ON, **settings})
    publish(origin)
    first = await proxy.get(PATH, accept_encoding="gzip")
    publish(origin, "news")
    clock.advance(minutes=10)
    return proxy, origin, clock, first


async def test_dcz_with_the_previous_version_carries_the_new_version(stage):
    proxy, _, _, first = await a_reader(stage)

    seen = await proxy.get(PATH, accept_encoding=CODINGS, available_dictionary=name_of(first.plain))

    seen.expect(200, cache="fwd=stale; fwd-status=200; stored")
    whole = await proxy.get(PATH, accept_encoding="gzip")
    assert is_dcz(seen)
    assert decode(seen.body, first.plain, limit=100_000) == whole.plain
    assert len(seen.body) < len(whole.body) / 10
    assert seen.fields.get("content-length") == str(len(seen.body))
    assert seen.fields.get("content-type") == whole.fields.get("content-type")
    assert {"accept-encoding", "available-dictionary"} <= vary(seen)


async def test_dcz_has_an_etag_of_its_own_that_is_current(stage):
    proxy, _, _, first = await a_reader(stage)
    encoded = await proxy.get(PATH, accept_encoding=CODINGS, available_dictionary=name_of(first.plain))
    whole = await proxy.get(PATH, accept_encoding="gzip")

    assert encoded.tag != whole.tag
    assert not encoded.tag.startswith("W/")
    for tag in (encoded.tag, whole.tag):
        known = await proxy.get(
            PATH, accept_encoding=CODINGS, available_dictionary=name_of(first.plain), if_none_match=tag
        )
        known.expect(304)
    (await proxy.get(PATH, accept_encoding=CODINGS, if_none_match=first.tag)).expect(200)


async def test_dcz_of_the_same_version_is_reused_for_concurrent_readers(stage):
    proxy, origin, _, first = await a_reader(stage)
    asked = {"accept_encoding": CODINGS, "available_dictionary": name_of(first.plain)}
    one = await proxy.get(PATH, **asked)
    before = origin.requests

    others = await asyncio.gather(*(proxy.get(PATH, **asked) for _ in range(4)))

    assert {other.body for other in others} == {one.body}
    assert {other.tag for other in others} == {one.tag}
    assert origin.requests == before
    for other in others:
        other.expect(200, cache="hit")


async def test_dcz_of_different_versions_decodes_to_the_same_content(stage):
    proxy, origin, clock, first = await a_reader(stage)
    second = await proxy.get(PATH, accept_encoding="identity")
    publish(origin, "more", "news")
    clock.advance(minutes=10)
    current = (await proxy.get(PATH, accept_encoding="identity")).body

    for _ in range(3):  # the fast path has met it by then
        for content in (first.plain, second.body, current):
            seen = await proxy.get(PATH, accept_encoding=CODINGS, available_dictionary=name_of(content))
            assert is_dcz(seen)
            assert decode(seen.body, content, limit=100_000) == current
        plain = await proxy.get(PATH, accept_encoding="gzip, br, zstd")
        assert not is_dcz(plain)


async def test_dictionary_is_recognized_for_the_last_eight_versions(stage):
    proxy, origin, clock = await stage(**ON)
    contents = []
    for number in range(10):
        publish(origin, *(f"n{each}" for each in range(number)))
        contents.append((await proxy.get(PATH, accept_encoding="identity")).body)
        clock.advance(minutes=10)

    answers = [
        is_dcz(await proxy.get(PATH, accept_encoding=CODINGS, available_dictionary=name_of(content)))
        for content in contents
    ]

    assert answers == [False] + 9 * [True]  # the current one, and eight before


async def test_dictionary_offer_names_the_requests_that_it_matches(stage):
    proxy, origin, _ = await stage(**ON)
    origin.publish(f"{PATH}?a=b:c", a_feed(*OLD), cache_control="max-age=60")

    seen = await proxy.get(f"{PATH}?a=b:c", accept_encoding="gzip")
    known = await proxy.get(f"{PATH}?a=b:c", accept_encoding="gzip", if_none_match=seen.tag)

    for each in (seen, known.expect(304)):
        said = parse_use_as_dictionary(each.fields.combined("use-as-dictionary") or "")
        assert said is not None
        assert said.match.endswith(PATH + "?a=b{\\:}c")
        assert {"accept-encoding", "available-dictionary"} <= vary(each)


@pytest.mark.parametrize(
    "asked",
    [
        {"accept_encoding": "gzip, br, zstd"},
        {"accept_encoding": "gzip, dcz;q=0"},
        {"accept_encoding": "gzip;q=1, dcz;q=0.1"},
        {"accept_encoding": "*"},
        {"accept_encoding": CODINGS, "range": "bytes=0-99"},
        {"accept_encoding": CODINGS, "available_dictionary": name_of(b"never seen")},
        {"accept_encoding": CODINGS, "available_dictionary": "nonsense"},
        {"accept_encoding": CODINGS, "available_dictionary": ""},
        {"accept_encoding": CODINGS, "sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"},
        {"accept_encoding": CODINGS, "sec_fetch_site": "cross-site", "sec_fetch_mode": "cors",
         "origin": "https://a.example"},
    ],
)  # fmt: skip
async def test_dcz_is_not_sent_unless_accepted_with_a_known_dictionary_and_permitted(stage, asked):
    proxy, _, _, first = await a_reader(stage)
    await proxy.get(PATH, accept_encoding=CODINGS, available_dictionary=name_of(first.plain))

    for _ in range(2):
        seen = await proxy.get(PATH, **{"available_dictionary": name_of(first.plain), **asked})
        assert seen.status == (206 if "range" in asked else 200)
        assert not is_dcz(seen)


async def test_dcz_is_sent_to_a_script_of_another_web_origin_if_cors_is_on(stage):
    proxy, _, _, first = await a_reader(stage, cors=True)
    fetch = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "cors", "origin": "https://a.example"}

    seen = await proxy.get(PATH, accept_encoding=CODINGS, available_dictionary=name_of(first.plain), **fetch)

    assert is_dcz(seen)
    assert seen.fields.get("access-control-allow-origin") == "*"


async def test_cors_is_off_by_default(stage):
    _, _, _, first = await a_reader(stage)

    assert "access-control-allow-origin" not in first.fields


async def test_delta_is_sent_only_if_smaller_than_dcz(stage):
    proxy, _, _, first = await a_reader(stage)
    asked = {"accept_encoding": CODINGS, "a_im": "feed", "if_none_match": first.tag}

    alone = (await proxy.get(PATH, **asked)).expect(226)
    both = (await proxy.get(PATH, available_dictionary=name_of(first.plain), **asked)).expect(200)

    assert is_dcz(both)
    assert len(both.body) < len(alone.body)
    assert not is_dcz(alone)


async def test_conversion_is_no_dictionary(stage):
    proxy, _, _, first = await a_reader(stage, negotiate=True)
    asked = {"accept_encoding": CODINGS, "available_dictionary": name_of(first.plain)}

    seen = await proxy.get(PATH, accept="application/feed+json", **asked)

    seen.expect(200)
    assert not is_dcz(seen)
    assert seen.plain.startswith(b"{")
    assert "use-as-dictionary" not in seen.fields


# -- what never takes part


@pytest.mark.parametrize("directives", ["private, max-age=60", "no-store", "max-age=60, no-transform"])
async def test_private_or_no_transform_feed_is_no_dictionary(stage, directives):
    proxy, origin, clock = await stage(**ON)
    said = {"cache_control": directives}
    publish(origin, **said)
    first = await proxy.get(PATH, accept_encoding="identity")
    publish(origin, "news", **said)
    clock.advance(minutes=10)

    seen = await proxy.get(PATH, accept_encoding=CODINGS, available_dictionary=name_of(first.body))

    assert "use-as-dictionary" not in first.fields
    assert not is_dcz(seen)


async def test_dictionary_of_a_public_version_is_removed_when_the_feed_becomes_private(stage):
    proxy, origin, clock, first = await a_reader(stage)
    await proxy.get(PATH)
    publish(origin, "secret", cache_control="private, max-age=60")
    clock.advance(minutes=10)
    await proxy.get(PATH)
    publish(origin, "public", cache_control="max-age=60")
    clock.advance(minutes=10)

    seen = await proxy.get(PATH, accept_encoding=CODINGS, available_dictionary=name_of(first.plain))

    assert not is_dcz(seen)


async def test_private_rule_disables_dictionaries(stage):
    proxy, _, _, first = await a_reader(stage)
    asked = {"accept_encoding": CODINGS, "available_dictionary": name_of(first.plain)}
    assert is_dcz(await proxy.get(PATH, **asked))
    proxy.rule("/*", private=True)

    seen = await proxy.get(PATH, **asked)

    assert not is_dcz(seen)
    assert "use-as-dictionary" not in seen.fields


async def test_response_to_credentials_is_no_dictionary(stage):
    proxy, origin, clock = await stage(**ON)
    publish(origin, "own")
    own = await proxy.get(PATH, accept_encoding="identity", authorization="Basic YTpi")
    publish(origin, "news", "own")
    clock.advance(minutes=10)

    asked = {"accept_encoding": CODINGS, "available_dictionary": name_of(own.body)}
    again = await proxy.get(PATH, authorization="Basic YTpi", **asked)
    other = await proxy.get(PATH, **asked)

    assert "use-as-dictionary" not in own.fields
    assert not is_dcz(again)
    assert not is_dcz(other)


async def test_compression_dictionaries_off_disables_offer_and_dcz(stage):
    proxy, _, _, first = await a_reader(stage, compression_dictionaries="off")

    seen = await proxy.get(PATH, accept_encoding=CODINGS, available_dictionary=name_of(first.plain))

    assert not is_dcz(seen)
    assert "use-as-dictionary" not in first.fields
    assert "available-dictionary" not in vary(first)


@pytest.mark.parametrize(
    ("public_url", "secure"),
    [("https://feeds.example", True), ("http://127.0.0.1:8080", True), ("http://feeds.example", False)],
)
async def test_compression_dictionaries_secure_requires_a_secure_context(stage, public_url, secure):
    proxy, _, _, first = await a_reader(stage, compression_dictionaries="secure", public_url=public_url)

    seen = await proxy.get(PATH, accept_encoding=CODINGS, available_dictionary=name_of(first.plain))

    assert is_dcz(seen) is secure
    assert ("use-as-dictionary" in seen.fields) is secure


async def test_use_as_dictionary_of_an_origin_is_removed_by_the_gateway(door):
    proxy, origin, _ = await door(**ON)
    origin.publish("/page.html", b"<html>", content_type="text/html", use_as_dictionary='match="/*"')
    publish(origin, use_as_dictionary='match="/*"')

    page = await proxy.get("/page.html", entrance=Entrance.GATEWAY)
    feed = await proxy.get(PATH, entrance=Entrance.GATEWAY)

    assert "use-as-dictionary" not in page.fields
    assert "*" not in (feed.fields.combined("use-as-dictionary") or "*")


async def test_previous_versions_are_stored_with_the_feed(stage):
    proxy, origin, _, first = await a_reader(stage)
    await proxy.get(PATH)

    resource = proxy.service.store.get(origin.url(PATH))
    assert resource is not None
    again = load(dump(resource))

    assert again == resource
    assert hashlib.sha256(first.plain).digest() in again.previous
    gzip = next(each.content.bodies["gzip"] for each in again.variants)
    assert len(again.previous.data) < len(gzip)


async def test_vary_on_available_dictionary_does_not_cause_a_second_request(stage):
    """Another feedproxy, for example: its Vary names the field, which is not sent to it."""
    proxy, origin, clock = await stage(**ON)
    said = {"vary": "Accept-Encoding, Available-Dictionary", "use_as_dictionary": 'match="/feed.rss"'}
    publish(origin, **said)
    first = await proxy.get(PATH, accept_encoding="gzip")
    publish(origin, "news", **said)
    clock.advance(minutes=10)
    before = origin.requests

    answers = [
        await proxy.get(PATH, accept_encoding=CODINGS, available_dictionary=name)
        for name in (name_of(first.plain), name_of(b"another"), name_of(first.plain))
    ]

    assert [is_dcz(seen) for seen in answers] == [True, False, True]
    assert origin.requests == before + 1
    assert len(first.fields.get_all("use-as-dictionary")) == 1
