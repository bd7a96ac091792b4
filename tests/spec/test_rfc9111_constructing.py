"""RFC 9111, HTTP caching, for a shared cache: what a stored response may answer, and for how long (4, 4.1 and 4.2)."""

from typing import Any

import pytest
from msgspec.structs import replace

from feedproxy.cache import freshness, reuse_decision, serving_stale
from feedproxy.cache import vary as variation
from feedproxy.cache.cache_status import Fwd
from feedproxy.cache.freshness import Source, current_age
from feedproxy.cache.reuse_decision import Forward, Reuse, Validate
from feedproxy.cache.serving_stale import Occasion
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.content_negotiation import vary_names
from feedproxy.http.message import Fields
from tests.spec.caching import (
    NOW,
    at,
    deciding,
    fields,
    selects,
    state,
    stored,
    storing,
    varying,
)

# -- 4. Constructing responses from caches


def test_fresh_response_is_reused() -> None:
    """Section 4."""
    assert isinstance(deciding(stored(cache_control="max-age=60"), 59), Reuse)


def test_stale_response_is_validated() -> None:
    """Section 4."""
    decision = deciding(stored(cache_control="max-age=60", etag='"x"'), 60)

    assert isinstance(decision, Validate)
    assert decision.fwd is Fwd.STALE


def test_stale_response_without_a_validator_is_fetched_anew() -> None:
    """Section 4."""
    response = stored(cache_control="max-age=60")

    decision = deciding(response, 61)

    assert isinstance(decision, Forward)
    assert (decision.fwd, decision.stored) == (Fwd.STALE, response)


def test_no_stored_response_is_a_miss() -> None:
    """Section 4; RFC 9211, section 2.2 tells apart what is missing."""
    nothing = reuse_decision.decide(None, CacheControl(), None, NOW, known_uri=False)
    nothing_selected = reuse_decision.decide(None, CacheControl(), None, NOW, known_uri=True)

    assert isinstance(nothing, Forward)
    assert isinstance(nothing_selected, Forward)
    assert (nothing.fwd, nothing_selected.fwd) == (Fwd.URI_MISS, Fwd.VARY_MISS)


def test_variant_selection_prefers_the_most_recent_date() -> None:
    """Section 4."""
    older, newer = stored(date=at(-20)), stored(date=at(-10))

    assert variation.choose([newer, older], Fields(), own_agent=False) is newer
    assert variation.choose([older, newer], Fields(), own_agent=False) is newer


# -- 4.1 Calculating cache keys with the Vary header field


def test_vary_matches_requests_with_equal_nominated_fields() -> None:
    """Section 4.1."""
    response = varying("Foo, bar", fields(foo="1", bar="abc", other="2"))

    assert selects(response, ("BAR", "abc"), ("Foo", "1"), ("other", "3"))
    assert not selects(response, ("bar", "abcde"), ("foo", "1"))
    assert not selects(response, ("foo", "1"))


def test_vary_absent_field_matches_only_an_absent_field() -> None:
    """Section 4.1."""
    without, with_empty = varying("foo", Fields()), varying("foo", fields(foo=""))

    assert selects(without)
    assert selects(with_empty, ("foo", ""))
    assert not selects(without, ("foo", ""))
    assert not selects(without, ("foo", "1"))
    assert not selects(with_empty)


@pytest.mark.parametrize("vary", ["*", "*, *", ", *", "*, Foo", "Foo, *"])
def test_vary_asterisk_never_matches(vary: str) -> None:
    """Section 4.1."""
    assert not selects(varying(vary, fields(foo="1")), ("foo", "1"))
    assert storing(vary=vary, cache_control="max-age=60") is not None


def test_vary_asterisk_on_a_separate_line_is_recognised() -> None:
    """Section 4.1; RFC 9110, section 5.3."""
    assert vary_names(Fields([("Vary", "Foo"), ("vary", ""), ("VARY", "*")])) == ("*",)


def test_vary_combines_lines_and_ignores_white_space() -> None:
    """Section 4.1: adding or removing whitespace, combining multiple header field lines."""
    response = varying("foo", fields(foo="1, 2"))

    assert selects(response, ("foo", "1"), ("foo", "2"))
    assert selects(response, ("foo", " 1,2 "))
    assert not selects(response, ("foo", "2, 1"))


@pytest.mark.parametrize("asked", ["en, de", "de, en", "eN,De", " en ,   de"])
def test_vary_accept_language_ignores_case_and_order(asked: str) -> None:
    """Section 4.1: normalising values in a way that is known to have identical semantics."""
    assert selects(varying("accept-language", fields(accept_language="en, de")), ("accept-language", asked))


