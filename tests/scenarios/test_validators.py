"""Conditional requests."""

import gzip
import itertools

import pytest

from feedproxy.clock import ManualClock
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields, Request, Response
from tests.stages.origin import Origin, a_feed
from tests.stages.play import Seen

CODINGS = ("identity", "gzip", "br", "zstd")
TITLES = tuple(map(str, range(60)))
"""Enough items for every coding to pay."""
JAN_1 = "Thu, 01 Jan 2026 00:00:00 GMT"
FEB_1 = "Sun, 01 Feb 2026 00:00:00 GMT"


async def a_copy(stage, **fields):
    """A stage whose proxy holds /feed.rss."""
    proxy, origin, clock = await stage()
    origin.publish("/feed.rss", a_feed(*TITLES), **fields)
    return proxy, origin, clock, await proxy.get("/feed.rss")


def words(text: str) -> set[str]:
    return {word.strip().lower() for word in text.split(",")}


# -- feeds that may not be stored


@pytest.mark.parametrize(
    "fields", [{}, {"validators": False, "last_modified": JAN_1}], ids=["entity tag", "Last-Modified"]
)
async def test_no_store_feed_is_validated_with_the_etag_of_the_client(stage, fields):
    proxy, origin, clock, first = await a_copy(stage, cache_control="no-store", **fields)
    clock.advance(minutes=5)

    seen = (await proxy.get("/feed.rss", if_none_match=first.tag)).expect(304, cache="fwd=uri-miss; fwd-status=304")

    assert seen.tag == first.tag
    assert {"if-none-match", "if-modified-since"} & {name.lower() for name, _ in origin.heard}
    assert "no-store" in (seen.fields.get("cache-control") or "")
    clock.advance(minutes=5)
    origin.publish("/feed.rss", a_feed("new", *TITLES), cache_control="no-store", **{**fields, "last_modified": FEB_1})
    changed = (await proxy.get("/feed.rss", if_none_match=first.tag)).expect(200)
    assert b"new" in changed.body
    assert changed.tag != first.tag


async def test_no_store_feed_is_sent_whole_to_a_client_without_etag(stage):
    proxy, _, clock, first = await a_copy(stage, cache_control="no-store")
    clock.advance(minutes=5)
    await proxy.get("/feed.rss", if_none_match=first.tag)
    clock.advance(minutes=5)

    assert (await proxy.get("/feed.rss", agent="Other/1.0")).expect(200).body == first.body


async def test_no_store_feed_is_validated_beside_a_stored_response_to_credentials(stage):
    proxy, origin, clock, first = await a_copy(stage, cache_control="no-store")
    origin.publish("/feed.rss", a_feed(*TITLES), cache_control="public, max-age=86400")
    (await proxy.get("/feed.rss", authorization="Basic eDp5")).expect(200, cache="stored")
    origin.publish("/feed.rss", a_feed(*TITLES), cache_control="no-store")
    clock.advance(minutes=5)

    (await proxy.get("/feed.rss", if_none_match=first.tag)).expect(304, cache="fwd-status=304")


async def test_no_store_feed_that_becomes_storable_is_fetched_whole(stage):
    proxy, origin, clock, first = await a_copy(stage, cache_control="no-store")
    origin.publish("/feed.rss", a_feed(*TITLES), cache_control="max-age=600")
    clock.advance(minutes=5)

    await proxy.get("/feed.rss", if_none_match=first.tag)
    clock.advance(minutes=1)

    (await proxy.get("/feed.rss")).expect(200, cache="hit")


async def test_no_store_feed_with_an_invalid_date_in_the_etag_is_sent_whole(stage):
    proxy, _, clock, first = await a_copy(stage, cache_control="no-store")
    clock.advance(minutes=5)

    seen = (await proxy.get("/feed.rss", if_none_match='"aa.d999999999999"')).expect(200)

    assert seen.body == first.body


