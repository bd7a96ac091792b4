"""Which feeds may strangers subscribe to?  Those that lists name to everybody, and that anybody may read.

A subscription must not make us fetch what nobody reads here, so the feed is held already; but for a publisher's own
feeds, which are asked of the upstream that the operator named.
"""

import contextlib
from collections.abc import Callable

from feedproxy.errors import BadTarget, FeedproxyError, NotFound
from feedproxy.http import uri
from feedproxy.notify.notification_service import NotificationService
from feedproxy.proxy.visibility import may_be_listed
from feedproxy.refresh.policy import relocation
from feedproxy.request.url_mapping import is_upstream_target
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

SITE_FEEDS_MAX = 10
"""Feeds that one subscription to a site stands for."""


REDIRECTS_MAX = 5
"""One after the other."""


class UnknownTopic(FeedproxyError):
    """Nobody is told of changes of that."""

    status_hint = 404
    detail = "not-found"


async def resolve_topic(service: NotificationService, address: str, topics_allowed: str, base: str) -> str:
    """The target of the feed at this address, as a stranger wrote it. Raises NotWatched, StoreError.

    `base` is our own address as he wrote it; `whose` is `own` (the upstream's feeds alone) or `known` (all public
    ones); with `off` there is none.
    """
    try:
        target = current_topic(service, service.proxy.admin.to_upstream_url(named_address(service, address, base)))
    except BadTarget as error:
        raise UnknownTopic(f"{address[:200]} is no address of a feed: {error}") from error
    own = is_upstream_target(target, service.settings())
    if own and topics_allowed != "off" and not service.proxy.admin.is_feed(target):
        await service.proxy.admin.refresh(target)
    if not (topics_allowed == "known" or (own and topics_allowed == "own")) or not may_notify(service, target):
        # The same words for what is unknown and for what is private: that is nobody's business.
        raise UnknownTopic(f"{address[:200]} is not watched here; only feeds that are read through this proxy are")
    return target


async def resolve_topics(service: NotificationService, address: str, topics_allowed: str, base: str) -> list[str]:
    """The feed at this address, or the feeds of this site. Raises NotWatched, StoreError."""
    try:
        return [await resolve_topic(service, address, topics_allowed, base)]
    except UnknownTopic as error:
        try:
            found = await service.refresh_requests.find_feeds(named_address(service, address, base))
        except BadTarget:
            raise error from None
        targets = []
        for each in found:
            if not await service.is_listed(each):
                continue  # the site was named, and not this address
            with contextlib.suppress(UnknownTopic):
                targets.append(await resolve_topic(service, each, topics_allowed, base))
        if not targets:
            raise
        return targets[:SITE_FEEDS_MAX]


def named_address(service: NotificationService, address: str, base: str) -> str:
    """The address that a stranger names: readers of the gateway know feeds by an address of ours. Raises BadTarget."""
    named, settings = uri.normalise(address.strip()), service.settings()
    for own in (settings.public_url, base):
        below = own.rstrip("/") + "/"
        if own and not settings.upstream and named.startswith(below):
            with contextlib.suppress(NotFound):
                return uri.gateway_target("/" + named.removeprefix(below))
    return named


def may_notify(service: NotificationService, target: str) -> bool:
    """Whether strangers may hear of changes of this target: a feed that is held, and everybody's."""
    return service.proxy.admin.is_feed(target) and not is_no_longer_public(service, target)


def is_no_longer_public(service: NotificationService, target: str) -> bool:
    """Whether this is, or what is known of it says that it is, no feed for everybody."""
    settings, resource = service.settings_for(target), service.proxy.store.peek(target)
    return is_private(resource, settings) if resource is not None else not may_be_listed(target, settings)


def is_private(resource: Resource, settings: Settings) -> bool:
    """Whether this feed is not for everybody, by these settings of its target."""
    # A feed of which no response is left is one whose origin lets nobody else keep it.
    is_kept = resource.channel is None or bool(resource.variants)
    return not is_kept or not may_be_listed(resource.target, settings, resource)


def current_topic(service: NotificationService, target: str) -> str:
    """Where a feed is that has moved for good, if it is held there; else where it was."""
    return _follow_redirects(service, target, service.proxy.admin.is_feed)


def redirect_target(service: NotificationService, target: str) -> str:
    """Where readers of this feed are led: to where it has moved for good, whether or not it is held there yet."""
    return _follow_redirects(service, target, lambda _: True)


def _follow_redirects(service: NotificationService, target: str, is_allowed: Callable[[str], bool]) -> str:
    visited = [target]
    for _ in range(REDIRECTS_MAX):
        resource, settings = service.proxy.store.peek(visited[-1]), service.settings_for(visited[-1])
        sighting = resource.relocation if resource is not None else None
        match relocation.active_relocation(sighting, service.clock.now(), settings, target=visited[-1]):
            case relocation.RespondMoved(location) if location in visited:
                return target  # a circle of redirects leads nowhere
            case relocation.RespondMoved(location) if is_allowed(location):
                visited.append(location)
            case _:
                break
    return visited[-1]
