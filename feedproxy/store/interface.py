"""The protocol of every store, in memory or on disk.

Reading is synchronous: from memory at once, otherwise by one short read of the disk (some 50 µs for a feed of 60 KB
with its codings). Writing does not wait for the disk: when `put` returns, memory has the value and the write is queued.
`wait_written` waits for one target's write, `flush` for all. There is no durable `put`: a caller that needs durability
calls `wait_written` after it, at the same cost.

A failure of the store is a miss and a metric: after opening, nothing here raises StoreError. Each failure is reported
to `on_failure`, which may be called from the store's writer thread.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from feedproxy.errors import StoreError
from feedproxy.store.coordination import Coordination
from feedproxy.store.resource import Resource

type OnFailure = Callable[[StoreError], None]
"""Function that is called with every failure of the store, from any thread. It must not block."""


type Precondition = Callable[[], bool]


class Store(Protocol):
    """Resources by target URI, and the state of other parts by name.

    One event loop uses a store; other processes may use the same folder. If it is shared (`open_store`), `put` and
    `delete` return once no process answers with the previous value.
    """

    @property
    def coordination(self) -> Coordination:
        """Return the coordination of the processes on this store."""
        ...

    def get(self, target: str) -> Resource | None:
        """Return the resource stored for this target: the last one put, once `put` has begun (shared: has returned)."""
        ...

    def get_latest(self, target: str) -> Resource | None:
        """Return the resource that was put last, even if other processes do not have it yet. Changes start from it."""
        ...

    def peek(self, target: str) -> Resource | None:
        """Return the same as `get` without a change of the hot set, for callers that iterate over all targets."""
        ...

    def version(self, target: str, *, used: bool = False) -> object | None:
        """Return an object that stays the same while `get` returns the same from memory; None if memory has nothing.

        It lets a caller keep what it derived from a resource. `used`: the derived value is used now.
        """
        ...

    def holds(self, target: str) -> bool:
        """Return whether `peek` would return a resource, without reading it."""
        ...

    async def put(self, resource: Resource, precondition: Precondition | None = None) -> None:
        """Store this resource in place of the previous one. Waits only if the queue is full, or the store is shared.

        A shared store does not keep it if `precondition`, called last and from any thread, returns False.
        """
        ...

    async def wait_written(self, target: str) -> None:
        """Return when the target's last value is on the disk, or has failed, or after some seconds."""
        ...

    async def delete(self, target: str) -> None:
        """Remove the target's resource; a `put` that is still queued is discarded."""
        ...

    def targets(self) -> Iterator[str]:
        """Yield every stored target once, in no order; lazily, so that the caller can pause."""
        ...

    def get_state(self, name: str) -> bytes | None:
        """Return the state stored under this name."""
        ...

    async def put_state(self, name: str, data: bytes) -> None:
        """Store this state, whole or not at all. State is never culled."""
        ...

    async def flush(self) -> None:
        """Return when everything queued so far is written, or has failed."""
        ...

    async def close(self) -> None:
        """Flush, and release files and threads. A closed store may be closed again, but not used."""
        ...
