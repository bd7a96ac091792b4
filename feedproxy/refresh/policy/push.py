"""Changes that are pushed here: what a push is worth, and how it makes polling rarer.

Who promises to tell us of changes (a hub, a cloud) need not be asked so often: once a push has come, the copy may be
used for `push_interval`, where HTTP leaves room for anybody's permission (the same doors as for the feed's hints,
RFC 9111, 4.2.2 and 4.2.4). The promise lasts as long as the subscription (`Resource.promised`). It is broken by a
change that we find ourselves and nobody told us of, and from then on the feed is polled as ever, until the next push.

Content that comes with a push was sent by a hub, not by the origin. It says nothing of the origin: not that it works
again, not what its validators are. And it may be a part: "For Atom and RSS feeds, the hub MAY remove already-delivered
atom:entry or rss:item elements from the feed" (WebSub, section 7). So it becomes the copy only if it is a feed as
before, and whole as far as can be told; of anything else we take notice by fetching.
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
"""A push and the change it tells of are so far apart at most, in either order: hubs fetch feeds themselves."""

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
"""Fields that speak of the bytes they came with, or of when they came."""


@dataclass(frozen=True, slots=True)
class Push:
    """Content that was pushed, made ready."""

    fetched: Fetched
    prepared: IngestedContent


def hold(resource: Resource, base: Instant, now: Instant, settings: Settings) -> Allowance | None:
    """Until when the copy may be used since changes are pushed; `base` is where its age counts from."""
    if not settings.push_interval or not resource.last_push or now >= resource.push_lease_expires:
        return None
    until = min(base + settings.push_interval, resource.push_lease_expires)
    return Allowance(until, Detail.PUSH, f"its changes are pushed here, and it is asked every {_often(settings)}")


def promise_after(resource: Resource, now: Instant, *, changed: bool) -> Instant:
    """`promised` after an update: a change that nobody told us of breaks it."""
    return 0.0 if changed and abs(now - resource.last_push) > GRACE else resource.push_lease_expires


def as_fetched(held: StoredResponse, body: bytes, media_type: str | None, now: Instant) -> Fetched:
    """What was pushed, as if it had been fetched: the fields are the held copy's, for a hub's are nobody's word."""
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
    """Content that was pushed, ready to become the copy; why not, in words, where it does not. Takes its time."""
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
            # The newest entries come first, and the oldest go: what lacks our first may be a push that was overtaken.
            return "it lacks the newest entry of the copy"
    return Push(fetched, prepared)


def only_content(updated: Resource, before: Resource) -> Resource:
    """The resource after a push: what is known of its origin is what was known."""
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