async def test_no_store_feed_is_fetched_whole_after_a_304_with_another_etag(stage):
    proxy, origin, clock, first = await a_copy(stage, cache_control="no-store")
    clock.advance(minutes=5)

    def answer(request: Request) -> Response:
        if "if-none-match" in request.fields:
            return Response(304, Fields([("Cache-Control", "no-store"), ("ETag", '"another"')]))
        fields = [("Cache-Control", "no-store"), ("ETag", '"new"'), ("Content-Type", "application/rss+xml")]
        return Response(200, Fields(fields), a_feed("new", *TITLES))

    origin.speak(answer)

    assert b"new" in (await proxy.get("/feed.rss", if_none_match=first.tag)).expect(200).body


@pytest.mark.parametrize("status", [403, 431])
async def test_no_store_feed_is_fetched_again_without_conditions_after_a_refusal(stage, status: int):
    proxy, origin, clock, first = await a_copy(stage, cache_control="no-store")
    clock.advance(minutes=5)
    sent = []

    def answer(request: Request) -> Response:
        sent.append(request.fields.get("if-none-match"))
        if sent[-1]:
            return Response(status, Fields())
        fields = [("Cache-Control", "no-store"), ("Content-Type", "application/rss+xml")]
        return Response(200, Fields(fields), a_feed(*TITLES))

    origin.speak(answer)
    tags = ", ".join(f'"aa{number}.eQUJD"' for number in range(200))

    assert (await proxy.get("/feed.rss", if_none_match=tags)).expect(200).body == first.body
    assert [value and len(value) for value in sent] == [len('"ABC"') * 8 + len(", ") * 7, None]


async def test_no_store_feed_with_a_304_without_lifetime_is_requested_once(stage):
    proxy, origin, clock, first = await a_copy(stage, cache_control="no-store")
    before = origin.requests
    origin.speak(lambda request: Response(304, Fields([("ETag", request.fields.get("if-none-match") or "")])))
    clock.advance(minutes=5)

    (await proxy.get("/feed.rss", if_none_match=first.tag)).expect(304)

    assert origin.requests == before + 1


async def test_no_store_feed_with_only_a_new_etag_of_the_origin_gets_304(stage):
    proxy, origin, clock, first = await a_copy(stage, cache_control="no-store", etag='"one"')
    origin.publish("/feed.rss", a_feed(*TITLES), cache_control="no-store", etag='"two"')
    clock.advance(minutes=5)

    seen = (await proxy.get("/feed.rss", if_none_match=first.tag)).expect(304)

    assert seen.tag != first.tag


# -- tags


async def test_etag_is_strong_and_different_for_each_coding(stage):
    proxy, _, _, _ = await a_copy(stage)

    tags = [(await proxy.get("/feed.rss", accept_encoding=coding)).expect(200).tag for coding in CODINGS]

    assert len(set(tags)) == len(CODINGS)
    assert not [tag for tag in tags if tag.startswith("W/")]


async def test_etag_of_any_coding_gets_304_in_every_coding(stage):
    proxy, origin, _, _ = await a_copy(stage)
    tags = {coding: (await proxy.get("/feed.rss", accept_encoding=coding)).tag for coding in CODINGS}

    for held, asked in itertools.product(CODINGS, CODINGS):
        seen = await proxy.get("/feed.rss", accept_encoding=asked, if_none_match=tags[held])
        seen.expect(304, cache="hit", body=b"")
        # The tag of a 200 to the same request (RFC 9110, 15.4.5). Every request accepts identity.
        assert seen.tag == tags[held if held == "identity" else asked]

    assert origin.requests == 1


async def test_content_is_the_same_in_every_coding(stage):
    proxy, _, _, _ = await a_copy(stage)

    seen = [await proxy.get("/feed.rss", accept_encoding=coding) for coding in CODINGS]

    assert len({each.plain for each in seen}) == 1
    assert [each.fields.get("content-encoding") for each in seen] == [None, "gzip", "br", "zstd"]
    assert all("accept-encoding" in words(each.fields.combined("vary") or "") for each in seen)


async def test_etag_of_the_origin_gets_304(stage):
    proxy, _, _, _ = await a_copy(stage, etag='"theirs-1"')

    for tag in ('"theirs-1"', 'W/"theirs-1"'):
        (await proxy.get("/feed.rss", if_none_match=tag)).expect(304)


