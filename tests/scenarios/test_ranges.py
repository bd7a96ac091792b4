"""Ranges of pages and media: the proxy stores parts and fetches only missing bytes."""

from dataclasses import dataclass, field

import pytest

from feedproxy.clock import Clock
from feedproxy.http import ranges
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields, Request, Response
from tests.stages.origin import a_feed
from tests.stages.play import UPSTREAM

FILE = bytes(range(65, 91))
"""Twenty-six letters."""
JAN_1 = "Thu, 01 Jan 2026 00:00:00 GMT"


@dataclass
class Server:
    """An origin that supports Range and If-Range."""

    clock: Clock
    body: bytes = FILE
    lines: dict[str, str] = field(default_factory=lambda: {"ETag": '"1"'})
    deaf: bool = False
    """The server ignores If-Range."""

    def __call__(self, request: Request) -> Response:
        lines = {"Content-Type": "audio/mpeg", "Cache-Control": "max-age=600", **self.lines}
        fields = Fields([("Date", format_http_date(self.clock.now())), *lines.items()])
        if request.fields.get("if-none-match") in (self.lines.get("ETag"), "never") and "ETag" in self.lines:
            return Response(304, fields)
        condition = request.fields.get("if-range")
        applies = self.deaf or condition in (None, self.lines.get("ETag"), self.lines.get("Last-Modified"))
        if request.method == "GET" and applies:
            match ranges.select(request.fields.get("range"), len(self.body)):
                case (int(first), int(last)):
                    said = f"bytes {first}-{last}/{len(self.body)}"
                    return Response(206, fields.with_added("Content-Range", said), self.body[first : last + 1])
                case ranges.Unsatisfiable() as nothing:
                    return Response(416, fields.with_added("Content-Range", nothing.content_range))
        return Response(200, fields, b"" if request.method == "HEAD" else self.body)


async def a_server(stage, **settings):
    proxy, origin, clock = await stage(site_interval=0, **settings)
    server = Server(clock)
    origin.speak(server)
    return proxy, origin, clock, server


def asked(origin) -> list[str | None]:
    """The Range field of each request that the origin received."""
    return [request.fields.get("range") for request in origin.log]


# -- reuse


@pytest.mark.parametrize(
    ("value", "first", "last"),
    [("bytes=20-25", 20, 25), ("bytes=21-23", 21, 23), ("bytes=22-", 22, 25), ("bytes=-1", 25, 25)],
)
async def test_range_within_a_fresh_part_is_answered_from_it(stage, value, first, last):
    proxy, origin, clock, _ = await a_server(stage)
    (await proxy.get("/a.mp3", range="bytes=-6")).expect(206, cache="fwd=uri-miss; stored", body=FILE[20:])
    clock.advance(minutes=5)

    seen = (await proxy.get("/a.mp3", range=value)).expect(206, cache="hit", body=FILE[first : last + 1], age=300)

    assert seen.fields.get("content-range") == f"bytes {first}-{last}/26"
    assert origin.requests == 1


async def test_range_within_a_stale_part_is_fetched(stage):
    proxy, _, clock, server = await a_server(stage)
    await proxy.get("/a.mp3", range="bytes=-6")
    server.body = FILE.lower()
    server.lines = {"ETag": '"2"'}
    clock.advance(minutes=11)

    (await proxy.get("/a.mp3", range="bytes=-6")).expect(206, cache="fwd=uri-miss", body=FILE.lower()[20:])


async def test_range_with_no_cache_is_fetched(stage):
    proxy, origin, _, _ = await a_server(stage)
    await proxy.get("/a.mp3", range="bytes=-6")

    await proxy.get("/a.mp3", range="bytes=-6", cache_control="no-cache")

    assert origin.requests == 2


async def test_part_without_explicit_freshness_is_not_stored(stage):
    proxy, origin, _, server = await a_server(stage)
    server.lines = {"Cache-Control": "public", "Last-Modified": JAN_1}

    for _ in range(2):
        (await proxy.get("/a.mp3", range="bytes=-6")).expect(206, cache="fwd=uri-miss", body=FILE[20:])

    assert origin.requests == 2


async def test_part_is_not_reused_for_other_values_of_a_vary_field(stage):
    proxy, origin, _, server = await a_server(stage)
    server.lines = {"ETag": '"1"', "Vary": "Accept-Language"}
    await proxy.get("/a.mp3", range="bytes=0-9", accept_language="de")

    await proxy.get("/a.mp3", range="bytes=0-9", accept_language="en")
    (await proxy.get("/a.mp3", range="bytes=0-9", accept_language="de")).expect(206, cache="hit")

    assert origin.requests == 2


