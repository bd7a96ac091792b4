"""What is kept of a resource after an update: pure functions from the old value to the new one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from feedproxy.cache import set_cookie, storing, vary
from feedproxy.cache.partial_content import Missing
from feedproxy.cache.stored_response import Content, StoredResponse
from feedproxy.clock import Instant
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.message import Fields, Request, Response
from feedproxy.refresh import redirects
from feedproxy.refresh.ingest.ingest import Prepared, Wanted
from feedproxy.refresh.ingest.link_injection import with_links
from feedproxy.refresh.policy import relocation
from feedproxy.refresh.policy.content_guard import Outcome
from feedproxy.refresh.policy.push import Push
from feedproxy.request.upstream_request import is_credential
from feedproxy.settings import Settings
from feedproxy.store.resource import Edition, Ending, Resource, Sighting, Version
from feedproxy.upstream.client import Fetched

VARIANTS_MAX = 8
"""Variants kept of one target: enough for languages and formats, too few to flood the store with."""

CHANGES_MAX = 32
"""Content changes remembered of a feed: a month of a daily one."""

EDITIONS_MAX = 32
"""Editions remembered of a feed, as many as changes: some fifty bytes each."""

VERSIONS_MAX = 16
"""Versions whose entries are remembered: of a feed that changes hourly, what a reader has who was away overnight."""

VERSIONS_BYTES = 32 * 1024
"""Bytes of their entries together: sixteen versions of 128 entries, or one of 2,048."""


@dataclass(frozen=True, slots=True)
class Errand:
    """What to fetch, and how.

    `validate` is the stored variant that conditions are made from; `follow` whether redirects are followed;
    `exempt` that the address is the operator's own word; `own_agent` that the request speaks as feedproxy.
    `rest` is what to ask for instead of all, since a part is held; `occasion` why it is fetched (landed.Update). With
    `push` nothing is fetched: it is the answer.
    """

    request: Request
    settings: Settings
    self_href: str
    validate: StoredResponse | None = None
    own_agent: bool = True
    occasion: str = "background"
    follow: bool = True
    exempt: bool = False
    rest: Missing | None = None
    push: Push | None = None
    accept_encoding: str | None = None
    """That of the reader who waits: the one upstream is ours."""
    key: Fields = field(default_factory=Fields)
    apart: Fields = field(default_factory=Fields)
    """Of the request (upstream_request.py)."""


def untouched(response: Response) -> Content:
    """The content as it came."""
    return Content({response.fields.combined("content-encoding") or "identity": response.body})


def received(errand: Errand, fetched: Fetched, prepared: Prepared, at: str = "") -> StoredResponse:
    """What came, in the form in which it may be stored. `at` is the target that gave it, after redirects."""
    targeted = errand.settings.is_targeted
    stored = StoredResponse(
        target=errand.request.target,
        status=fetched.response.status,
        fields=storing.storable_fields(fetched.response.fields, targeted=targeted),
        content=prepared.content,
        request_time=fetched.request_time,
        response_time=fetched.response_time,
        vary_request=vary.request_fields_for(fetched.response.fields, errand.request.fields),
        own_agent=errand.own_agent,
        authorized="authorization" in errand.request.fields
        or any(is_credential(name) and not name.startswith("cookie") for name, _ in errand.key),
        final_target=final_target(errand, at),
        key=errand.key,
    )
    stored = set_cookie.with_cookies(stored, fetched.response.fields, errand.request, targeted=targeted)
    return with_links(stored, errand.settings, errand.self_href)


def final_target(errand: Errand, at: str) -> str | None:
    """Where an answer came from that `at` has given, as it is stored."""
    if errand.push is not None and errand.validate is not None:
        return errand.validate.final_target  # a push is content for what is held
    return "" if at == errand.request.target else at


def wanted(errand: Errand) -> Wanted:
    """The codings to be made with an update: those that the version held was asked for, and the reader's who waits."""
    held = errand.validate
    codings = tuple(held.content.bodies) if held is not None and held.content.feed else ()
    return Wanted(codings, errand.accept_encoding)


def sighted(
    before: Resource, walked: redirects.Trail, outcome: Outcome, now: Instant, settings: Settings
) -> Sighting | None:
    """What this answer says of the address for good."""
    ending, location = None, ""
    if outcome.status == 410:
        ending = Ending.GONE
    elif walked.moved_to and outcome.channel is not None:
        ending, location = Ending.MOVED, walked.moved_to
    if ending is None:
        # Only a good answer from the address itself takes a sighting back; a failure says nothing.
        by_itself = outcome.status in (200, 304) and walked.followed == 0
        sighting = before.sighting
        if sighting and sighting.ending is Ending.GONE and not sighting.confirmed and _redirects(walked):
            return None  # what leads elsewhere has not ended: the reader is told where it leads
        return (
            relocation.taken_back(before.sighting, now, feed=outcome.channel is not None)
            if by_itself
            else before.sighting
        )
    return relocation.seen(
        before.sighting,
        ending,
        location,
        now,
        confirmations=settings.relocation_confirmations,
        spacing=settings.relocation_spacing,
        at_once=False,
    )


def _redirects(walked: redirects.Trail) -> bool:
    return isinstance(walked.first, Fetched) and walked.first.response.status in redirects.REDIRECTS


