"""Advice for the operator about a feed that is failing, moved or gone, and warnings about problems of a feed."""

from collections.abc import Mapping

from feedproxy.admin.pages.feed_state import FeedState
from feedproxy.cache.cache_status import Detail
from feedproxy.feed.channel import Channel
from feedproxy.feed.channel_addresses import announced_address
from feedproxy.http.target_uri.url_redaction import redact_target
from feedproxy.settings import Settings
from feedproxy.store.resource import RelocationKind, Resource
from feedproxy.web.display_formats import plain_text, short

_TELL_PUBLISHER = "This usually passes. If it does not, consider telling the publisher."

_FAILING: Mapping[str, str] = {
    Detail.UNREACHABLE: "Open the address in a browser. If it opens there, check this machine's network and DNS. If "
    "its certificate is from your own CA, set ssl_verify_upstream_trusted_ca. If the site is gone for good, tell its "
    "readers.",
    Detail.TIMEOUT: "The publisher's server is slow or overloaded, and feedproxy asks it less often. If the server "
    "always takes this long, raise fetch_timeout.",
    Detail.ERROR_STATUS: "The publisher's server fails. You cannot repair it here. Consider telling the publisher.",
    Detail.RATE_LIMITED: "The site asks for fewer requests, and feedproxy sends fewer. To prevent this, set a higher "
    "site_interval or feed_min_interval in a rule.",
    Detail.REFUSED: "Open the address in a browser. If the feed is gone, tell its readers. If only programs are "
    "refused, set contact_url, so that the publisher can see who asks.",
    Detail.CHALLENGE: "The site answers with a test for humans. Only the publisher can exempt the feed from the test: "
    "ask the publisher to do so.",
    Detail.HTML_WHERE_FEED: "The feed may have a new address: `feedproxy discover` finds it if the page names it.",
    Detail.ILL_FORMED: "`feedproxy check` shows the publisher what is wrong. If this persists, the new version "
    "replaces the copy after about six hours.",
    Detail.NEW_SHAPE: "The new version replaces the copy after it was seen three times over six hours. To accept it "
    "at once, purge the feed.",
    Detail.TRUNCATED: f"The publisher's server cuts the feed off. {_TELL_PUBLISHER}",
    Detail.EMPTY: f"The publisher's server sends nothing. {_TELL_PUBLISHER}",
    Detail.UNDECODABLE: "The publisher's server labels its compression wrongly: `feedproxy check` shows how.",
    Detail.TOO_LARGE: "The feed is larger than buffer_max. Raise this option if the feed is worth it.",
    Detail.REDIRECT_LOOP: "The site's redirects are wrong. Open the address in a browser, and tell the publisher if it "
    "fails there, too.",
    Detail.FORBIDDEN_ADDRESS: "The address is in a private network. If it is yours, add it to allow_networks.",
}
_OTHERWISE = "feedproxy tries again, at growing intervals. If this persists, open the address in a browser."

_READERS = "Some readers adopt the new address by themselves. Tell it to the others."


def advice(resource: Resource, state: FeedState, settings: Settings) -> str:
    """Return advice about a feed in one or more sentences, or "" if there is none."""
    sighting = resource.relocation
    if sighting is not None and not sighting.confirmed and not (settings.moved_to or settings.gone):
        reported_change = "a new address" if sighting.kind is RelocationKind.MOVED else "an end"
        return (
            f"The origin has reported {reported_change}. No action needed: it takes effect when the origin repeats it "
            f"at least {short(settings.relocation_spacing)} later."
        )
    match state:
        case FeedState.FAILING:
            return _FAILING.get(resource.failures.detail, _OTHERWISE)
        case FeedState.MOVED | FeedState.GONE if settings.moved_to or settings.gone:
            return "A rule of the configuration (feeds:) declares this. Change it there."
        case FeedState.MOVED:
            return f"{_READERS} If the move is wrong, undo it."
        case FeedState.GONE:
            return "Readers should unsubscribe. If the feed has not ended, undo the end, and feedproxy asks again."
        case FeedState.UNSTORED:
            return "Every poll causes a request to the origin. Only the publisher can change this, by Cache-Control."
    return ""


def feed_warnings(resource: Resource, state: FeedState, channel: Channel | None) -> list[str]:
    """Return a sentence for each problem that the operator or the publisher can correct. `channel` is the result of
    `read_stored_channel`."""
    warnings = list[str]()
    if channel is not None and not channel.well_formed:
        warnings.append("The feed is not well-formed; some readers cannot read it.")
    if channel is not None:
        warnings.extend(f"Its schedule: {plain_text(note)}" for note in channel.schedule.notes)
    if resource.pending_format_change is not None:
        shape, count = plain_text(resource.pending_format_change.shape, 60), resource.pending_format_change.count
        warnings.append(f"The feed at the origin is {shape} now, seen {count} times; feedproxy waits for confirmation.")
    if resource.relocation is not None and not resource.relocation.confirmed:
        warnings.append("The origin has announced a move or an end, which waits for confirmation.")
    present = [resource.target, *(variant.final_target for variant in resource.variants if variant.final_target)]
    if channel is not None and (address := announced_address(channel, present)):
        warnings.append(
            f"The podcast announces the address {redact_target(address)} (itunes:new-feed-url). Podcast directories"
            " move to it, other readers do not. If the feed has moved, set moved_to in a rule."
        )
    if resource.oversized:
        warnings.append("The feed is larger than buffer_max, so it is streamed to clients and not stored.")
    if channel is not None and state is FeedState.UNSTORED and not resource.oversized:
        warnings.append("HTTP does not permit storing the feed, so every request goes to the origin.")
    return warnings
