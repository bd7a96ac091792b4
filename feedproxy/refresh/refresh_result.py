"""The result of a refresh, and its record for metrics and log."""

from msgspec import Struct

from feedproxy.cache.cache_status import Detail
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant, Seconds
from feedproxy.errors import FeedproxyError
from feedproxy.http.message import NO_FIELDS, Fields, Response
from feedproxy.refresh.policy.client_keyed_failures import KeyedRecord
from feedproxy.refresh.policy.content_guard import KeepStored
from feedproxy.store.resource import Resource

REASON_LENGTH_MAX = 300
"""The reason in a record is cut to this many characters."""


class RefreshRecord(Struct, frozen=True):
    """The record of a refresh for metrics, log and the operator's pages.

    `at` is the instant at which the refresh ended. `occasion` is `reader`, `background` or `push`. `received_size` and
    `content_size` are the sizes of the origin's and of the stored content, in bytes. `is_missing_feed` is true if a
    feed was requested, none was received, and none is stored.
    """

    at: Instant
    occasion: str
    status: int | None
    outcome: str
    detail: str = ""
    reason: str = ""
    content_size: int = 0
    received_size: int = 0
    seconds: Seconds = 0.0
    is_feed: bool = False
    is_missing_feed: bool = False


class RefreshResult(Struct, frozen=True):
    """The result of a refresh.

    `response` is the origin's response. It is None after a failed fetch (`error`), content above `buffer_max`
    (`oversized`), or a document that declares a move or end. `fallback` is set if a stored response is served instead.
    `not_stored_reason` is the reason why the response is not stored. `from_partial` is true if the response completes a
    stored part.
    """

    resource: Resource
    response: StoredResponse | None = None
    stored: bool = False
    fwd_status: int | None = None
    fallback: KeepStored | None = None
    detail: Detail | None = None
    reason: str = ""
    error: FeedproxyError | None = None
    oversized: bool = False
    changed: bool = False
    interim: tuple[Response, ...] = ()
    not_stored_reason: str = ""
    unshared_fields: Fields = NO_FIELDS
    """Fields that are not stored, such as Set-Cookie. Only the client that caused the request gets them."""
    from_partial: bool = False
    keyed_record: KeyedRecord | None = None
    """The outcome to record for later requests with the same client-specific and varying fields. None if this request
    has no such fields."""
    from_peer: bool = False
    """True if another process made the fetch (peer_result.py)."""

    @property
    def outcome(self) -> str:
        """Return the outcome as one word: `confirmed` (304), `updated`, `unchanged`, `failed` or `not-stored`."""
        if self.stored:
            return "confirmed" if self.fwd_status == 304 else "updated" if self.changed else "unchanged"
        return "failed" if self.detail or self.error else "not-stored"
