"""No-Vary-Search (draft-ietf-httpbis-no-vary-search): how values are read and URLs compared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedproxy.http.target_uri.no_vary_search import (
    DEFAULT,
    QueryVariance,
    no_vary_search,
    parse_no_vary_search,
    without_parameters,
)

URL = "https://example.com/feed"


# -- Parse a URL search variance


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("params", QueryVariance(all_but=True)),
        ('params=("a")', QueryVariance(frozenset("a"))),
        ('params, except=("x")', QueryVariance(frozenset("x"), all_but=True)),
        ("key-order", QueryVariance(key_order=False)),
        ("params=?1", QueryVariance(all_but=True)),
        ("key-order=?1", QueryVariance(key_order=False)),
        ('params, key-order, except=("x")', QueryVariance(frozenset("x"), all_but=True, key_order=False)),
        # "Implementations of this specification will ignore such entries"
        ("params, future=5", QueryVariance(all_but=True)),
        ("params, except=()", QueryVariance(all_but=True)),
    ],
)
def test_no_vary_search_value_selects_the_significant_parameters(value: str, expected: QueryVariance) -> None:
    assert parse_no_vary_search(value) == expected
    assert expected != DEFAULT


@pytest.mark.parametrize(
    "value",
    ["unknown-key", 'key-order="not a boolean"', 'params="not a boolean or inner list"', "params=(not-a-string)",
     'params=("a"), except=("x")', "params=(), except=()", 'params=?0, except=("x")', "params, except=(not-a-string)",
     'params, except="not an inner list"', "params, except=?1", 'except=("x")', "except=()",
     "", "params=", "params=(", '"params"', 'params=("a" 5)', "params=5", "key-order=1", "(", "é"],
)  # fmt: skip
def test_invalid_no_vary_search_has_the_default_meaning(value: str) -> None:
    # "The following inputs are all invalid and will cause the default URL search variance to be returned"
    assert parse_no_vary_search(value) == DEFAULT


@pytest.mark.parametrize("value", ["params=?0", "params=()", "key-order=?0"])
def test_no_vary_search_without_effect_equals_the_default(value: str) -> None:
    assert parse_no_vary_search(value) == DEFAULT


# -- Parse a key


def test_key_is_percent_decoded_and_plus_means_space() -> None:
    variance = parse_no_vary_search('params=("%C3%A9+%E6%B0%97")')

    assert variance.names == {"é 気"}
    for query in ("%C3%A9+%E6%B0%97=4", "%C3%A9%20%E6%B0%97=3"):
        assert variance.are_equivalent(f"{URL}?{query}", URL)


# -- Comparing


@pytest.mark.parametrize("other", ["http://example.com/feed?a=1", "https://example.com/x?a=1",
                                   "https://example.com:80/feed?a=1", "https://www.example.com/feed?a=1"])  # fmt: skip
def test_urls_that_differ_before_the_query_are_different(other: str) -> None:
    assert not QueryVariance(all_but=True).are_equivalent(f"{URL}?a=1", other)


@pytest.mark.parametrize(("one", "other"), [("", "?"), ("?a=b&&&c", "?a=b&c=")])
def test_default_of_no_vary_search_compares_queries_as_written(one: str, other: str) -> None:
    assert not DEFAULT.are_equivalent(URL + one, URL + other)
    assert DEFAULT.are_equivalent(URL + one, URL + one)


@pytest.mark.parametrize(
    ("value", "one", "other", "equivalent"),
    [
        ('params=("a")', "?a=1&b=2", "?b=2", True),
        ('params=("a")', "?a=1&b=2", "?b=3", False),
        ('params=("a")', "?a=1", "", True),
        ('params=("a")', "?A=1", "", False),
        ('params=("a")', "?b=1&c=2", "?c=2&b=1", False),
        ('params=("a"), key-order', "?b=1&c=2", "?c=2&a&b=1", True),
        ("params", "?x=1", "?y=2&z", True),
        ('params, except=("id")', "?id=5&x=1", "?y&id=5", True),
        ('params, except=("id")', "?id=5", "?id=6", False),
        ('params, except=("id")', "?id=5", "", False),
        ("key-order", "?b=1&a=2", "?a=2&b=1", True),
        ("key-order", "?a=1&a=2", "?a=2&a=1", False),
        ("key-order", "", "?", True),
        ("key-order", "?a=x", "?%61=%78", True),
        ("key-order", "?a=%F6", "?a=%EF%BF%BD", True),
        ("key-order", "?a=x&&&&", "?a=x", True),
        ("key-order", "?a=", "?a", True),
        ("key-order", "?a=%20", "?a=+", True),
        ("key-order", "?a=1;b=2", "?b=2;a=1", False),
    ],
)
def test_urls_are_equivalent_if_their_significant_parameters_are(
    value: str, one: str, other: str, equivalent: bool
) -> None:
    assert parse_no_vary_search(value).are_equivalent(URL + one, URL + other) is equivalent
    assert parse_no_vary_search(value).are_equivalent(URL + other, URL + one) is equivalent


def test_query_above_the_limits_is_equivalent_to_itself_only() -> None:
    everything = QueryVariance(all_but=True)

    for query in ("a=" + "x" * 5000, "a&" * 200):
        assert not everything.are_equivalent(f"{URL}?{query}", URL)
        assert everything.are_equivalent(f"{URL}?{query}", f"{URL}?{query}")
    assert parse_no_vary_search(f"params=({' '.join(['"a"'] * 129)})") == DEFAULT


# -- what the option ignore_query removes and says


@pytest.mark.parametrize(
    ("patterns", "query", "rest"),
    [
        (("utm_*",), "?utm_source=x&id=5&utm_medium=y", "?id=5"),
        (("utm_*",), "?UTM_source=x", "?UTM_source=x"),
        (("null",), "?null", ""),
        (("*",), "?null", ""),
        (("*",), "?a=1&b=2&", ""),
        (("a b",), "?a+b=1&a%20b=2&c", "?c"),
        (("*",), "?token=abc&utm_source=x", "?token=abc"),
        (("*",), "?api_key=abc", "?api_key=abc"),
        (("token",), "?token=abc", ""),
        (("a*c",), "?abc=1&ab=2", "?ab=2"),
        ((), "?a=1", "?a=1"),
        (("*",), "", ""),
        (("*",), "?" + "a" * 5000, "?" + "a" * 5000),
    ],
)
def test_ignored_parameters_are_removed(patterns: tuple[str, ...], query: str, rest: str) -> None:
    assert without_parameters(URL + query, patterns) == URL + rest


def test_no_vary_search_lists_only_parameters_that_the_field_can_express() -> None:
    assert no_vary_search(("null", "x y")) == 'params=("null" "x%20y")'
    assert '"utm_source"' in no_vary_search(("utm_*",))
    assert no_vary_search(("campaign_*",)) == ""


@given(st.text(alphabet='params=()" excpt,key-order?01', max_size=40), st.text(alphabet="ab&=%2+", max_size=12),
       st.text(alphabet="ab&=%2+", max_size=12))  # fmt: skip
def test_equivalence_is_symmetric_and_of_everything_to_itself(value: str, one: str, other: str) -> None:
    variance = parse_no_vary_search(value)

    assert variance.are_equivalent(f"{URL}?{one}", f"{URL}?{one}")
    assert variance.are_equivalent(f"{URL}?{one}", f"{URL}?{other}") == variance.are_equivalent(
        f"{URL}?{other}", f"{URL}?{one}"
    )


@given(st.text(alphabet="ab&=utm_*", max_size=20), st.lists(st.text(alphabet="ab*utm_", max_size=5), max_size=3))
def test_removing_ignored_parameters_twice_equals_removing_them_once(query: str, patterns: list[str]) -> None:
    once = without_parameters(f"{URL}?{query}", tuple(patterns))

    assert without_parameters(once, tuple(patterns)) == once
