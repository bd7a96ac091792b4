"""What is done to the cache by others than readers: the operator, a ping, a request that streamed past it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from operator import eq

from feedproxy.cache import invalidation
from feedproxy.cache.freshness import Freshness
from feedproxy.cache.status import Detail
from feedproxy.clock import Clock, Instant
from feedproxy.http.message import Request, Response
from feedproxy.http.pattern import anywhere
from feedproxy.http.reverse import forms, upstream_form
from feedproxy.origin import planner
from feedproxy.origin.assess import assess
from feedproxy.origin.dispatch import Dispatch
from feedproxy.settings import Settings
from feedproxy.store.base import Store
from feedproxy.store.resource import Failures, Resource


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What an operator's or a ping's refresh came to.

    `outcome` is `updated`, `unchanged`, `confirmed` (304), `not-stored`, `failed`, or `later` when the target's floor
    or its site's turn has to come first (at `at`).
    """

    target: str
    outcome: str
    words: str = ""
    status: int | None = None
    at: Instant | None = None


class Upkeep:
    """Refresh, purge, undo, invalidate; and the look at what is held."""

    def __init__(
        self, *, settings_for: Callable[[str], Settings], store: Store, clock: Clock, dispatch: Dispatch
    ) -> None:
        self._settings_for = settings_for
        self.store = store
        self._clock = clock
        self._dispatch = dispatch

    def meant(self, address: str) -> str:
        """The target that an operator means by a normalised address, be it the public one."""
        return upstream_form(address, self._settings_for(address))

    def matching(self, pattern: str) -> Callable[[str], bool]:
        """Whether a target matches an operator's glob, in its public form or its own."""
        glob = anywhere(pattern)
        # Where we stand is the same for all targets, whatever rules there are for each.
        settings = self._settings_for("")
        return lambda target: any(glob.fullmatch(form) is not None for form in forms(target, settings))

    async def refresh(self, target: str) -> Refreshed:
        """Ask the origin of this target now, or as soon as its floor allows (then the outcome is `later`)."""
        target = self.meant(target)
        resource = self.store.get(target)
        match self._dispatch.permission(resource, target, self._settings_for(target)):
            case planner.Wait(until, _, words):
                self._dispatch.schedule(target, until - self._clock.now())
                return Refreshed(target, "later", words, at=until)
        landed = await self._dispatch.in_background(target)
        if landed.stored and landed.fwd_status == 304:
            outcome = "confirmed"
        elif landed.stored:
            outcome = "updated" if landed.changed else "unchanged"
        else:
            outcome = "failed" if landed.detail or landed.error else "not-stored"
        return Refreshed(target, outcome, landed.words or str(landed.detail or ""), landed.fwd_status)

    async def purge(self, target: str = "", *, pattern: str = "") -> list[str]:
        """Forget this target, or all that match the glob: those that were held. What is under way is not stored."""
        if target:
            target = self.meant(target)
            targets = [target] if self.store.get(target) is not None else []
            self._dispatch.forget(partial(eq, target))
        else:
            matches = self.matching(pattern)
            targets = [each for each in self.store.targets() if matches(each)]
            self._dispatch.forget(matches)
        for each in targets:
            await self.store.delete(each)
        await self.store.flush()
        return targets

    async def undo(self, target: str) -> bool:
        """Forget a remembered move or end of this target, and the pause it brought; whether there was one."""
        target = self.meant(target)
        resource = self.store.get(target)
        if resource is None or resource.sighting is None:
            return False
        failures = Failures() if resource.failures.detail == Detail.GONE else resource.failures
        await self.store.put(replace(resource, sighting=None, failures=failures))
        return True

    async def passed(self, request: Request, response: Response) -> None:
        """A request that streamed through was answered: invalidate what RFC 9111, 4.4, wants invalidated."""
        for target in invalidation.invalidated_by(request, response):
            self._dispatch.outdate(partial(eq, target))
            resource = self.store.get(target)
            if resource is not None and (resource.variants or resource.parts):
                variants = tuple(replace(each, invalid=True) for each in resource.variants)
                await self.store.put(replace(resource, variants=variants, parts=()))

    def resources(self) -> Iterable[Resource]:
        """Everything that is held, for those who look after it."""
        for target in self.store.targets():
            if (resource := self.store.get(target)) is not None:
                yield resource

    def freshness_of(self, resource: Resource) -> Freshness | None:
        """How fresh the newest stored response of a resource is, with the reason in words."""
        if not resource.variants:
            return None
        return assess(resource, resource.variants[-1], self._settings_for(resource.target), self._clock.now())
