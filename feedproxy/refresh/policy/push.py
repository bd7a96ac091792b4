"""Pushed changes: how they reduce polling, and when pushed content becomes the stored copy.

A hub or cloud with a subscription pushes changes, so that the feed needs less polling. After a push, the copy may be
used for `push_interval` seconds, if HTTP permits the cache to choose a lifetime (RFC 9111, sections 4.2.2 and 4.2.4).
The push lease lasts as long as the subscription. It ends early when a refresh finds a change that was not pushed.
Until the next push, the feed is then polled as usual.

Pushed content comes from a hub, not from the origin. It tells nothing about the origin's availability and validators,
and it may be incomplete: "For Atom and RSS feeds, the hub MAY remove already-delivered atom:entry or rss:item elements
from the feed" (WebSub, section 7). It becomes the copy only if it is the same kind of feed and appears complete.
Otherwise the push only causes a fetch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from feedproxy.cache.cache_status import Detail
from feedproxy.cache.freshness import Allowance, span
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant, Seconds
from feedproxy.feed.delta.entry_identities import unpack_identities
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Response
from feedproxy.refresh.ingest.ingest import IngestedContent, RequestedCodings, ingest, make_delta_base
from feedproxy.refresh.policy import content_guard
from feedproxy.refresh.policy.content_guard import FetchOutcome, Replace
from feedproxy.refresh.policy.dictionary_privacy import is_shared
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource
from feedproxy.upstream.fetch_result import Fetched

GRACE: Seconds = 300
"""Longest time in seconds between a push and the refresh that finds the pushed change. A refresh may find the change
before the push, because hubs fetch feeds themselves."""

_OF_ONE_MESSAGE = (
    "etag",
    "last-modified",
    "date",
    "age",
    "expires",
    "content-encoding",
    "content-length",
    "content-digest",
    "repr-digest",
    "digest",
    "content-md5",
    "cache-status",
    "use-as-dictionary",
)
"""Fields that describe the bytes or the time of one response, and are therefore not copied to pushed content."""


@dataclass(frozen=True, slots=True)
class Push:
    """The content of a push: as a fetched response, and in the form for the store."""

    fetched: Fetched
    ingested: IngestedContent


def allowance(resource: Resource, base: Instant, now: Instant, settings: Settings) -> Allowance | None:
    """Return how long the copy may answer because changes are pushed, or None without a push lease. `base` is the
    instant from which the age of the copy counts."""
    if not settings.push_interval or not resource.last_push or now >= resource.push_lease_expires:
        return None
    until = min(base + settings.push_interval, resource.push_lease_expires)
    interval = span(settings.push_interval)
    return Allowance(until, Detail.PUSH, f"its changes are pushed here, and it is fetched every {interval}")


def push_lease_after(resource: Resource, now: Instant, *, changed: bool) -> Instant:
    """Return the end of the push lease after an update. A change that was not pushed ends the lease."""
    return 0.0 if changed and abs(now - resource.last_push) > GRACE else resource.push_lease_expires


def as_fetched(copy: StoredResponse, body: bytes, media_type: str | None, now: Instant) -> Fetched:
    """Return the pushed content as a fetched response, with the fields of the stored copy instead of the hub's."""
    fields = copy.fields.without(*_OF_ONE_MESSAGE)
    if media_type:
        fields = fields.with_field("Content-Type", media_type)
    return Fetched(Response(200, fields.with_field("Date", format_http_date(now)), body), now, now)


def ingest_push(
    fetched: Fetched,
    copy: StoredResponse,
    resource: Resource,
    now: Instant,
    settings: Settings,
    *,
    self_href: str,
    superseded: Sequence[StoredResponse],
) -> Push | str:
    """Return the ingested content of a push, or the reason why it must not become the copy.

    The function parses the content, and must therefore run in a helper process.
    """
    ingested = ingest(
        fetched.response,
        settings,
        self_href=self_href,
        now=now,
        stored=copy.content,
        known_channel=resource.channel,
        requested_codings=RequestedCodings(tuple(copy.content.bodies)),
        superseded=superseded,
        previous_contents=resource.previous if is_shared(copy, settings) else None,
    )
    channel = ingested.channel
    if ingested.error is not None or channel is None or not channel.well_formed:
        return "the content is not a well-formed feed"
    verdict = content_guard.decide_replacement(resource, FetchOutcome(200, channel=channel), now, settings)
    if resource.channel is None or not isinstance(verdict, Replace):
        return "the content is another feed than the stored one"
    if ingested.is_change(resource.channel):
        before, after = _identities(copy), _identities(replace(copy, content=ingested.content))
        if before is None or after is None:
            return "the content may be incomplete: its entries cannot be identified"
        if len(after) < len(before) or (before and not set(before) & set(after)):
            return "the content seems to be a part of the feed"
        if before and before[0] not in after:
            # The newest entries come first. Without the stored first entry, the push may be older than the copy.
            return "the content lacks the newest entry of the stored feed"
    return Push(fetched, ingested)


def with_pushed_content(updated: Resource, before: Resource) -> Resource:
    """Return `updated` with the facts about the origin from `before`: last fetch, failures, relocation, format
    change."""
    return replace(
        updated,
        fetched=before.fetched,
        failures=before.failures,
        relocation=before.relocation,
        pending_format_change=before.pending_format_change,
    )


def _identities(stored: StoredResponse) -> tuple[str, ...] | None:
    version = make_delta_base(stored)
    return None if version is None else unpack_identities(version.entries)
