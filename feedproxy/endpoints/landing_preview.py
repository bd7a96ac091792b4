"""Preview of a pasted address for the landing page. A preview does not count as a reader of the feed."""

import asyncio
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from feedproxy.endpoints.landing_page import Preview
from feedproxy.errors import BadTarget, FeedproxyError, NotFound
from feedproxy.feed.autodiscovery import FEED_TYPES
from feedproxy.feed_rules import AMBIGUOUS, BLOCKED
from feedproxy.http.message import Fields, Request
from feedproxy.http.target_uri.gateway_path import gateway_target
from feedproxy.proxy.service import Service
from feedproxy.request.context import ClientContext, ProxyResponse
from feedproxy.settings import Settings
from feedproxy.web.display_formats import iso, plain_text

HOPS_MAX = 3
"""At most this many redirects are followed: from a page to its feed, and from a feed that has moved."""

_FEED_READER_FIELDS = Fields([("Accept", ", ".join(FEED_TYPES))])
"""Request fields of a feed reader. A request for a page with these fields gets a redirect to the feed of the page."""

PROTECTED = "This feed asks each reader for a name and a password, so it is not shown here."
REFUSAL_SENTENCES: Mapping[tuple[str, ...], str] = {
    BLOCKED: "The operator of this proxy has blocked this feed.",
    AMBIGUOUS: "This address can be read in several ways, so it is not shown here.",
}


async def load_preview(
    service: Service, settings_for: Callable[[str], Settings], target: str, client: ClientContext
) -> Preview:
    """Return the preview of a target, or the reason for its absence. Access rules apply to each redirect."""
    try:
        async with asyncio.timeout(settings_for(target).answer_timeout):
            return await _load(service, settings_for, target, replace(client, is_counted=False))
    except TimeoutError:
        return Preview(target, reason="The origin takes too long.")


async def _load(
    service: Service, settings_for: Callable[[str], Settings], target: str, client: ClientContext
) -> Preview:
    for _ in range(HOPS_MAX + 1):
        if readers := settings_for(target).readers:
            return Preview(target, reason=REFUSAL_SENTENCES.get(readers, PROTECTED))
        answer = await service.answer(Request("GET", target, _FEED_READER_FIELDS), client)
        if not isinstance(answer, ProxyResponse):
            return Preview(target, reason="This document is too large to be stored here, so it is not shown.")
        if (next_target := _location(answer, client.base)) is None:
            return await _preview_of(service, target, answer)
        target = next_target
    return Preview(target, reason="There are too many redirects from this address.")


def _location(answer: ProxyResponse, base: str) -> str | None:
    """Return the target of a redirect within the gateway, or None for any other response."""
    location = answer.response.fields.get("location") or ""
    if not 300 <= answer.response.status < 400 or not location.startswith(f"{base}/"):
        return None
    try:
        return gateway_target(location.removeprefix(base))
    except (BadTarget, NotFound):
        return None


async def _preview_of(service: Service, target: str, answer: ProxyResponse) -> Preview:
    status = answer.response.status
    if status != 200:
        if answer.status.hit or answer.status.fwd_status == status:
            place = "at this address" if status in (404, 410) else "to show"
            return Preview(target, reason=f"There is no feed {place}: the site answered {status}.")
        reason = plain_text(answer.reason).rstrip(".") or f"status {status}"
        return Preview(target, reason=f"There is no feed to show: {reason}.")
    if answer.stored is None or not answer.stored.content.feed:
        return Preview(target, reason="This document is not a feed, and names none.")
    try:
        headlines = await service.conversions.headlines(answer.stored)
    except FeedproxyError:
        return Preview(target, reason="This feed cannot be read.")
    entries = tuple((plain_text(title) or "(no title)", iso(at)[:10] if at else "") for title, at in headlines.entries)
    return Preview(target, plain_text(headlines.title) or target, entries)
