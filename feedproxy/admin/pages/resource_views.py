"""Views of a resource. A view is a mapping for the templates of pages, the JSON and the command line.

Secrets are removed from addresses (`redact_target`), and control characters from publishers' texts (`plain_text`).
Instants are ISO 8601 in UTC, durations are in seconds, and sizes in bytes.
"""

from urllib.parse import urlsplit

from msgspec import Struct

from feedproxy.admin.pages.feed_advice import advice, feed_warnings
from feedproxy.admin.pages.feed_state import Condition, detail_sentence, feed_condition
from feedproxy.cache.freshness import Freshness
from feedproxy.cache.stored_response import StoredResponse
from feedproxy.clock import Instant
from feedproxy.feed.channel import Channel, Schedule
from feedproxy.feed.delta.entry_identities import unpack
from feedproxy.http.date import WEEKDAYS, format_http_date
from feedproxy.http.etag import own_tag
from feedproxy.http.target_uri.url_redaction import redact_target
from feedproxy.proxy.service import Service
from feedproxy.refresh.ingest.ingest import make_delta_base, read_stored_channel
from feedproxy.refresh.policy.min_interval_and_back_off import PAUSE_INTERVAL
from feedproxy.request.feed_id import feed_id
from feedproxy.request.upstream_and_public_urls import public_name, to_public
from feedproxy.settings import Settings
from feedproxy.store.resource import Failures, Relocation, Resource
from feedproxy.subscribers.subscriber_counts import CountView
from feedproxy.telemetry.page_redaction import View, redact_text
from feedproxy.web.display_formats import iso, plain_text


class ResourceView(Struct, frozen=True):
    """A resource at an instant, with its freshness and condition."""

    resource: Resource
    freshness: Freshness | None
    condition: Condition
    settings: Settings
    now: Instant


def view_resource(resource: Resource, service: Service, settings: Settings, now: Instant) -> ResourceView:
    """Return the resource with its freshness and condition at `now`."""
    freshness, plan = service.admin.freshness_of(resource), service.schedule.plan(resource)
    return ResourceView(resource, freshness, feed_condition(resource, freshness, settings, now, plan), settings, now)


def is_feed(resource: Resource) -> bool:
    """Return True for a feed, and for an address without a stored response that has failed, moved or ended."""
    return resource.channel is not None or (
        not resource.variants and bool(resource.failures.count or resource.relocation)
    )


def row_view(view: ResourceView, subscribers: int) -> View:
    """Return a row of the table of feeds."""
    resource, channel = view.resource, view.resource.channel
    names = public_name(resource.target, view.settings)
    return {
        "id": feed_id(resource.target),
        **names,
        "title": plain_text(channel.title) if channel and channel.title.strip() else _host_and_path(names["target"]),
        "format": format_and_version(channel),
        "state": str(view.condition.state),
        "reason": redact_text(view.condition.reason),
        "paused": view.settings.feed_min_interval >= PAUSE_INTERVAL,
        "subscribers": subscribers,
        "next_fetch": _next_fetch(view),
        "fetched": _iso(resource.fetched),
        "changed": last_changed(resource),
        "failures": resource.failures.count,
        "advice": advice(resource, view.condition.state, view.settings),
        "sighting": _relocation_view(resource.relocation, view.settings),
        "moved_to": _moved_to(view),
    }


def feed_view(view: ResourceView, counts: CountView) -> View:
    """Return the view for the page of a feed: its row in the table, and all other values."""
    resource, freshness = view.resource, view.freshness
    channel = read_stored_channel(resource.channel, resource.variants)
    newest = resource.variants[-1] if resource.variants else None
    allowance = freshness.allowance if freshness is not None else None
    return {
        **row_view(view, counts.total),
        "kind": str(channel.kind) if channel else None,
        "version": channel.version if channel else None,
        "well_formed": channel.well_formed if channel else None,
        "link": redact_target(channel.link) if channel and channel.link.startswith(("http://", "https://")) else None,
        "items": channel.items if channel else None,
        "hubs": [redact_target(hub) for hub in channel.hubs] if channel else [],
        "status": newest.status if newest else None,
        "age": round(freshness.age) if freshness else None,
        "lifetime": round(freshness.lifetime) if freshness else None,
        "lifetime_source": str(freshness.source) if freshness else None,
        "expires": _iso(freshness.expires) if freshness else None,
        "fresh": freshness.is_fresh(view.now) if freshness else False,
        "held": {"until": iso(allowance.until), "detail": allowance.detail, "words": allowance.reason}
        if allowance
        else None,
        "freshness": freshness.description if freshness else None,
        "cache_control": newest.fields.combined("cache-control") if newest else None,
        "media_type": _media_type(newest),
        "sizes": {coding: len(body) for coding, body in newest.content.bodies.items()} if newest else {},
        "variants": len(resource.variants),
        "validators": validators(newest),
        "changes": [iso(instant) for instant in resource.changes],
        "subscribers": _subscribers(counts),
        "failures": _failures(resource.failures),
        "schedule": _schedule(channel.schedule) if channel else None,
        "private": view.settings.private,
        "warnings": feed_warnings(resource, view.condition.state, channel),
    }


