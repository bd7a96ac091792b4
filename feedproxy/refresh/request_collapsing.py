"""Request collapsing: concurrent requests wait for one task (`collapsed` in RFC 9211)."""

from feedproxy.cache import vary
from feedproxy.refresh import client_keyed_responses
from feedproxy.refresh.refresh_result import RefreshResult
from feedproxy.request.context import RequestContext
from feedproxy.request.upstream_request import is_only_language
from feedproxy.store.resource import Resource


def collapse_keys(context: RequestContext, resource: Resource | None) -> tuple[object, ...]:
    """Return the keys of the refreshes that this request may share, in the order in which to try them.

    The result is empty if the request needs a refresh of its own. The first requests for a target share one refresh
    even in different languages, because most feeds are the same in all languages.
    """
    if context.sends_range or context.has_credentials or context.upstream_request.method != "GET":
        return ()
    target = context.request.target
    client_specific = (*context.key, *context.varying_fields)
    if not client_specific:
        return (target,)
    is_new = resource is None or not (resource.variants or resource.keyed or resource.channel)
    with_language = is_new and is_only_language(context.key) and not len(context.varying_fields)
    return ((target, "accept-language"), (target, client_specific)) if with_language else ((target, client_specific),)


def may_share(context: RequestContext, result: RefreshResult) -> bool:
    """Return whether a collapsed request may use the result of another request."""
    if result.response is None or result.fallback is not None:
        return True  # failures, moves and ends are the same for all requests
    stored, fields, own_agent = result.response, context.upstream_request.fields, context.own_agent
    if len(stored.key):
        return result.stored and client_keyed_responses.selects(stored, fields, context.key, own_agent=own_agent)
    return result.stored and vary.selects(stored, fields, own_agent=own_agent)
