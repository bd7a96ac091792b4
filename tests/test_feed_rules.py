"""The options that hold for a feed."""

import pytest

from feedproxy.feed_rules import MEMO_MAX, Rule, Rules
from feedproxy.http.target_uri.target_pattern import TargetPattern
from feedproxy.settings import Settings


def test_later_rules_override_earlier_ones() -> None:
    rules = Rules([Rule(TargetPattern("*"), {"hint_max": 1}), Rule(TargetPattern("example.com"), {"hint_max": 2})])
    base = Settings()

    assert rules.settings_for("https://example.com/", base).hint_max == 2
    assert rules.settings_for("https://example.org/", base).hint_max == 1


def test_rules_of_a_target_apply_to_a_key_that_names_a_credential() -> None:
    rules = Rules([Rule(TargetPattern("https://example.com/feed"), {"hint_max": 2})])

    assert rules.settings_for("https://example.com/feed#secret", Settings(hint_max=1)).hint_max == 2


def test_settings_without_a_matching_rule_are_unchanged() -> None:
    base = Settings()

    assert Rules().settings_for("https://example.com/", base) is base
    assert Rules([Rule(TargetPattern("a"), {"gone": True})]).settings_for("https://example.com/", base) is base


def test_rules_of_other_hosts_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    matches = TargetPattern.matches

    def count(pattern: TargetPattern, target: str) -> bool:
        compared.append(pattern.text)
        return matches(pattern, target)

    monkeypatch.setattr(TargetPattern, "matches", count)
    patterns = ["h7.example", "*.example/x", "https://H7.example:443/feed", "h7.example:8080/*", "http*://h7.example/*"]
    others = [f"https://h{number}.example/*" for number in range(100, 200)]
    rules = Rules(Rule(TargetPattern(text), {"hint_max": 1 + at}) for at, text in enumerate([*patterns, *others]))

    assert rules.settings_for("https://h7.example/feed", Settings()).hint_max == 5
    assert sorted(compared) == sorted(patterns)


def test_protecting_rules_of_other_hosts_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    is_of_host = TargetPattern.is_of_host

    def count(pattern: TargetPattern, host: str) -> bool:
        compared.append(pattern.text)
        return is_of_host(pattern, host)

    monkeypatch.setattr(TargetPattern, "is_of_host", count)
    patterns = ["h7.example/*", "*.example/x", "https://H7.example:443/feed", "127.0.0.1/*"]
    others = [f"https://h{number}.example/*" for number in range(100, 200)]
    rules = Rules(Rule(TargetPattern(text), {"private": True}) for text in [*patterns, *others])

    assert rules.settings_for("https://h7.example/feed", Settings()).private
    assert set(compared) == set(patterns)


@pytest.mark.parametrize(
    ("pattern", "host"),
    [
        ("H7.example/*", "h7.example"),
        ("https://h7.example:8443/*", "H7.EXAMPLE"),
        ("localhost/*", "127.0.0.9"),
        ("[::1]:80/*", "sub.localhost"),
        ("192.0.2.1/*", "[::ffff:192.0.2.1]"),
        ("*.example/*", "h7.example"),
        ("public.example/*", "upstream.example"),
    ],
)
def test_protecting_rule_is_found_by_each_name_of_its_host(pattern: str, host: str) -> None:
    base = Settings(upstream="http://upstream.example", public_url="https://public.example")
    rules = Rules([Rule(TargetPattern(pattern), {"private": True})])

    assert rules.protects_host(host, base)
    assert not rules.protects_host("other.example", base) or pattern.startswith("*")


@pytest.mark.parametrize(
    ("pattern", "target"),
    [
        ("example.com", "http://example.com:8080/feed"),
        ("example.com:8080/*", "https://example.com:8080/feed"),
        ("https://[::1]/*", "https://[::1]/feed"),
        ("[::1]", "http://[::1]:8080/feed"),
        ("http://EXÄMPLE.com:80/*", "http://xn--exmple-cua.com/feed"),
        ("*://127.0.0.1/*", "http://127.0.0.1:8080/feed"),
        ("ex*.com:*/feed", "http://example.com:8080/feed"),
    ],
)
def test_rule_is_found_by_the_host_of_its_pattern_in_each_form(pattern: str, target: str) -> None:
    assert TargetPattern(pattern).matches(target)
    assert Rules([Rule(TargetPattern(pattern), {"hint_max": 2})]).settings_for(target, Settings()).hint_max == 2


def test_rules_follow_changed_settings() -> None:
    rules = Rules([Rule(TargetPattern("*"), {"hint_max": 1})])
    rules.settings_for("https://example.com/", Settings(site_interval=1))

    assert rules.settings_for("https://example.com/", Settings(site_interval=9)).site_interval == 9


def test_number_of_cached_targets_is_limited() -> None:
    rules, base = Rules([Rule(TargetPattern("*"), {"hint_max": 1})]), Settings()

    for number in range(MEMO_MAX + 100):
        rules.settings_for(f"https://example.com/{number}", base)

    assert len(rules._memo) == MEMO_MAX
