"""Distinct readers of each feed within a month, for public lists. These lists name only feeds with several readers,
because the address of a feed with one reader can be secret."""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from feedproxy.clock import Instant, Seconds
from feedproxy.http.target_uri.url_redaction import has_secret
from feedproxy.subscribers.reader_pseudonyms import PERIOD, Pseudonym

READERS_PER_FEED = 16
"""At most this many readers of each feed are kept. The option `list_readers_min` has the same maximum."""

FEEDS_MAX = 20_000
"""Maximum number of feeds with remembered readers. The feed with the oldest recorded request is removed first."""

REPEAT_INTERVAL: Seconds = 3600
"""A reader's requests for a feed are recorded at most once in this many seconds. If READERS_PER_FEED readers were
recorded within this time, the request of a further reader is not recorded."""

type Readers = dict[int, int]
"""Instants of last requests in whole seconds, by pseudonym, the oldest first."""

_READER, _KEY = struct.Struct("<QQ"), struct.Struct("<Q")


class DistinctReaders:
    """The latest distinct readers of each feed. Not thread-safe."""

    def __init__(self) -> None:
        self._feeds: dict[str, bytes] = {}
        """The readers of each feed, packed: pseudonym, instant of last request, next pseudonym, and so on.

        The feed with the oldest record of its readers is first. Most feeds have one reader, for which a dictionary
        would take five times the memory.
        """
        self.changes = 0
        """Number of changes of the readers of all feeds since this object was made."""

    def record(self, target: str, pseudonym: Pseudonym, now: Instant) -> None:
        """Record a reader's request, unless the address of the feed contains a secret."""
        readers = self._feeds.get(target)
        if readers and now - _last_request(readers, pseudonym.long_term) < REPEAT_INTERVAL:
            return
        if not pseudonym.long_term or "#" in target or has_secret(target):
            return
        self.add(target, {pseudonym.long_term: int(now)})

    def add(self, target: str, new_readers: Mapping[int, int]) -> None:
        """Add readers of a target, given as the instants of their last requests by pseudonym."""
        readers = _unpack(self._feeds.pop(target, b""))
        for pseudonym, at in new_readers.items():
            readers[pseudonym] = max(at, readers.pop(pseudonym, 0))
        for oldest in sorted(readers, key=readers.__getitem__)[: max(0, len(readers) - READERS_PER_FEED)]:
            del readers[oldest]
        self._feeds[target] = b"".join([_READER.pack(*reader) for reader in readers.items()])
        self.changes += 1
        if len(self._feeds) > FEEDS_MAX:
            del self._feeds[next(iter(self._feeds))]

    def since(self, since: Instant) -> Iterator[tuple[str, Readers]]:
        """Yield the feeds requested after `since`, with their readers."""
        for target, readers in list(self._feeds.items()):
            recent = {pseudonym: at for pseudonym, at in _unpack(readers).items() if at > since}
            if recent:
                yield target, recent


def _unpack(readers: bytes) -> Readers:
    return dict(_READER.iter_unpack(readers))


def _last_request(readers: bytes, pseudonym: int) -> int:
    """Return the instant of the reader's last request. For a reader that is not among `readers`, return 0, or the
    earliest instant if there are READERS_PER_FEED readers."""
    key = _KEY.pack(pseudonym)
    at = readers.find(key)
    while at > 0 and at % _READER.size:
        at = readers.find(key, at + 1)
    if at >= 0:
        instant: int = _KEY.unpack_from(readers, at + _KEY.size)[0]
        return instant
    return min(_unpack(readers).values()) if len(readers) == READERS_PER_FEED * _READER.size else 0


def count_distinct(readers: Readers) -> int:
    """Return the number of readers that are certainly distinct: the largest number of readers in one PERIOD. Readers of
    two periods are not added, because a reader's pseudonym changes with the period."""
    return max(Counter(at // int(PERIOD) for at in readers.values()).values(), default=0)


def merge_readers(
    first: Mapping[str, Readers], others: Iterable[tuple[str, Readers]], since: Instant
) -> dict[str, Readers]:
    """Return the readers in `first` and `others` with a request after `since`, keyed by feed."""
    together = DistinctReaders()
    for target, readers in (*first.items(), *others):
        together.add(target, readers)
    return dict(together.since(since))
