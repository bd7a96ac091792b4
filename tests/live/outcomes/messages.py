"""Outcomes for unusual messages: framing, fields, validators, and broken connections."""

import re

from tests.live.hostile import DEFAULT, FLOOR, MOST, Play
from tests.live.outcomes.common import (
    Outcome,
    a_feed,
    bad_gateway_and_not_stored,
    bad_gateway_cold_stale_copy_warm,
    is_bad_gateway,
    is_the_feed,
    stale_copy_served,
)

# -- message heads and framing


async def one_content_type(play: Play) -> None:
    """Assert one of two media types. `framed` asserts that there is only one field."""
    await a_feed(play)
    value = (await play.get()).fields.get("content-type") or ""
    assert value.replace(" ", "") in [each.replace(" ", "") for each in play.only.fields.get_all("content-type")]


async def neither_tag_is_used(play: Play) -> None:
    """Assert the proxy's own tag, and that none of the origin's tags is used, in particular not both combined."""
    await a_feed(play)
    seen = await play.get()
    assert re.fullmatch(r'"[^",]+"', seen.tag)
    play.clock.advance(FLOOR)
    _, asked = await play.get_again()
    assert asked
    condition = play.asked[-1].fields.get("if-none-match")
    assert condition is None or condition == play.only.fields.get_all("etag")[0]


async def chunked_wins(play: Play) -> None:
    """Assert that Transfer-Encoding overrides Content-Length (RFC 9112, section 6.3), or 502."""
    size, _, rest = play.only.body.partition(b"\r\n")
    is_the_feed(await play.get(), rest[: int(size, 16)])


async def only_so_many_bytes(play: Play) -> None:
    """Assert that bytes after the content answer no request."""
    content = play.only.body[: int(play.only.value("content-length"))]
    seen = await play.get()
    assert (seen.status, seen.body) == (200, content)
    other = await play.get("http://origin.test/good/other-case")
    assert other.status == 404
    play.clock.advance(MOST)
    again, asked = await play.get_again()
    assert (again.status, again.body, asked) == (200, content, True)


async def date_added(play: Play) -> None:
    """Assert that Date is the instant of receipt."""
    await a_feed(play)
    assert (await play.get()).fields.get("date") == "Fri, 20 Nov 2026 12:00:00 GMT"


async def clock_ahead(play: Play) -> None:
    """Assert that a fast clock of the origin does not prolong the lifetime."""
    seen = await play.get()
    is_the_feed(seen, play.only.body)
    assert seen.age == 0
    assert seen.ttl is not None
    assert 0 <= seen.ttl <= 60
    play.clock.advance(FLOOR)
    _, asked = await play.get_again()
    assert asked


async def older_than_time(play: Play) -> None:
    """Assert a stale response without numeric overflow (RFC 9111, section 1.2.2)."""
    seen = await play.get()
    is_the_feed(seen, play.only.body)
    assert 600 < seen.age <= 2**31
    play.clock.advance(FLOOR)
    again, asked = await play.get_again()
    assert asked
    assert again.age <= 2**31


async def head_above_the_limit(play: Play) -> None:
    """Assert that `header_max` limits the head (serving the response would be correct, too)."""
    seen = await play.get()
    is_bad_gateway(seen)
    assert str(play.whole.app.settings.header_max).encode() in seen.body


async def unfolded(play: Play) -> None:
    """Assert spaces instead of folding (RFC 9112, section 5.2), or 502. `framed` asserts that no line is folded."""
    seen = await play.get()
    is_the_feed(seen, play.only.body)
    assert (seen.fields.get("x-fold") or "").split() == ["a", "b"]


async def bytes_of_fields_stay(play: Play) -> None:
    """Assert that bytes outside ASCII are forwarded unchanged."""
    seen = await play.get()
    is_the_feed(seen, play.only.body)
    assert seen.fields.get("x-title") == play.only.value("x-title")
    assert not play.only.value("x-title").isascii()


async def named_as_what_it_is(play: Play) -> None:
    """Assert application/rss+xml according to the root element, with the declared charset."""
    await a_feed(play)
    seen = await play.get()
    assert seen.media_type == "application/rss+xml"
    declared = play.only.value("content-type").replace('"', "").replace(" ", "")
    if "charset" in declared:
        assert "charset=utf-8" in (seen.fields.get("content-type") or "").replace('"', "")


# -- validators


async def odd_tag(play: Play) -> None:
    """Assert the proxy's tag for the reader, and the origin's exact tag (or none) for the origin."""
    await a_feed(play)
    seen = await play.get()
    assert (await play.get(if_none_match=seen.tag)).status == 304
    assert (await play.get(if_none_match=play.only.value("etag"))).status in (200, 304)
    play.clock.advance(FLOOR)
    again, asked = await play.get_again()
    assert (again.status, asked) == (200, True)
    assert play.asked[-1].fields.get("if-none-match") in (None, play.only.value("etag"))


async def odd_date(play: Play) -> None:
    """Assert that the origin gets its exact date or none, and the reader a possible date or none."""
    await a_feed(play)
    seen = await play.get()
    given = seen.fields.get("last-modified")
    assert given is None or (re.fullmatch(r"\w{3}, \d\d \w{3} 20[012]\d \d\d:\d\d:\d\d GMT", given))
    assert seen.ttl is not None
    assert 0 <= seen.ttl <= MOST
    if "2126" in play.only.value("last-modified"):
        assert seen.ttl == DEFAULT, "the future is no base for a guess"
    play.clock.advance(MOST + FLOOR)
    _, asked = await play.get_again()
    assert asked
    assert play.asked[-1].fields.get("if-modified-since") in (None, play.only.value("last-modified"))


# -- transport


async def without_a_length(play: Play) -> None:
    """Assert a complete response that ends with its HTTP/1.0 connection. It may be stored."""
    await a_feed(play)
    assert (await play.get()).hit


OUTCOMES: tuple[tuple[str, Outcome], ...] = (
    (r"duplicate-content-type", one_content_type),
    (r"duplicate-etag", neither_tag_is_used),
    (r"duplicate-content-length|chunked-cut|chunked-bad-size|cl-too-long", bad_gateway_and_not_stored),
    (r"cl-too-long-after-good", stale_copy_served),
    (r"cl-and-chunked", chunked_wins),
    (r"cl-too-short", only_so_many_bytes),
    (r"date-missing", date_added),
    (r"date-future", clock_ahead),
    (r"age-huge", older_than_time),
    (r"header-huge", head_above_the_limit),
    (r"header-obs-fold", unfolded),
    (r"header-latin1", bytes_of_fields_stay),
    (r"content-type-.*", named_as_what_it_is),
    (r"etag-\d+", odd_tag),
    (r"last-modified-\d+", odd_date),
    (r"close-at-once", bad_gateway_cold_stale_copy_warm),
    (r"close-in-headers|http09", bad_gateway_and_not_stored),
    (r"http10-no-length", without_a_length),
)
"""By the case's id, whole; the first that fits. The numbers in an id say which of many values: any of them."""
