"""RFC 9111, HTTP caching, for a shared cache: a test per promise, in the order of the text."""

from dataclasses import replace
from typing import Any

import pytest

from feedproxy.cache import freshness, partial, reuse, stale, validation, variation
from feedproxy.cache.cookies import with_cookies
from feedproxy.cache.freshness import Freshness, Source, assess, current_age
from feedproxy.cache.invalidation import invalidated_by
from feedproxy.cache.reuse import Decision, Forward, Reuse, Unsatisfiable, Validate
from feedproxy.cache.stale import Occasion
from feedproxy.cache.status import Fwd
from feedproxy.cache.stored import Content, StoredResponse
from feedproxy.cache.storing import DoNotStore, Store, Storing, may_store, storable_fields
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields, Request, Response

NOW = 1_750_000_000.0
TARGET = "https://example.com/feed"
NO_FIELDS = Fields()


def at(seconds: float) -> str:
    """An HTTP-date so many seconds from NOW."""
    return format_http_date(NOW + seconds)


def fields(**lines: Any) -> Fields:
    """`cache_control="no-store"` becomes `cache-control: no-store`."""
    return Fields((name.replace("_", "-"), value) for name, value in lines.items())


def storing(status: int = 200, *, method: str = "GET", asked: Fields = NO_FIELDS, **lines: Any) -> Storing:
    """What may_store says of a response."""
    return may_store(Request(method, TARGET, asked), Response(status, fields(**lines)), now=NOW)


def stored(status: int = 200, *, delay: float = 0, coding: str = "identity", **lines: Any) -> StoredResponse:
    """A response received at NOW."""
    known = {name: lines.pop(name) for name in ("vary_request", "authorized", "invalid", "own_agent") if name in lines}
    return StoredResponse(TARGET, status, fields(**lines), Content({coding: b"0123456789"}), NOW - delay, NOW, **known)


def state(response: StoredResponse, after: float = 0) -> Freshness:
    return assess(response, NOW + after)


def deciding(response: StoredResponse | None, after: float = 0, **asked: Any) -> Decision:
    """What becomes of a request with these fields so many seconds later."""
    request = CacheControl.from_request(fields(**asked))
    known = None if response is None else state(response, after)
    return reuse.decide(response, request, known, NOW + after)


# -- 3. Storing responses in caches


def test_the_method_has_to_be_one_the_cache_understands() -> None:
    """Section 3."""
    assert isinstance(storing(method="GET"), Store)
    assert storing(method="POST", cache_control="max-age=60") == DoNotStore("responses to POST are not stored")


def test_only_final_responses_are_stored() -> None:
    """Section 3: the response status code is final."""
    assert isinstance(storing(103, cache_control="max-age=60"), DoNotStore)


@pytest.mark.parametrize("status", [206, 304])
def test_a_206_or_304_is_not_stored_as_a_response(status: int) -> None:
    """Section 3.3: a part is kept apart, and by a decision of its own (partial.may_keep); a 304 updates."""
    assert isinstance(storing(status, cache_control="max-age=60"), DoNotStore)


@pytest.mark.parametrize("control", ["no-store", "No-StOrE", "max-age=60, no-store", "no-store=x"])
def test_no_store_is_not_stored(control: str) -> None:
    """Sections 3 and 5.2.2.5."""
    assert storing(cache_control=control) == DoNotStore("no-store")


def test_private_is_not_stored_by_a_shared_cache() -> None:
    """Sections 3 and 5.2.2.7."""
    assert storing(cache_control="private, max-age=3600") == DoNotStore("private")


@pytest.mark.parametrize("status", [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501])
def test_a_heuristically_cacheable_status_is_stored_without_a_word(status: int) -> None:
    """Section 3; RFC 9110, section 15.1."""
    assert isinstance(storing(status), Store)


@pytest.mark.parametrize("status", [201, 202, 299, 302, 303, 307, 400, 403, 500, 502, 503, 504, 599])
def test_any_other_status_needs_a_word_to_be_stored(status: int) -> None:
    """Section 3."""
    assert isinstance(storing(status, last_modified=at(-86_400)), DoNotStore)
    for control in ("max-age=60", "s-maxage=60", "public"):
        assert isinstance(storing(status, cache_control=control), Store)
    assert isinstance(storing(status, expires=at(60)), Store)


# -- 3.1 Storing header and trailer fields


def test_fields_are_stored_including_unrecognised_ones() -> None:
    """Section 3.1: a cache MUST include all received response header fields."""
    received = fields(etag='"x"', x_frame_options="deny", content_foo="bar", content_encoding="x", age="3")

    assert storable_fields(received) == received


def test_fields_of_the_connection_and_the_proxy_are_not_stored() -> None:
    """Section 3.1."""
    received = Fields(
        [
            ("Connection", "a, b"), ("a", "1"), ("b", "2"), ("c", "3"), ("Keep-Alive", "x"),
            ("Proxy-Authenticate", "x"), ("Proxy-Authentication-Info", "x"), ("Proxy-Connection", "x"),
            ("TE", "x"), ("Transfer-Encoding", "chunked"), ("Upgrade", "x"),
        ]
    )  # fmt: skip

    assert storable_fields(received) == Fields([("c", "3")])