DECORATED = {
    "as it is": "{tag}",
    "weak": "W/{tag}",
    "Apache": '"{opaque}-gzip"',
    "Apache, weak": 'W/"{opaque}-gzip"',
    "Apache, again": '"{opaque}-gzip-gzip"',
    "older Apache": '"{opaque};gzip"',
    "Jetty": '"{opaque}--gzip"',
    "unquoted": "{opaque}",
    "in a list": '"a", {tag}, W/"b"',
    "in a list without blanks": '"a",{tag}',
    "a comma in another tag": '"a,b", {tag}',
    "star": "*",
}


@pytest.mark.parametrize("how", DECORATED)
async def test_etag_altered_by_an_intermediary_gets_304(stage, how):
    proxy, _, _, first = await a_copy(stage)
    value = DECORATED[how].format(tag=first.tag, opaque=first.tag.strip('"'))

    (await proxy.get("/feed.rss", if_none_match=value)).expect(304)


@pytest.mark.parametrize("value", ['"another"', 'W/"another"', '"a", "b"', '""', ","])
async def test_etag_that_is_unknown_gets_the_content(stage, value):
    proxy, _, _, first = await a_copy(stage)

    (await proxy.get("/feed.rss", if_none_match=value)).expect(200, body=first.body)


async def test_etag_of_an_old_version_gets_the_new_version(stage):
    proxy, origin, clock, first = await a_copy(stage, cache_control="max-age=60")
    origin.publish("/feed.rss", a_feed("news", *TITLES[:40]), cache_control="max-age=60")
    clock.advance(minutes=10)

    seen = (await proxy.get("/feed.rss", if_none_match=first.tag)).expect(200, cache="fwd=stale; fwd-status=200")

    assert b"news" in seen.body
    assert seen.tag != first.tag


async def test_etag_of_a_stale_copy_gets_304_after_validation(stage):
    proxy, _, clock, first = await a_copy(stage, cache_control="max-age=60")
    clock.advance(minutes=10)

    (await proxy.get("/feed.rss", if_none_match=first.tag)).expect(304, cache="fwd=stale; fwd-status=304")


async def test_etag_differs_for_content_with_another_build_date(stage):
    proxy, origin, clock = await stage()
    built = "<lastBuildDate>Fri, 20 Nov 2026 1{}:00:00 GMT</lastBuildDate>"
    origin.publish("/feed.rss", a_feed(extra=built.format(1)), cache_control="max-age=60")
    first = await proxy.get("/feed.rss")
    origin.publish("/feed.rss", a_feed(extra=built.format(2)), cache_control="max-age=60")
    clock.advance(minutes=10)

    second = await proxy.get("/feed.rss", if_none_match=first.tag)

    assert second.status == 304 or second.tag != first.tag  # a strong tag names bytes


# -- dates


async def test_last_modified_of_the_origin_is_kept_and_gets_304(stage):
    proxy, _, _, first = await a_copy(stage, last_modified=JAN_1)

    assert first.fields.get("last-modified") == JAN_1
    (await proxy.get("/feed.rss", if_modified_since=JAN_1)).expect(304)
    (await proxy.get("/feed.rss", if_modified_since=FEB_1)).expect(304)
    (await proxy.get("/feed.rss", if_modified_since="Wed, 31 Dec 2025 23:59:59 GMT")).expect(200)


@pytest.mark.parametrize("given", [None, "Fri, 01 Jan 2100 00:00:00 GMT", "yesterday", "0"])
async def test_last_modified_is_generated_if_the_origin_has_none_or_an_invalid_one(stage, given):
    fields = {"last_modified": given} if given else {}
    proxy, origin, clock, first = await a_copy(stage, cache_control="max-age=60", **fields)
    made = first.fields.get("last-modified")

    assert made == format_http_date(clock.now())
    clock.advance(minutes=10)
    (await proxy.get("/feed.rss", if_modified_since=made)).expect(304)
    assert (await proxy.get("/feed.rss")).fields.get("last-modified") == made

    origin.publish("/feed.rss", a_feed("news", *TITLES[:40]), cache_control="max-age=60", **fields)
    clock.advance(minutes=10)
    news = (await proxy.get("/feed.rss", if_modified_since=made)).expect(200)
    assert news.fields.get("last-modified") == format_http_date(clock.now())