async def test_part_varies_by_a_field_that_the_first_request_to_the_origin_lacked(stage):
    """Unusual fields are sent only if Vary nominates them. The proxy reads Vary in the first response."""
    proxy, origin, _, server = await a_server(stage)
    server.lines["Vary"] = "X-Edition"

    def of_edition(request: Request) -> Response:
        edition = request.fields.get("x-edition") or "none"
        server.lines["ETag"], server.body = f'"{edition}"', edition.encode() * 9
        response: Response = server(request)
        return response

    origin.speak(of_edition)

    for edition in ("one", "two", "one"):
        seen = await proxy.get("/song", range="bytes=0-2", x_edition=edition)
        seen.expect(206, body=edition.encode())


async def test_part_that_a_condition_refuses_has_no_content_range(stage):
    proxy, _, _, _ = await a_server(stage)
    await proxy.get("/a.mp3", range="bytes=-6")

    seen = (await proxy.get("/a.mp3", range="bytes=-6", if_match='"another"')).expect(412, cache="hit")

    assert "content-range" not in seen.fields


async def test_part_with_a_current_etag_gets_304_or_206(stage):
    proxy, _, _, _ = await a_server(stage)
    await proxy.get("/a.mp3", range="bytes=0-9")

    (await proxy.get("/a.mp3", range="bytes=0-9", if_none_match='"1"')).expect(304)
    (await proxy.get("/a.mp3", range="bytes=0-9", if_range='"1"')).expect(206, cache="hit", body=FILE[:10])


# -- completing


@pytest.mark.parametrize(("held", "missing"), [("bytes=0-9", "bytes=10-"), ("bytes=10-", "bytes=0-9")])
async def test_part_is_completed_by_a_request_for_the_missing_bytes(stage, held, missing):
    proxy, origin, _, _ = await a_server(stage)
    await proxy.get("/a.mp3", range=held)

    seen = (await proxy.get("/a.mp3")).expect(200, cache="fwd=partial; fwd-status=206; stored", body=FILE)

    assert asked(origin) == [held, missing]
    assert origin.heard.get("if-range") == '"1"'
    assert "content-range" not in seen.fields
    (await proxy.get("/a.mp3")).expect(200, cache="hit", body=FILE)
    (await proxy.get("/a.mp3", range="bytes=3-5")).expect(206, cache="hit", body=FILE[3:6])


async def test_part_is_extended_for_a_larger_range_and_stored(stage):
    proxy, origin, _, _ = await a_server(stage)
    await proxy.get("/a.mp3", range="bytes=5-9")

    seen = (await proxy.get("/a.mp3", range="bytes=8-14")).expect(206, cache="fwd=partial", body=FILE[8:15])

    assert seen.fields.get_all("content-range") == ["bytes 8-14/26"]
    assert asked(origin) == ["bytes=5-9", "bytes=10-14"]
    (await proxy.get("/a.mp3", range="bytes=5-14")).expect(206, cache="hit", body=FILE[5:15])


async def test_part_that_is_stale_is_completed_if_unchanged(stage):
    proxy, origin, clock, server = await a_server(stage)
    server.lines = {"Last-Modified": JAN_1}
    await proxy.get("/a.mp3", range="bytes=0-9")
    clock.advance(hours=3)

    (await proxy.get("/a.mp3")).expect(200, cache="fwd=partial", age=0, body=FILE)

    assert origin.heard.get("if-range") == JAN_1


@pytest.mark.parametrize("deaf", [False, True])
async def test_part_of_an_older_version_is_not_combined_with_the_new_one(stage, deaf):
    proxy, _, _, server = await a_server(stage)
    await proxy.get("/a.mp3", range="bytes=0-9")
    server.body, server.lines, server.deaf = FILE.lower(), {"ETag": '"2"'}, deaf

    (await proxy.get("/a.mp3")).expect(200, body=FILE.lower())
    (await proxy.get("/a.mp3", range="bytes=0-9")).expect(206, cache="hit", body=FILE.lower()[:10])


@pytest.mark.parametrize("lines", [{}, {"ETag": 'W/"1"'}])
async def test_part_without_a_strong_validator_is_not_combined(stage, lines):
    proxy, origin, _, server = await a_server(stage)
    server.lines = lines
    await proxy.get("/a.mp3", range="bytes=0-12")
    server.body = FILE.lower()

    (await proxy.get("/a.mp3")).expect(200, body=FILE.lower())

    assert "range" not in origin.heard


