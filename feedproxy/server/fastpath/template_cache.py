"""The cache of the fast path: response templates, by the exact bytes of a request and by the request's key.

A request with the bytes of an earlier request is looked up without parsing. All other requests are parsed, and looked
up by their key (request_head.py).

All tables (by bytes, by key) together have a limit in bytes. The oldest entries are evicted first. A template is stored
at the second request with its key or bytes, so that requests that never repeat evict nothing. While half of the space
is free, a template is stored at the first request with its key.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from feedproxy.proxy.repeated_hit import HitConditions
from feedproxy.server.fastpath.body_files import BodyFiles
from feedproxy.server.fastpath.response_template import ResponseTemplate, SharedProperties

type RequestKey = tuple[bytes, ...]

CACHEABLE_HEAD_MAX = 2048
"""A request head of more than this many bytes is not cached. Requests with a longer head go to the service."""

ENTRY_OVERHEAD = 320
"""Bytes of an entry without its key: the pair, its slot in the table, the object headers."""

HASHES_PER_GENERATION = 16_384
"""Each of the two generations of an AdmissionFilter holds at most this many hashes."""

SAMPLE_AFTER = 1024
"""After this many new values in a row, an AdmissionFilter with sampling records only one in SAMPLE_ONE_IN."""

SAMPLE_ONE_IN = 8
"""While it samples, an AdmissionFilter records one of this many new values."""

INTERNED_MAX = 8192
"""A TemplatePartInterner holds at most this many values."""

EVICTION_BATCH = 32
"""A full cache evicts this many entries at a time."""

SWEEP_BATCH = 1024
"""This many entries are checked for validity each second. The check takes about 0.5 ms."""


class AdmissionFilter:
    """Filter that admits a value to a cache when the value occurs for the second time.

    The filter records the values that occurred. If `sampled` is true, it records only one in SAMPLE_ONE_IN values after
    SAMPLE_AFTER new values in a row. A value that was not recorded is admitted at a later occurrence.
    """

    def __init__(self, *, sampled: bool = False) -> None:
        self._sampled = sampled
        self._young: set[int] = set()
        self._old: set[int] = set()
        self._unseen_in_a_row = 0

    def is_seen_before(self, value: bytes | RequestKey) -> bool:
        """Record the value. Return True if it occurred before. With sampling, some earlier values are missed."""
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


class TemplatePartInterner:
    """Cache that returns one object for equal values, to save memory: the templates of most feeds have equal parts."""

    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}

    def __call__[T](self, value: T) -> T:
        """Return the cached object that equals `value`. If there is none, cache `value` and return it."""
        if len(self._values) >= INTERNED_MAX:
            self._values.clear()
        cached: T = self._values.setdefault(value, value)
        return cached

    def intern_properties(self, properties: SharedProperties) -> SharedProperties:
        """Return the cached properties that equal `properties`. Two values are equal if their parts are the same
        objects."""
        if len(self._values) >= INTERNED_MAX:
            self._values.clear()
        cached: SharedProperties = self._values.setdefault(tuple(map(id, properties)), properties)
        return cached

    def intern_conditions(self, conditions: HitConditions) -> HitConditions:
        """Return the cached conditions that equal `conditions`. Settings are compared by identity."""
        if len(self._values) >= INTERNED_MAX:
            self._values.clear()
        cached: HitConditions = self._values.setdefault((id(conditions[0]), *conditions[1:]), conditions)
        return cached


class FastPathCache:
    """Templates for the requests of one listener, either from trusted proxies or from all other peers.

    `sibling` is the cache for the other kind of peers: a request has another meaning if its forwarding fields are
    trusted. `size_max` limits both caches together.
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
        self.body_files = BodyFiles()
        self._key_filter, self._bytes_filter = AdmissionFilter(), AdmissionFilter(sampled=True)

    def should_admit(self, key: RequestKey) -> bool:
        """Return True if half of the space is free, or if the key occurs for at least the second time."""
        return self.size < self._max // 2 or self._key_filter.is_seen_before(key)

    def should_admit_bytes(self, data: bytes) -> bool:
        """Return True if these bytes occur for at least the second time. Some repetitions are missed."""
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
        """Store the template for the request bytes `data`."""
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
        """Remove the template for the request bytes `data`."""
        if self.by_bytes.pop(data, None) is not None:
            self.size -= len(data) + ENTRY_OVERHEAD

    def evict_stale(self, is_current: Callable[[ResponseTemplate], bool]) -> None:
        """Check the next SWEEP_BATCH entries of each table, and remove templates for which `is_current` returns
        False."""
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
