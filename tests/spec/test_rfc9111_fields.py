"""RFC 9111, HTTP caching, for a shared cache: the fields Age, Cache-Control and Expires (section 5)."""

from typing import Any

import pytest
from msgspec.structs import replace

from feedproxy.cache import freshness, reuse_decision
from feedproxy.cache.cache_status import Fwd
from feedproxy.cache.freshness import Source, current_age
from feedproxy.cache.reuse_decision import Decision, Forward, NotInCache, Reuse, Validate
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.message import Fields
from tests.spec.caching import (
    NOW,
    at,
    deciding,
    fields,
    state,
    stored,
    storing,
)

# -- 5.1 Age


@pytest.mark.parametrize(
    ("value", "age"),
    [
        ("7200, 0", 7200),
        ("0, 7200", 0),
        ("2147483647", 2147483647),
        ("2147483648", 2147483648),
        ("9" * 40, 2147483648),
        ("0" * 40 + "7", 7),
        ("7200;foo=bar", 7200),
        ("7200 ; foo, 0", 7200),
    ],
)
def test_age_uses_its_first_member_and_is_bounded(value: str, age: float) -> None:
    """Sections 5.1 and 1.2.2; RFC 9651, section 3.3, for parameters."""
    assert current_age(stored(age=value), NOW) == age


@pytest.mark.parametrize("value", ["abc", "-7200", "7200.0", "", ";7200", "7200 0", "٣"])
def test_age_that_is_no_number_is_ignored(value: str) -> None:
    """Section 5.1."""
    assert current_age(stored(age=value), NOW) == 0


def test_age_on_two_lines_uses_the_first() -> None:
    """Section 5.1."""
    response = replace(stored(), fields=Fields([("Age", "3"), ("age", "7200")]))

    assert current_age(response, NOW) == 3


# -- 5.2.1 Request directives


def test_max_age_request_rejects_an_older_response() -> None:
    """Section 5.2.1.1."""
    response = stored(cache_control="max-age=3600", etag='"x"')

    assert isinstance(deciding(response, 600.5, cache_control="max-age=600"), Reuse)
    decision = deciding(response, 601, cache_control="max-age=600")
    assert isinstance(decision, Validate)
    assert decision.fwd is Fwd.REQUEST


def test_max_stale_request_accepts_a_response_stale_by_at_most_its_seconds() -> None:
    """Section 5.2.1.2."""
    response = stored(cache_control="max-age=60")

    accepted = deciding(response, 70, cache_control="max-stale=10")
    assert isinstance(accepted, Reuse)
    assert accepted.detail == "max-stale"
    assert isinstance(deciding(response, 71, cache_control="max-stale=10"), Forward)
    assert isinstance(deciding(response, 10**6, cache_control="max-stale"), Reuse)


def test_max_stale_request_is_limited_by_the_operator() -> None:
    """Section 4.2.4: a fresh response that is older than the request's max-age counts as stale, too."""
    response = stored(cache_control="max-age=60")
    request = CacheControl(max_age=30, max_stale=99)

    def decide(after: float) -> Decision:
        return reuse_decision.decide(response, request, state(response, after), NOW + after, stale_limit=10)

    assert isinstance(decide(40), Reuse)
    assert isinstance(decide(41), Forward)


def test_min_fresh_request_requires_a_response_fresh_for_its_seconds() -> None:
    """Section 5.2.1.3."""
    response = stored(cache_control="max-age=1500", age="1000")

    assert isinstance(deciding(response, cache_control="min-fresh=500"), Reuse)
    assert isinstance(deciding(response, cache_control="min-fresh=501"), Forward)


@pytest.mark.parametrize("asked", [{"cache_control": "no-cache"}, {"pragma": "no-cache"}])
def test_no_cache_request_requires_validation(asked: dict[str, Any]) -> None:
    """Sections 5.2.1.4 and 5.4."""
    decision = deciding(stored(cache_control="max-age=60", etag='"x"'), **asked)

    assert isinstance(decision, Validate)
    assert decision.fwd is Fwd.REQUEST