async def test_last_modified_that_is_generated_is_not_later_than_date(stage):
    proxy, origin, clock = await stage()
    date = format_http_date(clock.now() - 20)  # the response arrived slowly, or the origin's clock is behind
    origin.speak(lambda _: Response(200, Fields([("Date", date), ("Content-Type", "text/xml")]), a_feed(*TITLES)))

    first = await proxy.get("/feed.rss")

    assert (first.fields.get("date"), first.fields.get("last-modified")) == (date, date)


async def test_304_has_the_tag_of_the_clients_coding_if_the_request_accepts_it(stage):
    proxy, _, _, _ = await a_copy(stage, cache_control="max-age=600")
    tags = {coding: (await proxy.get("/feed.rss", accept_encoding=coding)).tag for coding in ("gzip", "br")}

    both = await proxy.get("/feed.rss", accept_encoding="br, gzip", if_none_match=tags["gzip"])
    br = await proxy.get("/feed.rss", accept_encoding="br", if_none_match=tags["gzip"])
    several = await proxy.get("/feed.rss", accept_encoding="br, gzip", if_none_match=", ".join(tags.values()))

    assert [seen.status for seen in (both, br, several)] == [304] * 3
    assert both.tag == tags["gzip"]  # a cache uses the 304 only for its response with this tag
    assert br.tag == tags["br"]
    assert several.tag in tags.values()


async def test_if_modified_since_with_a_request_time_gets_versions_stored_since(stage):
    proxy, origin, clock, _ = await a_copy(stage, cache_control="max-age=3600", last_modified=JAN_1)
    clock.advance(minutes=10)
    published = format_http_date(clock.now())
    origin.publish("/feed.rss", a_feed("news", *TITLES), cache_control="max-age=3600", last_modified=published)
    clock.advance(minutes=20)
    asked = format_http_date(clock.now())
    (await proxy.get("/feed.rss", if_modified_since=JAN_1)).expect(304)  # the old copy, still fresh
    clock.advance(minutes=40)
    (await proxy.get("/feed.rss")).expect(200)

    news = (await proxy.get("/feed.rss", if_modified_since=asked)).expect(200)  # though published before he asked

    assert b"news" in news.plain
    (await proxy.get("/feed.rss", if_modified_since=published)).expect(304)
    clock.advance(minutes=10)
    (await proxy.get("/feed.rss", if_modified_since=format_http_date(clock.now()))).expect(304)


async def test_last_modified_that_is_generated_is_not_sent_to_the_origin(stage):
    proxy, origin, clock, _ = await a_copy(stage, cache_control="max-age=60")
    clock.advance(minutes=10)

    await proxy.get("/feed.rss")

    assert "if-modified-since" not in origin.heard


async def test_if_none_match_takes_precedence_over_if_modified_since(stage):
    proxy, _, _, first = await a_copy(stage, last_modified=JAN_1)

    (await proxy.get("/feed.rss", if_none_match='"another"', if_modified_since=FEB_1)).expect(200)
    old = "Wed, 31 Dec 2025 00:00:00 GMT"
    (await proxy.get("/feed.rss", if_none_match=first.tag, if_modified_since=old)).expect(304)


@pytest.mark.parametrize("since", ["yesterday", "Fri, 01 Jan 2100 00:00:00 GMT", "0", ""])
async def test_if_modified_since_with_an_invalid_or_future_date_gets_the_content(stage, since):
    proxy, _, _, _ = await a_copy(stage, last_modified=JAN_1)

    (await proxy.get("/feed.rss", if_modified_since=since)).expect(200)


# -- the other preconditions


