"""The result of a refresh as a value, and what is reported of it to metrics and log."""

from dataclasses import dataclass, field
from typing import Protocol

from feedproxy.cache.cache_status import Detail
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Seconds
from feedproxy.errors import FeedproxyError
from feedproxy.http.message import Fields, Response
from feedproxy.refresh.policy.content_guard import KeepStored
from feedproxy.store.resource import Resource


class RefreshObserver(Protocol):
    """Receives what metrics and log record of refreshes."""

    def updated(self, update: "RefreshFinished") -> None: ...

    def scheduled(self, target: str) -> None: ...


@dataclass(frozen=True, slots=True)
class RefreshFinished:
    """A finished refresh, as metrics and log record it.

    `occasion` is `reader`, `background`, or `push` for content that was pushed. `received_size` counts the bytes of
    content from the origin, `content_size` those of the ingested content. `is_missing_feed`: the request was for a
    feed, the response is none, and no feed is stored.
    """

    target: str
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


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """The result of a refresh.

    `response` is the origin's response, ready to be served; None where none is usable (`error`) or where its content
    exceeds `buffer_max` (`oversized`). `fallback` says that a stored response is served instead, and until when.
    `not_stored_reason` says why the response is not stored; `from_partial` that it completes a stored part.
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
    unshared_fields: Fields = field(default_factory=Fields)
    """Fields that are not stored (Set-Cookie; private="…", no-cache="…"): for the client that requested."""
    from_partial: bool = False
    from_peer: bool = False
    """Another process has fetched it (peer_result.py)."""

    @property
    def outcome(self) -> str:
        """The outcome in a word: `confirmed` (304), `updated`, `unchanged`, `failed` or `not-stored`."""
        if self.stored:
            return "confirmed" if self.fwd_status == 304 else "updated" if self.changed else "unchanged"
        return "failed" if self.detail or self.error else "not-stored"
