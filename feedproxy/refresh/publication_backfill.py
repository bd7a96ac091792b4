"""Addition of publication dates to the recorded changes of a feed that was fetched only once.

The dates come from the feed's stored document. From these dates, feedproxy learns how often the feed changes before it
has itself seen a change.
"""

import contextlib
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from feedproxy.clock import Instant
from feedproxy.errors import FeedproxyError
from feedproxy.feed.publication_history import find_publications
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.refresh.resource_after_refresh import stored_document, with_publications
from feedproxy.store.interface import Store


class PublicationBackfill:
    """A task that adds the publication dates of items to the recorded changes of feeds. While `is_refreshing(target)`
    is true, no dates are added for the feed at `target`, because the refresh would overwrite them."""

    def __init__(
        self,
        store: Store,
        helper_pool: HelperPool,
        *,
        is_refreshing: Callable[[str], bool],
        has_expected_readers: Callable[[str], bool],
    ) -> None:
        self._store = store
        self._coordination = store.coordination
        self._helper_pool = helper_pool
        self._is_refreshing = is_refreshing
        self._has_expected_readers = has_expected_readers

    async def read(self, target: str) -> bool:
        """Add the publication dates in the stored document to the changes of a feed that was fetched only once. Return
        True if the call had to wait: the resource can have changed in the meantime."""
        await self._store.load(target)
        resource, epoch = self._store.get_latest(target), self._coordination.invalidation_epoch(target)
        if resource is None or not resource.backfill_pending or not (document := stored_document(resource)):
            return False
        # Without the dates, the refresh reads them again.
        with contextlib.suppress(FeedproxyError):
            published = await self._helper_pool.submit(partial(find_publications, document, resource.first_seen))
            await self._store_dates(target, document, published, epoch)
        return True

    async def _store_dates(self, target: str, document: bytes, published: tuple[Instant, ...], epoch: int) -> None:
        """Store the publication dates in `document`, unless the resource has another document or is being refreshed.
        `epoch` is the target's `invalidation_epoch` before the document was read. After an invalidation, no dates are
        stored."""
        coordination = self._coordination
        if self._is_refreshing(target) or not await coordination.acquire_lease(target, local=True):
            return
        try:
            await self._store.load(target)
            resource = self._store.get_latest(target)
            if (
                resource is not None
                and resource.backfill_pending
                and (copy := resource.feed_variant) is not None
                and stored_document(resource) == document
                and coordination.invalidation_epoch(target) == epoch
            ):
                resource = with_publications(resource, copy, published)
                await self._store.put(
                    replace(resource, has_expected_readers=self._has_expected_readers(target)),
                    lambda: coordination.invalidation_epoch(target) == epoch,
                )
        finally:
            coordination.abandon_lease(target)