async def test_precondition_that_is_false_gets_412(stage):
    proxy, _, _, first = await a_copy(stage, last_modified=FEB_1)

    (await proxy.get("/feed.rss", if_match='"another"')).expect(412)
    (await proxy.get("/feed.rss", if_match=f"W/{first.tag}")).expect(412)  # If-Match compares strongly
    (await proxy.get("/feed.rss", if_unmodified_since=JAN_1)).expect(412)


async def test_refusal_of_a_condition_or_range_has_no_lifetime(stage):
    proxy, origin, _ = await stage()
    lifetimes = {"cache_control": "max-age=60", "expires": JAN_1, "cdn_cache_control": "max-age=60"}
    origin.publish("/feed.rss", a_feed(), **lifetimes)
    fresh = await proxy.get("/feed.rss")

    refusals = [
        (await proxy.get("/feed.rss", if_match='"another"')).expect(412),
        (await proxy.get("/feed.rss", range="bytes=99999999-")).expect(416),
    ]

    assert fresh.fields.get("cache-control") == "max-age=60"
    for refusal in refusals:
        assert refusal.fields.get_all("cache-control") == ["no-store"]
        assert not refusal.fields.has_any(frozenset({"expires", "cdn-cache-control"}))


async def test_304_permits_scripts_of_other_web_origins_as_the_200_does(stage):
    proxy, origin, _ = await stage()
    permission = {"access_control_allow_origin": "*", "access_control_expose_headers": "ETag"}
    origin.publish("/feed.rss", a_feed(), **permission)
    first = await proxy.get("/feed.rss")

    seen = (await proxy.get("/feed.rss", if_none_match=first.tag)).expect(304)

    assert seen.fields.get("access-control-allow-origin") == "*"
    assert seen.fields.get("access-control-expose-headers") == "ETag"


async def test_precondition_that_is_true_gets_the_content(stage):
    proxy, _, _, first = await a_copy(stage, last_modified=FEB_1)

    (await proxy.get("/feed.rss", if_match=first.tag)).expect(200)
    (await proxy.get("/feed.rss", if_match="*")).expect(200)
    (await proxy.get("/feed.rss", if_unmodified_since=FEB_1)).expect(200)


# -- 304 and HEAD


async def test_not_modified_has_the_required_fields_and_no_content_fields(stage):
    proxy, _, clock, first = await a_copy(stage, cache_control="max-age=600", last_modified=JAN_1)
    clock.advance(seconds=7)

    seen = (await proxy.get("/feed.rss", if_none_match=first.tag)).expect(304, age=7)

    for name in ("date", "etag", "cache-control", "vary", "via", "cache-status"):
        assert name in seen.fields, name
    for name in ("content-type", "content-encoding", "content-length", "transfer-encoding"):
        assert name not in seen.fields, name
    assert seen.fields.get("date") == first.fields.get("date")
    assert seen.fields.get("vary") == first.fields.get("vary")


@pytest.mark.parametrize("coding", CODINGS)
async def test_head_has_the_fields_of_get(stage, coding):
    proxy, origin, _, _ = await a_copy(stage)
    whole = await proxy.get("/feed.rss", accept_encoding=coding)

    head = (await proxy.head("/feed.rss", accept_encoding=coding)).expect(200, cache="hit", body=b"")

    assert head.fields.get("content-length") == str(len(whole.body))
    for name in ("etag", "content-type", "content-encoding", "vary", "last-modified", "cache-control"):
        assert head.fields.get(name) == whole.fields.get(name), name
    assert origin.requests == 1


async def test_head_with_a_current_etag_gets_304(stage):
    proxy, _, _, first = await a_copy(stage)

    (await proxy.head("/feed.rss", if_none_match=first.tag)).expect(304)


async def test_head_without_a_copy_has_the_fields_of_get(stage):
    proxy, origin, _ = await stage()
    origin.publish("/feed.rss", a_feed(), content_type="text/xml")

    head = (await proxy.head("/feed.rss")).expect(200, body=b"")
    got = (await proxy.get("/feed.rss")).expect(200, cache="hit")

    assert head.tag == got.tag
    assert head.fields.get("content-type") == got.fields.get("content-type") == "application/rss+xml"
    assert origin.requests == 1


