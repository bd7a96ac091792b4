"""The resource after a refresh: pure functions that return the new value to store."""

from typing import Any

from msgspec.structs import replace

from feedproxy.cache import set_cookie, storing, vary
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.clock import Instant
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.content_negotiation import vary_names
from feedproxy.http.credential_fields import is_credential
from feedproxy.http.message import Fields
from feedproxy.refresh import redirect_following
from feedproxy.refresh.ingest.hub_and_cloud_link_policy import with_links
from feedproxy.refresh.ingest.ingest import IngestedContent
from feedproxy.refresh.policy import moved_and_gone
from feedproxy.refresh.policy.dictionary_privacy import is_shared
from feedproxy.refresh.policy.stale_max_after_failure import FetchOutcome
from feedproxy.refresh.refresh_job import RefreshJob
from feedproxy.request.upstream_request import ACCEPT, FIXED_FIELDS, background_request
from feedproxy.settings import Settings
from feedproxy.store.resource import Relocation, RelocationKind, Resource, VersionRecord
from feedproxy.store.versions_for_dictionaries import NO_CONTENTS, PreviousContents
from feedproxy.upstream.fetch_result import Fetched

CHANGES_MAX = 32
"""At most this many content changes of a feed are remembered: a month at one change a day."""

VERSION_RECORDS_MAX = 32
"""At most this many version records of a feed are stored, at about fifty bytes each."""

VARYING_NAMES_MAX = 8
"""At most this many names are remembered from the Vary of a response that is not stored."""

VARYING_NAME_LENGTH_MAX = 64
"""A field name of more than this many characters is not remembered."""


def states_lifetime(fields: Fields) -> bool:
    """Return whether the fields of a response state how long the response may be cached."""
    return any(name in fields for name in ("cache-control", "cdn-cache-control", "expires"))


def received_response(job: RefreshJob, fetched: Fetched, ingested: IngestedContent, at: str = "") -> StoredResponse:
    """Return the response in the form in which it may be stored. `at` is the target of the response after redirects."""
    targeted = job.settings.is_targeted
    stored = StoredResponse(
        target=job.request.target,
        status=fetched.response.status,
        fields=storing.storable_fields(fetched.response.fields, targeted=targeted),
        content=ingested.content,
        request_time=fetched.request_time,
        response_time=fetched.response_time,
        vary_request=vary.request_fields_for(fetched.response.fields, job.request.fields),
        own_agent=job.own_agent,
        authorized="authorization" in job.request.fields
        or any(is_credential(name) and not name.startswith("cookie") for name, _ in job.key),
        final_target=final_target(job, at),
        key=job.key,
        has_client_language=job.has_client_language,
    )
    stored = set_cookie.with_cookies(stored, fetched.response.fields, job.request, targeted=targeted)
    return with_links(stored, job.settings, job.self_href)


def final_target(job: RefreshJob, at: str) -> str | None:
    """Return the target that sent the response: `at`, "" if it is the requested target, or None if it is unknown."""
    if job.pushed is not None and job.validate is not None:
        return job.validate.final_target  # a push is content for the stored response
    return "" if at == job.request.target else at


def update_relocation(
    before: Resource, chain: redirect_following.RedirectChain, outcome: FetchOutcome, now: Instant, job: RefreshJob
) -> Relocation | None:
    """Return the relocation to record after this response to a job's request, or None to record none."""
    ending, location = None, ""
    if outcome.status == 410 and _may_be_feed(before, outcome, job):
        ending = RelocationKind.GONE
    elif chain.moved_to and outcome.channel is not None:
        ending, location = RelocationKind.MOVED, chain.moved_to
    if ending is None:
        # The status of the address itself: outcome.status is that of the last response.
        status = chain.first.response.status if chain.hops and isinstance(chain.first, Fetched) else outcome.status
        is_as_before = outcome.channel is not None or before.channel is None
        return moved_and_gone.clear_relocation(before.relocation, now, status=status, feed=is_as_before)
    return moved_and_gone.record_sighting(before.relocation, ending, location, now, job.settings)


def _may_be_feed(before: Resource, outcome: FetchOutcome, job: RefreshJob) -> bool:
    """Return True if a 410 is for a known feed, or can be for a feed. The 410 can be for a feed if no other content is
    stored, the request prefers feeds, and the 410 states no lifetime."""
    if before.channel is not None:
        return True
    if before.variants:
        return False
    return job.request.fields.get("accept") == ACCEPT and not states_lifetime(outcome.fields)


def is_further_variant(before: Resource, replaced: StoredResponse | None, response: StoredResponse) -> bool:
    """Return whether the response is an additional variant: it replaces no variant, and Vary names a client's field.
    `replaced` is the variant that the same request selected, or None."""
    return replaced is None and bool(before.variants) and bool(client_fields_in_vary(response.fields))


def with_variant(resource: Resource, new: StoredResponse, job: RefreshJob, **facts: Any) -> Resource:
    """Return the resource with `new` in place of the variant that the same request selected. `facts` are the new values
    of other attributes of the resource. A stored response of a later request is not replaced."""
    later = [variant for variant in resource.variants if variant.request_time > new.request_time]
    if later and vary.choose(resource.variants, job.request.fields, own_agent=job.own_agent) in later:
        return replace(resource, **facts)
    variants = vary.with_variant(resource.variants, new, job.request.fields, own_agent=job.own_agent)
    return replace(resource, variants=variants, parts=_remaining_parts(resource, job), **facts)


