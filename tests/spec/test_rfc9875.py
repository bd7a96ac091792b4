"""RFC 9875, HTTP cache groups: a test for each sentence that is followed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedproxy.cache.cache_groups import GROUP_LENGTH_MAX, GROUPS_MAX, groups_invalidated_by, groups_of, parse_groups
from feedproxy.http.message import Fields, Request, Response


def invalidated(method: str, value: str, status: int = 200) -> frozenset[str]:
    response = Response(status, Fields([("Cache-Group-Invalidation", value)]))
    return groups_invalidated_by(Request(method, "https://example.com/form"), response)


def test_cache_groups_is_a_list_of_strings() -> None:
    # "The Cache-Groups HTTP response header field is a List of Strings" -- 2
    assert groups_of(Fields([("Cache-Groups", '"scripts"')])) == {"scripts"}
    assert groups_of(Fields([("Cache-Groups", '"a", "b"'), ("Cache-Groups", '"c"')])) == {"a", "b", "c"}
    assert groups_of(Fields()) == frozenset()


@pytest.mark.parametrize("value", ["", "a", '"a" "b"', '"a",', '"a", b', '("a" "b")', '"a", 5', '"a', ":YQ==:", '"é"'])
def test_cache_groups_other_than_a_list_of_strings_is_ignored(value: str) -> None:
    assert parse_groups(value) == frozenset()


def test_cache_groups_ignores_order_and_parameters() -> None:
    # "The ordering of members is not significant. Unrecognised Parameters are to be ignored." -- 2
    assert parse_groups('"b";x=1, "a";y') == parse_groups('"a","b"') == {"a", "b"}


def test_cache_groups_supports_32_groups_of_32_characters() -> None:
    # "MUST support at least 32 groups in a field value, with up to at least 32 characters in each member" -- 2 and 3
    names = [f"{number:032}" for number in range(32)]
    value = ", ".join(f'"{name}"' for name in names)

    assert parse_groups(value) == set(names)
    assert invalidated("POST", value) == set(names)


def test_cache_groups_above_the_limits_is_ignored() -> None:
    assert len(parse_groups(", ".join(f'"{number}"' for number in range(GROUPS_MAX)))) == GROUPS_MAX
    assert parse_groups(", ".join(f'"{number}"' for number in range(GROUPS_MAX + 1))) == frozenset()
    assert parse_groups('"' + "x" * (GROUP_LENGTH_MAX + 1) + '"') == frozenset()


def test_cache_groups_are_compared_case_sensitively() -> None:
    # "when compared character-by-character (case sensitive)" -- 2.1
    assert parse_groups('"News"').isdisjoint(parse_groups('"news"'))


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "TRACE", "QUERY"])
def test_invalidation_is_ignored_on_responses_to_safe_methods(method: str) -> None:
    # "MUST be ignored on responses to requests that have a safe method" -- 3
    assert invalidated(method, '"a"') == frozenset()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "UNKNOWN"])
def test_invalidation_by_a_response_to_an_unsafe_method_covers_its_groups(method: str) -> None:
    # "MAY invalidate any stored responses that share groups … with any of the listed groups" -- 3
    assert invalidated(method, '"eurovision-results", "australia"') == {"eurovision-results", "australia"}


@pytest.mark.parametrize(("status", "counts"), [(201, True), (303, True), (400, False), (403, False), (500, False)])
def test_invalidation_is_ignored_on_error_responses(status: int, counts: bool) -> None:
    assert bool(invalidated("POST", '"a"', status)) is counts


@given(st.text(alphabet='"a, ();=\\?1é', max_size=30))
def test_any_value_is_read_or_ignored(value: str) -> None:
    assert all(isinstance(group, str) for group in parse_groups(value))