async def test_head_for_a_stale_feed_updates_the_copy(stage):
    proxy, origin, clock, _ = await a_copy(stage, cache_control="max-age=60")
    origin.publish("/feed.rss", a_feed("news", *TITLES[:40]), cache_control="max-age=60")
    clock.advance(minutes=10)

    await proxy.head("/feed.rss")

    assert b"news" in (await proxy.get("/feed.rss")).expect(200, cache="hit").body


# -- ranges


async def test_range_of_a_feed_is_answered_from_the_copy(stage):
    proxy, origin, _, first = await a_copy(stage)
    length = len(first.body)

    seen = (await proxy.get("/feed.rss", range="bytes=10-19")).expect(206, cache="hit", body=first.body[10:20])

    assert seen.fields.get("content-range") == f"bytes 10-19/{length}"
    assert seen.fields.get("content-length") == "10"
    (await proxy.get("/feed.rss", range="bytes=-5")).expect(206, body=first.body[-5:])
    (await proxy.get("/feed.rss", range=f"bytes={length - 3}-")).expect(206, body=first.body[-3:])
    assert origin.requests == 1


async def test_range_of_a_feed_counts_bytes_of_the_coding(stage):
    proxy, _, _, _ = await a_copy(stage)
    packed = await proxy.get("/feed.rss", accept_encoding="gzip")

    seen = await proxy.get("/feed.rss", accept_encoding="gzip", range="bytes=0-9")

    seen.expect(206, body=packed.body[:10])
    assert seen.fields.get("content-encoding") == "gzip"


async def test_range_has_the_digests_of_the_whole_only(stage):
    proxy, origin, _ = await stage()
    digests = {"content_digest": "sha-256=:YQ==:", "content_md5": "YQ==", "repr_digest": "sha-256=:YQ==:"}
    origin.publish("/page", b"0123456789", content_type="text/plain", cache_control="max-age=60", **digests)
    await proxy.get("/page")

    part = (await proxy.get("/page", range="bytes=2-4")).expect(206, body=b"234")
    none = (await proxy.get("/page", range="bytes=10-")).expect(416)

    assert part.fields.get("repr-digest") == digests["repr_digest"]
    assert not part.fields.has_any(frozenset({"content-digest", "content-md5"}))
    assert not none.fields.has_any(frozenset({"content-digest", "content-md5", "repr-digest"}))


async def test_range_beyond_the_end_gets_416(stage):
    proxy, _, _, first = await a_copy(stage)

    seen = (await proxy.get("/feed.rss", range="bytes=99999999-")).expect(416)

    assert seen.fields.get("content-range") == f"bytes */{len(first.body)}"


@pytest.mark.parametrize("value", ["bytes=0-1,5-6", "lines=1-2", "bytes=", "bytes=5-1", "0-5"])
async def test_range_that_is_invalid_or_multiple_gets_the_whole(stage, value):
    proxy, _, _, first = await a_copy(stage)

    (await proxy.get("/feed.rss", range=value)).expect(200, body=first.body)


async def test_if_range_with_another_validator_gets_the_whole(stage):
    proxy, _, _, first = await a_copy(stage, last_modified=JAN_1)

    (await proxy.get("/feed.rss", range="bytes=0-3", if_range=first.tag)).expect(206)
    (await proxy.get("/feed.rss", range="bytes=0-3", if_range=JAN_1)).expect(206)
    for another in ('"another"', f"W/{first.tag}", FEB_1, "Wed, 31 Dec 2025 00:00:00 GMT"):
        (await proxy.get("/feed.rss", range="bytes=0-3", if_range=another)).expect(200, body=first.body)


