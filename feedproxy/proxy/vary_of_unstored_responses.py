"""The names in Vary of responses that are not stored."""

from feedproxy.lru_map import LRU
from feedproxy.refresh.refresh_result import RefreshResult
from feedproxy.refresh.resource_after_refresh import client_fields_in_vary

TARGETS_MAX = 4096
"""The Vary of a response that is not stored is remembered for at most this many targets.

If the Vary of a target is forgotten, the next request for the target is sent to the origin twice.
"""

_NO_NAMES: frozenset[str] = frozenset()


class UnstoredVary:
    """The names in Vary of each target's earlier responses that were not stored."""

    def __init__(self) -> None:
        self._names: LRU[str, frozenset[str]] = LRU(entries_max=TARGETS_MAX)

    def names(self, target: str) -> frozenset[str]:
        """Return the names for a target."""
        return self._names.get(target) or _NO_NAMES if len(self._names) else _NO_NAMES

    def remember(self, target: str, names: frozenset[str]) -> None:
        """Remember to forward these fields of clients in further requests for the target."""
        self._names.put(target, self.names(target) | names)


def unstored_varying_names(result: RefreshResult) -> frozenset[str]:
    """Return the names of the client's fields by which a response varies, if the response was not stored.

    The result is empty for a feed, and for a failure, because a failing origin is not asked a second time.
    """
    response = result.response
    if response is None or result.stored or response.content.feed or response.status >= 500 or response.status == 429:
        return frozenset()
    return frozenset(client_fields_in_vary(response.fields))
