"""Outcomes for errors, endings and moves: statuses, redirects, and XML redirects."""

from xml.etree import ElementTree

from tests.live.hostile import DAY, FLOOR, HOUR, Play
from tests.live.outcomes.common import (
    Outcome,
    a_feed,
    bad_gateway_and_not_stored,
    is_as_sent,
    is_stale_copy,
    is_the_feed,
    stale_copy_served,
)

# -- status


async def error_passes_with_retry_after(play: Play) -> None:
    """Assert an error with Retry-After, because must-revalidate forbids the stale copy."""
    assert play.prime is not None
    await play.primed()
    for _ in range(2):
        seen = await play.get()
        assert seen.status in (503, 504), (seen.status, seen.cache)
        assert 0 < int(seen.fields.get("retry-after") or 0) <= int(play.only.value("retry-after"))
        assert play.prime.body not in seen.body


async def freshened(play: Play) -> None:
    """Assert a validated copy with its bytes, and that content after the 304 answers no request."""
    first = await play.primed()
    seen, asked = await play.get_again()
    assert asked
    assert (seen.status, seen.body, seen.stored) == (200, first.body, True)
    assert "fwd-status=304" in seen.cache
    assert not seen.detail
    good = await play.get(f"http://origin.test/good/{play.id}")
    assert (good.status, good.body != seen.body) == (200, True), "another address, another self link"
    assert play.prime is not None
    is_the_feed(good, play.prime.body)


async def not_freshened(play: Play) -> None:
    """Assert a full fetch after a 304 for another version. That fetch fails, so the stale copy is served."""
    first = await play.primed()
    seen = await play.get()
    is_stale_copy(seen, first, play)
    conditional, unconditional = play.asked[1:]
    assert conditional.fields.get("if-none-match") == '"v0"'
    assert "if-none-match" not in unconditional.fields
    assert "if-modified-since" not in unconditional.fields


async def part_is_no_whole(play: Play) -> None:
    """Assert that partial content is forwarded as such (or 502), and answers no other request."""
    for _ in range(2):
        seen, asked = await play.get_again()
        assert asked
        assert seen.status in (206, 502)
        if seen.status == 206:
            is_as_sent(seen, play.only)
            assert seen.fields.get("content-range") == play.only.value("content-range")


async def gone(play: Play) -> None:
    """Assert 410 without a copy.

    The origin is not contacted for a while after the first 410, and for days after confirmation.
    """
    await play.primed()
    seen = await play.get()
    assert seen.status == 410, (seen.status, seen.cache)
    again, asked = await play.get_again()
    assert (again.status, asked) == (410, False), (again.status, again.cache)
    play.clock.advance(HOUR + FLOOR)
    assert (await play.get()).status == 410
    for _ in range(3):
        play.clock.advance(DAY)
        again, asked = await play.get_again()
        assert (again.status, asked) == (410, False), (again.status, again.cache)


async def retry_after_is_kept_to(play: Play) -> None:
    """Assert the copy instead of the 429, and no request to the origin before the stated time."""
    first = await play.primed()
    seen, asked = await play.get_again()
    assert asked
    is_stale_copy(seen, first, play)
    seconds = int(play.only.value("retry-after"))
    for wait in (1, seconds - 30):
        play.clock.advance(wait)
        for agent, reload in (("one/1", {}), ("two/2", {"cache_control": "no-cache", "sec_fetch_mode": "navigate"})):
            seen, asked = await play.get_again(user_agent=agent, **reload)
            assert not asked
            is_stale_copy(seen, first, play)
    play.clock.advance(seconds)
    _, asked = await play.get_again()
    assert asked


async def unknown_status_passes(play: Play) -> None:
    """Assert that an unknown status is treated as 5xx (RFC 9110, section 15): forwarded, or a 502, and not stored."""
    for _ in range(2):
        seen, asked = await play.get_again()
        assert asked
        if seen.status != 502:
            is_as_sent(seen, play.only)


# -- redirects


