"""The context of one client request, and the two possible answers: a response of the proxy, or streaming."""

from enum import StrEnum

from msgspec import Struct

from feedproxy.cache.cache_status import CacheStatus
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.message import Fields, Request, Response
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource


class Entrance(StrEnum):
    """The way in which a request reaches the proxy: the gateway, the explicit proxy, or reverse mode."""

    GATEWAY = "gateway"
    PROXY = "proxy"
    REVERSE = "reverse"


class ClientContext(Struct, frozen=True):
    """The client of a request: its entrance, its identity, and the proxy's address as the client wrote it.

    `base` is the proxy's address without a trailing slash, such as `http://proxy.example:8080`. `address` is the
    client's IP address. `user` is the authenticated name, or "". `is_counted` is false if the client does not count as
    a reader of the feed, as in a preview on the landing page.
    """

    entrance: Entrance
    base: str
    address: str
    user: str = ""
    is_counted: bool = True


class ProxyResponse(Struct, frozen=True):
    """A complete response for one client, with its Cache-Status."""

    response: Response
    status: CacheStatus
    reason: str = ""
    stored: StoredResponse | None = None
    """The stored response from which the response was made, or None for a response that feedproxy generated."""
    final_target: str = ""
    """The target that sent the content, if feedproxy followed redirects, or the new target that an XML redirect
    document names. It is empty in all other cases."""
    interim: tuple[Response, ...] = ()
    """The 1xx responses before the final response. Only the client that caused the request to the origin gets them (RFC
    9110, section 15.2)."""


class PassThrough(Struct, frozen=True):
    """The decision to let mitmproxy stream the request. `status` is the Cache-Status of its response."""

    status: CacheStatus


class UpstreamRequest(Struct, frozen=True):
    """A request for an origin.

    * `key` contains the client-specific fields. Only requests with equal client-specific fields get the stored
      response.
    * `varying_fields` contains the fields that the Vary of earlier responses nominates.
    * `withheld_names` contains the names of client-specific fields that are left out in a request for a shared copy.
    * `has_credentials` is true if a field identifies a user.
    * `own_agent` is true if User-Agent is feedproxy's own.
    * `sends_range` is true if the request has the client's Range.
    """

    request: Request
    key: Fields
    varying_fields: Fields
    withheld_names: frozenset[str]
    has_credentials: bool
    own_agent: bool
    sends_range: bool


class RequestContext(Struct, frozen=True):
    """A client's request with the values that are looked up once: `upstream`, the request for the origin, and
    `resource`, the stored resource of the target, or None if nothing is stored."""

    request: Request
    client: ClientContext
    settings: Settings
    directives: CacheControl
    upstream: UpstreamRequest
    resource: Resource | None
