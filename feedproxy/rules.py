"""Rules: options for the feeds that a pattern matches.

They are written in the configuration's `feeds:` list (config.py) and asked for with every request, so what
was found for a target is remembered.

What protects a feed (`readers`, `private`) holds for every reading of its address (http/uri_interpretations.py), and
the strictest reading counts. Other options hold for the address as it is written.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from feedproxy.errors import BadTarget
from feedproxy.http import uri
from feedproxy.http.uri_interpretations import readings
from feedproxy.http.url_pattern import TargetPattern
from feedproxy.request.url_mapping import equivalent_urls, rebase
from feedproxy.settings import Settings, override

MEMO_MAX = 4096
"""Targets whose rules are remembered: a hit does not pay for a regular expression per rule."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Options for the feeds whose target URI matches, or its public form (request/url_mapping.py)."""

    match: TargetPattern
    overrides: Mapping[str, Any]


AMBIGUOUS = ("",)
"""As `readers`: the address can be read in ways that no reader may have all of. It is refused with 400."""

BLOCKED = ("\0",)
"""As `readers`: the operator has blocked the feed. It is refused with 403."""

ANY_USER = "*"
"""As `readers`: all who have signed in."""


class _Protection(NamedTuple):
    """Who may read a target, and whether it is private. A tuple, for it is hashed with every request."""

    readers: tuple[str, ...]
    private: bool

    def combine(self, other: "_Protection") -> "_Protection":
        """What both demand."""
        return _Protection(_intersect_readers(self.readers, other.readers), self.private or other.private)


class _Match(NamedTuple):
    """What rules say of a target: those that match, by number, and its protection, where rules protect."""

    matching: tuple[int, ...]
    protection: _Protection | None


class Rules:
    """All rules, in the order of the file. Answers are memoised, boundedly."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self._protecting_rules = [
            rule for rule in self.rules if "readers" in rule.overrides or "private" in rule.overrides
        ]
        self._memo: OrderedDict[str, _Match] = OrderedDict()
        self._base: Settings | None = None
        self._settings: dict[_Match, Settings] = {}

    def __len__(self) -> int:
        return len(self.rules)

    def for_target(self, target: str) -> list[Mapping[str, Any]]:
        """The overrides of the rules that match this normalised target URI, the one that wins last."""
        return [self.rules[index].overrides for index in self._lookup(target).matching] if self.rules else []

    def settings_for(self, target: str, base: Settings) -> Settings:
        """`base` with the matching rules laid over it; the same value as long as `base` is the same one."""
        if not self.rules:
            return base
        if base is not self._base:
            self._base, self._settings = base, {}
            self._memo.clear()
        found = self._lookup(target)
        if (merged := self._settings.get(found)) is None:
            merged = override(base, [self.rules[index].overrides for index in found.matching])
            protection = found.protection
            if protection is not None and protection != _Protection(merged.readers, merged.private):
                merged = override(merged, [{"readers": protection.readers, "private": protection.private}])
            if len(self._settings) < MEMO_MAX:
                self._settings[found] = merged
        return merged

    @property
    def protecting_count(self) -> int:
        """How many of them keep a feed from some readers, or from lists."""
        return sum(map(_protects, self._protecting_rules))

    @property
    def protects_feeds(self) -> bool:
        """Whether any of them keeps a feed from some readers; one that is blocked for all is no secret."""
        return any(map(_is_secret, self._protecting_rules))

    def protects_host(self, host: str, base: Settings) -> bool:
        """Whether any of them protects something at this host: a tunnel would lead past it.

        A blocked feed is none of those: through a tunnel it is not this proxy that serves it.
        """
        return any(_is_secret(rule) and self._is_of_host(rule, host, base) for rule in self._protecting_rules)

    def _is_of_host(self, rule: Rule, host: str, base: Settings) -> bool:
        if rule.match.is_of_host(host):
            return True
        public = base.public_url if base.upstream else ""
        if not public or not rule.match.is_of_host(uri.host_of(uri.normalise(public))):
            return False
        return uri.host_of(uri.normalise(base.upstream)) == host

    def _lookup(self, target: str) -> _Match:
        if (known := self._memo.get(target)) is not None:
            return known
        forms_of_target = equivalent_urls(target, self._base) if self._base is not None else (target,)
        matching = tuple(
            index for index, rule in enumerate(self.rules) if any(map(rule.match.matches, forms_of_target))
        )
        found = _Match(matching, self._protection(target))
        self._memo[target] = found
        if len(self._memo) > MEMO_MAX:
            self._memo.popitem(last=False)
        return found

    def _protection(self, target: str) -> _Protection | None:
        """What the strictest reading of a target demands; None where no rule can have a say."""
        base = self._base
        if base is None or not self._protecting_rules or "://" not in target:
            return None
        host = uri.host_of(target)
        protecting = [rule for rule in self._protecting_rules if self._is_of_host(rule, host, base)]
        if not protecting:
            return None
        try:
            found = [_strictest(protecting, _forms_of(each, base), base) for each in readings(target)]
        except BadTarget:
            return _Protection(AMBIGUOUS, True) if base.readers or any(map(_protects, protecting)) else None
        together = found[0]
        for each in found[1:]:
            together = together.combine(each)
        return together


def may_serve_under(start: Settings, end: Settings) -> bool:
    """May what is at one target be given to all who may have another? These are the settings of both.

    Where it may not, a redirect from the one to the other is not followed for a reader, who asks there by itself.
    """
    if end.private and not start.private:
        return False
    return not end.readers or (
        bool(start.readers) and set(_intersect_readers(start.readers, end.readers)) == set(start.readers)
    )


def _protects(rule: Rule) -> bool:
    return bool(rule.overrides.get("readers") or rule.overrides.get("private"))


def _is_secret(rule: Rule) -> bool:
    return _protects(rule) and rule.overrides.get("readers") != BLOCKED


def _forms_of(reading: str, base: Settings) -> tuple[str, ...]:
    """A reading, and the same below the public address in reverse mode."""
    public = None
    if base.upstream and base.public_url:
        public = rebase(reading, base.upstream, uri.normalise(base.public_url))
    return (reading,) if public is None else (reading, public)


def _strictest(protecting: Iterable[Rule], forms_of_target: tuple[str, ...], base: Settings) -> _Protection:
    """What one reading demands: by rules as they are written, and by what those that protect mean beyond that."""
    written = extended = _Protection(base.readers, base.private)
    for rule in protecting:
        matches = any(map(rule.match.matches, forms_of_target))
        if matches:
            written = _overridden(written, rule)
        if matches or (_protects(rule) and any(map(rule.match.protects, forms_of_target))):
            extended = _overridden(extended, rule)
    return written.combine(extended)


def _overridden(before: _Protection, rule: Rule) -> _Protection:
    return _Protection(
        tuple(rule.overrides.get("readers", before.readers)), bool(rule.overrides.get("private", before.private))
    )


def _intersect_readers(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Whom both let in: AMBIGUOUS where that is no reader at all."""
    if BLOCKED in (one, other):
        return BLOCKED
    if not one or not other:
        return one or other
    if one == other or ANY_USER in other:
        return one
    if ANY_USER in one:
        return other
    return tuple(name for name in one if name in other) or AMBIGUOUS
