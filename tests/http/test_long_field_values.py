"""Values of any length are parsed in linear time, or not at all.

Nothing is timed: in quadratic time, these tests would not end."""

from collections.abc import Callable

import pytest

from feedproxy.cache.cache_groups import parse_groups
from feedproxy.clock import ManualClock
from feedproxy.http.cache_control import CacheControl, parse_targeted
from feedproxy.http.coding.compression_dictionary import parse_available_dictionary, parse_use_as_dictionary
from feedproxy.http.coding.delta_negotiation import accepts_feed
from feedproxy.http.content_negotiation import choose_coding, choose_media_type, vary_names, vary_on
from feedproxy.http.etag import parse_tag, parse_tags
from feedproxy.http.field_values import PARSED_MAX, parse_parameters
from feedproxy.http.message import Fields
from feedproxy.http.retry_after_and_rate_limit import rate_limit_reset
from feedproxy.http.target_uri.no_vary_search import DEFAULT, parse_no_vary_search
from feedproxy.http.target_uri.url_redaction import without_secrets
from feedproxy.request.gateway_challenges import gateway_challenges
from feedproxy.scoring import client_hygiene_rules
from feedproxy.scoring.reader_state import ReaderState
from feedproxy.scoring.rule_weights import NO_VIOLATIONS
from feedproxy.scoring.scored_request import Poll

LENGTH = 100_000
"""Quadratic time would be longer than the timeout at this length."""
NOW = ManualClock(1_780_000_000.0).now()

pytestmark = pytest.mark.timeout(30)


def _shown(address: str) -> str:
    return without_secrets(f"https://example.com/{address}")


@pytest.mark.parametrize(
    "piece",
    ["?" + "key" * LENGTH, "?" + "&a" * LENGTH, "?token=" + "x" * LENGTH, "http%3a%2f" * LENGTH, "https:/" * LENGTH],
    ids=["a name", "parameters", "a value", "addresses within", "schemes"],
)
@pytest.mark.parametrize("end", ["", "/@"])
def test_redaction_removes_secrets_from_addresses_of_any_length(piece: str, end: str) -> None:
    assert "xxx" not in _shown(piece + end)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("?user=1&Api_Key=2;code=3&decode=4&key", "?user=1&Api_Key=…;code=…&decode=4&key"),
        ("http%3a%2f%2fme%3apass%40other.example/", "http%3a%2f%2fother.example/"),
        ("https%3a%2fhttp://me:pass@other.example/", "https%3a%2fhttp://other.example/"),
        ("?u=http%3A%2F%2Fhttp%3A%2F%2Fme@other.example", "?u=http%3A%2F%2Fother.example"),
    ],
)
def test_redaction_masks_only_values_of_parameters(address: str, shown: str) -> None:
    assert _shown(address) == f"https://example.com/{shown}"


@pytest.mark.parametrize("agent", ["x" * LENGTH, "1" * LENGTH, "x@" * LENGTH, "www" * LENGTH])
@pytest.mark.parametrize(
    "rule",
    [
        client_hygiene_rules.evaluate_identity,
        client_hygiene_rules.evaluate_contact,
        client_hygiene_rules.observe_subscribers,
    ],
)
def test_user_agent_of_any_length_is_parsed_in_linear_time(
    agent: str, rule: Callable[[Poll, ReaderState], object]
) -> None:
    poll = Poll(1, NOW, "https://example.com/feed", Fields([("User-Agent", agent)]), 200, Fields())

    rule(poll, ReaderState())


def test_user_agent_contact_is_found_after_long_word() -> None:
    poll = Poll(
        1, NOW, "https://example.com/feed", Fields([("User-Agent", "x." * 400 + "me@example.com")]), 200, Fields()
    )

    assert client_hygiene_rules.evaluate_contact(poll, ReaderState()) == NO_VIOLATIONS


def padded(value: str, separator: str = ",") -> str:
    """Return a value that is longer than PARSED_MAX by one character, because of empty members."""
    return value + separator * (PARSED_MAX + 1 - len(value))


def test_cache_control_above_limit_counts_as_no_store_in_responses_only() -> None:
    value, strictest = padded("max-age=60"), CacheControl(no_store=True, no_transform=True)

    assert CacheControl.from_fields(Fields([("Cache-Control", value[:-1])])).max_age == 60
    for fields in (Fields([("Cache-Control", value)]), Fields([("Cache-Control", "a"), ("Cache-Control", value)])):
        assert CacheControl.from_fields(fields) == strictest
        assert CacheControl.from_request(fields) == CacheControl()
    assert parse_targeted(Fields([("CDN-Cache-Control", value)]), "cdn-cache-control") == strictest


def test_entity_tags_above_limit_match_no_version() -> None:
    assert parse_tags(padded('"a"')[:-1])
    assert parse_tags(padded('"a"')) == ()
    assert parse_tag('"' + padded("a", "a") + '"') is None


def test_negotiation_fields_above_limit_count_as_empty() -> None:
    assert choose_coding(padded("gzip")[:-1], ("gzip", "identity")) == "gzip"
    assert choose_coding(padded("gzip"), ("gzip", "identity")) == "identity"
    assert choose_media_type(padded("text/html"), ("application/rss+xml", "text/html")) == "application/rss+xml"
    assert accepts_feed(padded("feed")[:-1])
    assert not accepts_feed(padded("feed"))


def test_vary_above_limit_counts_as_wildcard_and_is_replaced_by_it() -> None:
    fields = Fields([("Vary", padded("accept"))])

    assert vary_names(fields) == ("*",)
    assert vary_on(fields, "Accept-Encoding") == Fields([("Vary", "*")])
    assert vary_names(Fields([("Vary", padded("accept")[:-1])])) == ("accept",)


def test_challenges_above_limit_are_dropped() -> None:
    assert gateway_challenges(padded("Basic")[:-1], "https://example.com") == 'Basic realm="https://example.com"'
    assert gateway_challenges(padded("Basic"), "https://example.com") == ""


def test_available_dictionary_above_limit_is_invalid() -> None:
    digest = f":{'A' * 43}=:"

    assert parse_available_dictionary(digest) is not None
    assert parse_available_dictionary(padded(f"{digest};", "a")) is None
    assert parse_available_dictionary(padded(f"{digest};", "a")[:-1]) is not None


def test_structured_fields_above_limit_count_as_absent() -> None:
    group, variance = padded('"news"', " "), padded("params", " ")
    dictionary, rate_limit = padded('match="/f"', " "), padded("remaining=0, reset=30", " ")

    assert parse_groups(group[:-1]) == {"news"}
    assert parse_groups(group) == frozenset()
    assert parse_no_vary_search(variance[:-1]) != DEFAULT
    assert parse_no_vary_search(variance) == DEFAULT
    assert parse_use_as_dictionary(dictionary[:-1]) is not None
    assert parse_use_as_dictionary(dictionary) is None
    assert rate_limit_reset(Fields([("RateLimit", rate_limit[:-1])]), NOW) == NOW + 30
    assert rate_limit_reset(Fields([("RateLimit", rate_limit)]), NOW) is None


def test_parameters_above_limit_are_ignored() -> None:
    assert parse_parameters("text/html" + " " * PARSED_MAX + "; charset=x") == ("text/html", {})
