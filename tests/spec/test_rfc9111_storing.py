"""RFC 9111, HTTP caching, for a shared cache: what is stored, and what of it (section 3). A test per promise."""

from typing import Any

import pytest
from msgspec.structs import replace

from feedproxy.cache import partial_content
from feedproxy.cache.set_cookie import with_cookies
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.cache.storing import reason_not_to_store, storable_fields
from feedproxy.http.message import Fields, Request, Response
from tests.spec.caching import (
    NO_FIELDS,
    NOW,
    TARGET,
    at,
    fields,
    freshen,
    stored,
    storing,
)

# -- 3. Storing responses in caches


def test_method_must_be_understood_for_storing() -> None:
    """Section 3."""
    assert storing(method="GET") is None
    assert storing(method="POST", cache_control="max-age=60") == "responses to POST are not stored"


def test_interim_response_is_not_stored() -> None:
    """Section 3: the response status code is final."""
    assert storing(103, cache_control="max-age=60") is not None


@pytest.mark.parametrize("status", [206, 304])
def test_status_206_or_304_is_not_stored_as_a_response(status: int) -> None:
    """Section 3.3: a part is stored by a decision of its own (partial_content.py); a 304 updates."""
    assert storing(status, cache_control="max-age=60") is not None


@pytest.mark.parametrize("status", [226, 401, 407, 408, 411, 412, 413, 416, 417, 421, 425, 428, 431, 511])
def test_status_that_answers_one_request_only_is_not_stored(status: int) -> None:
    """RFC 9110, section 15: its credentials, conditions, size or connection; RFC 3229, section 10.4.1, for 226."""
    assert storing(status, cache_control="max-age=60") == f"{status} answers one request only"


@pytest.mark.parametrize("control", ["no-store", "No-StOrE", "max-age=60, no-store", "no-store=x"])
def test_no_store_forbids_storing(control: str) -> None:
    """Sections 3 and 5.2.2.5."""
    assert storing(cache_control=control) == "no-store"


def test_private_forbids_storing() -> None:
    """Sections 3 and 5.2.2.7."""
    assert storing(cache_control="private, max-age=3600") == "private"


@pytest.mark.parametrize("status", [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501])
def test_heuristically_cacheable_status_is_stored_without_explicit_directive(status: int) -> None:
    """Section 3; RFC 9110, section 15.1."""
    assert storing(status) is None


@pytest.mark.parametrize("status", [201, 202, 299, 302, 303, 307, 400, 403, 500, 502, 503, 504, 599])
def test_status_without_heuristic_freshness_is_stored_only_with_explicit_directive(status: int) -> None:
    """Section 3."""
    assert storing(status, last_modified=at(-86_400)) is not None
    for control in ("max-age=60", "s-maxage=60", "public"):
        assert storing(status, cache_control=control) is None
    assert storing(status, expires=at(60)) is None


# -- 3.1 Storing header and trailer fields


def test_fields_are_stored_including_unrecognised_ones() -> None:
    """Section 3.1: a cache MUST include all received response header fields."""
    received = fields(etag='"x"', x_frame_options="deny", content_foo="bar", content_encoding="x", age="3")

    assert storable_fields(received) == received


def test_fields_of_connection_and_proxy_are_not_stored() -> None:
    """Section 3.1."""
    received = Fields(
        [
            ("Connection", "a, b"), ("a", "1"), ("b", "2"), ("c", "3"), ("Keep-Alive", "x"),
            ("Proxy-Authenticate", "x"), ("Proxy-Authentication-Info", "x"), ("Proxy-Connection", "x"),
            ("Proxy-Authorization", "x"), ("Proxy", "x"),
            ("TE", "x"), ("Trailer", "x"), ("Transfer-Encoding", "chunked"), ("Upgrade", "x"),
        ]
    )  # fmt: skip

    assert storable_fields(received) == Fields([("c", "3")])


