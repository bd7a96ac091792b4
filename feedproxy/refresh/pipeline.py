"""One refresh of one resource, in five steps: receive, interpret, complete, store, record.

Only this module stores responses.
"""

import logging
import random
from collections.abc import Callable

from msgspec.structs import replace

from feedproxy.cache import validation
from feedproxy.clock import Clock
from feedproxy.errors import FeedproxyError, Overload
from feedproxy.http import origin_validator_in_etag
from feedproxy.http.message import NO_FIELDS, Request
from feedproxy.http.target_uri.url_redaction import redact_target
from feedproxy.refresh import client_keyed_responses, missing_ranges, redirect_following
from feedproxy.refresh.dcz_from_origins import with_dictionary
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.refresh.ingest.ingest import NOT_INGESTED, IngestedContent
from feedproxy.refresh.ingest.offload import ingest_in_helper
from feedproxy.refresh.policy import pushed_content
from feedproxy.refresh.policy.client_keyed_failures import KeyedRecord
from feedproxy.refresh.refresh_job import RefreshJob
from feedproxy.refresh.refresh_result import REASON_LENGTH_MAX, RefreshRecord, RefreshResult
from feedproxy.refresh.resource_after_refresh import is_worth_storing, resource_after_unstored
from feedproxy.refresh.response_interpretation import Received, ResponseInterpreter, is_conditional, is_missing_feed
from feedproxy.request.upstream_and_public_urls import to_upstream
from feedproxy.request.upstream_request import is_only_language
from feedproxy.store.interface import Store
from feedproxy.store.resource import Resource
from feedproxy.upstream import local_resource_exhaustion
from feedproxy.upstream.fetch_result import Fetched, Oversized

logger = logging.getLogger(__name__)