def test_vary_accept_language_selects_the_preferred_language() -> None:
    """Section 4.1: qvalues MAY be used to choose."""
    response = varying("accept-language", fields(accept_language="en, de"), content_language="de")

    assert selects(response, ("accept-language", "fr;q=0.5, de;q=1.0"))
    assert selects(response, ("accept-language", "DE"))
    assert not selects(response, ("accept-language", "fr, de;q=0.5"))
    assert not selects(response, ("accept-language", "de, fr"))
    assert not selects(response, ("accept-language", "de, fr, pl"))
    assert not selects(response, ("accept-language", "de;q=0"))


def test_vary_accept_encoding_is_negotiated_rather_than_compared() -> None:
    """Section 4.1: a field with a known mechanism; RFC 9110, section 12.5.3."""
    asked = fields(accept_encoding="gzip")
    plain, packed = varying("accept-encoding", asked), varying("accept-encoding", asked, coding="gzip")
    ours = replace(packed, content=replace(packed.content, tag="stem"))

    assert selects(plain, ("accept-encoding", "br"))
    assert selects(packed, ("accept-encoding", "br, x-gzip"))
    assert not selects(packed, ("accept-encoding", "br"))
    assert not selects(packed)
    assert selects(ours)


def test_vary_cookie_is_compared_exactly() -> None:
    """Section 4.1, and 7.3: a personal answer reaches nobody else."""
    response = varying("cookie", fields(cookie="a=1,b"))

    assert selects(response, ("cookie", "a=1,b"))
    assert not selects(response, ("cookie", "a=1, b"))


def test_vary_user_agent_is_ignored_when_the_proxy_sends_its_own() -> None:
    """Section 4.1: both requests reach the origin with feedproxy's own User-Agent."""
    response = replace(varying("user-agent", fields(user_agent="feedproxy/1")), own_agent=True)
    asked = fields(user_agent="reader/2")

    assert variation.selects(response, asked, own_agent=True)
    assert not variation.selects(response, asked, own_agent=False)
    assert not variation.selects(replace(response, own_agent=False), asked, own_agent=True)


def test_vary_missing_from_the_default_response_does_not_hide_other_variants() -> None:
    """Section 4.1: SHOULD choose the most recent stored response with a valid Vary field value."""
    french, default = (
        varying("accept-language", fields(accept_language="fr"), date=at(-20)),
        stored(date=at(-10)),
    )

    assert variation.choose([french, default], fields(accept_language="fr"), own_agent=False) is french
    assert variation.choose([french, default], fields(accept_language="pl"), own_agent=False) is default


# -- 4.2 Freshness


def test_fresh_response_has_a_lifetime_greater_than_its_age() -> None:
    """Section 4.2: response_is_fresh = (freshness_lifetime > current_age)."""
    assert state(stored(cache_control="max-age=60"), 59.9).is_fresh(NOW + 59.9)
    assert not state(stored(cache_control="max-age=60"), 60).is_fresh(NOW + 60)


@pytest.mark.parametrize(
    ("lines", "lifetime", "source"),
    [
        ({"cache_control": "s-maxage=9, max-age=1", "expires": at(1)}, 9, Source.S_MAXAGE),
        ({"cache_control": "max-age=9", "expires": at(1)}, 9, Source.MAX_AGE),
        ({"cache_control": "max-age=0, s-maxage=9", "expires": at(-10)}, 9, Source.S_MAXAGE),
        ({"cache_control": "max-age=0", "expires": at(3600)}, 0, Source.MAX_AGE),
        ({"cache_control": "MaX-aGe=9", "expires": "0"}, 9, Source.MAX_AGE),
        ({"cache_control": "foobar, max-age=9"}, 9, Source.MAX_AGE),
        ({"expires": at(9), "date": at(-1)}, 10, Source.EXPIRES),
        ({"expires": at(9)}, 9, Source.EXPIRES),
        ({"expires": at(9), "date": "foo"}, 9, Source.EXPIRES),
        ({"expires": at(300), "date": at(400)}, 0, Source.EXPIRES),
    ],
)  # fmt: skip
def test_lifetime_is_taken_from_s_maxage_then_max_age_then_expires(
    lines: dict[str, Any], lifetime: float, source: Source
) -> None:
    """Section 4.2.1."""
    assert freshness.explicit_lifetime(stored(**lines).fields, NOW) == (lifetime, source)


@pytest.mark.parametrize(
    "control",
    ["max-age=-3600", "max-age=a3600", "max-age=3600a", "max-age='3600'", "max-age=3600.5", "max-age"],
)
def test_lifetime_that_is_invalid_makes_the_response_stale(control: str) -> None:
    """Section 4.2.1: caches are encouraged to."""
    assert not state(stored(cache_control=control, expires=at(60))).is_fresh(NOW)