@pytest.mark.parametrize("name", ["cache-control", "content-length", "content-type", "date", "etag", "vary"])
def test_field_that_a_message_needs_is_stored_even_if_connection_names_it(name: str) -> None:
    """RFC 9110, section 7.6.1: Connection MUST NOT name fields intended for all recipients, such as Cache-Control."""
    received = Fields([("Connection", name), (name, "1")])

    assert storable_fields(received) == Fields([(name, "1")])


@pytest.mark.parametrize("directive", ["private", "no-cache"])
def test_fields_named_by_a_qualified_directive_are_not_stored(directive: str) -> None:
    """Section 3.1; sections 5.2.2.4 and 5.2.2.7, qualified form."""
    control = f'{directive}="a, B", max-age=60'
    received = Fields([("Cache-Control", control), ("A", "1"), ("b", "2"), ("c", "3")])

    assert reason_not_to_store(Request("GET", TARGET), Response(200, received)) is None
    assert storable_fields(received) == Fields([("Cache-Control", control), ("c", "3")])


def test_private_vary_field_forbids_storing() -> None:
    """Section 5.2.2.7: without its Vary it would answer requests that it is not for."""
    assert storing(cache_control='private="vary", max-age=60', vary="cookie") is not None


def test_set_cookie_does_not_prevent_storing_and_is_no_stored_field() -> None:
    """Section 7.3."""
    assert storing(set_cookie="a=b", cache_control="max-age=60") is None
    assert "set-cookie" not in storable_fields(fields(set_cookie="a=b"))


def cookie_of(*, feed: bool = False, asked: Fields = NO_FIELDS, held: str | None = None, **lines: Any) -> str | None:
    """Return the stored Set-Cookie of a response with `a=b`. With `held`, that response updates one whose cookie is
    `held`.
    """
    news = fields(set_cookie="a=b", **lines)
    kept = fields(set_cookie=held) if held else NO_FIELDS
    response = StoredResponse(
        TARGET, 200, Fields((*storable_fields(news), *kept)), Content(Bodies({}), feed=feed), NOW, NOW
    )
    return with_cookies(response, news, Request("GET", TARGET, asked)).fields.get("set-cookie")


@pytest.mark.parametrize("control", ["public", "max-age=60", "s-maxage=60", "public, must-revalidate"])
def test_set_cookie_is_stored_where_the_response_is_explicitly_shareable(control: str) -> None:
    """Section 3.1: a cache MUST include all received response header fields; section 7.3."""
    assert cookie_of(cache_control=control) == "a=b"
    assert cookie_of(date=at(0), expires=at(60)) == "a=b"


@pytest.mark.parametrize(
    "control", ["", "private, max-age=60", "no-cache, max-age=60", "max-age=0", 'no-cache="set-cookie", max-age=60']
)
def test_set_cookie_is_not_stored_where_the_response_is_not_explicitly_shareable(control: str) -> None:
    """Section 7.3: servers that wish to control caching are encouraged to emit Cache-Control; many do not."""
    assert cookie_of(cache_control=control) is None
    assert cookie_of(last_modified=at(-86_400)) is None


def test_set_cookie_is_not_stored_for_identified_clients_or_feeds() -> None:
    """Our own caution; section 3.1 would have them stored."""
    assert cookie_of(cache_control="public", asked=fields(cookie="x=y")) is None
    assert cookie_of(cache_control="public", asked=fields(authorization="x")) is None
    assert cookie_of(cache_control="public", feed=True) is None


def test_update_replaces_or_removes_the_stored_cookie() -> None:
    """Section 3.2; the message that brings a cookie has to say whose it is."""
    assert cookie_of(held="old=1", cache_control="max-age=60") == "a=b"
    assert cookie_of(held="old=1") is None


def test_request_with_cookie_is_stored_only_with_explicit_directive() -> None:
    """Our own caution; section 3 would allow more."""
    asked = fields(cookie="a=b")

    assert storing(asked=asked) is not None
    assert storing(asked=asked, cache_control="max-age=60") is None
    assert storing(asked=asked, cache_control="public") is None


