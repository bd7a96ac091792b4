"""Recent activity in memory: the last requests, the last fetches of each feed, and addresses that never returned a
feed. Targets are stored with their secrets, which page_redaction.py removes from the operator's pages."""

from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain

from msgspec import Struct

from feedproxy.clock import Instant
from feedproxy.http import uri
from feedproxy.lru_map import LRU
from feedproxy.refresh.refresh_events import RefreshEnded
from feedproxy.refresh.refresh_result import RefreshRecord
from feedproxy.settings import Settings
from feedproxy.telemetry import fetch_log
from feedproxy.telemetry.log_stream import LineBatch

REQUESTS_MAX = 50
"""Maximum number of stored requests: as many as fit on a page."""

FETCHES_MAX = 50
"""At most this many fetches of each feed are stored."""

FETCH_SIZE = 344
"""A stored fetch counts as this many bytes. All fetches may take `MemoryLimits.fetches` bytes. Those of the feed that
was fetched longest ago are removed first."""

FAILED_MAX = 100
"""At most this many addresses that never returned a feed are stored."""


class RequestActivity(Struct, frozen=True):
    """A request of a client. `agent` is its User-Agent."""

    at: Instant
    entrance: str
    method: str
    target: str
    status: int
    size: int
    cache: str
    agent: str


class FailedAddress(Struct, frozen=True):
    """An address that never returned a feed, with its last fetch and the number of fetches."""

    target: str
    first: Instant
    count: int
    last: RefreshRecord


class Journal(Struct, frozen=True):
    """The recent activity of one process."""

    requests: list[RequestActivity]
    failed: list[FailedAddress]
    """The addresses that never returned a feed, the latest fetch last."""


class RecentActivity:
    """Memory of the recent activity of this process."""

    def __init__(self, settings: Callable[[], Settings], name_in_log: Callable[[str], str]) -> None:
        """Create an empty memory. `name_in_log` returns the name of a target in the log, without secrets."""
        self._settings = settings
        self._name_in_log = name_in_log
        self._requests: deque[RequestActivity] = deque(maxlen=REQUESTS_MAX)
        self._fetches: LRU[str, deque[RefreshRecord]] = LRU()
        self._failed: LRU[str, FailedAddress] = LRU(entries_max=FAILED_MAX)
        self.log_lines = LineBatch(fetch_log.logger)
        """The lines of successful fetches. A write for each line would take a tenth of a scheduled refresh."""

    def on_refresh_ended(self, event: RefreshEnded) -> None:
        if (record := event.record) is None:
            return
        settings = self._settings()
        fetches = self._fetches.get(event.target) or deque(maxlen=FETCHES_MAX)
        fetches.append(record)
        self._fetches.resize(settings.memory.fetches)
        self._fetches.put(event.target, fetches, len(fetches) * FETCH_SIZE)
        if record.is_feed:
            self._failed.drop(event.target)
        elif record.is_missing_feed:
            before = self._failed.get(event.target)
            first, count = (before.first, before.count) if before is not None else (record.at, 0)
            self._failed.put(event.target, FailedAddress(event.target, first, count + 1, record))
        if fetch_log.is_logged(record, settings.log_format):
            name = self._name_in_log(uri.without_fragment(event.target))
            fetch_log.log_fetch(name, record, settings.log_format, self.log_lines)

    def on_page_redirected_to_feed(self, target: str) -> None:
        """Remove `target`, a page that led to a feed, from the list of addresses that never returned a feed."""
        self._failed.drop(target)

    def record_request(self, request: RequestActivity) -> None:
        self._requests.append(request)

    def fetches(self, target: str) -> list[RefreshRecord]:
        """Return the last fetches of a target, the newest last."""
        return list(self._fetches.get(target) or ())

    def journal(self) -> Journal:
        """Return the last requests, and the addresses that never returned a feed."""
        return Journal(list(self._requests), self._failed.values())


# -- several processes


def merge_requests(journals: Iterable[Journal]) -> list[RequestActivity]:
    """Return the last requests of all workers, the newest first."""
    requests = chain.from_iterable(journal.requests for journal in journals)
    return sorted(requests, key=lambda request: -request.at)[:REQUESTS_MAX]


def merge_failures(journals: Iterable[Journal]) -> list[FailedAddress]:
    """Return at most FAILED_MAX addresses that failed in at least one worker, each once, the latest fetch first."""
    merged: dict[str, FailedAddress] = {}
    for address in chain.from_iterable(journal.failed for journal in journals):
        other = merged.get(address.target)
        merged[address.target] = address if other is None else _merge_failed(address, other)
    return sorted(merged.values(), key=lambda address: -address.last.at)[:FAILED_MAX]


def _merge_failed(one: FailedAddress, other: FailedAddress) -> FailedAddress:
    latest = max(one, other, key=lambda address: address.last.at)
    return FailedAddress(one.target, min(one.first, other.first), one.count + other.count, latest.last)


def merge_fetches(fetches: Iterable[RefreshRecord]) -> list[RefreshRecord]:
    return sorted(fetches, key=lambda fetch: -fetch.at)[:FETCHES_MAX]
