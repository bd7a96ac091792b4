"""Lookup of stored resources. After the clock was set back, stored instants in the future are corrected."""

import asyncio

from feedproxy.clock import Clock
from feedproxy.store.interface import Store
from feedproxy.store.resource import Resource, correct_future_instants


class ResourceLookup:
    """Lookup of stored resources, with correction of stored instants in the future."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._corrections: set[asyncio.Task[None]] = set()

    def get(self, target: str) -> Resource | None:
        """Return the stored resource, or None if nothing is stored. The call counts as a use of it."""
        return self._correct_future_instants(self._store.get(target))

    def peek(self, target: str) -> Resource | None:
        """Return the stored resource, or None if nothing is stored. The call does not count as a use of it."""
        return self._correct_future_instants(self._store.peek(target))

    def _correct_future_instants(self, resource: Resource | None) -> Resource | None:
        if resource is None:
            return None
        corrected = correct_future_instants(resource, self._clock.now())
        if corrected is not resource:
            # The task starts eagerly, and changes the copy in memory before this call returns.
            loop = asyncio.get_running_loop()
            task = asyncio.Task(self._store_corrected(resource.target), loop=loop, eager_start=True)
            self._corrections.add(task)
            task.add_done_callback(self._corrections.discard)
        return corrected

    async def _store_corrected(self, target: str) -> None:
        resource = self._store.get_latest(target)
        if resource is not None and (corrected := correct_future_instants(resource, self._clock.now())) is not resource:
            await self._store.put(corrected)
