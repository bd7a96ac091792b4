"""Rules: options for the feeds that a pattern matches.

They are written in the configuration's `feeds:` list (config.py) and asked for with every request, so what
was found for a target is remembered.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from feedproxy.http.pattern import TargetPattern
from feedproxy.http.reverse import forms
from feedproxy.settings import Settings, override

MEMO_SIZE = 4096
"""Targets whose rules are remembered: a hit does not pay for a regular expression per rule."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Options for the feeds whose target URI matches, or its public form (http/reverse.py)."""

    match: TargetPattern
    overrides: Mapping[str, Any]


class Rules:
    """All rules, in the order of the file. Answers are memoised, boundedly."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self._memo: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self._base: Settings | None = None
        self._settings: dict[tuple[int, ...], Settings] = {}

    def __len__(self) -> int:
        return len(self.rules)

    def for_target(self, target: str) -> list[Mapping[str, Any]]:
        """The overrides of the rules that match this normalised target URI, the one that wins last."""
        return [self.rules[index].overrides for index in self._matching(target)] if self.rules else []

    def settings_for(self, target: str, base: Settings) -> Settings:
        """`base` with the matching rules laid over it; the same value as long as `base` is the same one."""
        if not self.rules:
            return base
        if base is not self._base:
            self._base, self._settings = base, {}
            self._memo.clear()
        matching = self._matching(target)
        if (merged := self._settings.get(matching)) is None:
            merged = override(base, [self.rules[index].overrides for index in matching])
            if len(self._settings) < MEMO_SIZE:
                self._settings[matching] = merged
        return merged

    def _matching(self, target: str) -> tuple[int, ...]:
        if (known := self._memo.get(target)) is not None:
            return known
        named = forms(target, self._base) if self._base is not None else (target,)
        matching = tuple(index for index, rule in enumerate(self.rules) if any(map(rule.match.matches, named)))
        self._memo[target] = matching
        if len(self._memo) > MEMO_SIZE:
            self._memo.popitem(last=False)
        return matching
