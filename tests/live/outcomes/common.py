"""Expected outcomes shared by many hostile cases, as assertions.

Each outcome is a function of a Play, and most express a sentence that holds for several cases. If the sentence permits
two outcomes, the function asserts the product's choice, and its docstring names the other.
"""

from collections.abc import Awaitable, Callable

from tests.live.hostile import DAY, FLOOR, HOUR, MINUTE, MOST, Play, Sent, plain, unlinked
from tests.live.servers import Seen

type Outcome = Callable[[Play], Awaitable[None]]


# -- assertions about one response


def is_bad_gateway(seen: Seen) -> None:
    """Assert the proxy's own error with its reason and without the origin's bytes."""
    assert seen.status == 502, (seen.status, seen.cache, seen.body[:100])
    assert seen.detail
    assert seen.media_type == "application/problem+json"
    assert "no-store" in (seen.fields.get("cache-control") or "")


def is_as_sent(seen: Seen, sent: Sent) -> None:
    """Assert that status, bytes and fields are the origin's."""
    assert seen.status == sent.status, (seen.status, seen.cache)
    assert seen.body == sent.body
    assert (seen.coding or "") == sent.value("content-encoding")


def is_the_feed(seen: Seen, original: bytes, encoding: str = "utf-8") -> str:
    """Assert that the bytes are the feed's, perhaps with an inserted self link, and return that link."""
    assert seen.status == 200, (seen.status, seen.cache, seen.body[:100])
    link = unlinked(plain(seen), original, encoding)
    assert link is not None, (plain(seen)[:400], original[:400])
    return link


def is_stale_copy(seen: Seen, first: Seen, play: Play) -> None:
    """Assert the stored valid copy, with an indication that it is stale."""
    assert (seen.status, seen.body, seen.tag) == (200, first.body, first.tag), (seen.status, seen.cache)
    assert seen.detail, seen.cache
    assert seen.age >= 2 * MINUTE
    assert seen.ttl is not None
    assert seen.ttl < 0


# -- assertions about a whole case


async def byte_identical(play: Play) -> None:
    """Assert identical bytes in every coding, each time."""
    seen = await play.get()
    is_as_sent(seen, play.only)
    again, _ = await play.get_again()
    is_as_sent(again, play.only)
    for coding in ("gzip", "br", "zstd"):
        assert plain(await play.get(accept_encoding=coding)) == play.only.body


async def byte_identical_feed(play: Play) -> None:
    """Assert unchanged bytes, because the feed is ill-formed, and its recognition as a feed."""
    await byte_identical(play)
    assert play.resource is not None
    assert play.resource.channel is not None
    assert not play.resource.channel.well_formed


async def byte_identical_with_its_type(play: Play) -> None:
    """Assert that a document that is no feed keeps its media type."""
    await byte_identical(play)
    assert (await play.get()).fields.get("content-type") == play.only.fields.get("content-type")
    assert play.resource is None or play.resource.channel is None


async def cached_as_http_allows(play: Play) -> None:
    """Assert that ill-formed test documents are unchanged, not labelled HTML, and kept at most for the heuristic
    lifetime.
    """
    await byte_identical(play)
    seen = await play.get()
    assert "html" not in seen.media_type or "html" in play.only.value("content-type")
    play.clock.advance(MOST + FLOOR)
    again, asked = await play.get_again()
    assert asked
    is_as_sent(again, play.only)


async def the_feed_in_every_coding(play: Play, original: bytes, encoding: str = "utf-8") -> str:
    """Assert the content in every accepted coding, and return the inserted link."""
    link = is_the_feed(await play.get(), original, encoding)
    bodies = {plain(await play.get(accept_encoding=coding)) for coding in ("identity", "gzip", "br", "zstd")}
    assert len(bodies) == 1
    return link


async def a_feed(play: Play) -> None:
    """Assert a feed."""
    await the_feed_in_every_coding(play, play.only.body)


async def stale_copy_served(play: Play) -> None:
    """Assert that only fields reveal the origin's failure, and that the copy lasts."""
    first = await play.primed()
    seen, asked = await play.get_again()
    assert asked
    is_stale_copy(seen, first, play)
    assert not seen.stored
    play.clock.advance(HOUR)
    is_stale_copy(await play.get(), first, play)


async def bad_gateway_and_not_stored(play: Play) -> None:
    """Assert 502, and that the next request reaches the origin."""
    is_bad_gateway(await play.get())
    seen, asked = await play.get_again()
    assert asked
    is_bad_gateway(seen)
    assert play.resource is None or not play.resource.variants


async def bad_gateway_cold_stale_copy_warm(play: Play) -> None:
    """Assert 502 without a stored copy, and else the copy."""
    is_bad_gateway(await play.get())
    play.server.STATE.clear()
    play.clock.advance(DAY)
    play.use_prime(GOOD)
    await stale_copy_served(play)


GOOD = "hostile/raw/500-after-good.prime.http"
"""A valid feed, for cases that require a stored copy and define none."""


async def not_reused(play: Play) -> None:
    """Assert that the next request reaches the origin, whatever the response is."""
    for _ in range(2):
        seen, asked = await play.get_again()
        assert asked
        assert not seen.hit