def test_pragma_is_ignored_beside_cache_control() -> None:
    """Section 5.4: only where Cache-Control is absent."""
    assert isinstance(deciding(stored(cache_control="max-age=60"), pragma="no-cache", cache_control="max-age=9"), Reuse)


def test_no_store_request_forbids_storing_but_permits_reuse() -> None:
    """Section 5.2.1.5."""
    asked = fields(cache_control="no-store")

    assert storing(asked=asked, cache_control="max-age=60") == "the request has no-store"
    assert isinstance(deciding(stored(cache_control="max-age=60"), cache_control="no-store"), Reuse)


def test_only_if_cached_request_gets_a_stored_response_or_504() -> None:
    """Section 5.2.1.7."""
    response = stored(cache_control="max-age=60", etag='"x"')

    assert isinstance(deciding(response, cache_control="only-if-cached"), Reuse)
    assert isinstance(deciding(response, 61, cache_control="only-if-cached"), NotInCache)
    assert isinstance(deciding(response, cache_control="only-if-cached, no-cache"), NotInCache)
    assert isinstance(deciding(None, cache_control="only-if-cached"), NotInCache)


# -- 5.2.2 Response directives


def test_must_revalidate_does_not_affect_a_fresh_response() -> None:
    """Section 5.2.2.2."""
    assert isinstance(deciding(stored(cache_control="max-age=60, must-revalidate"), 59), Reuse)


@pytest.mark.parametrize("control", ["must-revalidate", "proxy-revalidate", "s-maxage=60"])
def test_must_revalidate_overrides_max_stale(control: str) -> None:
    """Sections 5.2.2.2, 5.2.2.8 and 5.2.2.10."""
    response = stored(cache_control=f"max-age=60, {control}", etag='"x"')

    assert isinstance(deciding(response, 61, cache_control="max-stale"), Validate)


def test_must_understand_overrides_no_store_for_an_understood_status() -> None:
    """Section 5.2.2.3."""
    assert storing(200, cache_control="max-age=60, no-store, must-understand") is None
    assert isinstance(deciding(stored(cache_control="max-age=60, no-store, must-understand")), Reuse)


def test_must_understand_forbids_storing_an_unknown_status() -> None:
    """Section 5.2.2.3."""
    assert storing(599, cache_control="max-age=60, no-store, must-understand") is not None
    assert storing(599, cache_control="max-age=60, must-understand") is not None


def test_no_cache_response_is_stored_and_validated_on_every_use() -> None:
    """Section 5.2.2.4."""
    control = "max-age=10000, No-CaChE"

    assert storing(cache_control=control) is None
    assert isinstance(deciding(stored(cache_control=control, etag='"x"')), Validate)


def test_no_cache_with_field_names_permits_reuse_of_the_rest() -> None:
    """Section 5.2.2.4, qualified form."""
    assert isinstance(deciding(stored(cache_control='max-age=60, no-cache="a"')), Reuse)


def test_public_makes_any_status_heuristically_cacheable() -> None:
    """Section 5.2.2.9."""
    assert storing(599, cache_control="public", last_modified=at(-86_400)) is None


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
def test_expires_that_is_invalid_is_in_the_past(value: str) -> None:
    """Section 5.3."""
    assert freshness.explicit_lifetime(stored(expires=value).fields, NOW) == (0, Source.EXPIRES)


@pytest.mark.parametrize(
    "value",
    [
        "Thu, 18 Aug 2050 02:01:18 GMT",
        "THU, 18 AUG 2050 02:01:18 gmt",
        "Thu Aug 18 02:01:18 2050",
        "Thursday, 18-Aug-50 02:01:18 GMT",
    ],
)
def test_expires_accepts_every_date_format_in_any_case(value: str) -> None:
    """Section 4.2: match the field value case-insensitively."""
    assert state(stored(expires=value)).is_fresh(NOW + 86_400)
