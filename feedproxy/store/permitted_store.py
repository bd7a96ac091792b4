"""A Store that gives nothing under a name under which it may not be had.

A response may have come from another target than the one it is stored under: a redirect was followed. Whether it may
be given to those who may have this target depends on rules, which may be newer than the copy, or another machine's.
So it is asked with every reading, and what may not be given is as if it were not there: for readers, lists,
notifications and updates alike.
"""

from collections.abc import Callable, Iterator

from feedproxy.store.coordination import Coordination
from feedproxy.store.interface import Precondition, Store
from feedproxy.store.resource import Resource

type IsRedirectPermitted = Callable[[str, str | None], bool]
"""Whether what came from the second target may be had under the first. None: it is not known where it came from."""


class PermittedStore:
    """The same as the store behind it, without what may not be had."""

    def __init__(self, store: Store, may_lead: IsRedirectPermitted) -> None:
        self.behind = store
        self._may_lead = may_lead

    @property
    def coordination(self) -> Coordination:
        return self.behind.coordination

    def get(self, target: str) -> Resource | None:
        return self._permitted(self.behind.get(target))

    def get_latest(self, target: str) -> Resource | None:
        return self._permitted(self.behind.get_latest(target))

    def peek(self, target: str) -> Resource | None:
        return self._permitted(self.behind.peek(target))

    def version(self, target: str, *, used: bool = False) -> object | None:
        return self.behind.version(target, used=used)

    def holds(self, target: str) -> bool:
        return self.behind.holds(target)

    async def put(self, resource: Resource, precondition: Precondition | None = None) -> None:
        await self.behind.put(resource, precondition)

    async def wait_written(self, target: str) -> None:
        await self.behind.wait_written(target)

    async def delete(self, target: str) -> None:
        await self.behind.delete(target)

    def targets(self) -> Iterator[str]:
        return self.behind.targets()

    def get_state(self, name: str) -> bytes | None:
        return self.behind.get_state(name)

    async def put_state(self, name: str, data: bytes) -> None:
        await self.behind.put_state(name, data)

    async def flush(self) -> None:
        await self.behind.flush()

    async def close(self) -> None:
        await self.behind.close()

    def _permitted(self, resource: Resource | None) -> Resource | None:
        if resource is None:
            return None
        for each in resource.responses:
            if each.final_target != "" and not self._may_lead(resource.target, each.final_target):
                return None
        return resource