@pytest.mark.parametrize("directive", ["private", "no-cache"])
def test_fields_that_a_qualified_directive_names_are_not_stored(directive: str) -> None:
    """Section 3.1; sections 5.2.2.4 and 5.2.2.7, qualified form."""
    control = f'{directive}="a, B", max-age=60'
    received = Fields([("Cache-Control", control), ("A", "1"), ("b", "2"), ("c", "3")])

    assert may_store(Request("GET", TARGET), Response(200, received), now=NOW) == Store()
    assert storable_fields(received) == Fields([("Cache-Control", control), ("c", "3")])


def test_a_response_that_keeps_back_what_is_needed_to_use_it_is_not_stored() -> None:
    """Section 5.2.2.7: without its Vary it would answer requests that it is not for."""
    assert isinstance(storing(cache_control='private="vary", max-age=60', vary="cookie"), DoNotStore)


def test_a_cookie_does_not_inhibit_storing_and_is_no_ordinary_field() -> None:
    """Section 7.3."""
    assert isinstance(storing(set_cookie="a=b", cache_control="max-age=60"), Store)
    assert "set-cookie" not in storable_fields(fields(set_cookie="a=b"))


def cookie_of(*, feed: bool = False, asked: Fields = NO_FIELDS, held: str | None = None, **lines: Any) -> str | None:
    """The Set-Cookie that is kept of a response that brings `a=b`, or of one that held another and is updated."""
    news = fields(set_cookie="a=b", **lines)
    kept = fields(set_cookie=held) if held else NO_FIELDS
    response = StoredResponse(TARGET, 200, Fields((*storable_fields(news), *kept)), Content({}, feed=feed), NOW, NOW)
    return with_cookies(response, news, Request("GET", TARGET, asked)).fields.get("set-cookie")


@pytest.mark.parametrize("control", ["public", "max-age=60", "s-maxage=60", "public, must-revalidate"])
def test_a_cookie_is_stored_where_the_origin_says_that_everybody_may_have_it(control: str) -> None:
    """Section 3.1: a cache MUST include all received response header fields; section 7.3."""
    assert cookie_of(cache_control=control) == "a=b"
    assert cookie_of(date=at(0), expires=at(60)) == "a=b"


@pytest.mark.parametrize(
    "control", ["", "private, max-age=60", "no-cache, max-age=60", "max-age=0", 'no-cache="set-cookie", max-age=60']
)
def test_a_cookie_of_which_the_origin_does_not_say_that_is_not_stored(control: str) -> None:
    """Section 7.3: servers that wish to control caching are encouraged to emit Cache-Control; many do not."""
    assert cookie_of(cache_control=control) is None
    assert cookie_of(last_modified=at(-86_400)) is None


def test_a_cookie_for_somebody_who_was_known_is_his_and_a_feed_keeps_none() -> None:
    """Our own caution; section 3.1 would have them stored."""
    assert cookie_of(cache_control="public", asked=fields(cookie="x=y")) is None
    assert cookie_of(cache_control="public", asked=fields(authorization="x")) is None
    assert cookie_of(cache_control="public", feed=True) is None


def test_an_update_replaces_the_cookie_by_one_for_everybody_or_by_none() -> None:
    """Section 3.2; the message that brings a cookie has to say whose it is."""
    assert cookie_of(held="old=1", cache_control="max-age=60") == "a=b"
    assert cookie_of(held="old=1") is None


def test_a_request_with_a_cookie_is_stored_only_where_the_origin_speaks_of_it() -> None:
    """Our own caution; section 3 would allow more."""
    asked = fields(cookie="a=b")

    assert isinstance(storing(asked=asked), DoNotStore)
    assert isinstance(storing(asked=asked, cache_control="max-age=60"), Store)
    assert isinstance(storing(asked=asked, cache_control="public"), Store)


# -- 3.2 Updating stored header fields


def freshen(response: StoredResponse, **lines: Any) -> StoredResponse | None:
    """The stored response after a 304 that came 100 seconds later."""
    return validation.freshen(response, Response(304, fields(**lines)), NOW + 99, NOW + 100)


def test_an_update_replaces_the_fields_it_provides_and_keeps_the_others() -> None:
    """Section 3.2."""
    updated = freshen(
        stored(etag='"x"', a="1", b="1", cache_control="max-age=1"),
        etag='"x"',
        a="2",
        cache_control="max-age=9",
    )

    assert updated is not None
    assert (updated.fields.get("a"), updated.fields.get("b")) == ("2", "1")
    assert updated.fields.get_all("cache-control") == ["max-age=9"]


OF_THE_CONTENT = ["content-length", "content-encoding", "content-range", "content-md5", "content-digest", "repr-digest"]


@pytest.mark.parametrize("name", OF_THE_CONTENT)
def test_an_update_leaves_alone_what_describes_the_stored_content(name: str) -> None:
    """Section 3.2: Content-Length, and fields that the stored content depends on."""
    updated = freshen(stored(etag='"x"', **dict[str, Any]({name: "36"})), etag='"x"', **{name: "10"})

    assert updated is not None
    assert updated.fields.get_all(name) == ["36"]


def test_an_update_brings_no_fields_that_may_not_be_stored() -> None:
    """Section 3.2: the exceptions of section 3.1 hold for updates too."""
    updated = freshen(stored(etag='"x"'), etag='"x"', set_cookie="a=b", connection="x", x="1")

    assert updated is not None
    assert [name for name, _ in updated.fields if name in ("set-cookie", "connection", "x")] == []


