"""What an update of a resource brought, as a value; and who is told."""

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
    """Who is told what happened: metrics and log."""

    def updated(self, update: "RefreshFinished") -> None: ...

    def scheduled(self, target: str) -> None: ...


@dataclass(frozen=True, slots=True)
class RefreshFinished:
    """An update that is over, as it is told.

    `occasion` is why the origin was asked: `reader`, `background`, or `push` where the content came by itself. `sent`
    bytes of content were made ready of the `received` ones, which came from the origin. `is_missing` tells that a feed
    was wanted, and what came is none while none is held.
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
    """What an update brought.

    `response` is what the origin answered, ready to be served; None where nothing usable came (`error` says why) or
    where the body was above the cap (`oversized`). `kept` tells that a good copy stands in instead, and until when;
    `unstored` why the response is not stored, `combined` that only what was missing of a part had to come.
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
    """Fields that are not stored (Set-Cookie; private="…", no-cache="…"): for the reader whose request brought them."""
    from_partial: bool = False
    from_peer: bool = False
    """Another process has asked (peer_result.py)."""

    @property
    def outcome(self) -> str:
        """What came of it, in a word: `confirmed` (304), `updated`, `unchanged`, `failed` or `not-stored`."""
        if self.stored:
            return "confirmed" if self.fwd_status == 304 else "updated" if self.changed else "unchanged"
        return "failed" if self.detail or self.error else "not-stored"
