"""How many different readers asked for a feed within a month: as many as it takes to name it to others.

A feed that only one reader knows may be that reader's secret, whatever its address looks like. So public lists name
what several have asked for. For that no more than a few readers of a feed are remembered, by a pseudonym whose key
lasts as long as the window (pseudonyms.py), and when each was last seen.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping

from feedproxy.clock import Instant, Seconds
from feedproxy.http.redaction import has_secret
from feedproxy.subscribers.pseudonyms import PERIOD, Pseudonym

READERS_PER_FEED = 16
"""Readers remembered of a feed; no list asks for more."""

FEEDS_MAX = 20_000
"""Feeds; what was asked for longest ago is forgotten first."""

REPEAT_INTERVAL: Seconds = 3600
"""What is known of a reader is renewed once in this time."""

type Readers = dict[int, int]
"""When each was last seen, in whole seconds, by pseudonym; the one seen longest ago first."""


class DistinctReaders:
    """The last different readers of each feed. Not for several threads at once."""

    def __init__(self) -> None:
        self._feeds: OrderedDict[str, Readers] = OrderedDict()
        self.changes = 0
        """Another number after every change."""

    def note(self, target: str, pseudonym: Pseudonym, now: Instant) -> None:
        """A reader asks for this feed. Of an address with a secret nothing is remembered."""
        readers = self._feeds.get(target)
        if readers is not None and now - readers.get(pseudonym.lasting, 0) < REPEAT_INTERVAL:
            return
        if not pseudonym.lasting or "#" in target or has_secret(target):
            return
        if readers is None:
            readers = self._feeds[target] = {}
        self._take(target, readers, {pseudonym.lasting: int(now)})

    def add(self, target: str, told: Mapping[int, int]) -> None:
        """Readers that were written down, here or by another process."""
        self._take(target, self._feeds.setdefault(target, {}), told)

    def _take(self, target: str, readers: Readers, told: Mapping[int, int]) -> None:
        for each, at in told.items():
            readers[each] = max(at, readers.pop(each, 0))
        for oldest in sorted(readers, key=readers.__getitem__)[: max(0, len(readers) - READERS_PER_FEED)]:
            del readers[oldest]
        self.changes += 1
        self._feeds.move_to_end(target)
        if len(self._feeds) > FEEDS_MAX:
            self._feeds.popitem(last=False)

    def since(self, since: Instant) -> Iterator[tuple[str, Readers]]:
        """The feeds that were asked for since then, and by whom."""
        for target, readers in list(self._feeds.items()):
            recent = {each: at for each, at in readers.items() if at > since}
            if recent:
                yield target, recent


def count_distinct(readers: Readers) -> int:
    """How many readers these are at least: of two stretches of LASTING two pseudonyms may be one reader's."""
    return max(Counter(at // int(PERIOD) for at in readers.values()).values(), default=0)


def merge_readers(
    first: Mapping[str, Readers], others: Iterable[tuple[str, Readers]], since: Instant
) -> dict[str, Readers]:
    """Two accounts of the same feeds as one, of what was seen since then."""
    together = DistinctReaders()
    for target, readers in (*first.items(), *others):
        together.add(target, readers)
    return dict(together.since(since))
