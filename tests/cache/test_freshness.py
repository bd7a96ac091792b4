"""Freshness: the feed's hint, the learned and the default lifetime, beside HTTP's explicit one."""

import pytest

from feedproxy.cache.freshness import Allowance, Freshness, Source, assess
from feedproxy.cache.reuse_decision import Forward, Reuse, Validate, decide
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.clock import Instant
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields

NOW = 1_750_000_000.0
DATE = ("Date", format_http_date(NOW))


def a_feed(*lines: tuple[str, str], feed: bool = True, status: int = 200, authorized: bool = False) -> StoredResponse:
    """Return the response with a feed that was received at NOW."""
    content = Content(Bodies({"identity": b"<rss/>"}), feed=feed)
    return StoredResponse(
        "https://example.com/feed", status, Fields((DATE, *lines)), content, NOW, NOW, authorized=authorized
    )


def an_hour(base: Instant, expires: Instant | None) -> Allowance | None:
    """Return the allowance of a feed whose ttl is 60 minutes."""
    return Allowance(base + 3600, "ttl-hint", "ttl of 60 minutes")


def state(stored: StoredResponse, minutes: float, **more: float | None) -> Freshness:
    options = {"default": 1800.0, "minimum": 300.0, "maximum": 86_400.0} | more
    return assess(stored, NOW + 60 * minutes, hint=an_hour, **options)  # type: ignore[arg-type]


def guess(stored: StoredResponse, *, learned: float | None = None) -> Freshness:
    """Return the freshness of a feed that states no hint."""
    return assess(stored, NOW, learned=lambda: learned, default=1800, minimum=300, maximum=86_400)


def test_hint_is_the_lifetime_without_an_explicit_one() -> None:
    freshness = state(a_feed(), 25)

    assert (freshness.source, freshness.lifetime, freshness.ttl) == (Source.HINT, 3600, 2100)
    assert freshness.allowance is None
    assert freshness.description == "fresh for another 35 min: ttl of 60 minutes, fetched 25 min ago"


def test_hint_holds_the_copy_after_the_explicit_lifetime() -> None:
    stored = a_feed(("Cache-Control", "max-age=300"))
    freshness = state(stored, 25)

    assert (freshness.source, freshness.ttl) == (Source.MAX_AGE, -1200)
    assert freshness.allowance == Allowance(NOW + 3600, "ttl-hint", "ttl of 60 minutes")
    assert freshness.description == (
        "held for another 35 min: ttl of 60 minutes; by HTTP max-age of 5 min, fetched 25 min ago"
    )
    decision = decide(stored, CacheControl(), freshness, NOW + 1500)
    assert isinstance(decision, Reuse)
    assert decision.detail == "ttl-hint"


def test_hint_before_the_explicit_lifetime_has_no_effect() -> None:
    assert state(a_feed(("Cache-Control", "max-age=7200")), 25).allowance is None


def test_held_copy_is_not_reused_after_the_hint() -> None:
    stored = a_feed(("Cache-Control", "max-age=300"))

    decision = decide(stored, CacheControl(), state(stored, 60), NOW + 3600)

    assert isinstance(decision, Forward)
    assert decision.reason == "stale for 55 min: max-age of 5 min, fetched 1 h ago"


@pytest.mark.parametrize(
    "control",
    ["no-cache", "must-revalidate", "proxy-revalidate", "s-maxage=300", "private", "no-store"],
)
def test_hint_does_not_hold_a_copy_that_http_forbids_to_use_stale(control: str) -> None:
    stored = a_feed(("Cache-Control", f"max-age=300, {control}"))

    assert state(stored, 25).allowance is None
    assert not isinstance(decide(stored, CacheControl(), state(stored, 25), NOW + 1500), Reuse)


def test_hint_does_not_hold_response_to_authorized_request() -> None:
    assert state(a_feed(("Cache-Control", "public, max-age=300"), authorized=True), 25).allowance is None


