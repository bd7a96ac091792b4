"""RFC 3229, delta encoding in HTTP, with the instance manipulation `feed`: each promise, at the library's level."""

import pytest

from feedproxy.cache.storing import reason_not_to_store
from feedproxy.feed.delta.delta_document import make_delta
from feedproxy.feed.delta.entry_identities import find_entries
from feedproxy.feed.parse.channel_parser import read
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.coding.delta_negotiation import Bases, accepts_feed, requested_bases
from feedproxy.http.date import format_http_date
from feedproxy.http.etag import EntityTag
from feedproxy.http.message import Fields, Request, Response
from feedproxy.proxy.representations.delta_responses import IM_USED, im_used_fields
from feedproxy.request.context import ClientContext, Entrance
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
def test_a_im_with_feed_makes_feed_acceptable(value: str) -> None:
    assert accepts_feed(value)


@pytest.mark.parametrize("value", ["", "vcdiff", "gzip, range", "feeds", "*", '"feed"', "vcdiff;im=feed", "feed q=1"])
def test_a_im_without_feed_makes_feed_unacceptable(value: str) -> None:
    assert not accepts_feed(value)


@pytest.mark.parametrize("value", ["feed;q=0", "feed;q=0.000", "feed, feed;q=0", "feed;q=high"])
def test_a_im_with_zero_or_invalid_weight_makes_feed_unacceptable(value: str) -> None:
    assert not accepts_feed(value)


def test_a_im_prefers_the_manipulation_of_greater_weight_including_identity() -> None:
    assert not accepts_feed("feed;q=0.5, identity")
    assert accepts_feed("feed, identity;q=0.5")
    assert accepts_feed("feed, identity;q=0")


def test_a_im_field_lines_are_combined() -> None:
    assert requested_bases(request(("A-IM", "vcdiff"), A_IM, TAG))


@pytest.mark.parametrize("value", ["feed;" * 10_000, "," * 100_000, 'feed;x="' * 1_000])
def test_a_im_parser_never_raises(value: str) -> None:
    accepts_feed(value)


# -- 10.3: what a request must have


def test_request_without_a_im_gets_the_full_response() -> None:
    assert requested_bases(request(TAG)) is None


def test_request_without_validator_gets_the_full_response() -> None:
    assert requested_bases(request(A_IM)) is None


def test_base_is_identified_by_an_entity_tag() -> None:
    assert requested_bases(request(A_IM, TAG)) == Bases(tags=(EntityTag("v1"),))


def test_delta_bases_are_all_entity_tags_in_if_none_match() -> None:
    bases = requested_bases(request(A_IM, ("If-None-Match", '"v1", W/"v0"')))

    assert bases == Bases(tags=(EntityTag("v1"), EntityTag("v0", weak=True)))


def test_base_is_not_identified_by_an_asterisk() -> None:
    assert requested_bases(request(A_IM, ("If-None-Match", "*"))) is None


def test_delta_base_is_identified_by_if_modified_since() -> None:
    assert requested_bases(request(A_IM, ("If-Modified-Since", format_http_date(NOON)))) == Bases(date=NOON)


def test_base_date_is_ignored_beside_an_entity_tag() -> None:
    date = ("If-Modified-Since", format_http_date(NOON))

    assert requested_bases(request(A_IM, date, TAG)) == Bases(tags=(EntityTag("v1"),))
    assert requested_bases(request(A_IM, date, ("If-None-Match", "*"))) is None


def test_base_is_not_identified_by_an_invalid_date() -> None:
    assert requested_bases(request(A_IM, ("If-Modified-Since", "yesterday"))) is None


def test_request_with_head_is_answered_like_get() -> None:
    assert requested_bases(request(A_IM, TAG, method="HEAD")) == requested_bases(request(A_IM, TAG))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_request_with_another_method_is_never_answered_226(method: str) -> None:
    assert requested_bases(request(A_IM, TAG, method=method)) is None


def test_request_with_range_gets_a_range_of_the_full_response() -> None:
    assert requested_bases(request(A_IM, TAG, ("Range", "bytes=0-9"))) is None


# -- 10.4.1, 10.5.1, 10.5.2: what a 226 says