# -- 3.5 Storing responses to authenticated requests


@pytest.mark.parametrize("control", ["must-revalidate, max-age=60", "public, max-age=60", "s-maxage=60"])
def test_an_answer_to_credentials_is_stored_where_it_allows_sharing(control: str) -> None:
    """Section 3.5."""
    assert isinstance(storing(asked=fields(authorization="Basic eDp5"), cache_control=control), Store)


@pytest.mark.parametrize("control", ["max-age=100000", "proxy-revalidate, max-age=60", 'no-cache="x"'])
def test_an_answer_to_credentials_is_not_stored_otherwise(control: str) -> None:
    """Section 3.5."""
    assert isinstance(storing(asked=fields(authorization="Basic eDp5"), cache_control=control), DoNotStore)


# -- 4. Constructing responses from caches


def test_a_fresh_response_is_reused() -> None:
    """Section 4."""
    assert isinstance(deciding(stored(cache_control="max-age=60"), 59), Reuse)


def test_a_stale_response_is_validated() -> None:
    """Section 4."""
    decision = deciding(stored(cache_control="max-age=60", etag='"x"'), 60)

    assert isinstance(decision, Validate)
    assert decision.fwd is Fwd.STALE


def test_a_stale_response_without_a_validator_is_fetched_anew() -> None:
    """Section 4."""
    response = stored(cache_control="max-age=60")

    decision = deciding(response, 61)

    assert isinstance(decision, Forward)
    assert (decision.fwd, decision.stored) == (Fwd.STALE, response)


def test_nothing_stored_is_a_miss() -> None:
    """Section 4; RFC 9211, section 2.2 tells apart what is missing."""
    nothing = reuse.decide(None, CacheControl(), None, NOW, known_uri=False)
    nothing_selected = reuse.decide(None, CacheControl(), None, NOW, known_uri=True)

    assert isinstance(nothing, Forward)
    assert isinstance(nothing_selected, Forward)
    assert (nothing.fwd, nothing_selected.fwd) == (Fwd.URI_MISS, Fwd.VARY_MISS)


def test_of_several_suitable_responses_the_most_recent_by_date_is_used() -> None:
    """Section 4."""
    older, newer = stored(date=at(-20)), stored(date=at(-10))

    assert variation.choose([newer, older], Fields(), own_agent=False) is newer
    assert variation.choose([older, newer], Fields(), own_agent=False) is newer


# -- 4.1 Calculating cache keys with the Vary header field


def varying(vary: str, asked: Fields, **lines: Any) -> StoredResponse:
    """A response with this Vary to a request with these fields."""
    response = stored(vary=vary, **lines)
    return replace(response, vary_request=variation.request_fields_for(response.fields, asked))


def selects(response: StoredResponse, *lines: tuple[str, str]) -> bool:
    return variation.selects(response, Fields(lines), own_agent=False)


def test_a_response_that_varies_answers_requests_whose_fields_match() -> None:
    """Section 4.1."""
    response = varying("Foo, bar", fields(foo="1", bar="abc", other="2"))

    assert selects(response, ("BAR", "abc"), ("Foo", "1"), ("other", "3"))
    assert not selects(response, ("bar", "abcde"), ("foo", "1"))
    assert not selects(response, ("foo", "1"))


def test_an_absent_field_matches_only_an_absent_one() -> None:
    """Section 4.1."""
    without, with_empty = varying("foo", Fields()), varying("foo", fields(foo=""))

    assert selects(without)
    assert selects(with_empty, ("foo", ""))
    assert not selects(without, ("foo", ""))
    assert not selects(without, ("foo", "1"))
    assert not selects(with_empty)


@pytest.mark.parametrize("vary", ["*", "*, *", ", *", "*, Foo", "Foo, *"])
def test_a_star_always_fails_to_match(vary: str) -> None:
    """Section 4.1."""
    assert not selects(varying(vary, fields(foo="1")), ("foo", "1"))
    assert isinstance(storing(vary=vary, cache_control="max-age=60"), DoNotStore)


def test_a_star_on_a_line_of_its_own_counts_too() -> None:
    """Section 4.1; RFC 9110, section 5.3."""
    assert variation.nominated(Fields([("Vary", "Foo"), ("vary", ""), ("VARY", "*")])) == ("*",)


def test_lines_are_combined_and_white_space_is_nothing() -> None:
    """Section 4.1: adding or removing whitespace, combining multiple header field lines."""
    response = varying("foo", fields(foo="1, 2"))

    assert selects(response, ("foo", "1"), ("foo", "2"))
    assert selects(response, ("foo", " 1,2 "))
    assert not selects(response, ("foo", "2, 1"))


@pytest.mark.parametrize("asked", ["en, de", "de, en", "eN,De", " en ,   de"])
def test_languages_match_without_case_or_order(asked: str) -> None:
    """Section 4.1: normalising values in a way that is known to have identical semantics."""
    assert selects(varying("accept-language", fields(accept_language="en, de")), ("accept-language", asked))


def test_a_response_in_the_language_that_is_liked_best_is_selected() -> None:
    """Section 4.1: qvalues MAY be used to choose."""
    response = varying("accept-language", fields(accept_language="en, de"), content_language="de")

    assert selects(response, ("accept-language", "fr;q=0.5, de;q=1.0"))
    assert not selects(response, ("accept-language", "fr, de;q=0.5"))
    assert not selects(response, ("accept-language", "fr, de"))


