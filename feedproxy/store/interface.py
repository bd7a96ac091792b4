"""The protocol of every store, in memory or on disk.

Reading is synchronous. A resource in memory is returned at once. Any other resource needs one short read of the disk,
some 50 µs for a feed of 60 KB with its codings. Writing does not wait for the disk: when `put` returns, the value is in
memory and the write is queued. `wait_written` waits for the write of one target, and `flush` for all writes. A caller
that needs durability calls `wait_written` after `put`.

A failure of the store counts as a miss. After opening, no method raises StoreError. Each failure is reported to
`on_failure`, which may be called from the store's writer thread.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from feedproxy.errors import StoreError
from feedproxy.store.coordination_interface import Coordination
from feedproxy.store.resource import Resource

type OnFailure = Callable[[StoreError], None]
"""Callback for every failure of the store. The callback may be called from any thread, and must not block."""


type Precondition = Callable[[], bool]


class Store(Protocol):
    """Resources keyed by target URI, and the state of other parts of feedproxy keyed by name.

    One event loop uses a store, and other processes may use the same folder. If the store is shared (`open_store`),
    `put` and `delete` return only after every process has stopped answering with the previous value.
    """

    @property
    def coordination(self) -> Coordination:
        """Return the object through which the processes on this store coordinate."""
        ...

    @property
    def unwritten_count(self) -> int:
        """Return the number of values that the disk lacks after a failed or late write, and that wait for another
        attempt."""
        ...

    def get(self, target: str) -> Resource | None:
        """Return the resource stored for this target, or None if no resource is stored.

        A resource in a shared store is visible only after its `put` has returned. In any other store, it is visible as
        soon as its `put` has begun.
        """
        ...

    def get_latest(self, target: str) -> Resource | None:
        """Return the resource that was put last, even if other processes do not have it yet.

        An update of the resource must start from this resource, so that it loses no earlier update.
        """
        ...

    def peek(self, target: str) -> Resource | None:
        """Return the same as `get`, without marking the resource as recently used.

        A caller that iterates over all targets uses this method, so that it does not displace recently used resources
        from memory.
        """
        ...

    def version(self, target: str, *, used: bool = False) -> object | None:
        """Return an object that stays the same as long as `get` returns the same resource from memory.

        Return None if memory does not have the resource. Callers compare the object to check whether a value derived
        from the resource is still valid. With `used`, the resource is marked as recently used.
        """
        ...

    def holds(self, target: str) -> bool:
        """Return True if `peek` would return a resource. The resource is not read."""
        ...

    async def put(self, resource: Resource, precondition: Precondition | None = None) -> None:
        """Store this resource in place of the previous one. The call waits only if the queue is full or the store is
        shared.

        A shared store discards the resource if `precondition` returns False. `precondition` is called immediately
        before the write, perhaps in another thread.
        """
        ...

    async def wait_written(self, target: str) -> None:
        """Wait until the target's last value is on the disk, its write has failed, or some seconds have passed."""
        ...

    async def delete(self, target: str) -> None:
        """Remove the target's resource. A queued `put` of the target is discarded."""
        ...

    def targets(self) -> Iterator[str]:
        """Yield every stored target once, in any order. Targets are read lazily, so that the caller can pause."""
        ...

    def get_state(self, name: str) -> bytes | None:
        """Return the state (a value of another part of feedproxy) with this name, or None if no state is stored."""
        ...

    async def put_state(self, name: str, data: bytes) -> None:
        """Store a value of another part of feedproxy under this name, completely or not at all. Such values are never
        culled."""
        ...

    async def flush(self) -> None:
        """Wait until every queued write is done or has failed."""
        ...

    async def close(self) -> None:
        """Flush, and release files and threads. A closed store may be closed again, but must not be used otherwise."""
        ...
