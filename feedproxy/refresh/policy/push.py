"""Pushed changes: how they reduce polling, and when pushed content becomes the copy.

A hub or cloud with a subscription pushes changes, so the feed is polled less: after a push the copy may be used for
`push_interval`, where HTTP permits other sources of freshness (as for the feed's hints, RFC 9111, 4.2.2 and 4.2.4). The
push lease lasts as long as the subscription. It ends early when a refresh finds a change that was not pushed; then the
feed is polled as usual until the next push.

Pushed content comes from a hub, not from the origin. It says nothing about the origin's availability and validators,
and may be a part: "For Atom and RSS feeds, the hub MAY remove already-delivered atom:entry or rss:item elements from
the feed" (WebSub, section 7). So it becomes the copy only if it is a feed as before and appears complete. Otherwise the
push only causes a fetch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from feedproxy.cache.cache_status import Detail
from feedproxy.cache.freshness import Allowance, span
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant, Seconds
from feedproxy.feed.delta.entries import unpack_identities
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Response
from feedproxy.refresh.ingest.ingest import IngestedContent, RequestedCodings, ingest, make_delta_base
from feedproxy.refresh.policy import content_guard
from feedproxy.refresh.policy.content_guard import FetchOutcome, Replace
from feedproxy.refresh.policy.dictionary_policy import is_shared
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource
from feedproxy.upstream.client import Fetched

GRACE: Seconds = 300
"""Most seconds between a push and its change, in either order: hubs fetch feeds themselves."""

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
"""Fields that describe the bytes of one response, or its time."""


@dataclass(frozen=True, slots=True)
class Push:
    """Ingested content of a push."""

    fetched: Fetched
    prepared: IngestedContent


def hold(resource: Resource, base: Instant, now: Instant, settings: Settings) -> Allowance | None:
    """Return until when the copy may be used because changes are pushed; `base` is where its age starts."""
    if not settings.push_interval or not resource.last_push or now >= resource.push_lease_expires:
        return None
    until = min(base + settings.push_interval, resource.push_lease_expires)
    return Allowance(until, Detail.PUSH, f"its changes are pushed here, and it is asked every {_often(settings)}")


def promise_after(resource: Resource, now: Instant, *, changed: bool) -> Instant:
    """Return the push lease after an update: a change that was not pushed ends it."""
    return 0.0 if changed and abs(now - resource.last_push) > GRACE else resource.push_lease_expires


def as_fetched(held: StoredResponse, body: bytes, media_type: str | None, now: Instant) -> Fetched:
    """Return the pushed content as a fetched response, with the stored copy's fields in place of the hub's."""
    fields = held.fields.without(*_OF_ONE_MESSAGE)
    if media_type:
        fields = fields.with_field("Content-Type", media_type)
    return Fetched(Response(200, fields.with_field("Date", format_http_date(now)), body), now, now)


def examined(
    fetched: Fetched,
    held: StoredResponse,
    resource: Resource,
    now: Instant,
    settings: Settings,
    *,
    self_href: str,
    leaving: Sequence[StoredResponse],
) -> Push | str:
    """Return the ingested content of a push, or the reason why it cannot become the copy. Slow."""
    prepared = ingest(
        fetched.response,
        settings,
        self_href=self_href,
        now=now,
        stored=held.content,
        known_channel=resource.channel,
        requested_codings=RequestedCodings(tuple(held.content.bodies)),
        superseded=leaving,
        previous_contents=resource.previous if is_shared(held, settings) else None,
    )
    channel = prepared.channel
    if prepared.error is not None or channel is None or not channel.well_formed:
        return "it is no well-formed feed"
    verdict = content_guard.decide_replacement(resource, FetchOutcome(200, channel=channel), now, settings)
    if resource.channel is None or not isinstance(verdict, Replace):
        return "it is another feed than was held"
    if prepared.is_change(resource.channel):
        before, after = _identities(held), _identities(replace(held, content=prepared.content))
        if before is None or after is None:
            return "it cannot be told whether it is the whole feed"
        if len(after) < len(before) or (before and not set(before) & set(after)):
            return "it seems to be a part of the feed"
        if before and before[0] not in after:
            # The newest entries come first: without the stored first one, the push may be older than the copy.
            return "it lacks the newest entry of the copy"
    return Push(fetched, prepared)


def only_content(updated: Resource, before: Resource) -> Resource:
    """Return the resource after a push, with the previous state of its origin."""
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


def _often(settings: Settings) -> str:
    return span(settings.push_interval)
