"""Request collapsing: concurrent requests wait for one refresh (`collapsed` in RFC 9211)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from feedproxy.cache import vary
from feedproxy.refresh import client_keyed_responses
from feedproxy.refresh.refresh_result import RefreshResult
from feedproxy.request.context import RequestContext
from feedproxy.request.upstream_request import is_only_language
from feedproxy.single_flight import SingleFlight
from feedproxy.store.coordination.coordination_interface import Coordination
from feedproxy.store.resource import Resource


class RunningRefreshes(SingleFlight[object, RefreshResult]):
    """The refreshes in progress, by the keys of the requests that may join them (`collapse_keys`)."""

    def __init__(self, coordination: Coordination) -> None:
        super().__init__()
        self._coordination = coordination
        self._epochs_at_start: dict[object, int] = {}

    def join_or_start_refresh(
        self, target: str, key: object, start: Callable[[], Coroutine[Any, Any, RefreshResult]]
    ) -> tuple[asyncio.Task[RefreshResult], bool]:
        """Return the task of the target's refresh with this key, and whether the task was already running. If no task
        is running, `start` starts one."""
        epoch = self._coordination.invalidation_epoch(target)
        if self._epochs_at_start.get(key, epoch) != epoch:
            self.stop_joining(key)  # another process has invalidated the target since the start
        task, joined = self.join_or_start(key, start)
        if not joined:
            self._epochs_at_start[key] = epoch
        return task, joined

    def _on_done(self, key: object, task: asyncio.Task[RefreshResult]) -> None:
        super()._on_done(key, task)
        if key not in self._running:
            self._epochs_at_start.pop(key, None)

    def stop_joining_target(self, target: str) -> None:
        """Keep further requests from joining the running refreshes of this target."""
        for key in self.joinable_keys(target):
            self.stop_joining(key)

    def joinable_keys(self, target: str) -> list[object]:
        """Return the keys of the running refreshes of this target that requests may join."""
        return [
            running
            for running in self._epochs_at_start
            if running == target or (type(running) is tuple and running[0] == target)
        ]


def collapse_keys(context: RequestContext, resource: Resource | None) -> tuple[object, ...]:
    """Return the keys of the refreshes that this request may share, in the order in which to try them. The result is
    empty if the request needs a refresh of its own.

    The first requests for a target share one refresh even if they ask for different languages, because most feeds are
    the same in all languages.
    """
    target, upstream = context.request.target, context.upstream
    if upstream.sends_range or upstream.has_credentials or upstream.request.method != "GET":
        return ()
    client_specific = (*upstream.key, *upstream.varying_fields)
    if not client_specific:
        return (target,)
    is_new = resource is None or not (resource.variants or resource.keyed or resource.channel)
    with_language = is_new and is_only_language(upstream.key) and not len(upstream.varying_fields)
    return ((target, "accept-language"), (target, client_specific)) if with_language else ((target, client_specific),)


def may_share(context: RequestContext, result: RefreshResult) -> bool:
    """Return whether a collapsed request may use the result of another request."""
    if result.response is None or result.fallback is not None:
        return True  # failures, moves and ends are the same for all requests
    stored, upstream = result.response, context.upstream
    if len(stored.key):
        return result.stored and client_keyed_responses.selects(stored, upstream)
    return result.stored and vary.selects(stored, upstream.request.fields, own_agent=upstream.own_agent)
