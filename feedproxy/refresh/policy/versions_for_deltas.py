"""Earlier versions of a feed that are stored as bases of deltas (RFC 3229)."""

from collections.abc import Sequence

from msgspec.structs import replace

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.store.resource import DeltaBase, Resource

VERSIONS_MAX = 16
"""At most this many versions of a feed are stored for deltas. They cover a night of a feed that changes every hour."""

VERSIONS_BYTES = 32 * 1024
"""The items of all versions that are stored for one feed's deltas take at most this many bytes together."""


def superseded_feeds(resource: Resource) -> tuple[StoredResponse, ...]:
    """Return the stored feeds that become bases of deltas when the next version replaces them.

    Feeds with `no-transform` and feeds that are already bases are left out. The same content with two values of
    Last-Modified counts as two bases, because a client can send either value.
    """
    recorded = {(variant.tag, variant.last_modified) for variant in resource.delta_bases}
    return tuple(
        variant
        for variant in resource.variants
        if variant.content.feed
        and variant.content.tag is not None
        and (variant.content.tag, variant.content.last_modified) not in recorded
        and not variant.no_transform
    )


def with_versions(resource: Resource, retired_versions: Sequence[DeltaBase]) -> Resource:
    """Return the resource with these versions added to its bases of deltas. Above VERSIONS_MAX or VERSIONS_BYTES, the
    oldest bases are dropped."""
    if not retired_versions:
        return resource
    names = {(version.tag, version.last_modified) for version in retired_versions}
    others = [version for version in resource.delta_bases if (version.tag, version.last_modified) not in names]
    versions = [*others, *retired_versions][-VERSIONS_MAX:]
    while sum(len(version.entries) for version in versions) > VERSIONS_BYTES:
        del versions[0]
    return replace(resource, delta_bases=tuple(versions))
