"""Topics: the feeds that clients' URLs name, and the rule for subscribing to them.

Clients may subscribe to stored public feeds, and to feeds of the operator's upstream. A feed of the upstream is fetched
if it is not stored. A feed that has moved permanently stands for its former address, too.
"""

import contextlib
from collections.abc import Callable

from feedproxy.errors import BadTarget, FeedproxyError, NotFound
from feedproxy.http import uri
from feedproxy.http.target_uri.gateway_path import gateway_target
from feedproxy.notify.changes.change_log import host_and_path
from feedproxy.notify.notification_service import NotificationService
from feedproxy.proxy.public_feeds import may_be_listed
from feedproxy.refresh.policy import moved_and_gone
from feedproxy.request.upstream_and_public_urls import is_upstream_target

SITE_TOPICS_MAX = 10
"""A subscription to a site covers at most this many of its feeds."""

REDIRECTS_MAX = 5
"""At most this many permanent redirects in a row are followed from a feed's address to its current target."""

PINGED_FEEDS_MAX = 50
"""A ping of a site refreshes at most this many of its feeds."""


class UnknownTopic(FeedproxyError, status=404, detail="not-found"):
    """Error for a URL without a known public feed."""


async def resolve_topic(service: NotificationService, address: str, topics_allowed: str, base: str) -> str:
    """Return the target of a feed after confirmed moves. `address` is the URL of the feed that the client sent.

    A feed of the upstream is fetched first if it is not stored. Raises UnknownTopic if no permitted feed has the URL,
    and StoreError if the database fails. `base` is the proxy's URL as the client wrote it. `topics_allowed` is `own`
    (feeds of the upstream), `known` (all public feeds) or `off`.
    """
    try:
        target = current_topic(service, service.proxy.admin.to_upstream_url(named_address(service, address, base)))
    except BadTarget as error:
        raise UnknownTopic(f"{address[:200]} is not the URL of a feed: {error}") from error
    is_own = is_upstream_target(target, service.settings())
    if is_own and topics_allowed != "off" and not service.proxy.admin.is_feed(target):
        await service.proxy.admin.refresh(target)
    if not (topics_allowed == "known" or (is_own and topics_allowed == "own")) or not may_notify(service, target):
        # The message is the same for unknown and private feeds, so that it does not disclose private feeds.
        raise UnknownTopic(f"{address[:200]} is not available here: expected a feed that is read through this proxy")
    return target


async def resolve_topics(service: NotificationService, address: str, topics_allowed: str, base: str) -> list[str]:
    """Return the target of the feed at a URL. If there is no such feed, return the targets of the listed feeds of the
    site at this URL, at most SITE_TOPICS_MAX.

    The arguments are those of `resolve_topic`. Raises UnknownTopic if there is no permitted feed, and StoreError if the
    database fails.
    """
    try:
        return [await resolve_topic(service, address, topics_allowed, base)]
    except UnknownTopic as error:
        try:
            feeds = await find_feeds(service, named_address(service, address, base))
        except BadTarget:
            raise error from None
        targets = []
        for target in feeds:
            if not await service.is_listed(target):
                continue  # the client named the site, not this feed
            with contextlib.suppress(UnknownTopic):
                targets.append(await resolve_topic(service, target, topics_allowed, base))
        if not targets:
            raise
        return targets[:SITE_TOPICS_MAX]


async def find_feeds(service: NotificationService, *addresses: str) -> list[str]:
    """Return the known feeds that these normalised URLs name. Raises StoreError if the database fails.

    If URLs are addresses of feeds, the result is the feed of the first such URL alone. Otherwise the result is the
    feeds of the sites at these URLs, at most PINGED_FEEDS_MAX of each site.
    """
    admin = service.proxy.admin
    for address in addresses:
        if admin.is_feed(target := admin.to_upstream_url(address)):
            return [target]
    await service.pending_changes.write()  # includes feeds that were just fetched
    feeds: dict[str, None] = {}
    for address in addresses:
        for form in dict.fromkeys((address, admin.to_upstream_url(address))):
            feeds.update(dict.fromkeys(await _feeds_of_site(service, form)))
    return [target for target in feeds if admin.is_feed(target)]


async def _feeds_of_site(service: NotificationService, url: str) -> list[str]:
    """Return at most PINGED_FEEDS_MAX known feeds of the site at `url` (normalised), the last changed first. A feed
    belongs to the site if its channel links to `url`, or if its address is below `url`."""
    site = host_and_path(url)
    folder = site if site.endswith("/") else site + "/"
    folder_end = folder[:-1] + "0"  # the first text that sorts after all paths below the folder: "0" follows "/"
    query = "SELECT target FROM known WHERE link = ? OR (place >= ? AND place < ?) ORDER BY at DESC LIMIT ?"
    rows = await service.database.fetch(query, site.rstrip("/"), folder, folder_end, PINGED_FEEDS_MAX)
    return [row["target"] for row in rows]


def named_address(service: NotificationService, address: str, base: str) -> str:
    """Return the normalised form of the URL `address`, or the target of a gateway URL below `public_url` or `base`.
    Raises BadTarget if the URL is invalid."""
    url, settings = uri.normalise(address.strip()), service.settings()
    for own_url in (settings.public_url, base):
        prefix = own_url.rstrip("/") + "/"
        if own_url and not settings.upstream and url.startswith(prefix):
            with contextlib.suppress(NotFound):
                return gateway_target("/" + url.removeprefix(prefix))
    return url


def may_notify(service: NotificationService, target: str) -> bool:
    """Return whether notifications may name the target: a stored, public feed."""
    return service.proxy.admin.is_feed(target) and not is_no_longer_public(service, target)


def is_no_longer_public(service: NotificationService, target: str) -> bool:
    """Return whether a target is private, by its address, its settings or its stored resource."""
    return not may_be_listed(target, service.settings_for(target), service.proxy.store.peek(target))


def current_topic(service: NotificationService, target: str) -> str:
    """Return the target to which the feed at `target` has moved permanently. Return `target` if the feed has not moved,
    or if the new target is not stored."""
    return _follow_redirects(service, target, service.proxy.admin.is_feed)


def moved_target(service: NotificationService, target: str) -> str:
    """Return the target to which the feed at `target` has moved permanently, or `target` if the feed has not moved. The
    result need not be stored."""
    return _follow_redirects(service, target, lambda _: True)


def _follow_redirects(service: NotificationService, target: str, is_allowed: Callable[[str], bool]) -> str:
    visited = [target]
    for _ in range(REDIRECTS_MAX):
        resource, settings = service.proxy.store.peek(visited[-1]), service.settings_for(visited[-1])
        sighting = resource.relocation if resource is not None else None
        if sighting is None:
            break
        match moved_and_gone.active_relocation(sighting, service.clock.now(), settings, target=visited[-1]):
            case moved_and_gone.RespondMoved(location) if location in visited:
                return target  # the redirects form a loop
            case moved_and_gone.RespondMoved(location) if is_allowed(location):
                visited.append(location)
            case _:
                break
    return visited[-1]