async def loop_ends(play: Play) -> None:
    """Assert that a limited number of redirects is followed, then one is forwarded (or an error sent), and none
    remembered.
    """
    for _ in range(2):
        before = len(play.asked)
        seen = await play.get()
        assert 0 < len(play.asked) - before <= 7
        assert seen.status in (301, 502, 508)
        if seen.status == 301:
            location = seen.fields.get("location") or ""
            assert location.startswith("http://proxy.example/http://origin.test/case/"), location
        play.clock.advance(2 * HOUR)
    assert play.resource is None or play.resource.relocation is None


async def redirect_not_followed(play: Play) -> None:
    """Assert that the redirect is forwarded for each request, not followed, and not remembered."""
    location = play.only.value("location")
    for _ in range(2):
        before = len(play.asked)
        seen = await play.get()
        assert len(play.asked) - before == 1
        assert seen.status in (301, 502)
        if seen.status == 301:
            inside = f"http://proxy.example/{location}" if location.startswith("http") else location
            assert seen.fields.get("location") == inside
        play.clock.advance(2 * HOUR)
    assert set(play.whole.names.asked) == {"origin.test"}
    assert play.resource is None or play.resource.relocation is None
    if location.startswith("http"):
        assert (await play.get(location)).status == 403, "nor does the reader get there through us"


# -- XML redirects


async def moved(play: Play) -> None:
    """Assert 301 within the gateway, later without contacting the origin."""
    from urllib.parse import urljoin

    named = ElementTree.fromstring(play.only.body).findtext("newLocation") or ""
    there = urljoin(play.target, named.strip())
    for asks in (True, False):
        seen, asked = await play.get_again()
        assert (seen.status, asked) == (301, asks), (seen.status, seen.cache)
        assert seen.fields.get("location") == f"http://proxy.example/{there}"
        play.clock.advance(DAY)


async def no_redirect(play: Play) -> None:
    """Assert an unchanged document that is not interpreted as a redirect."""
    seen = await play.get()
    is_as_sent(seen, play.only)
    assert "location" not in seen.fields
    assert play.resource is None or play.resource.relocation is None


async def pair_ends(play: Play) -> None:
    """Assert that the first redirect is followed, and that the second, which would lead back, is served unchanged."""
    first = await play.get()
    assert first.status == 301
    assert first.fields.get("location") == f"http://proxy.example/{play.target}?b"
    second = await play.get(f"{play.target}?b")
    is_as_sent(second, play.sent[1])
    assert "location" not in second.fields


async def ended(play: Play) -> None:
    """Assert 410, later without contacting the origin."""
    for asks in (True, False):
        seen, asked = await play.get_again()
        assert (seen.status, asked) == (410, asks), (seen.status, seen.cache)
        play.clock.advance(DAY)


async def only_the_root_counts(play: Play) -> None:
    """Assert that a feed that contains a redirect element is served as a feed."""
    await a_feed(play)
    assert play.resource is not None
    assert play.resource.relocation is None


OUTCOMES: tuple[tuple[str, Outcome], ...] = (
    (r"500-after-good", stale_copy_served),
    (r"500-must-revalidate", error_passes_with_retry_after),
    (r"304-unasked", bad_gateway_and_not_stored),
    (r"304-with-body", freshened),
    (r"304-other-etag", not_freshened),
    (r"206-unasked", part_is_no_whole),
    (r"410-gone", gone),
    (r"429-retry-after", retry_after_is_kept_to),
    (r"status-999", unknown_status_passes),
    (r"redirect-(loop|self)", loop_ends),
    (r"redirect-to-.*", redirect_not_followed),
    (r"xml-redirect(-relative|-space)?", moved),
    (r"xml-redirect-(self|javascript|file|unclosed)", no_redirect),
    (r"xml-redirect-pair", pair_ends),
    (r"xml-gone", ended),
    (r"xml-redirect-in-feed", only_the_root_counts),
)
"""By the case's id, whole; the first that fits. The numbers in an id say which of many values: any of them."""
