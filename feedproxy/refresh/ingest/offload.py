"""Where what came is made ready: at once, or somewhere else, so that nobody waits for it who could be answered.

A feed that nobody knew, and that need not be changed, takes a quarter of a millisecond when it is small: less than it
would take to send it to the process beside and back. So that is done here. All that takes longer, or is uncommon, is
done there. (docs/decisions/feeds-are-read-in-a-process-beside.md)
"""

import asyncio
from functools import partial

from feedproxy.clock import Instant
from feedproxy.feed import publication_dates
from feedproxy.refresh.ingest.ingest import Prepared, at_first_sight, prepare
from feedproxy.refresh.ingest.worker_pool import Workshop
from feedproxy.refresh.resource_update import Errand, document_of, leaving, untouched, wanted
from feedproxy.store.resource import Resource
from feedproxy.upstream.client import Fetched


async def made_ready(
    fetched: Fetched, errand: Errand, before: Resource | None, workshop: Workshop, now: Instant
) -> Prepared:
    """An answer to a GET, ready to be judged and stored. `before` is what is stored of the target."""
    response, settings = fetched.response, errand.settings
    since = before.known if before is not None and before.undated else None
    if response.status != 200:
        published = None
        if response.status == 304 and before is not None and since is not None:
            published = await workshop.do(partial(publication_dates.published, document_of(before), since))
        return Prepared(untouched(response), published=published)
    if before is None or (before.channel is None and not before.variants):
        found = at_first_sight(
            response, settings, self_href=errand.self_href, now=now, accept_encoding=errand.accept_encoding
        )
        if found is not None:
            await asyncio.sleep(0)  # what becomes of it takes as long again: first it is others' turn
            return found
    work = partial(
        prepare,
        response,
        settings,
        self_href=errand.self_href,
        now=now,
        held=errand.validate.content if errand.validate is not None else None,
        known=before.channel if before is not None else None,
        wanted=wanted(errand),
        leaving=leaving(before) if before is not None else (),
        since=since,
    )
    return await workshop.do(work)