# -- 3.2 Updating stored header fields


def test_update_replaces_the_fields_it_provides_and_keeps_the_others() -> None:
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
def test_update_keeps_fields_that_describe_the_stored_content(name: str) -> None:
    """Section 3.2: Content-Length, and fields that the stored content depends on."""
    updated = freshen(stored(etag='"x"', **dict[str, Any]({name: "36"})), etag='"x"', **{name: "10"})

    assert updated is not None
    assert updated.fields.get_all(name) == ["36"]


def test_update_adds_no_fields_that_may_not_be_stored() -> None:
    """Section 3.2: the exceptions of section 3.1 hold for updates too."""
    updated = freshen(stored(etag='"x"'), etag='"x"', set_cookie="a=b", connection="x", x="1")

    assert updated is not None
    assert [name for name, _ in updated.fields if name in ("set-cookie", "connection", "x")] == []


# -- 3.5 Storing responses to authenticated requests


@pytest.mark.parametrize("control", ["must-revalidate, max-age=60", "public, max-age=60", "s-maxage=60"])
def test_authorized_response_is_stored_where_it_permits_sharing(control: str) -> None:
    """Section 3.5."""
    assert storing(asked=fields(authorization="Basic eDp5"), cache_control=control) is None


@pytest.mark.parametrize("control", ["max-age=100000", "proxy-revalidate, max-age=60", 'no-cache="x"'])
def test_authorized_response_is_not_stored_without_permission_to_share(control: str) -> None:
    """Section 3.5."""
    assert storing(asked=fields(authorization="Basic eDp5"), cache_control=control) is not None


# -- 3.3 and 3.4 Incomplete responses, and combining them


def part(first: int, last: int, **lines: Any) -> StoredResponse:
    """Return a stored part: the bytes `first` to `last` of 0123456789."""
    said = fields(content_range=f"bytes {first}-{last}/10", **lines)
    return replace(stored(206), fields=said, content=Content(Bodies({"identity": b"0123456789"[first : last + 1]})))


def test_incomplete_response_answers_only_ranges_within_it() -> None:
    """Section 3.3: a cache MUST NOT use an incomplete response to answer requests otherwise."""
    held = part(2, 7)

    assert partial_content.respond_with_part(held, fields(range="bytes=2-7")) is not None
    for asked in ({}, {"range": "bytes=2-8"}, {"range": "bytes=0-"}, {"range": "bytes=-1"}):
        assert partial_content.respond_with_part(held, fields(**asked)) is None


def test_partial_content_is_stored_only_as_a_part() -> None:
    """Section 3.3: a cache MUST NOT send a partial response using the 200 status code."""
    asked = Request("GET", TARGET, fields(range="bytes=0-4"))

    assert partial_content.reason_not_to_store_part(asked, part(0, 4, cache_control="max-age=60")) is None
    assert reason_not_to_store(asked, Response(206, fields(cache_control="max-age=60"))) is not None


def test_partial_content_is_combined_only_under_the_same_strong_validator() -> None:
    """Section 3.4."""
    rest = Response(206, fields(content_range="bytes 5-9/10", etag='"x"'), b"56789")

    combined = partial_content.combine(part(0, 4, etag='"x"', a="1"), rest)
    assert combined is not None
    assert (combined.status, combined.body) == (200, b"0123456789")
    assert combined.fields.get("a") == "1"
    for lines in ({}, {"etag": '"y"'}, {"etag": 'W/"x"'}):
        assert partial_content.combine(part(0, 4, **lines), rest) is None


def test_partial_content_combined_takes_new_fields_except_content_range() -> None:
    """Section 3.4."""
    rest = Response(206, fields(content_range="bytes 5-8/10", etag='"x"', a="2"), b"5678")

    combined = partial_content.combine(part(0, 4, etag='"x"', a="1"), rest)

    assert combined is not None
    assert combined.fields.get_all("a") == ["2"]
    assert combined.fields.get_all("content-range") == ["bytes 0-8/10"]
