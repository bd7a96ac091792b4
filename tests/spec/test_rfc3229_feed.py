"""RFC 3229, delta encoding in HTTP, with the instance manipulation `feed`: each promise, at the library's level."""

import pytest

from feedproxy.cache.storing import DoNotStore, may_store
from feedproxy.feed.delta.delta_document import make_delta
from feedproxy.feed.delta.entry_identities import find_entries
from feedproxy.feed.parse.parser import read
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.coding.delta_encoding import IM_USED, Bases, accepts_feed, im_used_fields, requested_bases
from feedproxy.http.date import format_http_date
from feedproxy.http.etag import EntityTag
from feedproxy.http.message import Fields, Request, Response
from feedproxy.request.entrance import ClientContext, Entrance
from feedproxy.request.upstream_request import build_upstream_request

TAG = ("If-None-Match", '"v1"')
A_IM = ("A-IM", "feed")
NOON = 1_795_176_000.0
FULL = Fields([("ETag", '"v2"'), ("Content-Type", "application/rss+xml")])


def request(*lines: tuple[str, str], method: str = "GET") -> Request:
    return Request(method, "http://example.com/feed", Fields(lines))


# -- 10.5.3: A-IM


@pytest.mark.parametrize(
    "value",
    [
        "feed",
        "FEED",
        "feed;q=0.5",
        "feed ; q=1.0",
        "vcdiff, feed",
        "vcdiff;q=1, feed;q=0.1, gzip",
        ", feed,",
        "feed;x=y",
    ],
)
def test_feed_is_acceptable_where_it_is_listed(value: str) -> None:
    assert accepts_feed(value)


@pytest.mark.parametrize("value", ["", "vcdiff", "gzip, range", "feeds", "*", '"feed"', "vcdiff;im=feed", "feed q=1"])
def test_feed_is_not_acceptable_where_it_is_not_listed(value: str) -> None:
    assert not accepts_feed(value)


@pytest.mark.parametrize("value", ["feed;q=0", "feed;q=0.000", "feed, feed;q=0", "feed;q=high"])
def test_feed_with_a_weight_of_zero_or_an_unreadable_one_is_not_acceptable(value: str) -> None:
    assert not accepts_feed(value)


def test_the_manipulation_of_greater_weight_is_preferred_and_none_is_one_of_them() -> None:
    assert not accepts_feed("feed;q=0.5, identity")
    assert accepts_feed("feed, identity;q=0.5")
    assert accepts_feed("feed, identity;q=0")


def test_several_lines_are_one_list() -> None:
    assert requested_bases(request(("A-IM", "vcdiff"), A_IM, TAG))


@pytest.mark.parametrize("value", ["feed;" * 10_000, "," * 100_000, 'feed;x="' * 1_000])
def test_no_value_whatsoever_raises(value: str) -> None:
    accepts_feed(value)


# -- 10.3: what a request must have


def test_without_a_im_the_whole_is_sent() -> None:
    assert requested_bases(request(TAG)) is None


def test_without_a_validator_the_whole_is_sent() -> None:
    assert requested_bases(request(A_IM)) is None


def test_the_base_is_named_by_an_entity_tag() -> None:
    assert requested_bases(request(A_IM, TAG)) == Bases(tags=(EntityTag("v1"),))


def test_several_tags_may_be_offered() -> None:
    bases = requested_bases(request(A_IM, ("If-None-Match", '"v1", W/"v0"')))

    assert bases == Bases(tags=(EntityTag("v1"), EntityTag("v0", weak=True)))


def test_any_tag_at_all_names_no_base() -> None:
    assert requested_bases(request(A_IM, ("If-None-Match", "*"))) is None


def test_the_base_may_be_named_by_a_date_as_readers_do() -> None:
    assert requested_bases(request(A_IM, ("If-Modified-Since", format_http_date(NOON)))) == Bases(date=NOON)


def test_a_date_does_not_count_beside_a_tag() -> None:
    date = ("If-Modified-Since", format_http_date(NOON))

    assert requested_bases(request(A_IM, date, TAG)) == Bases(tags=(EntityTag("v1"),))
    assert requested_bases(request(A_IM, date, ("If-None-Match", "*"))) is None


def test_a_date_that_is_none_names_no_base() -> None:
    assert requested_bases(request(A_IM, ("If-Modified-Since", "yesterday"))) is None


def test_head_is_answered_as_get_is() -> None:
    assert requested_bases(request(A_IM, TAG, method="HEAD")) == requested_bases(request(A_IM, TAG))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_no_other_method_is_answered_with_226(method: str) -> None:
    assert requested_bases(request(A_IM, TAG, method=method)) is None


def test_a_range_is_one_of_the_whole() -> None:
    assert requested_bases(request(A_IM, TAG, ("Range", "bytes=0-9"))) is None


# -- 10.4.1, 10.5.1, 10.5.2: what a 226 says


def test_the_status_is_226() -> None:
    assert IM_USED == 226


def test_the_manipulation_is_named() -> None:
    assert im_used_fields(FULL, base=EntityTag("v1")).get_all("IM") == ["feed"]


