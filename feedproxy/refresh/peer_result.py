"""The result of a refresh by another process, derived from the stored response.

Several workers share one store. One of them fetches, and the others answer their requests from the store as collapsed
requests. If a response must not be stored, each process fetches it.
"""

from feedproxy.cache import vary
from feedproxy.cache.cache_status import Detail
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant
from feedproxy.http.message import Fields
from feedproxy.refresh.policy import moved_and_gone
from feedproxy.refresh.policy.content_guard import KeepStored
from feedproxy.refresh.policy.stale_max_after_failure import last_validated, stale_limit_after_failure
from feedproxy.refresh.refresh_result import RefreshResult
from feedproxy.refresh.resource_after_refresh import is_further_variant
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource


def find(
    before: Resource | None,
    stored: Resource | None,
    fields: Fields,
    now: Instant,
    settings: Settings,
    *,
    own_agent: bool,
) -> RefreshResult | None:
    """Return the result of a refresh by another process, for a request with these fields. Return None if no process has
    fetched the target since `before`, or if the request selects no newer response. A new failure (`_failure`), move or
    end is the result for every request.

    `before` is the resource before the refresh, and `stored` the resource now. `own_agent` is true if the request has
    feedproxy's own User-Agent.
    """
    if stored is None or (before is not None and stored.fetched <= before.fetched):
        return None
    previous = before or Resource(stored.target)
    if stored.failures.count > previous.failures.count:
        return _failure(stored, settings)
    if stored.relocation != previous.relocation and moved_and_gone.active_relocation(
        stored.relocation, now, settings, target=stored.target
    ):
        return RefreshResult(stored, from_peer=True)
    selected = vary.choose(stored.variants, fields, own_agent=own_agent)
    if selected is None or selected.invalid:
        return None
    replaced = vary.choose(previous.variants, fields, own_agent=own_agent)
    if replaced is not None and replaced.response_time >= selected.response_time:
        return None
    return RefreshResult(
        stored, selected, stored=True, changed=_has_changed(previous, stored, replaced, selected), from_peer=True
    )


def _has_changed(
    previous: Resource, stored: Resource, replaced: StoredResponse | None, selected: StoredResponse
) -> bool:
    was, now = (resource.channel.content_digest if resource.channel else None for resource in (previous, stored))
    if was is None or now is None:
        return was != now
    if replaced is not None and (replaced.content.tag == selected.content.tag or replaced.has_client_language):
        return False
    # A deferred digest differs from every computed digest, so that the feed counts as changed.
    return was != now and not is_further_variant(previous, replaced, selected)


def _failure(stored: Resource, settings: Settings) -> RefreshResult | None:
    """Return a result that serves the stale copy after the failed refresh of another process. Return None if no copy is
    stored, or if the kind of the failure is unknown."""
    detail = Detail.of(stored.failures.detail)
    if not stored.variants or detail is None:
        return None
    until = last_validated(stored) + stale_limit_after_failure(stored.failures, settings)
    fallback = KeepStored(detail, until, detail.sentence)
    return RefreshResult(stored, fallback=fallback, detail=detail, reason=detail.sentence, from_peer=True)