def without_variant(resource: Resource, job: RefreshJob) -> Resource:
    """Return the resource without the variants that this request selects."""
    remaining = tuple(
        variant
        for variant in resource.variants
        if not vary.selects(variant, job.request.fields, own_agent=job.own_agent)
    )
    return replace(resource, variants=remaining, parts=_remaining_parts(resource, job))


def _remaining_parts(resource: Resource, job: RefreshJob) -> tuple[StoredResponse, ...]:
    request_fields, own = job.request.fields, job.own_agent
    return tuple([part for part in resource.parts if not vary.selects(part, request_fields, own_agent=own)])


def default_copy(resource: Resource) -> StoredResponse | None:
    """Return the stored feed that a request without client-specific fields selects, or None if there is none."""
    plain = background_request(resource.target, via="", agent="").fields
    return vary.choose([copy for copy in resource.variants if copy.content.feed], plain, own_agent=True)


def stored_document(resource: Resource) -> bytes:
    """Return the stored feed without coding, from the first variant that has it, or empty bytes if there is none."""
    return next((body for variant in resource.variants if (body := variant.content.bodies.get("identity"))), b"")


def with_previous_contents(
    resource: Resource, stored: StoredResponse, previous: PreviousContents | None, settings: Settings
) -> Resource:
    """Return the resource with these previous contents, or without previous contents if `stored` is not shared. If
    `previous` is None, the previous contents stay unchanged."""
    if len(stored.key) or (not previous and not resource.previous):
        return resource
    if not is_shared(stored, settings):
        previous = NO_CONTENTS
    return resource if previous is None or previous == resource.previous else replace(resource, previous=previous)


def with_version_record(resource: Resource, new: StoredResponse, items: int, now: Instant) -> tuple[VersionRecord, ...]:
    """Return the version records of the resource, and a record for the new version, which has `items` items."""
    assert isinstance(new.content.bodies, Bodies)
    record = VersionRecord(now, new.content.bodies.length("identity"), items, new.content.tag or "")
    return (*resource.version_records, record)[-VERSION_RECORDS_MAX:]


def earlier_versions_interval(resource: Resource | None, content: Content) -> tuple[Instant, Instant] | None:
    """Return two instants: when the first recorded version was stored, and when the version with `content` was stored.
    Return None if no version before `content` is recorded."""
    records = resource.version_records if resource is not None and content.feed and content.tag is not None else ()
    stored_at = next((record.at for record in reversed(records) if record.tag == content.tag), None)
    return None if stored_at is None or records[0].at >= stored_at else (records[0].at, stored_at)


def with_history(
    resource: Resource,
    before: Resource,
    response: StoredResponse,
    published: tuple[Instant, ...] | None,
    now: Instant,
) -> Resource:
    """Return the resource with the changes of its feed from before the first fetch, as far as they are known.

    The first fetch of a feed sets `first_seen` and `backfill_pending`. A later fetch then adds the items' publication
    dates (`published`) to the changes. If `published` is None, the dates were not read, and nothing is added.
    """
    if resource.channel is None:
        return resource
    if before.channel is None:
        return resource if resource.changes else replace(resource, first_seen=now, backfill_pending=True)
    if not before.backfill_pending or published is None:
        return resource
    return with_publications(resource, response, published)


def with_publications(resource: Resource, response: StoredResponse, published: tuple[Instant, ...]) -> Resource:
    """Return the resource with the publication dates `published`, all before the first fetch, among its changes. If
    `published` is empty and the response has no Last-Modified, the first fetch is added as a change."""
    if not published and "last-modified" not in response.fields:
        published = (resource.first_seen,)
    return replace(resource, changes=(*published, *resource.changes)[-CHANGES_MAX:], backfill_pending=False)


def client_fields_in_vary(response: Fields) -> tuple[str, ...]:
    """Return the names in Vary of fields that clients send. Fields that feedproxy itself writes are left out."""
    names = (name for name in vary_names(response) if name not in FIXED_FIELDS and name != "*")
    return tuple(name for name in names if len(name) <= VARYING_NAME_LENGTH_MAX)[:VARYING_NAMES_MAX]


def resource_after_unstored(job: RefreshJob, stored: Resource | None, learned: Resource, *, is_good: bool) -> Resource:
    """Return the resource to store after a response that is not stored.

    `learned` has all facts from the response. `is_good` is true if the status is 200 or 304, and no stored response is
    served instead. Varying fields are fields of the request that Vary nominates.

    * A failed request with varying fields changes nothing, because these fields can have caused the failure.
    * If a copy is stored, a request with `no-store` changes only the failures and the time of the last fetch.
    * Any other request stores the facts in `learned`. If it had varying fields, and was a HEAD or got oversized
      content, the stored failures remain: those in `learned` belong to these fields only.
    """
    if stored is None:
        stored = Resource(learned.target)
    if len(job.varying_fields) and not is_good:
        return stored
    if len(job.varying_fields) and (learned.oversized or job.request.method == "HEAD"):
        learned = replace(learned, failures=stored.failures)
    if not CacheControl.from_request(job.request.fields).no_store or not (stored.variants or stored.parts):
        return learned
    return replace(stored, fetched=learned.fetched, failures=learned.failures)


def is_worth_storing(resource: Resource) -> bool:
    """Return whether the resource has a response, a channel, a relocation, a failure, or content above `buffer_max`.
    Other resources are not stored, because clients can request any number of targets that do not exist."""
    has_content = resource.responses or resource.channel
    return bool(has_content or resource.relocation or resource.oversized or resource.failures.next_try)