def test_lifetime_of_two_max_ages_is_the_shorter() -> None:
    """Section 4.2.1: the most restrictive directive should be honoured."""
    twice = Fields([("cache-control", "max-age=1800"), ("cache-control", "max-age=1")])

    assert freshness.explicit_lifetime(twice, NOW) == (1, Source.MAX_AGE)


def test_lifetime_in_a_quoted_extension_is_ignored() -> None:
    """Section 5.2: quoted strings are arguments, not directives."""
    response = stored(cache_control='max-age=1, extension="max-age=3600"')

    assert freshness.explicit_lifetime(response.fields, NOW) == (1, Source.MAX_AGE)


def test_heuristic_lifetime_is_a_tenth_of_the_time_since_last_modified() -> None:
    """Section 4.2.2."""
    response = stored(last_modified=at(-86_400), date=at(0))

    assert (state(response).lifetime, state(response).source) == (8_640, Source.LAST_MODIFIED)


def test_heuristic_lifetime_is_not_used_beside_an_explicit_lifetime() -> None:
    """Section 4.2.2: a cache MUST NOT use heuristics when an explicit expiration time is present."""
    assert not state(stored(last_modified=at(-86_400), expires=at(-10))).is_fresh(NOW)
    assert not state(stored(last_modified=at(-86_400), expires="0")).is_fresh(NOW)


def test_heuristic_lifetime_requires_a_heuristically_cacheable_status() -> None:
    """Section 4.2.2: unless it is marked as cacheable, e.g. with public."""
    assert state(stored(599, last_modified=at(-86_400))).lifetime == 0
    assert state(stored(599, last_modified=at(-86_400), cache_control="public")).lifetime == 8_640


# -- 4.2.3 Calculating age


def test_age_includes_response_delay_and_resident_time() -> None:
    """Section 4.2.3: corrected_age_value = age_value + response_delay."""
    assert current_age(stored(age="30", delay=2, date=at(0)), NOW + 10) == 42


def test_age_grows_with_a_date_in_the_past() -> None:
    """Section 4.2.3: apparent_age."""
    assert current_age(stored(date=at(-7200)), NOW) == 7200
    assert not state(stored(date=at(-7200), cache_control="max-age=3600")).is_fresh(NOW)


def test_age_is_not_reduced_by_a_date_in_the_future() -> None:
    """Section 4.2.3: apparent_age = max(0, response_time - date_value)."""
    assert current_age(stored(date=at(10), age="15"), NOW) == 15


def test_age_without_a_date_counts_from_receipt() -> None:
    """RFC 9110, section 6.6.1."""
    assert current_age(stored(), NOW + 5) == 5


def test_age_is_not_negative_when_the_clock_is_set_back() -> None:
    """Section 4.2.3: an age is a length of time."""
    assert current_age(stored(age="3"), NOW - 100) == 3


# -- 4.2.4 Serving stale responses


@pytest.mark.parametrize("control", ["no-cache", "must-revalidate", "proxy-revalidate", "s-maxage=2"])
@pytest.mark.parametrize("occasion", Occasion)
def test_stale_response_is_not_used_where_a_directive_forbids_it(control: str, occasion: Occasion) -> None:
    """Section 4.2.4: not even when disconnected."""
    response = stored(cache_control=f"max-age=2, stale-if-error=99, stale-while-revalidate=99, {control}")
    request = CacheControl(max_stale=99, stale_if_error=99)

    assert not serving_stale.may_serve_stale(
        response, state(response, 5), NOW + 5, occasion=occasion, request=request, limit=99
    )


@pytest.mark.parametrize("occasion", [Occasion.ERROR, Occasion.DISCONNECTED, Occasion.REFUSED, Occasion.REVALIDATING])
def test_stale_response_is_used_within_the_configured_limit(occasion: Occasion) -> None:
    """Section 4.2.4: disconnected, or by configuration."""
    response = stored(cache_control="max-age=2")

    def allowed(after: float) -> bool:
        known = state(response, after)
        return serving_stale.may_serve_stale(
            response, known, NOW + after, occasion=occasion, request=CacheControl(), limit=100
        )

    assert allowed(102)
    assert not allowed(103)


@pytest.mark.parametrize("occasion", [Occasion.ERROR, Occasion.DISCONNECTED, Occasion.REFUSED])
def test_response_to_an_authorized_request_is_not_used_stale_by_configuration(occasion: Occasion) -> None:
    """Section 4.2.4; our own caution. A fresh response may still answer if its validation failed."""
    response = stored(cache_control="public, max-age=2", authorized=True)

    def allowed(after: float) -> bool:
        known = state(response, after)
        return serving_stale.may_serve_stale(
            response, known, NOW + after, occasion=occasion, request=CacheControl(), limit=100
        )

    assert allowed(1)
    assert not allowed(9)
