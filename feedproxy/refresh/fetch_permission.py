"""Permission to fetch a target, by the limits for the target, for its site and for the requesting client.

policy/min_interval_and_back_off.py contains the rules. This module looks up the values that the rules need.
"""

from feedproxy.cache.cache_status import Detail
from feedproxy.clock import Clock, Instant
from feedproxy.feed.autodiscovery import prefers_pages
from feedproxy.http.message import Fields, Request
from feedproxy.http.target_uri.registrable_domain import site_of
from feedproxy.refresh.policy.client_keyed_failures import (
    FAILURES_OF_ONE_KEY,
    NO_RECORD,
    ORIGIN_FAILURES,
    KeyedFailures,
    KeyedRecord,
)
from feedproxy.refresh.policy.min_interval_and_back_off import Deferred, Permission, check_fetch_allowed
from feedproxy.refresh.refresh_job import RefreshJob
from feedproxy.refresh.refresh_result import RefreshResult
from feedproxy.request.context import RequestContext, UpstreamRequest
from feedproxy.request.upstream_and_public_urls import is_upstream_target
from feedproxy.settings import Settings
from feedproxy.store.coordination.site_interval import SiteThrottle
from feedproxy.store.resource import NO_FAILURES, Failures, Resource


class FetchPermissions:
    """Permissions to fetch targets, and records of failed requests with client-specific fields."""

    def __init__(self, sites: SiteThrottle, clock: Clock) -> None:
        self._sites = sites
        self._clock = clock
        self._keyed_failures = KeyedFailures()

    def check(self, resource: Resource | None, target: str, settings: Settings) -> Permission:
        """Return the permission to fetch the target now, or the instant until which the fetch is deferred."""
        # `site_interval` is a courtesy to other sites; the upstream is the operator's own.
        free, paused, now = 0.0, 0.0, self._clock.now()
        if not is_upstream_target(target, settings):
            site = site_of(target)
            free = self._sites.next_free(site, settings.site_interval, now)
            # A pause also ends the site's free slots, so without a delay there is no pause.
            paused = self._sites.paused_until(site, now) if free > now else 0.0
        return check_fetch_allowed(resource, now, settings, site_free_at=free, site_paused_until=paused)

    def check_for_request(self, context: RequestContext, resource: Resource | None) -> Permission:
        """Return the permission to fetch the target for this request, or the instant until which the fetch is deferred.

        Only three causes defer a request with credentials: a pause that the operator has set, failures of the whole
        origin, and earlier failures with the same client-specific fields.
        """
        target, settings = context.request.target, context.settings
        permission = self.check(resource, target, settings)
        if isinstance(permission, Deferred) and permission.detail is Detail.PAUSED:
            return permission
        if context.upstream.has_credentials and resource is not None:
            failures = resource.failures if resource.failures.detail in ORIGIN_FAILURES else NO_FAILURES
            permission = self._check_failures(target, failures, resource.fetched, settings)
        keyed = self.keyed_record(context.upstream).failures
        keyed = keyed if keyed.detail in FAILURES_OF_ONE_KEY else NO_FAILURES
        after_own = self._check_failures(target, keyed, keyed.last, settings)
        if isinstance(permission, Deferred) and isinstance(after_own, Deferred):
            return max(permission, after_own, key=lambda deferred: deferred.until)
        return permission if isinstance(permission, Deferred) else after_own

    def _check_failures(self, target: str, failures: Failures, fetched: Instant, settings: Settings) -> Permission:
        """Return the permission to fetch the target after these failures. Other limits are ignored."""
        resource = Resource(target, failures=failures, fetched=fetched)
        return check_fetch_allowed(resource, self._clock.now(), settings, site_free_at=0.0)

    def keyed_record(self, request: UpstreamRequest | RefreshJob) -> KeyedRecord:
        """Return the outcome of the last request for the same target with the same client-specific fields, and with the
        same fields that Vary nominates. Return NO_RECORD if there is none."""
        if not len(key := _key(request)):
            return NO_RECORD
        agent = _client_agent(request.request, own=request.own_agent)
        return self._keyed_failures.get(request.request.target, key, agent)

    def record(self, job: RefreshJob, result: RefreshResult) -> None:
        """Record the outcome of a job, so that failures delay later requests with the same client-specific fields.
        Outcomes of range requests and of browsers' requests are not recorded."""
        if result.keyed_record is None:
            return
        fields = job.request.fields
        if "range" not in fields and not prefers_pages(fields.combined("accept")):
            agent = _client_agent(job.request, own=job.own_agent)
            self._keyed_failures.put(job.request.target, _key(job), agent, result.keyed_record)

    async def wait_for_site_slot(self, target: str, settings: Settings, *, client_waits: bool) -> None:
        """Reserve a slot of the target's site, and wait for it. A fetch of a known feed calls this method just before
        its request.

        A *slot* is an instant at which a fetch from the site is permitted. If a client waits, the next free slot is
        reserved at once, and the fetch waits for it at most `answer_timeout` seconds. A background refresh reserves a
        slot only when the slot has come, so that clients go first. After `answer_timeout` seconds without a slot, it
        reserves the next one like a fetch for a client.
        """
        if is_upstream_target(target, settings):
            return
        site, interval, now = site_of(target), settings.site_interval, self._clock.now()
        end = now if client_waits else now + settings.answer_timeout
        while now < end and (free := self._sites.next_free(site, interval, now)) > now:
            await self._clock.sleep(min(free, end) - now)
            now = self._clock.now()
        slot: Instant = self._sites.reserve(site, now, interval)
        if slot > now:
            await self._clock.sleep(min(slot - now, settings.answer_timeout))


def _key(request: UpstreamRequest | RefreshJob) -> Fields:
    return request.key.joined(request.varying_fields)


def _client_agent(request: Request, *, own: bool) -> str | None:
    """Return the client's User-Agent, or None if feedproxy sends its own (`own`) or the client sent none."""
    return None if own else request.fields.combined("user-agent")
