"""Properties of cache decisions for any input."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from feedproxy.cache import serving_stale, vary
from feedproxy.cache.cache_status import CacheStatus, Detail, Fwd
from feedproxy.cache.freshness import Allowance, assess, current_age
from feedproxy.cache.reuse_decision import Reuse, ReuseAndRevalidate, decide
from feedproxy.cache.serving_stale import Occasion
from feedproxy.cache.stored_response import Content, StoredResponse
from feedproxy.cache.storing import reason_not_to_store, storable_fields
from feedproxy.cache.validation import apply_head, freshen
from feedproxy.clock import Instant
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.content_negotiation import vary_names
from feedproxy.http.date import format_http_date
from feedproxy.http.hop_by_hop import HOP_BY_HOP
from feedproxy.http.message import Fields, Request, Response

NOW = 1_750_000_000.0

seconds = st.integers(0, 10_000)
directives = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "no-store",
                "private",
                "no-cache",
                "must-revalidate",
                "proxy-revalidate",
                "public",
                "must-understand",
            ]
        ),
        st.builds("{}={}".format, st.sampled_from(["max-age", "s-maxage", "stale-if-error"]), seconds),
        st.builds("stale-while-revalidate={}".format, seconds),
        st.sampled_from(["max-age", "max-age=x", 'private="set-cookie"', 'no-cache="etag"', "immutable", "x=y"]),
    ),
    max_size=5,
).map(", ".join)
dates = st.one_of(
    st.integers(-100_000, 100_000).map(lambda offset: format_http_date(NOW + offset)),
    st.sampled_from(["0", "", "yesterday"]),
)
names = st.sampled_from(["foo", "Accept-Language", "cookie", "user-agent"])
values = st.sampled_from(["", "1", "2", "1, 2", "1,2", "en", "EN;q=0.5, de"])
requests = st.lists(st.tuples(names, values), max_size=4).map(Fields)
varies = st.lists(st.one_of(names, st.just("*")), max_size=3).map(", ".join)
response_fields = st.lists(
    st.one_of(
        st.tuples(st.just("Cache-Control"), directives),
        st.tuples(st.sampled_from(["Date", "Expires", "Last-Modified"]), dates),
        st.tuples(st.just("Age"), st.one_of(seconds.map(str), st.sampled_from(["-1", "1.5", "x", "9" * 30]))),
        st.tuples(st.just("ETag"), st.sampled_from(['"x"', 'W/"x"', "x", '"y"'])),
        st.tuples(st.just("Vary"), varies),
        st.tuples(st.sampled_from(["Connection", "Set-Cookie", "Keep-Alive", "TE"]), st.just("foo")),
    ),
    max_size=8,
).map(Fields)
moments = st.floats(NOW - 100_000, NOW + 100_000)
asked = st.builds(
    CacheControl,
    no_cache=st.booleans(),
    only_if_cached=st.booleans(),
    max_age=st.none() | seconds.map(float),
    min_fresh=st.none() | seconds.map(float),
    max_stale=st.none() | seconds.map(float) | st.just(float("inf")),
    stale_if_error=st.none() | seconds.map(float),
)
stored_responses = st.builds(
    StoredResponse,
    target=st.just("https://example.com/"),
    status=st.sampled_from([200, 404, 503, 599]),
    fields=response_fields,
    content=st.builds(Content, st.just({"identity": b"x"}), feed=st.booleans()),
    request_time=moments,
    response_time=moments,
    vary_request=requests,
    own_agent=st.booleans(),
    authorized=st.booleans(),
    invalid=st.booleans(),
)


def generous(base: Instant, expires: Instant | None) -> Allowance | None:
    """Return a feed hint that permits reuse without end."""
    return Allowance(base + 10**12, Detail.TTL_HINT, "for ever")


@given(stored_responses, moments)
def test_age_and_lifetime_are_never_negative(stored: StoredResponse, now: Instant) -> None:
    freshness = assess(stored, now, default=1800, minimum=300)

    assert current_age(stored, now) >= 0
    assert freshness.age >= 0
    assert freshness.lifetime >= 0
    assert freshness.description


@given(stored_responses, st.tuples(moments, moments))
def test_age_never_decreases(stored: StoredResponse, times: tuple[Instant, Instant]) -> None:
    assert current_age(stored, min(times)) <= current_age(stored, max(times))


@given(stored_responses, asked, moments)
def test_response_that_http_forbids_to_reuse_is_not_reused(
    stored: StoredResponse, request: CacheControl, now: Instant
) -> None:
    freshness = assess(stored, now, hint=generous, default=1800, minimum=300)
    control = CacheControl.from_fields(stored.fields)

    decision = decide(stored, request, freshness, now, known_uri=True)

    if isinstance(decision, Reuse | ReuseAndRevalidate):
        assert not control.private
        assert not control.no_cache
        assert not control.no_store or (control.must_understand and stored.status != 599)
        assert not stored.invalid
        assert not request.no_cache
        if not freshness.is_fresh(now):
            assert not control.must_revalidate
            assert not control.proxy_revalidate
            assert control.s_maxage is None
            assert isinstance(decision, ReuseAndRevalidate) or decision.detail is not None


@given(stored_responses, asked, moments, st.sampled_from(Occasion), seconds)
def test_origin_failure_permits_no_use_that_http_forbids(
    stored: StoredResponse, request: CacheControl, now: Instant, occasion: Occasion, limit: int
) -> None:
    freshness = assess(stored, now, hint=generous)
    control = CacheControl.from_fields(stored.fields)

    if serving_stale.may_serve_stale(stored, freshness, now, occasion=occasion, request=request, limit=limit):
        assert not any((control.private, control.no_cache, stored.invalid))
        assert freshness.is_fresh(now) or not (control.must_revalidate or control.proxy_revalidate)


@given(response_fields, requests, st.sampled_from([200, 206, 304, 404, 503]))
def test_stored_response_may_be_shared(fields: Fields, request: Fields, status: int) -> None:
    control = CacheControl.from_fields(fields)

    decision = reason_not_to_store(Request("GET", "https://example.com/", request), Response(status, fields))

    if decision is None:
        assert not control.private
        assert not control.no_store or control.must_understand
        assert vary_names(fields) != ("*",)
        assert status not in (206, 304)


@given(response_fields)
def test_stored_response_has_no_hop_by_hop_field_and_no_cookie(fields: Fields) -> None:
    kept = {name.lower() for name, _ in storable_fields(fields)}

    assert not kept & (HOP_BY_HOP | {"set-cookie", "foo"})


@given(st.lists(stored_responses, max_size=4), requests, st.booleans())
def test_chosen_variant_matches_its_vary_and_no_matching_variant_is_missed(
    variants: list[StoredResponse], request: Fields, own_agent: bool
) -> None:
    chosen = vary.choose(variants, request, own_agent=own_agent)

    matching = [each for each in variants if vary.selects(each, request, own_agent=own_agent)]
    assert (chosen in matching) if matching else chosen is None
    if chosen is not None:
        for name in vary_names(chosen.fields):
            ignored = name == "user-agent" and own_agent and chosen.own_agent
            assert ignored or (name in chosen.vary_request) == (name in request)


@given(stored_responses, requests, st.booleans())
def test_request_selects_the_response_to_an_equal_request(
    stored: StoredResponse, request: Fields, own_agent: bool
) -> None:
    answer = replace(stored, vary_request=vary.request_fields_for(stored.fields, request))

    starred = vary_names(stored.fields) == ("*",)
    assert vary.selects(answer, request, own_agent=own_agent) is not starred


@given(st.lists(stored_responses, max_size=4), stored_responses, requests)
def test_new_response_answers_the_request_that_caused_it(
    variants: list[StoredResponse], stored: StoredResponse, request: Fields
) -> None:
    new = replace(stored, vary_request=vary.request_fields_for(stored.fields, request))

    kept = vary.with_variant(variants, new, request, own_agent=False, limit=3)

    assert len(kept) <= 3
    if vary_names(new.fields) != ("*",):
        assert vary.choose(kept, request, own_agent=False) is new


@given(stored_responses, response_fields, st.tuples(moments, moments), requests)
def test_update_keeps_the_content_and_resets_the_age(
    stored: StoredResponse, news: Fields, times: tuple[Instant, Instant], request: Fields
) -> None:
    sent, received = sorted(times)
    for updated in (
        freshen(stored, Response(304, news), sent, received, request=request),
        apply_head(stored, Response(200, news), sent, received, request=request),
    ):
        if updated is not None:
            assert updated.content is stored.content
            assert not updated.invalid
            assert (updated.request_time, updated.response_time) == (sent, received)
            brought = set(updated.fields) & set(news)
            assert "Set-Cookie" not in {name for name, _ in brought - set(stored.fields)}
            assert len(updated.fields.get_all("date")) >= 1


@given(
    st.sampled_from(Fwd),
    st.none() | st.integers(100, 599),
    st.booleans(),
    st.booleans(),
    st.none() | st.integers(),
)
def test_cache_status_member_has_no_empty_part(
    fwd: Fwd, status: int | None, stored: bool, collapsed: bool, ttl: int | None
) -> None:
    text = CacheStatus(False, fwd, status, stored, collapsed, ttl, Detail.FLOOR).text()

    assert all(part and part.isascii() and " " not in part for part in text.split("; "))