def test_a_coding_is_negotiated_and_not_compared() -> None:
    """Section 4.1: a field with a known mechanism; RFC 9110, section 12.5.3."""
    asked = fields(accept_encoding="gzip")
    plain, packed = varying("accept-encoding", asked), varying("accept-encoding", asked, coding="gzip")
    ours = replace(packed, content=replace(packed.content, tag="stem"))

    assert selects(plain, ("accept-encoding", "br"))
    assert selects(packed, ("accept-encoding", "br, x-gzip"))
    assert not selects(packed, ("accept-encoding", "br"))
    assert not selects(packed)
    assert selects(ours)


def test_cookies_are_compared_to_the_letter() -> None:
    """Section 4.1, and 7.3: a personal answer reaches nobody else."""
    response = varying("cookie", fields(cookie="a=1,b"))

    assert selects(response, ("cookie", "a=1,b"))
    assert not selects(response, ("cookie", "a=1, b"))


def test_the_user_agent_is_ours_for_whoever_asks() -> None:
    """Section 4.1: both requests reach the origin with feedproxy's own User-Agent."""
    response = replace(varying("user-agent", fields(user_agent="feedproxy/1")), own_agent=True)
    asked = fields(user_agent="reader/2")

    assert variation.selects(response, asked, own_agent=True)
    assert not variation.selects(response, asked, own_agent=False)
    assert not variation.selects(replace(response, own_agent=False), asked, own_agent=True)


def test_a_default_response_that_forgot_its_vary_does_not_hide_the_others() -> None:
    """Section 4.1: SHOULD choose the most recent stored response with a valid Vary field value."""
    french, default = (
        varying("accept-language", fields(accept_language="fr"), date=at(-20)),
        stored(date=at(-10)),
    )

    assert variation.choose([french, default], fields(accept_language="fr"), own_agent=False) is french
    assert variation.choose([french, default], fields(accept_language="pl"), own_agent=False) is default


# -- 4.2 Freshness


def test_a_response_is_fresh_while_its_lifetime_exceeds_its_age() -> None:
    """Section 4.2: response_is_fresh = (freshness_lifetime > current_age)."""
    assert state(stored(cache_control="max-age=60"), 59.9).fresh(NOW + 59.9)
    assert not state(stored(cache_control="max-age=60"), 60).fresh(NOW + 60)


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
def test_the_first_of_s_maxage_max_age_and_expires_is_the_lifetime(
    lines: dict[str, Any], lifetime: float, source: Source
) -> None:
    """Section 4.2.1."""
    assert freshness.explicit_lifetime(stored(**lines)) == (lifetime, source)


@pytest.mark.parametrize(
    "control",
    ["max-age=-3600", "max-age=a3600", "max-age=3600a", "max-age='3600'", "max-age=3600.5", "max-age"],
)
def test_invalid_freshness_information_is_stale(control: str) -> None:
    """Section 4.2.1: caches are encouraged to."""
    assert not state(stored(cache_control=control, expires=at(60))).fresh(NOW)


def test_of_two_max_ages_the_shorter_counts() -> None:
    """Section 4.2.1: the most restrictive directive should be honoured."""
    twice = Fields([("cache-control", "max-age=1800"), ("cache-control", "max-age=1")])

    assert freshness.explicit_lifetime(replace(stored(), fields=twice)) == (1, Source.MAX_AGE)


def test_a_lifetime_in_a_quoted_extension_is_none() -> None:
    """Section 5.2: quoted strings are arguments, not directives."""
    response = stored(cache_control='max-age=1, extension="max-age=3600"')

    assert freshness.explicit_lifetime(response) == (1, Source.MAX_AGE)


def test_a_guess_is_a_tenth_of_the_time_since_it_was_modified() -> None:
    """Section 4.2.2."""
    response = stored(last_modified=at(-86_400), date=at(0))

    assert (state(response).lifetime, state(response).source) == (8_640, Source.LAST_MODIFIED)


def test_nothing_is_guessed_where_a_lifetime_is_stated() -> None:
    """Section 4.2.2: a cache MUST NOT use heuristics when an explicit expiration time is present."""
    assert not state(stored(last_modified=at(-86_400), expires=at(-10))).fresh(NOW)
    assert not state(stored(last_modified=at(-86_400), expires="0")).fresh(NOW)


def test_nothing_is_guessed_of_a_status_that_is_not_heuristically_cacheable() -> None:
    """Section 4.2.2: unless it is marked as cacheable, e.g. with public."""
    assert state(stored(599, last_modified=at(-86_400))).lifetime == 0
    assert state(stored(599, last_modified=at(-86_400), cache_control="public")).lifetime == 8_640


# -- 4.2.3 Calculating age


def test_age_counts_the_time_on_the_way_and_in_the_store() -> None:
    """Section 4.2.3: corrected_age_value = age_value + response_delay."""
    assert current_age(stored(age="30", delay=2, date=at(0)), NOW + 10) == 42


def test_a_date_in_the_past_makes_a_response_old() -> None:
    """Section 4.2.3: apparent_age."""
    assert current_age(stored(date=at(-7200)), NOW) == 7200
    assert not state(stored(date=at(-7200), cache_control="max-age=3600")).fresh(NOW)


