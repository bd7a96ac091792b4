"""Client-supplied values of any length are parsed in linear time.

Nothing is timed: in quadratic time, these tests would not end."""

from collections.abc import Callable

import pytest

from feedproxy.clock import ManualClock
from feedproxy.http.message import Fields
from feedproxy.http.target_uri.url_redaction import without_secrets
from feedproxy.scoring import client_hygiene_rules
from feedproxy.scoring.reader_state import ReaderState
from feedproxy.scoring.rule_weights import NO_VIOLATIONS
from feedproxy.scoring.scored_request import Poll

LENGTH = 200_000
"""Quadratic time would be hours at this length."""
NOW = ManualClock(1_780_000_000.0).now()

pytestmark = pytest.mark.timeout(120)


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
