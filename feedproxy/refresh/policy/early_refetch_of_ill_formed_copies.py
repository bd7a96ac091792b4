"""The early refetch of ill-formed copies, and of copies that were edited under other settings."""

from feedproxy.cache.cache_status import Detail
from feedproxy.cache.freshness import Allowance
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Seconds
from feedproxy.feed import schedule_hints
from feedproxy.refresh.ingest.edit_settings import is_outdated
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

ILL_FORMED_RECHECK: Seconds = 60
"""An ill-formed feed is fetched again after this many seconds at the earliest. A truncated document can then be
complete."""


def early_refetch(resource: Resource, stored: StoredResponse, settings: Settings) -> Allowance | None:
    """Return the permission to use a copy until its early refetch, or None if the copy needs no early refetch."""
    return _outdated_allowance(stored, settings) or _ill_formed_allowance(resource, stored, settings)


def _outdated_allowance(stored: StoredResponse, settings: Settings) -> Allowance | None:
    """Return an expired permission for a feed that was edited under other settings. The feed is then fetched again.
    Return None for every other response, and outside reverse mode."""
    if not settings.upstream or not is_outdated(stored.content, settings):
        return None
    return Allowance(stored.response_time, "", "it was edited under other settings: the original is fetched again")


def _ill_formed_allowance(resource: Resource, stored: StoredResponse, settings: Settings) -> Allowance | None:
    """Return the permission to use an ill-formed feed until its next fetch, or None for any other copy.

    The next fetch follows after the longest of three times: ILL_FORMED_RECHECK, the feed's minimum interval, and the
    time from the first fetch of the feed to the fetch of this copy. Skipped hours defer the fetch.
    """
    channel = resource.channel
    if channel is None or channel.well_formed or not stored.content.feed:
        return None
    until = stored.response_time + max(
        stored.response_time - resource.first_seen, ILL_FORMED_RECHECK, float(settings.feed_min_interval)
    )
    if settings.feed_hints != "off":
        until = schedule_hints.next_unskipped(channel.schedule, until)
    return Allowance(until, Detail.ILL_FORMED, "it is not well-formed: it is fetched again soon")