async def test_range_without_a_copy_is_forwarded_and_not_stored_as_the_whole(stage):
    proxy, origin, _ = await stage(site_interval=0)
    whole = a_feed("whole")

    def partial(request: Request) -> Response:
        fields = Fields([("Content-Type", "application/rss+xml"), ("Cache-Control", "max-age=600")])
        if "range" in request.fields:
            return Response(206, fields.with_added("Content-Range", f"bytes 0-3/{len(whole)}"), whole[:4])
        return Response(200, fields, whole)

    origin.speak(partial)

    (await proxy.get("/feed.rss", range="bytes=0-3")).expect(206, body=whole[:4])
    seen = (await proxy.get("/feed.rss")).expect(200)
    assert b"whole" in seen.body
    (await proxy.get("/feed.rss", range="bytes=0-3")).expect(206, cache="hit", body=seen.body[:4])


# -- what is left alone, and what is said of what was changed


def packed_origin(origin: Origin, clock: ManualClock, *lines: tuple[str, str]) -> bytes:
    body = gzip.compress(a_feed(*TITLES), mtime=0)
    given = Fields(
        [
            ("Date", format_http_date(clock.now())),
            ("Content-Type", "text/xml"),
            ("Content-Encoding", "gzip"),
            ("ETag", '"theirs"'),
            *lines,
        ]
    )
    origin.speak(lambda _: Response(200, given, body))
    return body


async def test_no_transform_feed_is_sent_unchanged(stage):
    proxy, origin, clock = await stage()
    digest = ("Content-MD5", "Q2hlY2sgSW50ZWdyaXR5IQ==")
    body = packed_origin(origin, clock, ("Cache-Control", "no-transform, max-age=600"), digest)

    for _ in range(2):
        seen: Seen = await proxy.get("/feed.rss", accept_encoding="gzip")
        seen.expect(200, body=body)
        assert seen.fields.get("content-type") == "text/xml"
        assert seen.fields.get("content-encoding") == "gzip"
        assert seen.tag == '"theirs"'
        assert seen.fields.get("content-md5") == digest[1]
    (await proxy.get("/feed.rss", if_none_match='"theirs"')).expect(304)
    assert origin.requests == 1


async def test_no_transform_feed_is_not_decoded(stage):
    proxy, origin, clock = await stage()
    body = packed_origin(origin, clock, ("Cache-Control", "no-transform, max-age=600"))

    (await proxy.get("/feed.rss")).expect(200, body=body)


async def test_digest_fields_are_removed_from_an_edited_feed(stage):
    proxy, origin, clock = await stage()
    names = ("Content-MD5", "Digest", "Content-Digest", "Repr-Digest")
    packed_origin(origin, clock, *((name, "sha-256=:AAAA:") for name in names))

    for coding in CODINGS:
        seen = (await proxy.get("/feed.rss", accept_encoding=coding)).expect(200)
        assert not [name for name in names if name in seen.fields]


async def test_digest_fields_are_kept_for_unchanged_content(stage):
    proxy, origin, _ = await stage()
    origin.publish("/x.png", b"\x89PNG", content_type="image/png", content_digest="sha-256=:AAAA:")

    assert (await proxy.get("/x.png")).expect(200).fields.get("content-digest") == "sha-256=:AAAA:"


async def test_tag_of_a_language_is_not_confirmed_by_a_date_that_all_languages_share(stage):
    """The tag identifies one document, and the origin's date does not."""
    proxy, origin, clock = await stage(site_interval=0, feed_min_interval=0)
    since = format_http_date(clock.now() - 1000)

    def answer(request: Request) -> Response:
        lines = [("Cache-Control", "no-store"), ("Vary", "Accept-Language"), ("Last-Modified", since)]
        if request.fields.get("if-modified-since") == since:
            return Response(304, Fields(lines))
        said = request.fields.get("accept-language") or "none"
        return Response(200, Fields([*lines, ("Content-Type", "application/rss+xml")]), a_feed(said))

    origin.speak(answer)
    await proxy.get("/feed.rss")
    german = (await proxy.get("/feed.rss", accept_language="de")).tag

    assert b"<title>en</title>" in (await proxy.get("/feed.rss", accept_language="en", if_none_match=german)).plain
    (await proxy.get("/feed.rss", accept_language="de", if_none_match=german)).expect(304)
