"""A view of a store that hides resources with a forbidden response.

Access rules or the address policy can forbid a response: The response after a redirect is stored under the requested
target, but the client can lack permission for the new target. Rules and permitted addresses can also change after the
response was stored. Every read therefore applies both.

A forbidden resource counts as absent. The next request for it is then checked and refused, as if it were not stored.
"""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from feedproxy.store.coordination.coordination_interface import Coordination
from feedproxy.store.interface import Precondition, Store
from feedproxy.store.resource import Resource

type IsRedirectPermitted = Callable[[str, str | None], bool]
"""Function that returns True if a stored response may answer requests for its target.

The arguments are this target, and the target that sent the response after redirects (None if unknown).
"""

type IsTargetPermitted = Callable[[str], bool]
"""Function that returns False if AddressPolicy.check_target refuses a target. No host name is looked up."""


class PermittedStore:
    """A view of the store `wrapped` that contains only permitted resources."""

    def __init__(
        self, store: Store, is_redirect_permitted: IsRedirectPermitted, is_target_permitted: IsTargetPermitted
    ) -> None:
        self.wrapped = store
        self._is_redirect_permitted = is_redirect_permitted
        self._is_target_permitted = is_target_permitted

    @property
    def coordination(self) -> Coordination:
        return self.wrapped.coordination

    @property
    def unwritten_count(self) -> int:
        return self.wrapped.unwritten_count

    def load(self, target: str) -> Coroutine[Any, Any, None]:
        return self.wrapped.load(target)

    def get(self, target: str) -> Resource | None:
        return self._if_permitted(self.wrapped.get(target))

    def get_latest(self, target: str) -> Resource | None:
        return self._if_permitted(self.wrapped.get_latest(target))

    def peek(self, target: str) -> Resource | None:
        return self._if_permitted(self.wrapped.peek(target))

    def version(self, target: str, *, used: bool = False) -> object | None:
        return self.wrapped.version(target, used=used)

    def holds(self, target: str) -> bool:
        return self.wrapped.holds(target)

    def put(self, resource: Resource, precondition: Precondition | None = None) -> Coroutine[Any, Any, None]:
        return self.wrapped.put(resource, precondition)

    async def wait_written(self, target: str) -> None:
        await self.wrapped.wait_written(target)

    async def delete(self, target: str, token_max: int | None = None) -> None:
        await self.wrapped.delete(target, token_max)

    def targets(self) -> Iterator[str]:
        return self.wrapped.targets()

    def get_state(self, name: str) -> bytes | None:
        return self.wrapped.get_state(name)

    async def read_state(self, name: str) -> bytes | None:
        return await self.wrapped.read_state(name)

    async def put_state(self, name: str, data: bytes) -> None:
        await self.wrapped.put_state(name, data)

    async def flush(self) -> None:
        await self.wrapped.flush()

    async def close(self) -> None:
        await self.wrapped.close()

    def _if_permitted(self, resource: Resource | None) -> Resource | None:
        return resource if resource is not None and self._is_permitted(resource) else None

    def _is_permitted(self, resource: Resource) -> bool:
        target = resource.target
        if not self._is_target_permitted(target):
            return False
        for response in resource.responses:
            source = response.final_target
            if source != "" and not self._is_redirect_permitted(target, source):
                return False
            if source and source != target and not self._is_target_permitted(source):
                return False
        return True