@pytest.mark.parametrize("request_", [CacheControl(no_cache=True), CacheControl(max_age=0), CacheControl(min_fresh=60)])
def test_held_copy_is_not_reused_for_request_that_requires_freshness(request_: CacheControl) -> None:
    stored = a_feed(("Cache-Control", "max-age=300"), ("ETag", '"x"'))

    assert isinstance(decide(stored, request_, state(stored, 25), NOW + 1500), Validate)


def test_hint_applies_to_feeds_only() -> None:
    assert state(a_feed(feed=False), 1).lifetime == 0
    assert state(a_feed(("Cache-Control", "max-age=1"), feed=False), 1).allowance is None


def test_hint_does_not_apply_to_error() -> None:
    assert state(a_feed(status=503), 1).lifetime == 0


def test_heuristic_order_is_learned_last_modified_default() -> None:
    modified = ("Last-Modified", format_http_date(NOW - 86_400))

    assert (
        guess(a_feed(modified), learned=7200).source,
        guess(a_feed(modified)).source,
        guess(a_feed()).source,
    ) == (
        Source.LEARNED,
        Source.LAST_MODIFIED,
        Source.DEFAULT,
    )
    assert guess(a_feed()).lifetime == 1800


def test_heuristic_lifetime_of_feed_is_bounded() -> None:
    assert guess(a_feed(), learned=1).lifetime == 300
    assert guess(a_feed(), learned=10**9).lifetime == 86_400
    assert guess(a_feed(("Last-Modified", format_http_date(NOW - 5)))).lifetime == 300
    assert guess(a_feed(("Last-Modified", format_http_date(NOW - 10**9)))).lifetime == 86_400


def test_heuristic_lifetime_of_other_content_comes_from_last_modified_only() -> None:
    modified = ("Last-Modified", format_http_date(NOW - 50))

    assert guess(a_feed(feed=False), learned=7200).lifetime == 0
    assert guess(a_feed(modified, feed=False)).lifetime == 5


@pytest.mark.parametrize("value", [format_http_date(NOW + 5), "yesterday"])
def test_heuristic_ignores_future_or_invalid_last_modified(value: str) -> None:
    assert guess(a_feed(("Last-Modified", value))).source is Source.DEFAULT


def test_targeted_field_replaces_cache_control_and_expires_if_enabled() -> None:
    stored = a_feed(("CDN-Cache-Control", "max-age=600"), ("Cache-Control", "no-store"), ("Expires", "0"))

    ours, anothers = assess(stored, NOW, targeted=True), assess(stored, NOW)

    assert (ours.source, ours.lifetime, ours.control.no_store) == (Source.TARGETED, 600, False)
    assert (anothers.source, anothers.control.no_store) == (Source.EXPIRES, True)
    assert isinstance(decide(stored, CacheControl(), ours, NOW), Reuse)
    assert isinstance(decide(stored, CacheControl(), anothers, NOW), Forward)


@pytest.mark.parametrize("value", ["max-age=10000, &&&&&", ""])
def test_targeted_field_that_is_invalid_is_ignored(value: str) -> None:
    stored = a_feed(("CDN-Cache-Control", value), ("Cache-Control", "max-age=5"))

    assert assess(stored, NOW, targeted=True).source is Source.MAX_AGE


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (a_feed(("Cache-Control", "s-maxage=600")), "fresh for another 10 min: s-maxage of 10 min"),
        (a_feed(("Expires", format_http_date(NOW + 600))), "fresh for another 10 min: Expires gives 10 min"),
        (
            a_feed(("Last-Modified", format_http_date(NOW - 9000))),
            "fresh for another 15 min: no lifetime given; 15 min estimated from Last-Modified",
        ),
        (a_feed(), "fresh for another 30 min: no lifetime given; 30 min by default"),
        (a_feed(feed=False), "stale for 0 s: no lifetime given, and none is estimated"),
        (a_feed(status=599), "stale for 0 s: no lifetime given, and none is estimated for status 599"),
    ],
)
def test_description_names_state_and_source_of_freshness(stored: StoredResponse, words: str) -> None:
    assert guess(stored).description == f"{words}, fetched 0 s ago"