def test_a_date_in_the_future_does_not_make_it_younger() -> None:
    """Section 4.2.3: apparent_age = max(0, response_time - date_value)."""
    assert current_age(stored(date=at(10), age="15"), NOW) == 15


def test_a_response_without_a_date_counts_from_its_receipt() -> None:
    """RFC 9110, section 6.6.1."""
    assert current_age(stored(), NOW + 5) == 5


def test_a_clock_that_is_set_back_makes_no_age_negative() -> None:
    """Section 4.2.3: an age is a length of time."""
    assert current_age(stored(age="3"), NOW - 100) == 3


# -- 4.2.4 Serving stale responses


@pytest.mark.parametrize("control", ["no-cache", "must-revalidate", "proxy-revalidate", "s-maxage=2"])
@pytest.mark.parametrize("occasion", Occasion)
def test_a_stale_response_is_not_used_where_a_directive_prohibits_it(control: str, occasion: Occasion) -> None:
    """Section 4.2.4: not even when disconnected."""
    response = stored(cache_control=f"max-age=2, stale-if-error=99, stale-while-revalidate=99, {control}")
    request = CacheControl(max_stale=99, stale_if_error=99)

    assert not stale.allowed(response, state(response, 5), NOW + 5, occasion=occasion, request=request, limit=99)


@pytest.mark.parametrize("occasion", [Occasion.ERROR, Occasion.DISCONNECTED, Occasion.REFUSED])
def test_a_stale_response_stands_in_for_a_failing_origin_as_long_as_configured(occasion: Occasion) -> None:
    """Section 4.2.4: disconnected, or by configuration."""
    response = stored(cache_control="max-age=2")

    def allowed(after: float) -> bool:
        known = state(response, after)
        return stale.allowed(response, known, NOW + after, occasion=occasion, request=CacheControl(), limit=100)

    assert allowed(102)
    assert not allowed(103)


def test_what_was_given_to_credentials_is_not_kept_in_use_by_configuration() -> None:
    """Section 4.2.4; our own caution."""
    response = stored(cache_control="public, max-age=2", authorized=True)

    for occasion in (Occasion.ERROR, Occasion.DISCONNECTED, Occasion.REFUSED):
        assert not stale.allowed(
            response, state(response, 9), NOW + 9, occasion=occasion, request=CacheControl(), limit=100
        )


# -- 4.3 Validation


def test_a_validating_request_carries_the_validators_exactly_as_they_came() -> None:
    """Section 4.3.1."""
    odd = stored(etag="W/unquoted", last_modified="Tue, 01 Jan 2020 0:00:00 +0000")

    assert validation.conditional_fields(odd) == Fields(
        [("If-None-Match", "W/unquoted"), ("If-Modified-Since", "Tue, 01 Jan 2020 0:00:00 +0000")]
    )


def test_of_two_entity_tags_neither_is_trusted() -> None:
    """RFC 9110, section 8.8.3: ETag is a single value."""
    response = replace(stored(), fields=Fields([("etag", '"a"'), ("etag", '"b"'), ("last-modified", at(-9))]))

    assert validation.conditional_fields(response) == Fields([("If-Modified-Since", at(-9))])


def test_a_304_makes_the_stored_response_fresh_again() -> None:
    """Sections 4.3.3 and 4.3.4."""
    response = stored(cache_control="max-age=60", etag='"x"', date=at(0), age="50", invalid=True)

    updated = freshen(response, etag='"x"', date=at(100))

    assert updated is not None
    assert isinstance(deciding(updated, 158), Reuse)
    assert isinstance(deciding(updated, 159), Validate)
    assert updated.content is response.content


def test_a_304_without_a_date_dates_from_its_receipt() -> None:
    """Section 4.3.4; RFC 9110, section 6.6.1."""
    updated = freshen(stored(cache_control="max-age=60", etag='"x"', date=at(0), age="50"), etag='"x"')

    assert updated is not None
    assert updated.fields.get("date") == at(100)
    assert current_age(updated, NOW + 110) == 11


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ({"etag": '"x"'}, {"etag": '"y"'}),
        ({"etag": '"x"', "last_modified": at(-9)}, {"etag": '"y"', "last_modified": at(-9)}),
        ({"last_modified": at(-9)}, {"last_modified": at(-8)}),
        ({"last_modified": at(-9)}, {"etag": '"y"'}),
        ({}, {"etag": '"y"'}),
    ],
)
def test_a_304_with_another_validator_updates_nothing(known: dict[str, Any], told: dict[str, Any]) -> None:
    """Section 4.3.4: MUST NOT use the new response to update any stored responses."""
    assert freshen(stored(**known), **told) is None


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ({"etag": 'W/"x"'}, {"etag": 'W/"x"'}),
        ({"etag": '"x-gzip"'}, {"etag": '"x"'}),
        ({"etag": '"x"'}, {"etag": 'W/"x"'}),
        ({"last_modified": at(-9)}, {"last_modified": at(-9)}),
        ({"etag": '"x"', "last_modified": at(-9)}, {"last_modified": at(-9)}),
        ({"etag": '"x"'}, {}),
        ({}, {}),
    ],
)
def test_a_304_with_the_same_validator_or_none_updates(known: dict[str, Any], told: dict[str, Any]) -> None:
    """Section 4.3.4; the marks of compressing servers are overlooked, and the stored tag stays as it was."""
    updated = freshen(stored(**known), **told)

    assert updated is not None
    assert updated.fields.get("etag") == known.get("etag")


