"""Rules: options for feeds that match a pattern, from the list `feeds:` of the configuration (config/config_file.py).

Servers can interpret one address in several ways (http/target_uri/path_confusion.py). The protecting options
(`readers`, `private`) of a rule therefore apply to every interpretation, and the strictest result counts. All other
options apply to the address as written.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce
from itertools import chain
from typing import Any, NamedTuple

from msgspec import Struct

from feedproxy.errors import BadTarget
from feedproxy.http import uri
from feedproxy.http.target_uri.path_confusion import interpretations
from feedproxy.http.target_uri.target_pattern import TargetPattern
from feedproxy.request.upstream_and_public_urls import equivalent_urls, rebase
from feedproxy.settings import Settings

MEMO_MAX = 4096
"""The rules of at most this many targets are cached. Without the cache, each hit would compare all patterns of its
host."""


_PROTECTING_OPTIONS = frozenset({"readers", "private"})


class Rule(Struct, frozen=True):
    """Options for feeds with a matching target URI or public address (request/upstream_and_public_urls.py)."""

    match: TargetPattern
    overrides: Mapping[str, Any]


AMBIGUOUS = ("",)
"""Value of `readers` for an address with several interpretations, if no reader may read all of them. Requests get
status 400."""

BLOCKED = ("\0",)
"""Value of `readers` for a feed that the operator has blocked. Requests get status 403."""

ANY_USER = "*"
"""Value of `readers` that permits all authenticated users."""


class _Protection(NamedTuple):
    """The protection of a target: the permitted readers, and True for a private target. It is a NamedTuple, because
    each request hashes it."""

    readers: tuple[str, ...]
    private: bool

    def combine(self, other: "_Protection") -> "_Protection":
        """Return the protection that satisfies both this protection and `other`."""
        return _Protection(_intersect_readers(self.readers, other.readers), self.private or other.private)


class _Match(NamedTuple):
    """The numbers of the rules that match a target, and the target's protection (None if no rule protects it)."""

    matching: tuple[int, ...]
    protection: _Protection | None


class Rules:
    """All rules in the order of the file, and a cache of the settings that they give for a target."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self._protecting_rules = [rule for rule in self.rules if not _PROTECTING_OPTIONS.isdisjoint(rule.overrides)]
        self._protecting_rules_of_host: dict[str | None, list[int]] = {}
        """Indices in `_protecting_rules` by the only host of a rule. None stands for rules with several hosts."""
        self._rules_of_host: dict[str | None, list[int]] = {}
        """Numbers of the rules by the host of their pattern. None stands for patterns with an asterisk in the host."""
        for index, rule in enumerate(self.rules):
            rule.match.compile(protects=not _PROTECTING_OPTIONS.isdisjoint(rule.overrides))
            self._rules_of_host.setdefault(rule.match.host, []).append(index)
        for index, rule in enumerate(self._protecting_rules):
            self._protecting_rules_of_host.setdefault(rule.match.only_host, []).append(index)
        self._memo: OrderedDict[str, _Match] = OrderedDict()
        self._base: Settings | None = None
        self._settings: dict[_Match, Settings] = {}

    def __len__(self) -> int:
        return len(self.rules)

    def settings_for(self, target: str, base: Settings) -> Settings:
        """Return `base` with the rules of a target applied. `target` can also be a store key, to which the rules of its
        target apply. Targets with the same rules and the same `base` get the same object."""
        if not self.rules:
            return base
        if base is not self._base:
            self._base, self._settings = base, {}
            self._memo.clear()
        match = self._lookup(uri.without_fragment(target))
        if (merged := self._settings.get(match)) is None:
            merged = override(base, [self.rules[index].overrides for index in match.matching])
            protection = match.protection
            if protection is not None and protection != _Protection(merged.readers, merged.private):
                merged = override(merged, [{"readers": protection.readers, "private": protection.private}])
            if len(self._settings) < MEMO_MAX:
                self._settings[match] = merged
        return merged

    @property
    def protecting_count(self) -> int:
        """Return the number of rules that restrict the readers of a feed or keep it out of lists."""
        return sum(map(_protects, self._protecting_rules))

    @property
    def protects_feeds(self) -> bool:
        """Return True if a rule restricts the readers of a feed, other than by blocking all clients."""
        return any(map(_is_secret, self._protecting_rules))

    def protects_host(self, host: str, base: Settings) -> bool:
        """Return True if a rule protects a feed at this host. A tunnel to the host would bypass the rule. Blocked feeds
        do not count, because a block only limits what this proxy serves."""
        return any(map(_is_secret, self._protecting_rules_at(host, base)))

    def _protecting_rules_at(self, host: str, base: Settings) -> list[Rule]:
        """Return the protecting rules of a host, in the order of the file. In reverse mode, those of the public host
        also count for the upstream's host."""
        hosts = [host.lower()]
        if base.upstream and base.public_url and uri.host_of(uri.normalise(base.upstream)) == hosts[0]:
            hosts.append(uri.host_of(uri.normalise(base.public_url)))
        candidates = {index for key in (None, *hosts) for index in self._protecting_rules_of_host.get(key, ())}
        rules = [self._protecting_rules[index] for index in sorted(candidates)]
        return [rule for rule in rules if any(map(rule.match.is_of_host, hosts))]

    def _lookup(self, target: str) -> _Match:
        if (cached := self._memo.get(target)) is not None:
            return cached
        forms_of_target = equivalent_urls(target, self._base) if self._base is not None else (target,)
        hosts = {None, *map(uri.host_of, forms_of_target)}
        candidates = sorted(chain.from_iterable(self._rules_of_host.get(host, ()) for host in hosts))
        matching = tuple(index for index in candidates if any(map(self.rules[index].match.matches, forms_of_target)))
        match = _Match(matching, self._protection(target))
        self._memo[target] = match
        if len(self._memo) > MEMO_MAX:
            self._memo.popitem(last=False)
        return match

    def _protection(self, target: str) -> _Protection | None:
        """Return the strictest protection of all interpretations of a target, or None if no rule protects it."""
        base = self._base
        if base is None or not self._protecting_rules or "://" not in target:
            return None
        protecting = self._protecting_rules_at(uri.host_of(target), base)
        if not protecting:
            return None
        try:
            protections = [
                _strictest(protecting, _forms_of(reading, base), base) for reading in interpretations(target)
            ]
        except BadTarget:
            return _Protection(AMBIGUOUS, True) if base.readers or any(map(_protects, protecting)) else None
        return reduce(_Protection.combine, protections)