async def test_part_of_content_that_became_shorter_is_replaced_by_the_whole(stage):
    proxy, _, _, server = await a_server(stage)
    await proxy.get("/a.mp3", range="bytes=0-9")
    server.body, server.deaf = b"abc", True

    (await proxy.get("/a.mp3")).expect(200, body=b"abc")


async def test_part_is_kept_if_its_completion_fails(stage):
    proxy, origin, _, server = await a_server(stage)
    await proxy.get("/a.mp3", range="bytes=0-9")
    origin.break_down(503)
    (await proxy.get("/a.mp3")).expect(503)
    origin.speak(server)

    (await proxy.get("/a.mp3", range="bytes=0-9")).expect(206, cache="hit", body=FILE[:10])


# -- feeds, and what ends a part


async def test_part_of_a_feed_is_not_stored(stage):
    proxy, origin, _, server = await a_server(stage)
    server.body, server.lines = a_feed("one"), {"ETag": '"1"', "Content-Type": "application/rss+xml"}
    (await proxy.get("/feed.rss", range="bytes=0-9")).expect(206)
    whole = (await proxy.get("/feed.rss")).expect(200, cache="fwd=uri-miss")

    assert asked(origin) == ["bytes=0-9", None]
    (await proxy.get("/feed.rss", range="bytes=0-9")).expect(206, cache="hit", body=whole.body[:10])


async def test_part_of_a_feed_with_another_media_type_is_processed_after_completion(stage):
    proxy, _, _, server = await a_server(stage)
    server.body = a_feed("one")
    (await proxy.get("/feed", range="bytes=0-99")).expect(206)

    seen = (await proxy.get("/feed")).expect(200, cache="fwd=partial")

    assert seen.fields.get("content-type") == "application/rss+xml"
    assert seen.tag != '"1"'


async def test_part_is_invalidated_by_an_unsafe_request(door):
    proxy, origin, _, server = await a_server(door, upstream=UPSTREAM)
    origin.speak(lambda request: Response(204) if request.method == "POST" else server(request))
    await proxy.get("/a.mp3", range="bytes=0-9")

    await proxy.send("POST", "/a.mp3", body=b"x")

    (await proxy.get("/a.mp3", range="bytes=0-9")).expect(206, cache="fwd=uri-miss")


# -- HEAD


async def test_head_without_a_copy_fetches_with_get(stage):
    proxy, origin, _, _ = await a_server(stage)

    head = (await proxy.head("/a.mp3")).expect(200, body=b"")
    got = (await proxy.get("/a.mp3")).expect(200, cache="hit", body=FILE)

    for name in ("etag", "content-type", "content-length"):
        assert head.fields.get(name) == got.fields.get(name)
    assert [request.method for request in origin.log] == ["GET"]


async def test_head_for_a_stale_page_is_forwarded_and_freshens_it(stage):
    proxy, origin, clock, _ = await a_server(stage)
    await proxy.get("/a.mp3")
    clock.advance(minutes=11)

    (await proxy.head("/a.mp3")).expect(200, cache="fwd=stale")

    assert origin.log[-1].method == "HEAD"
    (await proxy.get("/a.mp3")).expect(200, cache="hit", age=0, body=FILE)


async def test_head_ignores_range(stage):
    proxy, origin, _, _ = await a_server(stage)

    (await proxy.head("/a.mp3", range="bytes=0-9")).expect(200)

    assert "range" not in origin.heard


async def test_tag_of_another_coding_does_not_match_a_request_for_a_range(stage):
    """Chromium sends such requests, and after a 304 takes the range from its copy in the other coding."""
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed("one", "two", "three"), cache_control="max-age=600")
    plain = (await proxy.get("/feed.rss")).expect(200)
    coded = (await proxy.get("/feed.rss", accept_encoding="gzip")).expect(200)
    assert coded.fields.get("content-encoding") == "gzip"
    wanted = {"range": "bytes=0-9", "accept_encoding": "identity"}

    seen = await proxy.get("/feed.rss", if_none_match=coded.tag, **wanted)

    seen.expect(206, cache="hit", body=plain.body[:10])
    assert seen.tag == plain.tag
    (await proxy.get("/feed.rss", if_none_match=plain.tag, **wanted)).expect(304)
    (await proxy.get("/feed.rss", if_none_match=coded.tag)).expect(304)
