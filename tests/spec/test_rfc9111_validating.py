"""RFC 9111, HTTP caching, for a shared cache: validation and invalidation (4.3 and 4.4). A test per promise."""

from typing import Any

import pytest
from msgspec.structs import replace

from feedproxy.cache import serving_stale, validation
from feedproxy.cache.freshness import current_age
from feedproxy.cache.invalidation import invalidated_by
from feedproxy.cache.reuse_decision import Forward, Reuse, Validate
from feedproxy.cache.serving_stale import Occasion
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.message import Fields, Request, Response
from tests.spec.caching import (
    NOW,
    TARGET,
    at,
    deciding,
    fields,
    freshen,
    selects,
    state,
    stored,
    varying,
)

# -- 4.3 Validation


def test_conditional_request_carries_the_stored_validators_verbatim() -> None:
    """Section 4.3.1."""
    odd = stored(etag="W/unquoted", last_modified="Tue, 01 Jan 2020 0:00:00 +0000")

    assert validation.conditional_fields(odd) == Fields(
        [("If-None-Match", "W/unquoted"), ("If-Modified-Since", "Tue, 01 Jan 2020 0:00:00 +0000")]
    )


def test_conditional_request_omits_two_conflicting_entity_tags() -> None:
    """RFC 9110, section 8.8.3: ETag is a single value."""
    response = replace(stored(), fields=Fields([("etag", '"a"'), ("etag", '"b"'), ("last-modified", at(-9))]))

    assert validation.conditional_fields(response) == Fields([("If-Modified-Since", at(-9))])


def test_status_304_freshens_the_stored_response() -> None:
    """Sections 4.3.3 and 4.3.4."""
    response = stored(cache_control="max-age=60", etag='"x"', date=at(0), age="50", invalid=True)

    updated = freshen(response, etag='"x"', date=at(100))

    assert updated is not None
    assert isinstance(deciding(updated, 158), Reuse)
    assert isinstance(deciding(updated, 159), Validate)
    assert updated.content is response.content


def test_status_304_without_a_date_is_dated_at_receipt() -> None:
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
        ({"last_modified": "last week"}, {"last_modified": "this week"}),
        ({"last_modified": at(-9)}, {"etag": '"y"'}),
        ({"etag": '"x"'}, {"last_modified": at(-9)}),
        ({}, {"etag": '"y"'}),
        ({}, {"last_modified": at(-9)}),
    ],
)
def test_status_304_with_another_validator_updates_nothing(known: dict[str, Any], told: dict[str, Any]) -> None:
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
def test_status_304_with_the_same_or_no_validator_updates(known: dict[str, Any], told: dict[str, Any]) -> None:
    """Section 4.3.4; the marks of compressing servers are overlooked, and the stored tag stays as it was."""
    updated = freshen(stored(**known), **told)

    assert updated is not None
    assert updated.fields.get("etag") == known.get("etag")


def test_status_304_with_private_field_removes_the_stored_field() -> None:
    """Sections 3.2 and 5.2.2.7: a shared cache MUST NOT store the listed header fields."""
    updated = freshen(stored(etag='"x"', x_user="me"), etag='"x"', cache_control='max-age=60, private="x-user"')

    assert updated is not None
    assert "x-user" not in updated.fields


def test_status_304_with_private_field_adds_no_such_field_below_a_stored_targeted_field() -> None:
    """Section 5.2.2.7, and RFC 9213, section 2.2: the targeted field of the stored response is not in the 304."""
    response = stored(etag='"x"', cdn_cache_control="max-age=60")
    received = Response(304, fields(etag='"x"', x_user="me", cache_control='max-age=60, private="x-user"'))

    updated = validation.freshen(response, received, NOW, NOW, request=fields(), targeted=True)

    assert updated is not None
    assert "x-user" not in updated.fields


def test_head_with_200_ends_reuse_of_a_stored_404() -> None:
    """Section 4.3.5."""
    gone = replace(stored(cache_control="max-age=60"), status=404)

    head_response = Response(200, fields(cache_control="max-age=60"))

    assert validation.apply_head(gone, head_response, NOW, NOW, request=fields()) is None


@pytest.mark.parametrize(("feed", "kept"), [(False, "text/html"), (True, "text/plain")])
def test_status_304_updates_the_media_type_except_of_feeds(feed: bool, kept: str) -> None:
    """Section 3.2: "fields that affect that processing" may be left alone, as few as can be."""
    response = replace(
        stored(etag='"x"', content_type="text/plain"), content=Content(Bodies({"identity": b"x"}), feed=feed)
    )

    updated = freshen(response, etag='"x"', content_type="text/html")

    assert updated is not None
    assert updated.fields.get("content-type") == kept


def test_status_304_adds_no_digest_to_stored_content_without_one() -> None:
    """Section 3.2; RFC 9530, section 3: it would be of other bytes."""
    updated = freshen(stored(etag='"x"'), etag='"x"', repr_digest="sha-256=:AAAA:")

    assert updated is not None
    assert "repr-digest" not in updated.fields


