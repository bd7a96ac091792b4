"""Failures of requests with fields of the client, such as credentials, cookies, and fields that Vary nominates.

The failures prevent further requests of the client to an origin that failed or asked for a pause. They are recorded in
memory only, with a keyed hash of the fields, and do not count as failures of the shared copy.
"""

import hashlib
import secrets

from msgspec import Struct

from feedproxy.cache.cache_status import Detail
from feedproxy.http.message import Fields
from feedproxy.lru_map import LRU
from feedproxy.store.resource import NO_FAILURES, Failures

RECORDS_MAX = 4096
"""Maximum number of records. Together they take 2 MB. The least recently used record is removed first."""

ORIGIN_FAILURES = frozenset({Detail.RATE_LIMITED, Detail.ERROR_STATUS, Detail.UNREACHABLE, Detail.TIMEOUT})
"""Failures that concern a whole origin, independent of credentials."""

FAILURES_OF_ONE_KEY = ORIGIN_FAILURES | {Detail.BROKEN_MESSAGE}
"""Failures that delay further requests with the same client-specific fields. A refusal (such as 403) delays no request,
because the client can have obtained access in the meantime."""


class KeyedRecord(Struct, frozen=True):
    """The outcome of the last request for one target with one set of client-specific fields.

    `is_feed` is true if such a request has received a feed before. Only the failures of feeds cause a back-off.
    Failures of other targets cause only the pause for which the origin asks.
    """

    is_feed: bool = False
    failures: Failures = NO_FAILURES


NO_RECORD = KeyedRecord()


class KeyedFailures:
    """The records of requests, keyed by target, client-specific fields and User-Agent."""

    def __init__(self) -> None:
        self._records: LRU[bytes, KeyedRecord] = LRU(entries_max=RECORDS_MAX)
        self._secret = secrets.token_bytes(32)

    def get(self, target: str, key: Fields, agent: str | None) -> KeyedRecord:
        """Return the record, or NO_RECORD if there is none. `agent` is the client's User-Agent, or None if it was not
        sent upstream."""
        if not len(self._records):
            return NO_RECORD
        return self._records.get(self._name(target, key, agent)) or NO_RECORD

    def put(self, target: str, key: Fields, agent: str | None, record: KeyedRecord) -> None:
        """Store `record` in place of the present record. NO_RECORD removes the present record."""
        name = self._name(target, key, agent)
        if record == NO_RECORD:
            self._records.drop(name)
        else:
            self._records.put(name, record)

    def _name(self, target: str, key: Fields, agent: str | None) -> bytes:
        text = repr((target, sorted((name.lower(), value) for name, value in key), agent))
        return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), key=self._secret, digest_size=16).digest()