def format_and_version(channel: Channel | None) -> str:
    """Return the format, such as `RSS 2.0` or `Atom 1.0`, or "" if `channel` is None."""
    return f"{channel.kind.format_name} {plain_text(channel.version, 20)}".strip() if channel else ""


def last_changed(resource: Resource) -> str | None:
    """Return the time of the last change of content that feedproxy observed. If there is none, return Last-Modified, or
    None if that is absent, too."""
    if resource.changes:
        return iso(resource.changes[-1])
    modified = resource.variants[-1].content.last_modified if resource.variants else None
    return iso(modified) if modified is not None else None


def validators(stored: StoredResponse | None) -> View:
    """Return the origin's validators, and those that feedproxy sends: Last-Modified, and an ETag for each coding. If
    `stored` is None, both are empty."""
    if stored is None:
        return {"origin": {}, "ours": {}}
    origin = {name: stored.fields.combined(name) for name in ("etag", "last-modified") if name in stored.fields}
    content, own = stored.content, {}
    if content.tag is not None:
        own = {coding: own_tag(content.tag, coding, body).text for coding, body in content.bodies.items()}
        if content.last_modified is not None:
            own["last-modified"] = format_http_date(content.last_modified)
    return {"origin": origin, "ours": own}


def version_views(resource: Resource) -> list[View]:
    """Return the stored versions, the newest first. The call parses a feed, so it must not run in the event loop.

    `new`, `changed` and `gone` are numbers of items compared with the previous version. They are None if the items of
    one of the two versions are not stored.
    """
    entries = {base.tag: base.entries for base in resource.delta_bases}
    for variant in resource.variants:
        if variant.content.tag and variant.content.tag not in entries and (version := make_delta_base(variant)):
            entries[version.tag] = version.entries
    views: list[View] = []
    before: dict[str, str] | None = None
    for record in resource.version_records:
        packed = entries.get(record.tag) if record.tag else None
        now = dict(unpack(packed)) if packed is not None else None
        view: View = {"at": iso(record.at), "size": record.size, "items": record.items}
        if now is None or before is None:
            view |= {"new": None, "changed": None, "gone": None}
        else:
            common = now.keys() & before.keys()
            view |= {
                "new": len(now.keys() - before.keys()),
                "changed": sum(now[name] != before[name] for name in common),
                "gone": len(before.keys() - now.keys()),
            }
        views.append(view)
        before = now
    views.reverse()
    return views


def _host_and_path(target: str) -> str:
    split = urlsplit(target)
    return split.netloc + split.path.rstrip("/")


def _iso(instant: Instant) -> str | None:
    return iso(instant) if instant > 0 else None


def _next_fetch(view: ResourceView) -> View:
    if view.settings.feed_min_interval >= PAUSE_INTERVAL:
        return {"at": None, "words": "the operator has paused this feed"}
    at = view.condition.next_at
    return {"at": iso(at) if at > view.now else None, "words": redact_text(view.condition.next_reason)}


def _media_type(stored: StoredResponse | None) -> str | None:
    return stored.content.media_type or stored.fields.get("content-type") if stored else None


def _subscribers(counts: CountView) -> View:
    return {
        "total": counts.total,
        "direct": counts.direct,
        "claims": [
            {
                "fetcher": plain_text(claim.fetcher, 60),
                "feed_id": plain_text(claim.feed_id, 64),
                "count": claim.count,
                "held_back": claim.unconfirmed_count,
                "last": iso(claim.last),
            }
            for claim in counts.claims
        ],
        "readers": {plain_text(name, 60): count for name, count in counts.readers},
    }


def _failures(failures: Failures) -> View | None:
    if not failures.count:
        return None
    return {
        "count": failures.count,
        "since": iso(failures.since),
        "last": iso(failures.last),
        "detail": failures.detail,
        "words": detail_sentence(failures.detail),
        "next_try": _iso(failures.next_try),
    }


def _relocation_view(sighting: Relocation | None, settings: Settings) -> View | None:
    if sighting is None:
        return None
    return {
        "ending": str(sighting.kind),
        "location": redact_target(to_public(sighting.location, settings)) if sighting.location else None,
        "first": iso(sighting.first),
        "last": iso(sighting.last),
        "count": sighting.count,
        "confirmed": sighting.confirmed,
    }


def _moved_to(view: ResourceView) -> str | None:
    """Return the new address of a feed, which a rule or the origin states. Return None if neither states an address."""
    sighting = view.resource.relocation
    location = view.settings.moved_to or (sighting.location if sighting is not None else "")
    return redact_target(to_public(location, view.settings)) if location else None


def _schedule(schedule: Schedule) -> View:
    return {
        "ttl": schedule.ttl,
        "skip_hours": sorted(schedule.skip_hours),
        "skip_days": [WEEKDAYS[day] for day in sorted(schedule.skip_days)],
        "update_period": str(schedule.period) if schedule.period else None,
        "update_frequency": schedule.frequency if schedule.period else None,
        "update_base": iso(schedule.base) if schedule.base is not None else None,
        "interval": schedule.interval,
        "finished": schedule.finished,
        "notes": [plain_text(note) for note in schedule.notes],
    }
