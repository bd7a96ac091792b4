"""The protocol of every store, in memory or on disk.

Reading is synchronous: from memory at once, else one short read of the disk (some 50 us for a feed of 60 KB
with its codings). Writing does not wait for the disk: memory has the value and its write is queued when `put`
returns; `wait_written` waits until that of one target is written, `flush` until all that was queued is. There is no
durable `put`: a caller that needs durability calls `wait_written` after it, at the same cost.

A store that fails is a miss and a metric: after opening, nothing here raises StoreError. Each failure is told
to `on_failure`, which may be called from the store's writer thread.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from feedproxy.errors import StoreError
from feedproxy.store.coordination import Coordination
from feedproxy.store.resource import Resource

type OnFailure = Callable[[StoreError], None]
"""Is told of every failure of the store. Called from any thread; must not block."""


type Precondition = Callable[[], bool]


class Store(Protocol):
    """Resources by target URI, and beside them state of other parts by name.

    One event loop uses a store; other processes may use the same folder. Where it is shared (`open_store`), `put` and
    `delete` return when no process answers with what was there before.
    """

    @property
    def coordination(self) -> Coordination:
        """What those who work on this store know of one another."""
        ...

    def get(self, target: str) -> Resource | None:
        """What is kept of this target; what was put last, as soon as `put` has begun (shared: is over)."""
        ...

    def get_latest(self, target: str) -> Resource | None:
        """What was put last, also where not every process has it yet: what a change is made from."""
        ...

    def peek(self, target: str) -> Resource | None:
        """As `get`, but the hot set stays as it is: for whoever looks through everything."""
        ...

    def version(self, target: str, *, used: bool = False) -> object | None:
        """The same object as long as `get` gives the same from memory; None where it would have to look elsewhere.

        It is for whoever keeps what was made of a resource, and not the resource. `used`: that is used now.
        """
        ...

    def holds(self, target: str) -> bool:
        """Whether `peek` would find something; it is not read for that."""
        ...

    async def put(self, resource: Resource, precondition: Precondition | None = None) -> None:
        """Keep this, in place of what was kept of its target. Waits only while too much is queued, or it is shared.

        Shared, it is not kept where `still` says at the last moment (from any thread) that it is not wanted any more.
        """
        ...

    async def wait_written(self, target: str) -> None:
        """Return when what was put of this target is on the disk, or has failed and was told; it waits some seconds."""
        ...

    async def delete(self, target: str) -> None:
        """Keep nothing of this target any more; wins over a `put` that is still queued."""
        ...

    def targets(self) -> Iterator[str]:
        """Every target of which something is kept, each once, in no order; lazily, so that the caller can pause."""
        ...

    def get_state(self, name: str) -> bytes | None:
        """The state kept under this name."""
        ...

    async def put_state(self, name: str, data: bytes) -> None:
        """Keep this state under this name, whole or not at all. State is never culled."""
        ...

    async def flush(self) -> None:
        """Return when everything queued so far is written, or has failed and was told."""
        ...

    async def close(self) -> None:
        """Flush, and let go of files and threads. Closing twice is allowed, using it afterwards is not."""
        ...
