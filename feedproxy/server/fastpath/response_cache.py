"""The memo: recipes by the exact bytes of a request, and by what its answer depends on.

Most readers send the very same bytes each time; those are looked up as they come, unparsed. Others put a number or a
date of their own into every request; these are parsed (request_head.py) and looked up by their key. Only complete
requests that were read and understood are ever put in, so bytes that match were understood before.

All is bounded by bytes; what came first goes first, a few at a time, since giving up all at once would hold up every
reader. While there is room, every answer from the store is kept; once half of it is taken, and always for exact bytes,
only what comes for the second time: strangers who never ask the same twice drive nobody out.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from feedproxy.proxy.cached_hit import HitConditions
from feedproxy.server.fastpath.response_template import ResponseTemplate

type RequestKey = tuple[bytes, ...]

ENTRY_OVERHEAD = 320
"""Bytes of an entry beside its key: the pair, its place in the table, the objects' heads."""

HASHES_PER_GENERATION = 16_384
"""Numbers of what was seen once, per generation; the older of two is given up."""

SAMPLE_AFTER = 1024
"""So many in a row were never seen before: then one in ONE_IN is looked at."""
SAMPLE_ONE_IN = 8

INTERNED_MAX = 8192
"""Lines, and what else is shared, that are known at once."""

EVICTION_BATCH = 32
"""Entries given up at one go."""

SWEEP_BATCH = 1024
"""Entries looked at each second for whether they can still be used: all within a minute, as many as there may be by
default. Half a millisecond."""


class AdmissionFilter:
    """What has been seen before, by its hash: two generations of numbers.

    `spared`: where many in a row are strangers, only one in some is looked at. Noting each would cost more than it
    brings, and who comes again and again is found out all the same.
    """

    def __init__(self, *, sampled: bool = False) -> None:
        self._sampled = sampled
        self._young: set[int] = set()
        self._old: set[int] = set()
        self._unseen_in_a_row = 0

    def is_seen_before(self, value: bytes | RequestKey) -> bool:
        """Whether it was seen before; from now on it was."""
        self._unseen_in_a_row += 1
        if self._sampled and self._unseen_in_a_row > SAMPLE_AFTER and self._unseen_in_a_row % SAMPLE_ONE_IN:
            return False
        number = hash(value)
        if number in self._young or number in self._old:
            self._unseen_in_a_row = 0
            return True
        self._young.add(number)
        if len(self._young) >= HASHES_PER_GENERATION:
            self._old, self._young = self._young, set()
        return False


class Interner:
    """One object for all that are equal: most readers of a feed, and most feeds of a reader, bring the same lines."""

    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}

    def __call__[T](self, value: T) -> T:
        """The one that is known already, or this one."""
        if len(self._values) >= INTERNED_MAX:
            self._values.clear()
        found: T = self._values.setdefault(value, value)
        return found

    def intern_conditions(self, conditions: HitConditions) -> HitConditions:
        """The same for what answers depend on; settings are the same where they are one object."""
        if len(self._values) >= INTERNED_MAX:
            self._values.clear()
        found: HitConditions = self._values.setdefault((id(conditions[0]), *conditions[1:]), conditions)
        return found


class FastPathCache:
    """Recipes for requests that come from peers believed alike, over connections of one kind.

    `size_max` bounds it and the one `beside` it together: mostly one of the two is used.
    """

    def __init__(self, size_max: int, sibling: "FastPathCache | None" = None) -> None:
        self._max = size_max
        self._sibling = sibling
        if sibling is not None:
            sibling._sibling = self
        self.size = 0
        self.by_bytes: OrderedDict[bytes, tuple[ResponseTemplate, bytes]] = OrderedDict()
        """Recipe, and the line that names the User-Agent, by the bytes of a whole request."""
        self.by_key: OrderedDict[RequestKey, ResponseTemplate] = OrderedDict()
        self._key_filter, self._bytes_filter = AdmissionFilter(), AdmissionFilter(sampled=True)

    def should_admit(self, key: RequestKey) -> bool:
        """Whether a request with this key comes for the second time, or there is room to spare."""
        return self.size < self._max // 2 or self._key_filter.is_seen_before(key)

    def should_admit_bytes(self, data: bytes) -> bool:
        """Whether these very bytes come for the second time."""
        return self._bytes_filter.is_seen_before(data)

    def put(self, key: RequestKey, template: ResponseTemplate) -> None:
        """Answer with this recipe whatever has this key."""
        if key not in self.by_key:
            self.size += _entry_size(key)
        else:
            self.size -= self.by_key[key].size()
        self.by_key[key] = template
        self.size += template.size()
        self._enforce_limit()

    def put_bytes(self, data: bytes, template: ResponseTemplate, user_agent: bytes) -> None:
        """Answer these very bytes with this recipe."""
        if data not in self.by_bytes:
            self.size += len(data) + ENTRY_OVERHEAD
        self.by_bytes[data] = (template, user_agent)
        self._enforce_limit()

    def remove(self, key: RequestKey) -> None:
        """This key is to be looked at anew."""
        template = self.by_key.pop(key, None)
        if template is not None:
            self.size -= template.size() + _entry_size(key)

    def remove_bytes(self, data: bytes) -> None:
        """These bytes are to be looked at anew."""
        if self.by_bytes.pop(data, None) is not None:
            self.size -= len(data) + ENTRY_OVERHEAD

    def evict_stale(self, is_current: Callable[[ResponseTemplate], bool]) -> None:
        """Give up what cannot be used any more, looking at a few: it would hold what the store has let go."""
        for _ in range(min(SWEEP_BATCH, len(self.by_key))):
            key, template = next(iter(self.by_key.items()))
            self.by_key.move_to_end(key)
            if not is_current(template):
                self.remove(key)
        for _ in range(min(SWEEP_BATCH, len(self.by_bytes))):
            data, (template, _) = next(iter(self.by_bytes.items()))
            self.by_bytes.move_to_end(data)
            if not is_current(template):
                self.remove_bytes(data)

    def _enforce_limit(self) -> None:
        for _ in range(EVICTION_BATCH):
            sibling = self._sibling
            if self.size + (sibling.size if sibling is not None else 0) <= self._max:
                return
            (sibling if sibling is not None and sibling.size > self.size else self)._evict_oldest()

    def _evict_oldest(self) -> None:
        if self.by_bytes:
            data, _ = self.by_bytes.popitem(last=False)
            self.size -= len(data) + ENTRY_OVERHEAD
        if self.by_key:
            key, template = self.by_key.popitem(last=False)
            self.size -= template.size() + _entry_size(key)


def _entry_size(key: RequestKey) -> int:
    return ENTRY_OVERHEAD + sum(map(len, key))
