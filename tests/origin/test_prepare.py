"""From what the origin sent to what readers get: what is unpacked, and what is left as it came."""

import gzip

from feedproxy.errors import TooLarge
from feedproxy.http.message import Fields, Response
from feedproxy.origin.prepare import prepare
from feedproxy.settings import Settings

NOW = 1_800_000_000.0


def sent(body: bytes, **fields: str) -> Response:
    lines = {"Content-Type": "application/rss+xml", **{name.replace("_", "-"): value for name, value in fields.items()}}
    return Response(200, Fields(lines.items()), body)


def test_a_small_bomb_is_not_unpacked_as_far_as_the_operator_would_allow_a_large_feed() -> None:
    bomb = gzip.compress(b"<rss><channel>" + b" " * 17 * 1024 * 1024)

    prepared = prepare(sent(bomb, Content_Encoding="gzip"), Settings(), self_href="http://example.com/", now=NOW)

    assert isinstance(prepared.error, TooLarge)
    assert prepared.content.bodies == {"gzip": bomb}


def test_a_feed_of_the_same_item_ten_thousand_times_is_a_feed() -> None:
    feed = b"<rss version='2.0'><channel><title>t</title>" + b"<item/>" * 10_000 + b"</channel></rss>"

    prepared = prepare(
        sent(gzip.compress(feed), Content_Encoding="gzip"), Settings(), self_href="http://example.com/", now=NOW
    )

    assert prepared.channel is not None
    assert prepared.channel.items == 10_000
