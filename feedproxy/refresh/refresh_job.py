"""The job of one refresh: the request to the origin, and the values that the pipeline needs."""

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.cache import vary
from feedproxy.cache.partial_content import Missing
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant
from feedproxy.http.message import NO_FIELDS, Fields, Request
from feedproxy.refresh.policy.client_keyed_failures import NO_RECORD, KeyedRecord
from feedproxy.refresh.policy.pushed_content import PushedContent
from feedproxy.request.upstream_and_public_urls import is_upstream_target, to_public
from feedproxy.request.upstream_request import FIXED_FIELDS, background_request
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource


class RefreshJob(Struct, frozen=True):
    """A request to the origin, and the values that the pipeline needs.

    * `validate` is the stored variant that the request validates, or None.
    * `own_agent` is true if the request has feedproxy's own User-Agent.
    * `occasion` is `reader`, `background` or `push`.
    * `skip_address_check` is true for addresses that the operator configured.
    * `missing_range` is the range that completes a stored part, or None.
    * `pushed` is pushed content, which takes the place of a fetched response, or None.
    """

    request: Request
    settings: Settings
    started: Instant
    """The instant at which the job was made, just before the pipeline runs it."""
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
    client_fields: Fields = NO_FIELDS
    """Request fields of the waiting client if HTTP forbids storing the feed, otherwise empty. Conditions in these
    fields, such as If-None-Match, are sent to the origin."""
    key: Fields = NO_FIELDS
    keyed_record: KeyedRecord = NO_RECORD
    """The outcome of the last request with the same `key` and `varying_fields`."""
    varying_fields: Fields = NO_FIELDS
    """Request fields that the Vary of earlier responses nominates (UpstreamRequest)."""
    has_client_language: bool = False
    """True if the key leaves out the client's Accept-Language, because the response becomes the shared copy."""


def background_job(
    target: str, resource: Resource | None, settings: Settings, started: Instant, *, via: str, agent: str
) -> RefreshJob:
    """Return the job of a background refresh. It validates the variant that feedproxy's own request selects. `agent` is
    the User-Agent with the number of subscribers."""
    request, variant, varying_fields = background_request(target, via=via, agent=agent), None, NO_FIELDS
    if resource is not None and resource.variants:
        variant = resource.variants[-1]
        if len(resource.variants) > 1:
            variant = vary.choose(resource.variants, request.fields, own_agent=True) or variant
        varying_fields = _varying_fields(variant)
        fields = _with_varying_fields(request.fields, varying_fields)
        if not variant.own_agent and resource.channel is None:
            fields = _with_page_fields(fields, variant)
        request = Request(request.method, target, fields)
    return RefreshJob(
        request,
        settings,
        started,
        self_href=to_public(target, settings),
        validate=variant,
        own_agent=variant is None or variant.own_agent,
        skip_address_check=is_upstream_target(target, settings),
        varying_fields=varying_fields,
    )


def push_job(
    target: str, push: PushedContent, stored: StoredResponse, settings: Settings, started: Instant, *, via: str
) -> RefreshJob:
    """Return the job that stores pushed content in place of the variant `stored`."""
    request = background_request(target, via=via, agent="")
    return RefreshJob(
        replace(request, fields=_with_varying_fields(request.fields, _varying_fields(stored))),
        settings,
        started,
        self_href=to_public(target, settings),
        validate=stored,
        own_agent=stored.own_agent,
        pushed=push,
        occasion="push",
    )


def _varying_fields(variant: StoredResponse) -> Fields:
    """Return the client's request fields that select this variant."""
    return variant.vary_request.without_any(FIXED_FIELDS)


def _with_page_fields(fields: Fields, variant: StoredResponse) -> Fields:
    """Return `fields` with the User-Agent and Accept with which a page was fetched for a client. Origins send different
    pages to different clients. If the page was fetched without User-Agent, the result has none. If it was fetched
    without Accept, the result has `*/*`."""
    selected = variant.vary_request
    agent = [("User-Agent", value)] if (value := selected.combined("user-agent")) is not None else []
    accept = selected.combined("accept")
    return Fields([*fields.without("user-agent", "accept"), *agent, ("Accept", "*/*" if accept is None else accept)])


def _with_varying_fields(fields: Fields, varying_fields: Fields) -> Fields:
    for name, value in varying_fields:
        fields = fields.with_field(name, value)
    return fields
