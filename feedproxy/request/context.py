"""One client request with all that is looked up for it once, and the two values that answering it returns."""

from dataclasses import dataclass

from feedproxy.cache.cache_status import CacheStatus
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.message import Fields, Request, Response
from feedproxy.request.entrance import ClientContext
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource


@dataclass(frozen=True, slots=True)
class ProxyResponse:
    """A complete answer for one reader, and what became of the request."""

    response: Response
    status: CacheStatus
    reason: str = ""
    feed: bool = False
    stored: StoredResponse | None = None
    """What it was made of, where it was."""
    interim: tuple[Response, ...] = ()
    """1xx responses that came before, for the one reader whose request went upstream (RFC 9110, 15.2)."""


@dataclass(frozen=True, slots=True)
class PassThrough:
    """The request streams through mitmproxy's own upstream; `status` is what is said of it."""

    status: CacheStatus


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One reader's request, with everything that is looked up for it once.

    `upstream` is the request as it would go to the origin, `own_agent` whether as feedproxy; `key`, `apart`, `withheld`
    and `credentials` are told in upstream_request.py; `ranged` that the client's range goes with it.
    """

    request: Request
    client: ClientContext
    settings: Settings
    directives: CacheControl
    upstream_request: Request
    own_agent: bool
    key: Fields
    varying_fields: Fields
    withheld_names: frozenset[str]
    has_credentials: bool
    sends_range: bool
    resource: Resource | None = None
    """What is stored of the target."""
