"""Policy for no-cache and max-age=0 in requests for feeds.  RFC 9111, sections 5.2.1.1 and 5.2.1.4

Some feed readers send them with every poll. The proxy ignores them for `reload_interval` seconds after the last fetch,
and in hours that the feed skips, except from browsers and for other content than feeds
(docs/decisions/no-cache-from-feed-readers.md).
"""

from msgspec.structs import replace

from feedproxy.clock import Instant
from feedproxy.feed.schedule_hints import is_skipped
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.message import Fields
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource


def apply_reload_policy(
    directives: CacheControl, request: Fields, resource: Resource | None, settings: Settings, now: Instant
) -> CacheControl:
    """Return the request's directives, without no-cache and max-age=0 if the policy ignores them. `request` contains
    the fields of the request. `resource` is the stored resource of its target, or None."""
    if not directives.no_cache and directives.max_age != 0:
        return directives
    if resource is None or resource.channel is None or settings.reload_interval <= 0 or is_browser_navigation(request):
        return directives
    skipped = settings.feed_hints != "off" and is_skipped(resource.channel.schedule, now)
    # "They are advisory; caches MAY implement them, but are not required to." -- RFC 9111, section 5.2.1
    if skipped or now - resource.fetched < settings.reload_interval:
        max_age = None if directives.max_age == 0 else directives.max_age
        return replace(directives, no_cache=False, max_age=max_age)
    return directives


def is_browser_navigation(request: Fields) -> bool:
    """Return True if a browser navigates to the target, as Sec-Fetch-Mode states. If this field is missing, return True
    if Accept lists HTML."""
    mode = request.get("sec-fetch-mode")
    if mode is not None:
        return mode.strip().lower() == "navigate"
    return "text/html" in (request.combined("accept") or "").lower()
