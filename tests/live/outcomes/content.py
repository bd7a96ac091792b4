"""Outcomes for unusual content: codings, bombs, XML attacks, encodings, and documents that are no feeds."""

import re

from tests.live.hostile import DAY, Play, decoded, plain
from tests.live.outcomes.common import (
    GOOD,
    Outcome,
    a_feed,
    byte_identical_feed,
    cached_as_http_allows,
    is_as_sent,
    is_the_feed,
    stale_copy_served,
    the_feed_in_every_coding,
)

# -- coding


async def undecodable_passes_with_its_label(play: Play) -> None:
    """Assert the unchanged body with its label for every reader (502 would be correct, too), never half decoded or
    fresh.
    """
    is_as_sent(await play.get(accept_encoding="gzip"), play.only)
    seen, asked = await play.get_again()
    assert asked
    assert not seen.hit
    if seen.status != 502:
        is_as_sent(seen, play.only)
    assert seen.ttl is None or seen.ttl <= 0


async def unknown_label_is_kept(play: Play) -> None:
    """Assert that a body with an unknown coding is forwarded unchanged."""
    for coding in ("gzip", "identity"):
        is_as_sent(await play.get(accept_encoding=coding), play.only)


async def decoded_feed(play: Play) -> None:
    """Assert that the body is decoded, and encoded again for readers that accept a coding."""
    await the_feed_in_every_coding(play, decoded(play.only.body, play.only.value("content-encoding")))


async def first_member_only(play: Play) -> None:
    """Assert that bytes after a complete gzip member are no content."""
    from zlib import decompressobj

    await the_feed_in_every_coding(play, decompressobj(31).decompress(play.only.body))


async def label_dropped(play: Play) -> None:
    """Assert that a body that is not gzip loses its gzip label."""
    await the_feed_in_every_coding(play, play.only.body)
    assert (await play.get()).coding is None


async def hidden_gzip_undone(play: Play) -> None:
    """Assert that a single gzip coding is decoded, with one label or none."""
    await the_feed_in_every_coding(play, decoded(play.only.body, "gzip"))


# -- attacks


async def a_bomb(play: Play) -> None:
    """Assert that the coded body is forwarded, and not decoded for readers that accept no coding (502 would be correct,
    too).
    """
    label = play.only.value("content-encoding")
    for coding in (label.partition(",")[0], "identity"):
        is_as_sent(await play.get(accept_encoding=coding), play.only)
    play.server.STATE.clear()
    play.clock.advance(DAY)
    play.use_prime(GOOD)
    await play.whole.app.service.admin.purge(play.target)
    await stale_copy_served(play)


async def attack_served_unchanged(play: Play) -> None:
    """Assert unchanged bytes: no link inserted, no entity expanded, and no connection made."""
    content = decoded(play.only.body, play.only.value("content-encoding"))
    seen = await play.get()
    assert (seen.status, plain(seen)) == (200, content)
    assert plain(await play.get(accept_encoding="br, gzip")) == content
    assert set(play.whole.names.asked) == {"origin.test"}


async def netscape_dtd(play: Play) -> None:
    """Assert that RSS 0.91 is recognized by its root without an inserted link, and that its DTD is not fetched."""
    await attack_served_unchanged(play)
    assert play.resource is not None
    assert play.resource.channel is not None
    assert play.resource.channel.version == "0.91"
    assert len(play.asked) == 1


async def many_items(play: Play) -> None:
    """Assert that 200,000 items do not hide the feed hints."""
    content = decoded(play.only.body, "gzip")
    seen = await play.get()
    is_the_feed(seen, content)
    assert play.resource is not None
    assert play.resource.channel is not None
    minutes = re.search(rb"<ttl>(\d+)</ttl>", content)
    assert play.resource.channel.schedule.ttl == (int(minutes[1]) if minutes else None)


# -- charset


async def wrong_charset_dropped(play: Play) -> None:
    """Assert that the wrong charset of the field is removed. Inserted text is ASCII, so both encodings agree."""
    link = await the_feed_in_every_coding(play, play.only.body, "latin-1")
    assert link.isascii()
    seen = await play.get()
    assert seen.fields.get("content-type") == "application/rss+xml"


async def charset_not_invented(play: Play) -> None:
    """Assert that the media type changes without a charset, so the XML declaration counts."""
    await a_feed(play)
    seen = await play.get()
    assert seen.fields.get("content-type") == "application/rss+xml"
    assert play.resource is not None
    assert play.resource.channel is not None
    assert play.resource.channel.well_formed


async def mark_wins(play: Play) -> None:
    """Assert that the byte order mark determines the encoding, also of inserted text."""
    encoding = "utf-16-le" if play.only.body.startswith(b"\xff\xfe") else "utf-16-be"
    await the_feed_in_every_coding(play, play.only.body, encoding)


# -- documents that are no feeds


async def no_feed_and_not_kept(play: Play) -> None:
    """Assert that the document is forwarded and fetched again, because HTTP states no freshness."""
    for _ in range(2):
        seen, asked = await play.get_again()
        assert asked
        is_as_sent(seen, play.only)
        assert seen.fields.get("content-type") == play.only.fields.get("content-type")
    assert play.resource is None or play.resource.channel is None


async def redirect_passes_and_is_forgotten(play: Play) -> None:
    """Assert that the portal's 302 is forwarded within the gateway, and that the feed's address is unchanged."""
    for _ in range(2):
        seen, asked = await play.get_again()
        assert asked
        assert seen.status == 302
        assert seen.fields.get("location") == "http://proxy.example/" + play.only.value("location")
    assert play.resource is None or play.resource.relocation is None


OUTCOMES: tuple[tuple[str, Outcome], ...] = (
    (r"gzip-truncated|gzip-bad-crc|label-br-body-gzip", undecodable_passes_with_its_label),
    (r"gzip-truncated-after-good", stale_copy_served),
    (r"gzip-trailing-garbage", first_member_only),
    (r"gzip-two-members|double-gzip|deflate-raw", decoded_feed),
    (r"label-gzip-body-plain", label_dropped),
    (r"label-none-body-gzip", hidden_gzip_undone),
    (r"label-unknown", unknown_label_is_kept),
    (r"(gzip|brotli|gzip-nested)-bomb", a_bomb),
    (r"billion-laughs|quadratic-blowup|xxe-.*|deep-nesting|huge-attribute", attack_served_unchanged),
    (r"external-dtd", netscape_dtd),
    (r"many-items", many_items),
    (r"nul-bytes|control-chars|c1-utf8-invalid|truncated-xml|leading-.*|two-documents", byte_identical_feed),
    (r"undeclared-(atom-)?prefix|encoding-decl-bogus", byte_identical_feed),
    (r"ill-.*", cached_as_http_allows),
    (r"charset-header-wins", wrong_charset_dropped),
    (r"charset-text-xml-default", charset_not_invented),
    (r"charset-bogus", a_feed),
    (r"utf16-decl-utf8", mark_wins),
    (r"html-200-cold|html-as-rss|empty-200-cold|json-error|binary-png", no_feed_and_not_kept),
    (r"html-200-after-good|empty-200", stale_copy_served),
    (r"captive-portal", redirect_passes_and_is_forgotten),
)
"""By the case's id, whole; the first that fits. The numbers in an id say which of many values: any of them."""