def test_the_etag_is_that_of_the_current_instance_and_must_be_there() -> None:
    assert im_used_fields(FULL, base=EntityTag("v1")).get_all("ETag") == ['"v2"']
    with pytest.raises(ValueError, match="ETag"):
        im_used_fields(FULL.without("etag"), base=EntityTag("v1"))


@pytest.mark.parametrize("tag", [EntityTag("v1"), EntityTag("v1-gzip", weak=True)])
def test_the_base_is_named_as_the_reader_named_it(tag: EntityTag) -> None:
    assert im_used_fields(FULL, base=tag).get_all("Delta-Base") == [tag.text]


def test_a_base_that_was_named_by_a_date_has_no_tag_to_tell() -> None:
    assert "delta-base" not in im_used_fields(FULL)


def test_other_fields_stay() -> None:
    assert im_used_fields(FULL, base=EntityTag("v1")).get("content-type") == "application/rss+xml"


def test_vary_says_what_the_answer_depended_on() -> None:
    encoded = FULL.with_field("Vary", "Accept-Encoding, a-im")

    assert im_used_fields(encoded, base=EntityTag("v1")).get_all("vary") == ["Accept-Encoding, a-im, If-None-Match"]
    assert im_used_fields(FULL).get_all("vary") == ["A-IM, If-Modified-Since"]
    assert im_used_fields(FULL.with_field("Vary", "*")).get_all("vary") == ["*"]


# -- 10.8.2: the cache directive `im`


def test_a_cache_that_does_not_know_226_is_told_not_to_store_it() -> None:
    fields = im_used_fields(FULL, base=EntityTag("v1"))

    assert fields.get_all("cache-control") == ["no-store, im"]
    assert CacheControl.from_fields(fields).no_store


def test_a_cache_that_knows_226_is_told_what_it_would_be_told_of_the_whole() -> None:
    fields = im_used_fields(FULL.with_field("Cache-Control", "max-age=300, private"))

    assert fields.get_all("cache-control") == ["max-age=300, private, no-store, im"]


def test_what_must_not_be_stored_at_all_is_not_opened_to_caches_that_know_226() -> None:
    fields = im_used_fields(FULL.with_field("Cache-Control", "no-store"))

    assert fields.get_all("cache-control") == ["no-store"]


@pytest.mark.parametrize("name", ["CDN-Cache-Control", "ExampleCDN-Cache-Control", "Surrogate-Control"])
def test_no_field_for_some_caches_only_allows_what_is_forbidden_to_all(name: str) -> None:
    assert name not in im_used_fields(FULL.with_field(name, "max-age=300"))


@pytest.mark.parametrize("control", ["public, max-age=3600", "max-age=3600, im", "no-store, im"])
def test_a_226_of_an_origins_own_is_never_stored(control: str) -> None:
    answer = Response(IM_USED, Fields([("Cache-Control", control), ("IM", "feed"), ("ETag", '"v2"')]), b"<rss/>")

    assert isinstance(may_store(request(), answer, now=NOON), DoNotStore)


def test_a_im_goes_no_further_than_here() -> None:
    visit = ClientContext(Entrance.GATEWAY, "http://proxy.example", "192.0.2.1")

    upstream = build_upstream_request(request(A_IM, TAG), visit, via="1.1 feedproxy-0", own_agent=None).request

    assert not {"a-im", "if-none-match"} & {name.lower() for name, _ in upstream.fields}


# -- the manipulation itself


def feed(*numbers: int, date: str = "Thu") -> bytes:
    items = "".join(f"<item><guid>{number}</guid></item>" for number in numbers)
    return f"<rss version='2.0'><channel><title>t</title><pubDate>{date}</pubDate>{items}</channel></rss>".encode()


def told(now: bytes, before: bytes) -> tuple[bytes, int]:
    channel, old = read(now, None), read(before, None)
    assert channel is not None
    assert old is not None
    known = find_entries(before, old)
    assert known is not None
    result = make_delta(now, channel, [(entry.identity, entry.digest) for entry in known])
    assert result is not None
    return result.body, result.entries


def test_a_delta_is_a_complete_feed_with_new_entries_only() -> None:
    assert told(feed(3, 2, 1), feed(2, 1)) == (feed(3), 1)


def test_a_changed_entry_is_a_new_one() -> None:
    changed = feed(3, 2).replace(b"<guid>2</guid>", b"<guid>2</guid><title>x</title>")

    assert told(changed, feed(3, 2)) == (changed.replace(b"<item><guid>3</guid></item>", b""), 1)


def test_the_channel_is_that_of_the_current_instance() -> None:
    assert told(feed(2, 1, date="Fri"), feed(2, 1)) == (feed(date="Fri"), 0)


def test_an_entry_that_was_taken_out_is_not_told() -> None:
    assert told(feed(2), feed(2, 1)) == (feed(), 0)


def test_a_delta_of_an_instance_against_itself_has_no_entries() -> None:
    assert told(feed(2, 1), feed(2, 1)) == (feed(), 0)
