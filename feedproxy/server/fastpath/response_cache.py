"""The fast-path cache: response templates by the exact bytes of a request, and by the request's key.

Most feed readers send the same bytes each time; these are looked up unparsed. Other requests carry a number or a date
of their own; they are parsed (request_head.py) and looked up by key. Only complete, parsed requests are stored, so
bytes that match have been validated before.

All tables are bounded by bytes. The oldest entries are evicted first, in batches, because evicting all at once would
delay every client. While half of the space is free, every hit is admitted. Beyond that, and always for exact bytes, a
request is admitted at its second occurrence, so that requests that never repeat evict nothing.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from feedproxy.proxy.cached_hit import HitConditions
from feedproxy.server.fastpath.response_template import ResponseTemplate

type RequestKey = tuple[bytes, ...]

ENTRY_OVERHEAD = 320
"""Bytes of an entry beside its key: the pair, its slot in the table, the object headers."""

HASHES_PER_GENERATION = 16_384
"""Hashes stored per generation; the older of two generations is dropped."""

SAMPLE_AFTER = 1024
"""Consecutive unseen values after which only one in SAMPLE_ONE_IN is recorded."""
SAMPLE_ONE_IN = 8

INTERNED_MAX = 8192
"""Values interned at once."""

EVICTION_BATCH = 32
"""Entries evicted at a time."""

SWEEP_BATCH = 1024
"""Entries checked each second for whether they are still valid: half a millisecond. A table of the default size is
checked within a minute."""


class AdmissionFilter:
    """Values seen before, by hash, in two generations.

    `sampled`: after many consecutive unseen values only one in SAMPLE_ONE_IN is recorded. Repeated values are found all
    the same.
    """

    def __init__(self, *, sampled: bool = False) -> None:
        self._sampled = sampled
        self._young: set[int] = set()
        self._old: set[int] = set()
        self._unseen_in_a_row = 0

    def is_seen_before(self, value: bytes | RequestKey) -> bool:
        """Return whether the value was seen before, and record it."""
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
    """One object for equal values: feeds and feed readers share most of their lines."""

    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}

    def __call__[T](self, value: T) -> T:
        """Return the stored object that equals this value, or this value."""
        if len(self._values) >= INTERNED_MAX:
            self._values.clear()
        found: T = self._values.setdefault(value, value)
        return found

    def intern_conditions(self, conditions: HitConditions) -> HitConditions:
        """Return the stored conditions that equal these; settings are compared by identity."""
        if len(self._values) >= INTERNED_MAX:
            self._values.clear()
        found: HitConditions = self._values.setdefault((id(conditions[0]), *conditions[1:]), conditions)
        return found


class FastPathCache:
    """Templates for requests from peers of equal trust, over connections of one kind.

    `size_max` bounds this table and its `sibling` together, since mostly one of the two is used.
    """

    def __init__(self, size_max: int, sibling: "FastPathCache | None" = None) -> None:
        self._max = size_max
        self._sibling = sibling
        if sibling is not None:
            sibling._sibling = self
        self.size = 0
        self.by_bytes: OrderedDict[bytes, tuple[ResponseTemplate, bytes]] = OrderedDict()
        """Template and User-Agent line, by the bytes of a whole request."""
        self.by_key: OrderedDict[RequestKey, ResponseTemplate] = OrderedDict()
        self._key_filter, self._bytes_filter = AdmissionFilter(), AdmissionFilter(sampled=True)

    def should_admit(self, key: RequestKey) -> bool:
        """Return whether half of the space is free, or the key occurs for the second time."""
        return self.size < self._max // 2 or self._key_filter.is_seen_before(key)

    def should_admit_bytes(self, data: bytes) -> bool:
        """Return whether these bytes occur for the second time."""
        return self._bytes_filter.is_seen_before(data)

    def put(self, key: RequestKey, template: ResponseTemplate) -> None:
        """Store the template for requests with this key."""
        if key not in self.by_key:
            self.size += _entry_size(key)
        else:
            self.size -= self.by_key[key].size()
        self.by_key[key] = template
        self.size += template.size()
        self._enforce_limit()

    def put_bytes(self, data: bytes, template: ResponseTemplate, user_agent: bytes) -> None:
        """Store the template for these request bytes."""
        if data not in self.by_bytes:
            self.size += len(data) + ENTRY_OVERHEAD
        self.by_bytes[data] = (template, user_agent)
        self._enforce_limit()

    def remove(self, key: RequestKey) -> None:
        """Remove the template of a key."""
        template = self.by_key.pop(key, None)
        if template is not None:
            self.size -= template.size() + _entry_size(key)

    def remove_bytes(self, data: bytes) -> None:
        """Remove the template of these bytes."""
        if self.by_bytes.pop(data, None) is not None:
            self.size -= len(data) + ENTRY_OVERHEAD

    def evict_stale(self, is_current: Callable[[ResponseTemplate], bool]) -> None:
        """Remove templates that are no longer valid, SWEEP_BATCH entries of each table at a time."""
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