def test_a_304_that_keeps_a_field_back_takes_it_from_what_was_stored() -> None:
    """Sections 3.2 and 5.2.2.7: a shared cache MUST NOT store the listed header fields."""
    updated = freshen(stored(etag='"x"', x_user="me"), etag='"x"', cache_control='max-age=60, private="x-user"')

    assert updated is not None
    assert "x-user" not in updated.fields


def test_a_head_that_finds_what_was_not_found_ends_the_reuse_of_the_404() -> None:
    """Section 4.3.5."""
    gone = replace(stored(cache_control="max-age=60"), status=404)

    assert validation.apply_head(gone, Response(200, fields(cache_control="max-age=60")), NOW, NOW) is None


@pytest.mark.parametrize(("feed", "kept"), [(False, "text/html"), (True, "text/plain")])
def test_a_304_updates_the_media_type_of_what_was_not_read_by_it(feed: bool, kept: str) -> None:
    """Section 3.2: "fields that affect that processing" may be left alone, as few as can be."""
    response = replace(stored(etag='"x"', content_type="text/plain"), content=Content({"identity": b"x"}, feed=feed))

    updated = freshen(response, etag='"x"', content_type="text/html")

    assert updated is not None
    assert updated.fields.get("content-type") == kept


def test_a_304_brings_no_digest_to_content_that_has_lost_its_own() -> None:
    """Section 3.2; RFC 9530, section 3: it would be of other bytes."""
    updated = freshen(stored(etag='"x"'), etag='"x"', repr_digest="sha-256=:AAAA:")

    assert updated is not None
    assert "repr-digest" not in updated.fields


def test_a_304_that_forbids_storing_ends_the_reuse() -> None:
    """Sections 3.2 and 5.2.2.5."""
    updated = freshen(stored(cache_control="max-age=60", etag='"x"'), etag='"x"', cache_control="no-store")

    assert updated is not None
    assert isinstance(deciding(updated, 101), Forward)


def test_a_304_with_a_wider_vary_is_compared_with_what_was_asked() -> None:
    """Sections 3.2 and 4.1."""
    response, news = varying("a", fields(a="1"), etag='"x"'), Response(304, fields(etag='"x"', vary="a, b"))

    blind = validation.freshen(response, news, NOW, NOW)
    seeing = validation.freshen(response, news, NOW, NOW, request=fields(a="1", b="2"))

    assert blind is not None
    assert seeing is not None
    assert selects(blind, ("a", "1"))
    assert selects(seeing, ("a", "1"), ("b", "2"))
    assert not selects(seeing, ("a", "1"))


# -- 3.3 and 3.4 Incomplete responses, and combining them


def part(first: int, last: int, **lines: Any) -> StoredResponse:
    """The bytes `first` to `last` of 0123456789."""
    said = fields(content_range=f"bytes {first}-{last}/10", **lines)
    return replace(stored(206), fields=said, content=Content({"identity": b"0123456789"[first : last + 1]}))


def test_an_incomplete_response_answers_only_ranges_wholly_within_it() -> None:
    """Section 3.3: a cache MUST NOT use an incomplete response to answer requests otherwise."""
    held = part(2, 7)

    assert partial.cut(held, fields(range="bytes=2-7")) is not None
    for asked in ({}, {"range": "bytes=2-8"}, {"range": "bytes=0-"}, {"range": "bytes=-1"}):
        assert partial.cut(held, fields(**asked)) is None


def test_partial_content_is_stored_as_a_part_only() -> None:
    """Section 3.3: a cache MUST NOT send a partial response using the 200 status code."""
    asked = Request("GET", TARGET, fields(range="bytes=0-4"))

    assert partial.may_keep(asked, part(0, 4, cache_control="max-age=60")) == Store()
    assert isinstance(may_store(asked, Response(206, fields(cache_control="max-age=60")), now=NOW), DoNotStore)


def test_parts_are_combined_only_under_the_same_strong_validator() -> None:
    """Section 3.4."""
    rest = Response(206, fields(content_range="bytes 5-9/10", etag='"x"'), b"56789")

    combined = partial.combine(part(0, 4, etag='"x"', a="1"), rest)
    assert isinstance(combined, partial.Combined)
    assert (combined.response.status, combined.response.body) == (200, b"0123456789")
    assert combined.response.fields.get("a") == "1"
    for lines in ({}, {"etag": '"y"'}, {"etag": 'W/"x"'}):
        assert isinstance(partial.combine(part(0, 4, **lines), rest), partial.Apart)


def test_a_new_response_replaces_the_fields_it_provides_aside_from_content_range() -> None:
    """Section 3.4."""
    rest = Response(206, fields(content_range="bytes 5-8/10", etag='"x"', a="2"), b"5678")

    combined = partial.combine(part(0, 4, etag='"x"', a="1"), rest)

    assert isinstance(combined, partial.Combined)
    assert combined.response.fields.get_all("a") == ["2"]
    assert combined.response.fields.get_all("content-range") == ["bytes 0-8/10"]


# -- 4.3.5 Freshening responses with HEAD


def head(response: StoredResponse, status: int = 200, **lines: Any) -> StoredResponse | None:
    return validation.apply_head(response, Response(status, fields(**lines)), NOW + 99, NOW + 100)


