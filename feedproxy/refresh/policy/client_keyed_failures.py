"""Failures of requests with client-specific fields, such as credentials and cookies.

A failure of such a request is no failure of the shared copy (client_keyed_responses.py), so it is not stored with the
resource. Without this record, each further poll of the client would cause a request to an origin that fails, or that
has asked for a pause. The record is in memory only. It contains a keyed hash of the fields, not the fields themselves.
"""

import hashlib
import secrets
from dataclasses import dataclass, field

from feedproxy.http.message import Fields
from feedproxy.lru_map import LRU
from feedproxy.store.resource import Failures

RECORDS_MAX = 4096
"""Maximum number of records, 2 MB. The record of the client with the oldest poll is removed first."""


@dataclass(frozen=True, slots=True)
class KeyedRecord:
    """The outcome of the last request for one target with one set of client-specific fields.

    `is_feed` is true if a feed was received. Only feeds cause a back-off. Other targets cause only the pause for which
    the origin asks.
    """

    is_feed: bool = False
    failures: Failures = field(default_factory=Failures)


NO_RECORD = KeyedRecord()


class KeyedFailures:
    """The records by target, client-specific fields and User-Agent."""

    def __init__(self) -> None:
        self._records: LRU[bytes, KeyedRecord] = LRU(entries_max=RECORDS_MAX)
        self._secret = secrets.token_bytes(32)

    def get(self, target: str, key: Fields, agent: str | None) -> KeyedRecord:
        """Return the record, or NO_RECORD. `agent` is the client's User-Agent, or None if it was not sent upstream."""
        if not len(self._records):
            return NO_RECORD
        return self._records.get(self._name(target, key, agent)) or NO_RECORD

    def put(self, target: str, key: Fields, agent: str | None, record: KeyedRecord) -> None:
        """Replace the record. An empty record is removed."""
        name = self._name(target, key, agent)
        if record == NO_RECORD:
            self._records.drop(name)
        else:
            self._records.put(name, record)

    def _name(self, target: str, key: Fields, agent: str | None) -> bytes:
        text = repr((target, sorted((name.lower(), value) for name, value in key), agent))
        return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), key=self._secret, digest_size=16).digest()
