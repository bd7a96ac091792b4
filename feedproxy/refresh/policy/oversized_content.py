"""Content above `buffer_max`: it is streamed, and its size is checked again once a day."""

from feedproxy.clock import Instant, Seconds
from feedproxy.store.resource import Resource

RECHECK_INTERVAL: Seconds = 86_400
"""The size of content above `buffer_max` is checked again after this many seconds."""


def is_known_oversized(resource: Resource, now: Instant) -> bool:
    """Return True if the content is known to exceed `buffer_max`, and its next check is not due."""
    return resource.oversized and not resource.variants and now - resource.fetched < RECHECK_INTERVAL