def test_a_head_with_matching_validators_freshens() -> None:
    """Section 4.3.5."""
    updated = head(
        stored(etag='"x"', a="1", cache_control="max-age=2"),
        etag='"x"',
        a="2",
        cache_control="max-age=60",
        content_length="10",
    )

    assert updated is not None
    assert updated.fields.get("a") == "2"
    assert isinstance(deciding(updated, 150), Reuse)


def test_a_head_without_validators_freshens_what_has_none() -> None:
    """Section 4.3.5: matching values for any *received* validator fields."""
    assert head(stored(cache_control="max-age=2"), cache_control="max-age=60") is not None


@pytest.mark.parametrize("lines", [{"etag": '"y"'}, {"last_modified": at(-1)}, {"content_length": "11"}])
def test_a_head_of_another_representation_ends_the_stored_one(lines: dict[str, Any]) -> None:
    """Section 4.3.5: the cache SHOULD consider the stored response to be stale."""
    assert head(stored(etag='"x"', last_modified=at(-9), cache_control="max-age=60"), **lines) is None


def test_a_head_that_failed_says_nothing() -> None:
    """Section 4.3.5 speaks of 200."""
    response = stored(etag='"x"')

    assert head(response, 410, etag='"y"') is response


# -- 4.4 Invalidating stored responses


def invalidated(method: str, status: int = 200, **lines: Any) -> tuple[str, ...]:
    return invalidated_by(Request(method, TARGET), Response(status, fields(**lines)))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH", "get"])
def test_an_unsafe_or_unknown_method_invalidates_its_target(method: str) -> None:
    """Section 4.4."""
    assert invalidated(method, 200) == invalidated(method, 303) == (TARGET,)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "TRACE"])
def test_a_safe_method_invalidates_nothing(method: str) -> None:
    """Section 4.4."""
    assert invalidated(method, location="/other") == ()


@pytest.mark.parametrize("status", [400, 404, 500, 503])
def test_a_request_that_failed_invalidates_nothing(status: int) -> None:
    """Section 4.4: a non-error response is one with a 2xx or 3xx status code."""
    assert invalidated("POST", status) == ()


def test_location_and_content_location_of_the_same_origin_are_invalidated_too() -> None:
    """Section 4.4."""
    assert invalidated("POST", location="item/1", content_location="HTTPS://EXAMPLE.com:443/x") == (
        TARGET,
        "https://example.com/item/1",
        "https://example.com/x",
    )


@pytest.mark.parametrize(
    "location",
    ["https://other.example/", "http://example.com/", "https://example.com:8443/", "mailto:x", "//["],
)
def test_another_origin_is_never_invalidated(location: str) -> None:
    """Section 4.4: this helps prevent denial-of-service attacks."""
    assert invalidated("POST", location=location) == (TARGET,)


def test_an_invalidated_response_is_validated_before_it_is_used() -> None:
    """Section 4.4."""
    response = stored(cache_control="max-age=60", etag='"x"', invalid=True)

    assert isinstance(deciding(response), Validate)
    for occasion in Occasion:
        assert not stale.allowed(response, state(response), NOW, occasion=occasion, request=CacheControl(), limit=100)


# -- 5.1 Age


@pytest.mark.parametrize(
    ("value", "age"),
    [
        ("7200, 0", 7200),
        ("0, 7200", 0),
        ("2147483647", 2147483647),
        ("2147483648", 2147483648),
        ("9" * 40, 2147483648),
        ("7200;foo=bar", 7200),
        ("7200 ; foo, 0", 7200),
    ],
)
def test_the_first_member_of_age_counts_and_is_bounded(value: str, age: float) -> None:
    """Sections 5.1 and 1.2.2; RFC 9651, section 3.3, for parameters."""
    assert current_age(stored(age=value), NOW) == age


@pytest.mark.parametrize("value", ["abc", "-7200", "7200.0", "", ";7200", "7200 0", "٣"])
def test_an_age_that_is_no_number_is_ignored(value: str) -> None:
    """Section 5.1."""
    assert current_age(stored(age=value), NOW) == 0


def test_of_two_age_lines_the_first_counts() -> None:
    """Section 5.1."""
    response = replace(stored(), fields=Fields([("Age", "3"), ("age", "7200")]))

    assert current_age(response, NOW) == 3


# -- 5.2.1 Request directives


def test_max_age_wants_a_response_that_is_not_older() -> None:
    """Section 5.2.1.1."""
    response = stored(cache_control="max-age=3600", etag='"x"')

    assert isinstance(deciding(response, 600.5, cache_control="max-age=600"), Reuse)
    decision = deciding(response, 601, cache_control="max-age=600")
    assert isinstance(decision, Validate)
    assert decision.fwd is Fwd.REQUEST


def test_max_stale_accepts_a_response_that_has_exceeded_its_lifetime_by_so_much() -> None:
    """Section 5.2.1.2."""
    response = stored(cache_control="max-age=60")

    accepted = deciding(response, 70, cache_control="max-stale=10")
    assert isinstance(accepted, Reuse)
    assert accepted.detail == "max-stale"
    assert isinstance(deciding(response, 71, cache_control="max-stale=10"), Forward)
    assert isinstance(deciding(response, 10**6, cache_control="max-stale"), Reuse)


