"""The protocol of every store, in memory or on disk.

Reading a feed of 60 KB (all codings together) from the disk blocks for about 50 µs, or for seconds while other programs
keep the disk busy. Callers on behalf of clients therefore await `load` before they read.

`put` stores a value in memory and queues its write. A caller that needs the value on disk then calls `wait_written`.

After opening, no method raises StoreError. Every failure is reported to `on_failure`. A failed read counts as a miss.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from feedproxy.errors import StoreError
from feedproxy.store.coordination.coordination_interface import Coordination
from feedproxy.store.resource import Resource

type OnFailure = Callable[[StoreError], None]
"""Callback for a failure of the store. Any thread may call it, and it must not block."""


type Precondition = Callable[[], bool]


class Store(Protocol):
    """Resources keyed by target URI, and state of feedproxy's parts keyed by name.

    Only one event loop of a process uses the store. In a store that several processes share, `put` and `delete` return
    when no process answers with the previous value any more.
    """

    @property
    def coordination(self) -> Coordination:
        """Return the object through which the processes on this store coordinate."""
        ...

    @property
    def unwritten_count(self) -> int:
        """Return the number of values with a failed or late write that will be tried again."""
        ...

    async def load(self, target: str) -> None:
        """Read the resource from the disk in another thread, unless it is in memory.

        A `get`, `get_latest` or `peek` immediately afterwards does not block.
        """
        ...

    def get(self, target: str) -> Resource | None:
        """Return the resource of this target, or None if no resource is stored.

        In a shared store, a new resource is visible after its `put` has returned, in other stores at once.
        """
        ...

    def get_latest(self, target: str) -> Resource | None:
        """Return the resource that was put last for `target`, or None if there is none.

        Other processes may not be able to read it yet. Every update must start from this resource, so
        that no earlier update is lost.
        """
        ...

    def peek(self, target: str) -> Resource | None:
        """Return the same as `get`, but do not mark the resource as recently used.

        Iterations over all targets use this method, because `get` would remove recently used resources from memory.
        """
        ...

    def version(self, target: str, *, used: bool = False) -> object | None:
        """Return an object that identifies the target's resource in memory, or None if memory has none.

        It stays the same until memory has another resource. Until then, values derived from the resource are valid. If
        `used` is True, the resource counts as recently used.
        """
        ...

    def holds(self, target: str) -> bool:
        """Return True if a resource is stored. The resource is not read."""
        ...

    async def put(self, resource: Resource, precondition: Precondition | None = None) -> None:
        """Store this resource in place of the previous resource. Wait only if the queue is full or the store is shared.

        A shared store calls `precondition` immediately before the write, perhaps in another thread, and discards the
        resource if the result is False.
        """
        ...

    async def wait_written(self, target: str) -> None:
        """Wait until the target's last value is on disk, or its write has failed, but at most some seconds."""
        ...

    async def delete(self, target: str, token_max: int | None = None) -> None:
        """Remove the target's resource, and discard its queued write.

        If `token_max` is not None, a resource with a higher fencing token (`Resource.fencing_token`) stays, even one
        that another process stores during the call.
        """
        ...

    def targets(self) -> Iterator[str]:
        """Yield every stored target once, in any order. The caller may pause between targets."""
        ...

    def get_state(self, name: str) -> bytes | None:
        """Return the state with this name, or None if no state is stored."""
        ...

    async def read_state(self, name: str) -> bytes | None:
        """Return the same as `get_state`, but read the disk in another thread. If the disk fails or does not respond,
        return the last value that this store read or put, or None."""
        ...

    async def put_state(self, name: str, data: bytes) -> None:
        """Store the state under this name, completely or not at all. State is never removed to make room."""
        ...

    async def flush(self) -> None:
        """Wait until every queued write is done or has failed."""
        ...

    async def close(self) -> None:
        """Write all queued values, and release files and threads. May be called again."""
        ...