def override(settings: Settings, rules: Iterable[Mapping[str, Any]]) -> Settings:
    """Return the settings with the rules applied. Later rules take precedence."""
    merged: dict[str, Any] = {}
    for rule in rules:
        merged.update(rule)
    return replace(settings, **merged) if merged else settings


def may_serve_under(start: Settings, end: Settings) -> bool:
    """Return True if the response at the end of a redirect may be served under the target that redirects.

    `start` and `end` are the settings of the redirecting target and of the last target. `end` must permit all readers
    that `start` permits, and may be private only if `start` is private.
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
    """Return an interpretation of an address, and in reverse mode also its public form."""
    public = None
    if base.upstream and base.public_url:
        public = rebase(reading, base.upstream, uri.normalise(base.public_url))
    return (reading,) if public is None else (reading, public)


def _strictest(protecting: Iterable[Rule], forms_of_target: tuple[str, ...], base: Settings) -> _Protection:
    """Return the protection of one interpretation of an address: the stricter of two results.

    The first result is that of the rules that match as written. The second result also includes the rules that match
    only in their extended form (`TargetPattern.protects`). `forms_of_target` are the forms of the interpretation
    (`_forms_of`).
    """
    written = extended = _Protection(base.readers, base.private)
    for rule in protecting:
        matches = any(map(rule.match.matches, forms_of_target))
        if matches:
            written = _apply(written, rule)
        if matches or (_protects(rule) and any(map(rule.match.protects, forms_of_target))):
            extended = _apply(extended, rule)
    return written.combine(extended)


def _apply(before: _Protection, rule: Rule) -> _Protection:
    return _Protection(
        tuple(rule.overrides.get("readers", before.readers)), bool(rule.overrides.get("private", before.private))
    )


def _intersect_readers(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Return the readers that both values of `readers` permit, or AMBIGUOUS if there are none. An empty value permits
    all clients. If one value is BLOCKED, return BLOCKED."""
    if BLOCKED in (one, other):
        return BLOCKED
    if not one or not other:
        return one or other
    if one == other or ANY_USER in other:
        return one
    if ANY_USER in one:
        return other
    return tuple(name for name in one if name in other) or AMBIGUOUS