def test_min_fresh_wants_a_response_that_stays_fresh_for_so_long() -> None:
    """Section 5.2.1.3."""
    response = stored(cache_control="max-age=1500", age="1000")

    assert isinstance(deciding(response, cache_control="min-fresh=500"), Reuse)
    assert isinstance(deciding(response, cache_control="min-fresh=501"), Forward)


@pytest.mark.parametrize("asked", [{"cache_control": "no-cache"}, {"pragma": "no-cache"}])
def test_no_cache_wants_the_origin_to_be_asked(asked: dict[str, Any]) -> None:
    """Sections 5.2.1.4 and 5.4."""
    decision = deciding(stored(cache_control="max-age=60", etag='"x"'), **asked)

    assert isinstance(decision, Validate)
    assert decision.fwd is Fwd.REQUEST


def test_pragma_means_nothing_beside_cache_control() -> None:
    """Section 5.4: only where Cache-Control is absent."""
    assert isinstance(deciding(stored(cache_control="max-age=60"), pragma="no-cache", cache_control="max-age=9"), Reuse)


def test_no_store_keeps_the_answer_out_of_the_store_but_not_stored_answers_from_the_request() -> None:
    """Section 5.2.1.5."""
    asked = fields(cache_control="no-store")

    assert storing(asked=asked, cache_control="max-age=60") == DoNotStore("the request said no-store")
    assert isinstance(deciding(stored(cache_control="max-age=60"), cache_control="no-store"), Reuse)


def test_only_if_cached_gets_a_stored_response_or_504() -> None:
    """Section 5.2.1.7."""
    response = stored(cache_control="max-age=60", etag='"x"')

    assert isinstance(deciding(response, cache_control="only-if-cached"), Reuse)
    assert isinstance(deciding(response, 61, cache_control="only-if-cached"), Unsatisfiable)
    assert isinstance(deciding(response, cache_control="only-if-cached, no-cache"), Unsatisfiable)
    assert isinstance(deciding(None, cache_control="only-if-cached"), Unsatisfiable)


# -- 5.2.2 Response directives


def test_must_revalidate_changes_nothing_while_the_response_is_fresh() -> None:
    """Section 5.2.2.2."""
    assert isinstance(deciding(stored(cache_control="max-age=60, must-revalidate"), 59), Reuse)


@pytest.mark.parametrize("control", ["must-revalidate", "proxy-revalidate", "s-maxage=60"])
def test_a_stale_response_that_must_be_revalidated_is_not_given_to_max_stale(control: str) -> None:
    """Sections 5.2.2.2, 5.2.2.8 and 5.2.2.10."""
    response = stored(cache_control=f"max-age=60, {control}", etag='"x"')

    assert isinstance(deciding(response, 61, cache_control="max-stale"), Validate)


def test_must_understand_overrides_no_store_for_a_status_that_is_understood() -> None:
    """Section 5.2.2.3."""
    assert isinstance(storing(200, cache_control="max-age=60, no-store, must-understand"), Store)
    assert isinstance(deciding(stored(cache_control="max-age=60, no-store, must-understand")), Reuse)


def test_must_understand_forbids_storing_a_status_that_is_not() -> None:
    """Section 5.2.2.3."""
    assert isinstance(storing(599, cache_control="max-age=60, no-store, must-understand"), DoNotStore)
    assert isinstance(storing(599, cache_control="max-age=60, must-understand"), DoNotStore)


def test_no_cache_is_stored_and_validated_on_every_use() -> None:
    """Section 5.2.2.4."""
    control = "max-age=10000, No-CaChE"

    assert isinstance(storing(cache_control=control), Store)
    assert isinstance(deciding(stored(cache_control=control, etag='"x"')), Validate)


def test_no_cache_of_some_fields_leaves_the_rest_reusable() -> None:
    """Section 5.2.2.4, qualified form."""
    assert isinstance(deciding(stored(cache_control='max-age=60, no-cache="a"')), Reuse)


def test_public_makes_any_status_heuristically_cacheable() -> None:
    """Section 5.2.2.9."""
    assert isinstance(storing(599, cache_control="public", last_modified=at(-86_400)), Store)


def test_unrecognised_directives_are_ignored() -> None:
    """Section 5.2.3."""
    assert isinstance(deciding(stored(cache_control='community="UCI", max-age=60, x')), Reuse)


# -- 5.3 Expires


@pytest.mark.parametrize(
    "value",
    [
        "0", "-1", "", "Thu, 18 Aug 2050 02:01:18 UTC", "Thu, 18 Aug 50 02:01:18 GMT",
        "Thu 18 Aug 2050 02:01:18 GMT", "Thu, 18-Aug-2050 02:01:18 GMT", "Thu, 18 Aug 2050 2:01:18 GMT",
    ],
)  # fmt: skip
def test_an_invalid_expires_lies_in_the_past(value: str) -> None:
    """Section 5.3."""
    assert freshness.explicit_lifetime(stored(expires=value)) == (0, Source.EXPIRES)


@pytest.mark.parametrize(
    "value",
    [
        "Thu, 18 Aug 2050 02:01:18 GMT",
        "THU, 18 AUG 2050 02:01:18 gmt",
        "Thu Aug 18 02:01:18 2050",
        "Thursday, 18-Aug-50 02:01:18 GMT",
    ],
)
def test_every_form_of_date_and_case_is_understood_in_expires(value: str) -> None:
    """Section 4.2: match the field value case-insensitively."""
    assert state(stored(expires=value)).fresh(NOW + 86_400)
