"""The choice between the event loop and a helper process for the ingestion of content.

The event loop ingests a small new feed that needs no edit, because its transfer to a helper process would take longer
(docs/decisions/feed-processes.md).
"""

import asyncio
from functools import partial

from msgspec.structs import replace

from feedproxy.clock import Instant
from feedproxy.feed import publication_history
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.refresh.ingest.ingest import (
    NOT_INGESTED,
    IngestedContent,
    KnownFeed,
    ingest,
    ingest_fast_path,
    unmodified_content,
)
from feedproxy.refresh.policy.dictionary_privacy import is_shared
from feedproxy.refresh.policy.versions_for_deltas import superseded_feeds
from feedproxy.refresh.refresh_job import RefreshJob
from feedproxy.refresh.resource_after_refresh import stored_document
from feedproxy.store.resource import Resource
from feedproxy.store.versions_for_dictionaries import PreviousContents
from feedproxy.upstream.fetch_result import Fetched


async def ingest_in_helper(
    fetched: Fetched, job: RefreshJob, stored: Resource | None, helper_pool: HelperPool, now: Instant
) -> IngestedContent:
    """Return the ingested content of a response to a GET. `stored` is the stored resource of the target."""
    response, settings = fetched.response, job.settings
    if response.status == 304:
        first_seen = _unread_since(stored)
        if stored is None or first_seen is None:
            return NOT_INGESTED
        document = stored_document(stored)
        dates = await helper_pool.submit(partial(publication_history.find_publications, document, first_seen))
        return replace(NOT_INGESTED, publication_dates=dates)
    if response.status != 200:
        return IngestedContent(unmodified_content(response))
    if stored is None or (stored.channel is None and not stored.variants):
        ingested = ingest_fast_path(
            response, settings, self_href=job.self_href, now=now, accept_encoding=job.accept_encoding
        )
        if ingested is not None:
            await asyncio.sleep(0)  # the next steps take as long as ingestion: other tasks run first
            return ingested
    work = partial(
        ingest,
        response,
        settings,
        self_href=job.self_href,
        now=now,
        known=_known_feed(job, stored),
        accept_encoding=job.accept_encoding,
    )
    return await helper_pool.submit(work)


def _known_feed(job: RefreshJob, stored: Resource | None) -> KnownFeed:
    validated = job.validate.content if job.validate is not None else None
    return KnownFeed(
        validated,
        stored.channel if stored is not None else None,
        tuple(validated.bodies) if validated is not None and validated.feed else (),
        superseded_feeds(stored) if stored is not None else (),
        _unread_since(stored),
        _previous_contents(job, stored),
    )


def _unread_since(stored: Resource | None) -> Instant | None:
    """Return the instant of the feed's first fetch if the dates of older items are still to be read, otherwise None."""
    return stored.first_seen if stored is not None and stored.backfill_pending else None


def _previous_contents(job: RefreshJob, stored: Resource | None) -> PreviousContents | None:
    """Return the earlier contents of the feed, as dictionaries. Return None if nothing is stored, or if the job
    validates no stored response that may be a dictionary."""
    validated = job.validate
    if stored is None or validated is None or not is_shared(validated, job.settings):
        return None
    return stored.previous