def test_status_304_with_no_store_ends_reuse() -> None:
    """Sections 3.2 and 5.2.2.5."""
    updated = freshen(stored(cache_control="max-age=60", etag='"x"'), etag='"x"', cache_control="no-store")

    assert updated is not None
    assert isinstance(deciding(updated, 101), Forward)


def test_status_304_with_a_wider_vary_uses_the_fields_of_the_request() -> None:
    """Sections 3.2 and 4.1."""
    response, news = varying("a", fields(a="1"), etag='"x"'), Response(304, fields(etag='"x"', vary="a, b"))

    updated = validation.freshen(response, news, NOW, NOW, request=fields(a="1", b="2"))

    assert updated is not None
    assert selects(updated, ("a", "1"), ("b", "2"))
    assert not selects(updated, ("a", "1"))


# -- 4.3.5 Freshening responses with HEAD


def head(response: StoredResponse, status: int = 200, **lines: Any) -> StoredResponse | None:
    return validation.apply_head(response, Response(status, fields(**lines)), NOW + 99, NOW + 100, request=fields())


def test_head_with_matching_validators_freshens() -> None:
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


def test_head_without_validators_freshens_a_response_without_validators() -> None:
    """Section 4.3.5: matching values for any *received* validator fields."""
    assert head(stored(cache_control="max-age=2"), cache_control="max-age=60") is not None


def test_head_makes_an_invalid_response_valid_only_with_matching_validators() -> None:
    """Sections 4.3.5 and 4.4: an invalid response is in need of a mandatory validation."""
    tagged = replace(stored(etag='"x"', cache_control="max-age=2"), invalid=True)
    updated = head(tagged, etag='"x"', cache_control="max-age=60")

    assert updated is not None
    assert not updated.invalid
    assert head(tagged, cache_control="max-age=60") is None
    assert head(replace(stored(cache_control="max-age=2"), invalid=True), content_length="10") is None


@pytest.mark.parametrize("lines", [{"etag": '"y"'}, {"last_modified": at(-1)}, {"content_length": "11"}])
def test_head_of_another_representation_ends_reuse(lines: dict[str, Any]) -> None:
    """Section 4.3.5: the cache SHOULD consider the stored response to be stale."""
    assert head(stored(etag='"x"', last_modified=at(-9), cache_control="max-age=60"), **lines) is None


def test_head_with_error_status_changes_nothing() -> None:
    """Section 4.3.5 speaks of 200."""
    response = stored(etag='"x"')

    assert head(response, 410, etag='"y"') is response


# -- 4.4 Invalidating stored responses


def invalidated(method: str, status: int = 200, **lines: Any) -> tuple[str, ...]:
    return invalidated_by(Request(method, TARGET), Response(status, fields(**lines)))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH", "get"])
def test_unsafe_or_unknown_method_invalidates_its_target(method: str) -> None:
    """Section 4.4."""
    assert invalidated(method, 200) == invalidated(method, 303) == (TARGET,)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "QUERY", "REPORT", "SEARCH"])
def test_safe_method_invalidates_nothing(method: str) -> None:
    """Section 4.4."""
    assert invalidated(method, location="/other") == ()


@pytest.mark.parametrize("status", [400, 404, 500, 503])
def test_error_response_invalidates_nothing(status: int) -> None:
    """Section 4.4: a non-error response is one with a 2xx or 3xx status code."""
    assert invalidated("POST", status) == ()


def test_location_and_content_location_of_the_same_origin_are_invalidated() -> None:
    """Section 4.4."""
    assert invalidated("POST", location="item/1", content_location="HTTPS://EXAMPLE.com:443/x") == (
        TARGET,
        "https://example.com/item/1",
        "https://example.com/x",
    )


def test_location_at_the_public_address_of_the_target_is_invalidated() -> None:
    """Section 4.4. In reverse mode, an origin may write its public address."""
    response = Response(201, fields(location="https://public.example/item/1"))

    assert invalidated_by(Request("POST", TARGET), response) == (TARGET,)
    assert invalidated_by(
        Request("POST", TARGET), response, lambda address: address.replace("public.example", "example.com")
    ) == (TARGET, "https://example.com/item/1")


@pytest.mark.parametrize(
    "location",
    ["https://other.example/", "http://example.com/", "https://example.com:8443/", "mailto:x", "//["],
)
def test_location_of_another_origin_is_never_invalidated(location: str) -> None:
    """Section 4.4: this helps prevent denial-of-service attacks."""
    assert invalidated("POST", location=location) == (TARGET,)


def test_invalidated_response_is_validated_before_use() -> None:
    """Section 4.4."""
    response = stored(cache_control="max-age=60", etag='"x"', invalid=True)

    assert isinstance(deciding(response), Validate)
    for occasion in Occasion:
        assert not serving_stale.may_serve_stale(
            response, state(response), NOW, occasion=occasion, request=CacheControl(), limit=100
        )
