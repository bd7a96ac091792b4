"""The cache of the fast path: response templates by the key of a request, and known field sections.

All bytes after the request line are the *field section* of a request. A known field section is not parsed
(docs/explanation/fast-path.md). Requests that never repeat evict nothing (`should_admit`).
"""

import secrets
from collections.abc import Callable, Iterable
from hashlib import blake2b
from itertools import islice

from feedproxy.server.fastpath.body_files import BodyFiles
from feedproxy.server.fastpath.response_template import ResponseTemplate

type RequestKey = bytes
"""The request line, followed by the digest of the field lines that affect the response. If Vary names a field that is
not among these lines, the key is the whole request head. One object of bytes takes less memory than a tuple."""

type FieldSection = tuple[bytes, bytes]
"""Of a field section: the digest of the lines that affect the response, and the line of User-Agent."""

_DIGEST_SECRET = secrets.token_bytes(16)
"""Secret of the digests. Clients do not know it, so they cannot construct different field lines with an equal
digest."""

CACHEABLE_HEAD_MAX = 2048
"""A request head of more than this many bytes is not cached. Requests with a longer head go to the service."""

ENTRY_OVERHEAD = 200
"""Bytes of an entry without its key: its slot in the table, the object headers."""

SECTIONS_SHARE = 16
"""Each of the two generations of field sections takes at most 1 / SECTIONS_SHARE of a cache's limit."""

HASHES_PER_GENERATION = 16_384
"""Each of the two generations of an AdmissionFilter holds at most this many hashes."""

SAMPLE_AFTER = 1024
"""After this many new values in a row, an AdmissionFilter with sampling records only one in SAMPLE_ONE_IN."""

SAMPLE_ONE_IN = 8
"""While it samples, an AdmissionFilter records one of this many new values."""

EVICTION_BATCH = 32
"""A full cache evicts this many entries together, but at most about one in 128 of its entries. After an eviction, the
search for the first entry of a large dictionary takes up to half a millisecond."""

SWEEP_BATCH = 1024
"""This many entries are checked for validity each second. The check takes about 0.5 ms."""


def digest_lines(lines: Iterable[bytes]) -> bytes:
    """Return the digest of field lines, which is part of a request's key: 16 bytes."""
    return blake2b(b"\r\n".join(lines), digest_size=16, key=_DIGEST_SECRET).digest()


class AdmissionFilter:
    """Filter that admits a value to a cache when the value occurs for the second time.

    If `sampled` is true, the filter skips values after SAMPLE_AFTER new values in a row: it looks up and records only
    one value in SAMPLE_ONE_IN. A skipped value is not admitted before a later occurrence.
    """

    def __init__(self, *, sampled: bool = False) -> None:
        self._sampled = sampled
        self._young: set[int] = set()
        self._old: set[int] = set()
        self._unseen_in_a_row = 0

    def is_seen_before(self, value: bytes) -> bool:
        """Record the value. Return True if it was recorded before. If sampling skips the value, do not record it, and
        return False."""
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


class FastPathCache:
    """Templates for the requests of one listener, either from trusted proxies or from all other peers.

    `sibling` is the cache for the other kind of peers. There are two caches, because the forwarding fields of a request
    count only if its peer is trusted. `size_max` limits both caches together.
    """

    def __init__(self, size_max: int, sibling: "FastPathCache | None" = None) -> None:
        self._section_bytes_max = size_max // SECTIONS_SHARE
        self._max = size_max - 4 * self._section_bytes_max
        self._sibling = sibling
        if sibling is not None:
            sibling._sibling = self
        self.size = 0
        """Bytes of the templates and their keys."""
        self.templates: dict[RequestKey, ResponseTemplate] = {}
        self._unchecked: list[RequestKey] = []
        """The keys that the present round of `evict_stale` has not yet checked."""
        self.sections: dict[bytes, FieldSection] = {}
        """The parsed forms of known field sections (all bytes of a request after the request line). A full table
        replaces `_older_sections`."""
        self._older_sections: dict[bytes, FieldSection] = {}
        self._section_bytes = 0
        self.body_files = BodyFiles()
        self._key_filter, self._section_filter = AdmissionFilter(), AdmissionFilter(sampled=True)

    def should_admit(self, key: RequestKey) -> bool:
        """Return True if more than half of the space is free, or if the key occurs for at least the second time."""
        return self.size < self._max // 2 or self._key_filter.is_seen_before(key)

    def should_admit_section(self, data: bytes) -> bool:
        """Return True if this field section (all bytes after the request line) is recorded as seen before."""
        return data in self._older_sections or self._section_filter.is_seen_before(data)

    def put(self, key: RequestKey, template: ResponseTemplate) -> None:
        """Store the template for requests with this key."""
        if key not in self.templates:
            self.size += ENTRY_OVERHEAD + len(key)
        else:
            self.size -= self.templates[key].size()
        self.templates[key] = template
        self.size += template.size()
        self._enforce_limit()

    def put_section(self, data: bytes, section: FieldSection) -> None:
        """Store the parsed form of a field section (all bytes after the request line)."""
        if data not in self.sections:
            size = ENTRY_OVERHEAD + len(data) + len(section[0])
            if self._section_bytes + size > self._section_bytes_max:
                self._older_sections, self.sections, self._section_bytes = self.sections, {}, 0
            self._section_bytes += size
        self.sections[data] = section

    def remove(self, key: RequestKey) -> None:
        """Remove the template of a key."""
        template = self.templates.pop(key, None)
        if template is not None:
            self.size -= template.size() + ENTRY_OVERHEAD + len(key)

    def evict_stale(self, is_current: Callable[[ResponseTemplate], bool]) -> None:
        """Check the next SWEEP_BATCH templates, and remove those for which `is_current` returns False."""
        if not self._unchecked:
            self._unchecked = list(self.templates)
        for key in self._unchecked[-SWEEP_BATCH:]:
            template = self.templates.get(key)
            if template is not None and not is_current(template):
                self.remove(key)
        del self._unchecked[-SWEEP_BATCH:]

    def _enforce_limit(self) -> None:
        sibling = self._sibling
        while self.size + (sibling.size if sibling is not None else 0) > self._max:
            (sibling if sibling is not None and sibling.size > self.size else self)._evict_oldest()

    def _evict_oldest(self) -> None:
        batch = min(EVICTION_BATCH, 1 + len(self.templates) // 128)
        for key in list(islice(self.templates, batch)):
            self.remove(key)
