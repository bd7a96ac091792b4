"""Pushed content, and the conditions under which it becomes the stored copy.

A hub can push incomplete content: "For Atom and RSS feeds, the hub MAY remove already-delivered atom:entry or rss:item
elements from the feed" (WebSub, section 7). Pushed content becomes the copy only if it is a feed of the same kind as
the copy and appears complete. Any other push only causes a fetch.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant
from feedproxy.feed.delta.entry_identities import unpack_identities
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Response
from feedproxy.refresh.ingest.ingest import IngestedContent, KnownFeed, ingest, make_delta_base
from feedproxy.refresh.policy import content_guard
from feedproxy.refresh.policy.content_guard import Replace
from feedproxy.refresh.policy.dictionary_privacy import is_shared
from feedproxy.refresh.policy.stale_max_after_failure import FetchOutcome
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource
from feedproxy.upstream.fetch_result import Fetched

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
"""Fields that describe the bytes or the time of one response, and are not copied to pushed content."""


class PushedContent(Struct, frozen=True):
    """The content of a push: as a fetched response, and in the form for storing."""

    fetched: Fetched
    ingested: IngestedContent


def as_fetched(copy: StoredResponse, body: bytes, media_type: str | None, now: Instant) -> Fetched:
    """Return the pushed content as a fetched response, with the fields of the stored copy."""
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
) -> PushedContent | str:
    """Return the ingested content of a push, or the reason why it must not become the copy.

    `fetched` is the push as a response (`as_fetched`). `self_href` and `superseded` are explained in ingest/ingest.py.
    The function parses the content, and must run in a helper process.
    """
    ingested = ingest(
        fetched.response,
        settings,
        self_href=self_href,
        now=now,
        known=KnownFeed(
            copy.content,
            resource.channel,
            tuple(copy.content.bodies),
            tuple(superseded),
            previous_contents=resource.previous if is_shared(copy, settings) else None,
        ),
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
    return PushedContent(fetched, ingested)


def with_pushed_content(updated: Resource, before: Resource) -> Resource:
    """Return `updated` with the last fetch, failures, relocation and format change of `before`, because a push does not
    come from the origin."""
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