def test_status_of_a_delta_is_226() -> None:
    assert IM_USED == 226


def test_im_names_the_manipulation() -> None:
    assert im_used_fields(FULL, base=EntityTag("v1")).get_all("IM") == ["feed"]


def test_etag_is_required_and_identifies_the_current_instance() -> None:
    assert im_used_fields(FULL, base=EntityTag("v1")).get_all("ETag") == ['"v2"']
    with pytest.raises(ValueError, match="ETag"):
        im_used_fields(FULL.without("etag"), base=EntityTag("v1"))


@pytest.mark.parametrize("tag", [EntityTag("v1"), EntityTag("v1-gzip", weak=True)])
def test_delta_base_repeats_the_entity_tag_of_the_request(tag: EntityTag) -> None:
    assert im_used_fields(FULL, base=tag).get_all("Delta-Base") == [tag.text]


def test_delta_base_is_absent_for_a_base_identified_by_date() -> None:
    assert "delta-base" not in im_used_fields(FULL)


def test_media_type_of_226_is_that_of_the_full_response() -> None:
    assert im_used_fields(FULL, base=EntityTag("v1")).get("content-type") == "application/rss+xml"


def test_vary_lists_the_request_fields_that_selected_the_delta() -> None:
    encoded = FULL.with_field("Vary", "Accept-Encoding, a-im")

    assert im_used_fields(encoded, base=EntityTag("v1")).get_all("vary") == ["Accept-Encoding, a-im, If-None-Match"]
    assert im_used_fields(FULL).get_all("vary") == ["A-IM, If-Modified-Since"]
    assert im_used_fields(FULL.with_field("Vary", "*")).get_all("vary") == ["*"]


# -- 10.8.2: the cache directive `im`


def test_cache_control_forbids_storing_by_caches_unaware_of_226() -> None:
    fields = im_used_fields(FULL, base=EntityTag("v1"))

    assert fields.get_all("cache-control") == ["no-store, im"]
    assert CacheControl.from_fields(fields).no_store


def test_cache_control_keeps_the_directives_of_the_full_response_for_caches_aware_of_226() -> None:
    fields = im_used_fields(FULL.with_field("Cache-Control", "max-age=300, private"))

    assert fields.get_all("cache-control") == ["max-age=300, private, no-store, im"]


def test_cache_control_no_store_is_not_relaxed_by_im() -> None:
    fields = im_used_fields(FULL.with_field("Cache-Control", "no-store"))

    assert fields.get_all("cache-control") == ["no-store"]


@pytest.mark.parametrize("name", ["CDN-Cache-Control", "ExampleCDN-Cache-Control", "Surrogate-Control"])
def test_targeted_cache_control_fields_are_removed(name: str) -> None:
    assert name not in im_used_fields(FULL.with_field(name, "max-age=300"))


@pytest.mark.parametrize("control", ["public, max-age=3600", "max-age=3600, im", "no-store, im"])
def test_response_226_of_an_origin_is_never_stored(control: str) -> None:
    answer = Response(IM_USED, Fields([("Cache-Control", control), ("IM", "feed"), ("ETag", '"v2"')]), b"<rss/>")

    assert reason_not_to_store(request(), answer) is not None


def test_a_im_is_not_forwarded_to_the_origin() -> None:
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


def test_delta_is_a_complete_feed_with_the_new_entries_only() -> None:
    assert told(feed(3, 2, 1), feed(2, 1)) == (feed(3), 1)


def test_delta_contains_a_changed_entry() -> None:
    changed = feed(3, 2).replace(b"<guid>2</guid>", b"<guid>2</guid><title>x</title>")

    assert told(changed, feed(3, 2)) == (changed.replace(b"<item><guid>3</guid></item>", b""), 1)


def test_delta_has_the_channel_of_the_current_instance() -> None:
    assert told(feed(2, 1, date="Fri"), feed(2, 1)) == (feed(date="Fri"), 0)


def test_delta_omits_a_removed_entry() -> None:
    assert told(feed(2), feed(2, 1)) == (feed(), 0)


def test_delta_of_an_instance_against_itself_has_no_entries() -> None:
    assert told(feed(2, 1), feed(2, 1)) == (feed(), 0)
