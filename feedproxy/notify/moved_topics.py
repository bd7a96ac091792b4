"""Topics that have moved: the target to which the permanent redirects of a feed lead."""

from collections.abc import Callable

from feedproxy.notify.notification_service import NotificationService
from feedproxy.refresh.policy import moved_and_gone

REDIRECTS_MAX = 5
"""At most this many permanent redirects in a row are followed from a feed's address to its current target."""


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
