"""The options that hold for a feed."""

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


def test_rules_follow_changed_settings() -> None:
    rules = Rules([Rule(TargetPattern("*"), {"hint_max": 1})])
    rules.settings_for("https://example.com/", Settings(site_interval=1))

    assert rules.settings_for("https://example.com/", Settings(site_interval=9)).site_interval == 9


def test_number_of_cached_targets_is_limited() -> None:
    rules, base = Rules([Rule(TargetPattern("*"), {"hint_max": 1})]), Settings()

    for number in range(MEMO_MAX + 100):
        rules.settings_for(f"https://example.com/{number}", base)

    assert len(rules._memo) == MEMO_MAX
