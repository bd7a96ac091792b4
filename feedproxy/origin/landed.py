"""What an update of a resource brought, as a value; and who is told."""

from dataclasses import dataclass, field
from typing import Protocol

from feedproxy.cache.status import Detail
from feedproxy.cache.stored import StoredResponse
from feedproxy.errors import FeedproxyError
from feedproxy.http.message import Fields, Response
from feedproxy.origin.guard import Keep
from feedproxy.store.resource import Resource


class Observer(Protocol):
    """Who is told what happened: metrics and log."""

    def fetched(
        self, target: str, status: int | None, detail: str, sent: int, seconds: float, received: int = 0
    ) -> None:
        """`sent` bytes of content were made ready of the `received` ones, which came from the origin."""
        ...

    def scheduled(self, target: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Landed:
    """What an update brought.

    `response` is what the origin answered, ready to be served; None where nothing usable came (`error` says why) or
    where the body was above the cap (`oversized`). `kept` tells that a good copy stands in instead, and until when;
    `unstored` why the response is not stored, `combined` that only what was missing of a part had to come.
    """

    resource: Resource
    response: StoredResponse | None = None
    stored: bool = False
    fwd_status: int | None = None
    kept: Keep | None = None
    detail: Detail | None = None
    words: str = ""
    error: FeedproxyError | None = None
    oversized: bool = False
    changed: bool = False
    interim: tuple[Response, ...] = ()
    unstored: str = ""
    personal: Fields = field(default_factory=Fields)
    """Fields that are not stored (Set-Cookie; private="…", no-cache="…"): for the reader whose request brought them."""
    combined: bool = False
    elsewhere: bool = False
    """Another process has asked (elsewhere.py)."""