class RefreshPipeline:
    """Executor of refresh jobs. An origin's failure is a value in RefreshResult, never an exception."""

    def __init__(
        self,
        fetcher: redirect_following.OriginClient,
        store: Store,
        clock: Clock,
        helper_pool: HelperPool,
        *,
        may_serve_under: Callable[[str, str], bool],
        has_expected_readers: Callable[[str], bool],
    ) -> None:
        self._fetcher = fetcher
        self._store = store
        self._clock = clock
        self._helper_pool = helper_pool
        self._interpreter = ResponseInterpreter(store, clock, random.random)
        self._may_serve_under = may_serve_under
        self._has_expected_readers = has_expected_readers

    async def run(
        self, job: RefreshJob, before: Resource | None, is_current: Callable[[], bool]
    ) -> tuple[RefreshResult, RefreshRecord]:
        """Carry out one job. Return its result, and its record for metrics and log.

        `before` is the stored resource from which the job was made. `is_current` returns False after a purge or an
        invalidation of the target. Nothing is then stored.
        """
        while True:
            received = await self._receive(job, before)
            await self._store.load(job.request.target)
            # No await from here to the store: a concurrent refresh of the same target must not be overwritten.
            stored = self._store.get_latest(job.request.target)
            keyed_job = self._with_response_key(job, received, stored)
            interpreted = self._interpreter.interpret(keyed_job, received, stored)
            if interpreted is not None:
                break
            # RFC 9111, 4.3.4: the 304 is about another response, so it cannot freshen a stored one. A job without
            # conditions is always interpreted.
            job = replace(job, validate=None, client_fields=NO_FIELDS)
        result = self._complete(keyed_job, received, interpreted, stored)
        await self._store_learned(keyed_job, result, stored, is_current)
        return result, self._record(keyed_job, received, result)

    def _with_response_key(
        self, job: RefreshJob, received: Received | FeedproxyError, stored: Resource | None
    ) -> RefreshJob:
        if isinstance(received, FeedproxyError) or job.pushed is not None or isinstance(received.chain.last, Oversized):
            return job
        is_feed = received.ingested.channel is not None
        is_new = stored is None or not (stored.variants or stored.channel)
        key = client_keyed_responses.response_key(job, received.chain.last.response, is_feed=is_feed, is_new=is_new)
        if (
            is_new
            and is_only_language(key)
            and client_keyed_responses.is_feed_for_all_languages(job, received.chain, received.ingested)
        ):
            return replace(job, key=NO_FIELDS, has_client_language=True)
        return job if key == job.key else replace(job, key=key)

    def _complete(
        self,
        job: RefreshJob,
        received: Received | FeedproxyError,
        result: RefreshResult,
        stored: Resource | None,
    ) -> RefreshResult:
        """Return the result with the whole resource to store. A keyed response or a push changes only a part of the
        stored resource. The other parts are taken from `stored`."""
        target, resource = job.request.target, result.resource
        if len(job.key):
            resource = client_keyed_responses.merge_keyed(
                stored or Resource(target, fetched=job.started), resource, job.key
            )
            is_stored = any(response is result.response for response in resource.keyed)
            is_feed = job.keyed_record.is_feed or (result.response is not None and result.response.content.feed)
            record = KeyedRecord(is_feed, result.resource.failures)
            result = replace(result, stored=is_stored, changed=False, keyed_record=record)
        elif len(job.varying_fields):
            result = replace(result, keyed_record=KeyedRecord(failures=resource.failures))
        if not len(job.key) and resource.fetched != job.started:
            resource = replace(resource, fetched=job.started)
        if job.pushed is not None and stored is not None:
            resource = pushed_content.with_pushed_content(resource, stored)
        if (is_expected := self._has_expected_readers(target)) != resource.has_expected_readers and resource.channel:
            resource = replace(resource, has_expected_readers=is_expected)
        interim = received.chain.last.interim if isinstance(received, Received) else ()
        if interim or resource is not result.resource:
            result = replace(result, resource=resource, interim=interim)
        return result

    async def _store_learned(
        self, job: RefreshJob, result: RefreshResult, stored: Resource | None, is_current: Callable[[], bool]
    ) -> None:
        """Store the resource of the result. If this resource contains nothing worth storing, delete the stored
        resource. After a purge or an invalidation (`is_current`), do neither."""
        target, resource = job.request.target, result.resource
        if not len(job.key) and not result.stored:
            is_good = result.fallback is None and result.fwd_status in (200, 304)
            resource = resource_after_unstored(job, stored, resource, is_good=is_good)
        if is_current() and is_worth_storing(resource):
            await self._store.put(resource, is_current)
        elif is_current() and stored is not None:
            await self._store.delete(target)  # its responses were replaced by one that must not be stored

    def _record(self, job: RefreshJob, received: Received | FeedproxyError, result: RefreshResult) -> RefreshRecord:
        now = self._clock.now()
        return RefreshRecord(
            now,
            job.occasion,
            result.fwd_status,
            result.outcome,
            result.detail or "",
            (result.reason or str(result.error or ""))[:REASON_LENGTH_MAX],
            content_size=result.response.content.size()
            if result.response is not None and result.stored and result.fwd_status != 304
            else 0,
            received_size=received.chain.size if isinstance(received, Received) and job.pushed is None else 0,
            seconds=now - job.started,
            is_feed=result.resource.channel is not None,
            is_missing_feed=is_missing_feed(job, result),
        )

    async def _receive(self, job: RefreshJob, before: Resource | None) -> Received | FeedproxyError:
        if job.pushed is not None:
            return Received(
                redirect_following.RedirectChain(job.pushed.fetched, job.pushed.fetched), job.pushed.ingested
            )
        try:
            chain = await self._follow_redirects(job)
            return Received(chain, await self._ingest(chain.last, job, before))
        except FeedproxyError as error:
            return error.as_value()
        except MemoryError:
            local_resource_exhaustion.shortage_log.warn("no memory is left to ingest a response")
            return Overload("no memory is left to ingest the response")
        except Exception:
            # A defect of feedproxy that this response reveals: the stored copy is served, and the next fetch is
            # delayed.
            logger.exception(
                "refresh: response of %s not processed, by a defect of feedproxy; the copy is kept, and the next fetch"
                " is delayed; please report the traceback",
                redact_target(job.request.target),
            )
            return FeedproxyError("feedproxy could not process the response; see its log")

    async def _ingest(self, fetched: Fetched | Oversized, job: RefreshJob, before: Resource | None) -> IngestedContent:
        if isinstance(fetched, Oversized) or job.request.method == "HEAD":
            return NOT_INGESTED
        if fetched.response.status == 304 and not (before is not None and before.backfill_pending):
            return NOT_INGESTED
        await self._store.load(job.request.target)
        stored = self._store.get(job.request.target)
        return await ingest_in_helper(fetched, job, stored, self._helper_pool, self._clock.now())

    async def _follow_redirects(self, job: RefreshJob) -> redirect_following.RedirectChain:
        if job.missing_range is not None and (
            whole := await missing_ranges.fetch_missing(self._fetcher, job, job.missing_range)
        ):
            return whole
        request, conditions = job.request, NO_FIELDS
        if job.validate is None:
            conditions = origin_validator_in_etag.conditions_for_origin(job.client_fields)
        elif is_conditional(job):
            conditions = validation.conditional_fields(job.validate)
        if len(conditions):
            request = Request(request.method, request.target, request.fields.joined(conditions))
        limit = job.settings.redirects_max
        client = with_dictionary(self._fetcher, job, self._store, self._helper_pool, self._clock)
        if not job.follow_redirects:
            answer = await client.fetch(request, skip_address_check=job.skip_address_check)
            return redirect_following.RedirectChain(answer, answer)
        return await redirect_following.follow_redirects(
            client,
            request,
            limit=limit,
            skip_address_check=job.skip_address_check,
            may_serve_under=self._may_serve_under,
            to_target=lambda address: to_upstream(address, job.settings),
            is_targeted=job.settings.is_targeted,
        )
