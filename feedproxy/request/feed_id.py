"""Identifiers of a feed: feed-id in User-Agent, the value of Surrogate-Key, and the operator's parameter `id`."""

import hashlib

from feedproxy.http import uri


def surrogate_key(target: str) -> str:
    """Return the value of Surrogate-Key for a target. By this value, caches in front of feedproxy purge all responses
    for the target: variants, codings and conversions."""
    return f"feed-{feed_id(uri.without_fragment(target))}"


def feed_id(target: str, installation: str = "") -> str:
    """Return a hexadecimal identifier of a target, for the operator's pages and for feed-id in User-Agent.

    For feed-id, the identifier also depends on `installation`, so that an origin adds the subscriber counts of two
    feedproxies.
    """
    return hashlib.blake2b(target.encode(), digest_size=8, key=installation.encode()).hexdigest()
