"""The job of one refresh: the request to the origin, and the values that the pipeline needs."""

from dataclasses import dataclass, field

from feedproxy.cache.partial_content import Missing
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.http.message import Fields, Request
from feedproxy.refresh.policy.client_keyed_failures import NO_RECORD, KeyedRecord
from feedproxy.refresh.policy.pushed_content import PushedContent
from feedproxy.settings import Settings


@dataclass(frozen=True, slots=True)
class RefreshJob:
    """A request to the origin, and the values that the pipeline needs.

    * `validate` is the stored variant that the request validates.
    * `own_agent` is true if the request has feedproxy's own User-Agent.
    * `occasion` is `reader`, `background` or `push`.
    * `skip_address_check` is true for addresses that the operator configured.
    * `missing_range` is the range that completes a stored part.
    * `pushed` is pushed content, which takes the place of a fetched response.
    """

    request: Request
    settings: Settings
    self_href: str
    validate: StoredResponse | None = None
    own_agent: bool = True
    occasion: str = "background"
    follow_redirects: bool = True
    skip_address_check: bool = False
    missing_range: Missing | None = None
    pushed: PushedContent | None = None
    accept_encoding: str | None = None
    """Accept-Encoding of the waiting client, or None."""
    client_fields: Fields = field(default_factory=Fields)
    """Request fields of the waiting client if no response may be stored, otherwise empty.

    Conditions in these fields, such as If-None-Match, are sent to the origin.
    """
    key: Fields = field(default_factory=Fields)
    keyed_record: KeyedRecord = NO_RECORD
    """The outcome of the last request with this `key`."""
    varying_fields: Fields = field(default_factory=Fields)
    """Fields of the request that only some clients send (UpstreamRequest)."""
    has_client_language: bool = False
    """True if the key leaves out the client's Accept-Language, because the response becomes the shared copy."""