def dated(before: Resource, content: Content, now: Instant) -> Content:
    """The content of a feed with a Last-Modified of our own where the origin's says nothing: when it was new to us.

    Some readers know no tags, only dates. Two versions never share a second.
    """
    if not content.feed or content.tag is None or content.last_modified is not None:
        return content
    known = {each.content.tag: each.content.last_modified or 0.0 for each in before.variants}
    made = known.get(content.tag) or max(float(math.floor(now)), *(at + 1 for at in known.values()), 0.0)
    return replace(content, last_modified=made)


def with_variant(resource: Resource, new: StoredResponse, errand: Errand, **facts: Any) -> Resource:
    """The resource with this variant in the place of what the same request selected before, and with these facts.

    Two errands for one target can overtake each other: what was asked for later stays.
    """
    held = vary.choose(resource.variants, errand.request.fields, own_agent=errand.own_agent)
    if held is not None and held.request_time > new.request_time:
        return replace(resource, **facts)
    variants = vary.with_variant(
        resource.variants, new, errand.request.fields, own_agent=errand.own_agent, limit=VARIANTS_MAX
    )
    return replace(resource, variants=variants, parts=_other_parts(resource, errand), **facts)


def without_variant(resource: Resource, errand: Errand) -> Resource:
    """The resource without what this request selects."""
    remaining = tuple(
        each for each in resource.variants if not vary.selects(each, errand.request.fields, own_agent=errand.own_agent)
    )
    return replace(resource, variants=remaining, parts=_other_parts(resource, errand))


def _other_parts(resource: Resource, errand: Errand) -> tuple[StoredResponse, ...]:
    """The parts that this request does not select: a newer answer to it takes the place of the others."""
    asked, own = errand.request.fields, errand.own_agent
    return tuple(each for each in resource.parts if not vary.selects(each, asked, own_agent=own))


def leaving(resource: Resource) -> tuple[StoredResponse, ...]:
    """The stored feeds whose entries are not known yet, and have to be once they are old versions.

    The content may be one that was there before, and with another date: who has it may know either.
    """
    known = {(each.tag, each.last_modified) for each in resource.versions}
    return tuple(
        each
        for each in resource.variants
        if each.content.feed
        and each.content.tag is not None
        and (each.content.tag, each.content.last_modified) not in known
        and not CacheControl.from_fields(each.fields).no_transform
    )


def document_of(resource: Resource) -> bytes:
    """The feed held, in whichever variant; nothing where none is held as plain bytes."""
    return next((body for each in resource.variants if (body := each.content.bodies.get("identity"))), b"")


def with_versions(resource: Resource, left: Sequence[Version]) -> Resource:
    """The resource with these among the versions that readers had."""
    if not left:
        return resource
    names = {(each.tag, each.last_modified) for each in left}
    others = [each for each in resource.versions if (each.tag, each.last_modified) not in names]
    versions = [*others, *left][-VERSIONS_MAX:]
    while sum(len(each.entries) for each in versions) > VERSIONS_BYTES:
        del versions[0]
    return replace(resource, versions=tuple(versions))


def editions_with(resource: Resource, new: StoredResponse, items: int, now: Instant) -> Sequence[Edition]:
    """The resource's editions, with what is to be remembered of a version that is stored just now."""
    body = new.content.bodies.get("identity", b"")
    return (*resource.editions, Edition(now, len(body), items, new.content.tag or ""))[-EDITIONS_MAX:]


def reign_of_others(resource: Resource | None, content: Content) -> tuple[Instant, Instant] | None:
    """From when until when other versions of a feed were here before this one; None where that is not known."""
    editions = resource.editions if resource is not None and content.feed and content.tag is not None else ()
    arrived = next((each.at for each in reversed(editions) if each.tag == content.tag), None)
    return None if arrived is None or editions[0].at >= arrived else (editions[0].at, arrived)


def with_past(
    resource: Resource,
    before: Resource,
    response: StoredResponse,
    published: tuple[Instant, ...] | None,
    now: Instant,
) -> Resource:
    """The resource with what is known of its past: when its entries were published before it was met. That is looked
    for with its second update, since nothing follows from it sooner (feed_freshness.py). Where nothing at all is known,
    not even a Last-Modified, the first sight is the change that quiet is counted from.
    """
    if resource.channel is None:
        return resource
    if before.channel is None:
        return resource if resource.changes else replace(resource, known=now, undated=True)
    if not before.undated or published is None:
        return resource
    if not published and "last-modified" not in response.fields:
        published = (before.known,)
    return replace(resource, changes=(*published, *resource.changes)[-CHANGES_MAX:], undated=False)


def unstored(errand: Errand, held: Resource | None, landed: Resource, *, is_good: bool) -> Resource:
    """What is learned from an answer that is not stored; `landed` as if every client could have asked like that.

    What came for no-store says nothing of the copy that others share. What went wrong with fields that one client
    chose, though the origin tells them apart, may have gone wrong by them: not even that the origin was asked counts,
    or the floor would keep it from others.
    """
    if held is None:
        held = Resource(landed.target)
    if len(errand.apart) and not is_good:
        return held
    if not CacheControl.from_request(errand.request.fields).no_store or not (held.variants or held.parts):
        return landed
    return replace(held, fetched=landed.fetched, failures=landed.failures)


def worth_keeping(resource: Resource) -> bool:
    """Nothing is kept of a target of which there is nothing to remember: strangers name many."""
    known = resource.responses or resource.channel
    return bool(known or resource.sighting or resource.oversized or resource.failures.next_try)
