"""The operator's decisions to pause or block feeds. A paused feed is never fetched, and no client gets a blocked feed.

The decisions are stored, so that all workers share them. Each decision becomes a rule after the rules of the
configuration.
"""

import json
import logging
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from feedproxy.clock import Seconds
from feedproxy.errors import BadTarget, FeedproxyError
from feedproxy.feed_rules import BLOCKED, Rule
from feedproxy.http.target_uri.target_pattern import TargetPattern
from feedproxy.http.target_uri.url_redaction import redact_target
from feedproxy.refresh.policy.min_interval_and_back_off import PAUSE_INTERVAL
from feedproxy.store.interface import Store

logger = logging.getLogger(__name__)

STATE_NAME = "operator-decisions"
"""Name under which the decisions are stored."""

DECISIONS_MAX = 1000
"""At most this many feeds may be paused or blocked, because every target is compared with all rules."""

RELOAD_INTERVAL: Seconds = 1
"""Seconds between two reads of the decisions, because another worker can have stored new ones."""

PAUSED_RETRY: Seconds = 86_400
"""Value of Retry-After, in seconds, in the response for a paused feed without a usable copy."""


class FeedDecision(StrEnum):
    """The operator's decision about a feed."""

    PAUSED = "paused"
    BLOCKED = "blocked"


_OVERRIDES: Mapping[FeedDecision, Mapping[str, Any]] = {
    FeedDecision.PAUSED: {"polling": "off", "feed_min_interval": PAUSE_INTERVAL, "stale_max": PAUSE_INTERVAL},
    FeedDecision.BLOCKED: {"readers": BLOCKED, "private": True, "polling": "off"},
}


class TooManyDecisions(FeedproxyError, status=409, detail="overload"):
    """Error for a decision about a further feed when DECISIONS_MAX feeds are paused or blocked."""


class OperatorDecisions:
    """The operator's decisions in one store: which feeds are paused or blocked. After each change, `on_change` is
    called once, with a list of rules that has one rule for each decision."""

    def __init__(self, store: Store, on_change: Callable[[tuple[Rule, ...]], None]) -> None:
        self._store = store
        self._on_change = on_change
        self._raw: bytes | None = None
        self._decided: dict[str, FeedDecision] = {}
        self.reload()

    def reload(self) -> None:
        """Read the stored decisions, which other processes can have changed."""
        self._use(self._store.get_state(STATE_NAME))

    async def reload_in_background(self) -> None:
        """Read the stored decisions without waiting for the disk in the event loop."""
        self._use(await self._store.read_state(STATE_NAME))

    def _use(self, raw: bytes | None) -> None:
        if raw != self._raw:
            self._adopt(raw, _decode(raw))

    def get(self, target: str) -> FeedDecision | None:
        """Return the decision about a target, or None if there is none."""
        return self._decided.get(target)

    def list_all(self) -> list[tuple[str, FeedDecision]]:
        """Return the paused and blocked targets with their decisions, the latest decision first."""
        return list(reversed(self._decided.items()))

    async def decide(self, target: str, decision: FeedDecision | None) -> bool:
        """Pause or block a target. If `decision` is None, end the pause or block. Return whether the decision changed.

        Raises TooManyDecisions if DECISIONS_MAX other feeds are paused or blocked, and StoreError if the store fails.
        """
        self.reload()
        if self._decided.get(target) == decision:
            return False
        decided = {other: self._decided[other] for other in self._decided if other != target}
        if decision is not None:
            if len(decided) >= DECISIONS_MAX:
                raise TooManyDecisions(
                    f"{DECISIONS_MAX} feeds are paused or blocked already: write a rule with a pattern (feeds:)"
                )
            decided[target] = decision
        raw = json.dumps({"version": 1, "decided": list(decided.items())}).encode()
        await self._store.put_state(STATE_NAME, raw)
        self._adopt(raw, decided)
        return True

    def _adopt(self, raw: bytes | None, decided: dict[str, FeedDecision]) -> None:
        self._raw, self._decided = raw, decided
        self._on_change(tuple(_rules(decided)))


def _rules(decided: Mapping[str, FeedDecision]) -> list[Rule]:
    rules = []
    for target, decision in decided.items():
        try:
            rules.append(Rule(TargetPattern(target), _OVERRIDES[decision]))
        except BadTarget:
            logger.warning("operator decisions: %s of the invalid address %r ignored", decision, redact_target(target))
    return rules


def _decode(raw: bytes | None) -> dict[str, FeedDecision]:
    """Return the stored decisions, or an empty dict if they are unreadable."""
    try:
        document: Any = json.loads(raw) if raw else {}
        return {str(target): FeedDecision(decision) for target, decision in document.get("decided", ())}
    except (ValueError, TypeError, AttributeError) as error:
        logger.warning("operator decisions: stored state unreadable, so no feed is paused or blocked: %s", error)
        return {}
