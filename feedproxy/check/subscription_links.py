"""Checks of links for subscription and notification: self link, autodiscovery by the page, hub, and cloud."""

from collections.abc import Iterator

from feedproxy.check.checked_document import CheckedDocument
from feedproxy.check.observations import FeedObservations, ProbeExchange
from feedproxy.feed.autodiscovery import discover_feeds
from feedproxy.feed.channel import Channel, Cloud, Kind, SelfLink
from feedproxy.feed.channel_addresses import announced_address, self_address
from feedproxy.feed.edit.self_link import NOT_EXTENSIBLE, plain_title
from feedproxy.feed.feed_scheme import resolve_address
from feedproxy.feed.parse.channel_parser import read
from feedproxy.feed.parse.link_elements import SELF_RELATIONS
from feedproxy.feed.xml_parser import ATOM
from feedproxy.http import uri
from feedproxy.http.field_values import parse_parameters
from feedproxy.notes import Category, Level, Note

PROTOCOLS = ("xml-rpc", "soap", "http-post")
"""Values that RSS 2.0 allows for the attribute `protocol` of the element `cloud`. The values are case-sensitive."""


def check(document: CheckedDocument, channel: Channel, observations: FeedObservations | None) -> Iterator[Note]:
    """Yield the Notes on links. `observations` is None for a file."""
    yield from _check_self_link(document, channel, observations)
    if channel.kind is not Kind.JSON:
        yield from _check_cloud(channel.cloud)
    yield from _check_announced_address(channel, observations)
    if channel.hubs and not channel.self_links:
        yield HUB_WITHOUT_SELF_LINK()
    if observations is None:
        return
    if observations.page is not None:
        yield from _check_page(observations, observations.page)
    if (hub := observations.hub) is not None:
        yield HUB_AVAILABLE(hub.target) if _is_alive(hub) else HUB_UNAVAILABLE(hub.target, reason=_failure(hub))
    if observations.cloud is not None:
        if not _is_alive(observations.cloud):
            yield CLOUD_UNAVAILABLE(observations.cloud.target, reason=_failure(observations.cloud))
        elif channel.cloud is not None and channel.cloud.protocol in PROTOCOLS:
            yield CLOUD_AVAILABLE(observations.cloud.target)


def _check_self_link(
    document: CheckedDocument, channel: Channel, observations: FeedObservations | None
) -> Iterator[Note]:
    if not channel.self_links:
        yield _missing_self_link(document, channel)
        return
    is_atom03 = channel.kind is Kind.ATOM and channel.version == "0.3"
    proper = "start" if is_atom03 else "self"
    self_link = next((link for link in channel.self_links if link.rel == proper), channel.self_links[0])
    notes = [*_check_type(channel, self_link)]
    if is_atom03 and self_link.rel != proper:
        notes.append(SELF_LINK_RELATION_WRONG())
    # In Atom 1.0, `start` is the first page of a feed in several documents.
    relations = {"self"} if channel.kind is Kind.ATOM and not is_atom03 else SELF_RELATIONS
    self_links = [link for link in channel.self_links if link.rel in relations]
    if len({link.href for link in self_links}) > 1:
        notes.append(SELF_LINKS_SEVERAL(count=len(self_links)))
    yield from notes
    yield from _check_title(document, channel)
    address_note = _self_link_address(channel, self_link, observations)
    if not notes or address_note.level is not Level.GOOD:  # a link with another fault gets no praise
        yield address_note


def _missing_self_link(document: CheckedDocument, channel: Channel) -> Note:
    if document.wrong_namespaces:
        return SELF_LINK_NAMESPACE_WRONG(namespace=document.wrong_namespaces[0] or "none")
    is_old = channel.kind in (Kind.RSS, Kind.RDF) and channel.version in NOT_EXTENSIBLE
    return SELF_LINK_UNSUPPORTED() if is_old or channel.kind is Kind.CDF else SELF_LINK_MISSING()


def _check_announced_address(channel: Channel, observations: FeedObservations | None) -> Iterator[Note]:
    # A file has no address except the one in its self link.
    addresses = [self_address(channel)] if observations is None else [observations.target, observations.address]
    if address := announced_address(channel, addresses):
        yield PODCAST_NEW_FEED_URL(href=address)


def _check_type(channel: Channel, self_link: SelfLink) -> Iterator[Note]:
    if channel.kind is Kind.JSON:
        return
    essence = parse_parameters(self_link.type)[0] if self_link.type else ""
    if essence and essence not in channel.kind.media_types:
        yield SELF_LINK_TYPE_WRONG(type=self_link.type, expected=channel.kind.media_types[0])


def _check_title(document: CheckedDocument, channel: Channel) -> Iterator[Note]:
    """Yield a Note if the title of a self link differs from the channel's title.

    The Universal Subscription Mechanism (USM) demands equal titles in RSS only.
    """
    if channel.kind not in (Kind.RSS, Kind.RDF) or not channel.title:
        return
    expected = plain_title(channel.title)
    wrong = [title for title in document.self_link_titles if plain_title(title) != expected]
    if wrong:
        yield SELF_LINK_TITLE_WRONG(title=wrong[0][:200], expected=expected)


def _self_link_address(channel: Channel, self_link: SelfLink, observations: FeedObservations | None) -> Note:
    if not resolve_address("", self_link.href):
        return SELF_LINK_RELATIVE(href=self_link.href[:200])
    if observations is None:
        return SELF_LINK_PRESENT(href=self_link.href)
    target = self_address(channel, observations.target)
    if target in {uri.without_fragment(address) for address in (observations.address, observations.target)}:
        return SELF_LINK_RIGHT()
    if not target or observations.self_link is None:
        return SELF_LINK_NOT_REQUESTED(href=self_link.href[:200])
    return _self_link_target(channel, target, observations.self_link)


def _self_link_target(channel: Channel, target: str, answer: ProbeExchange) -> Note:
    other = read(answer.content or b"", answer.fields.get("content-type")) if answer.status == 200 else None
    if other is None:
        return SELF_LINK_NOT_A_FEED(href=target, reason=_failure(answer))
    if other.content_digest == channel.content_digest or other.title == channel.title:
        return SELF_LINK_ALTERNATIVE_ADDRESS(href=target)
    return SELF_LINK_OF_ANOTHER_FEED(href=target)


class SELF_LINK_MISSING(Note, level=Level.WARN, category=Category.SUBSCRIBING):
    summary = "The feed has no self link."
    advice = """\
    A browser saves the feed as a file before a reader opens it. Without a self link, the reader does not know the
    feed's address. In RSS write `<atom:link rel="self" type="application/rss+xml" href="…"/>` into the channel, in
    JSON Feed `feed_url`."""
    reference = "Universal Subscription Mechanism, Atom Link Construct; RFC 4287, section 4.1.1"


class SELF_LINK_UNSUPPORTED(Note, level=Level.INFO, category=Category.SUBSCRIBING):
    summary = "The format of the feed has no self link."
    advice = "RSS 2.0 and Atom have a self link. Readers that support the old formats also support these two."
    reference = "Universal Subscription Mechanism, Atom Link Construct"


class SELF_LINK_RELATIVE(Note, level=Level.WARN, category=Category.SUBSCRIBING):
    summary = "The self link is relative: `%(href)s`."
    advice = "A reader cannot resolve a relative link if the feed was saved as a file. Write the absolute address."
    reference = "Universal Subscription Mechanism, Atom Link Construct"


class SELF_LINK_TYPE_WRONG(Note, level=Level.WARN, category=Category.SUBSCRIBING):
    summary = "The self link has the type %(type)s."
    advice = "Write the type of this document: `%(expected)s`."
    reference = "Universal Subscription Mechanism, Atom Link Construct; RFC 4287, section 4.2.7.3"


class SELF_LINK_RELATION_WRONG(Note, level=Level.WARN, category=Category.SUBSCRIBING):
    summary = "The self link of this Atom 0.3 feed has rel=self, which only Atom 1.0 defines."
    advice = 'Write `rel="start"` in Atom 0.3, or publish Atom 1.0.'
    reference = "Universal Subscription Mechanism, Atom"


class SELF_LINKS_SEVERAL(Note, level=Level.WARN, category=Category.SUBSCRIBING):
    summary = "The feed has %(count)s self links with different addresses."
    advice = """\
    Some readers use the first, some the last, some none. Keep only the link with the address for subscriptions."""
    reference = "Universal Subscription Mechanism, Atom Link Construct; RFC 4287, section 4.1.1"


class SELF_LINK_TITLE_WRONG(Note, level=Level.INFO, category=Category.SUBSCRIBING):
    summary = "The self link's title is `%(title)s`, but the channel's title is `%(expected)s`."
    advice = "The attribute `title` should be the channel's title. Readers may ignore it."
    reference = "Universal Subscription Mechanism, title Attribute"


class SELF_LINK_NAMESPACE_WRONG(Note, level=Level.WARN, category=Category.SUBSCRIBING):
    summary = "The self link is in an unknown namespace (%(namespace)s)."
    advice = f'Readers look for exactly `xmlns:atom="{ATOM}"`.'
    reference = "Universal Subscription Mechanism, Atom Link Construct; RFC 4287, section 1.2"


class SELF_LINK_PRESENT(Note, level=Level.GOOD, category=Category.SUBSCRIBING):
    summary = "The feed has a self link: %(href)s."
    reference = "Universal Subscription Mechanism, Atom Link Construct"


class SELF_LINK_RIGHT(Note, level=Level.GOOD, category=Category.SUBSCRIBING):
    summary = "The self link is the address of the feed."
    reference = "Universal Subscription Mechanism, Atom Link Construct"


class SELF_LINK_ALTERNATIVE_ADDRESS(Note, level=Level.INFO, category=Category.SUBSCRIBING):
    summary = "The self link names another address with the same feed: %(href)s."
    advice = """\
    If readers should use that address, redirect the requested address to it (301). Otherwise, correct the link."""
    reference = "Universal Subscription Mechanism, Atom Link Construct"


class SELF_LINK_NOT_REQUESTED(Note, level=Level.WARN, category=Category.SUBSCRIBING):
    summary = "The self link names another address, which was not requested: %(href)s."
    advice = "A click on the feed's address subscribes to the other address. Check whether that is intended."
    reference = "Universal Subscription Mechanism, Atom Link Construct"


class SELF_LINK_OF_ANOTHER_FEED(Note, level=Level.WARN, category=Category.SUBSCRIBING):
    summary = "The self link is the address of another feed: %(href)s."
    advice = """\
    A click on the feed's address subscribes to the other feed. The cause is often a template copied from the main
    feed."""
    reference = "Universal Subscription Mechanism, Atom Link Construct; RFC 4287, section 4.2.7.2"


class PODCAST_NEW_FEED_URL(Note, level=Level.INFO, category=Category.SUBSCRIBING):
    summary = "The podcast announces another address: %(href)s."
    advice = """\
    Podcast directories adopt the address in `itunes:new-feed-url`. Other readers, and feedproxy, ignore this element.
    If the feed has moved, redirect the old address permanently (301), too. If not, remove the element."""
    reference = "Apple Podcasts: moving a podcast; docs/explanation/moves-and-endings.md"


class SELF_LINK_NOT_A_FEED(Note, level=Level.BAD, category=Category.SUBSCRIBING):
    summary = "The self link, %(href)s, does not lead to a feed (%(reason)s)."
    advice = "A click on the feed's address cannot subscribe. Write the address of this feed."
    reference = "Universal Subscription Mechanism, Atom Link Construct"


def _check_page(observations: FeedObservations, page: ProbeExchange) -> Iterator[Note]:
    if page.status != 200 or page.content is None:
        yield PAGE_UNAVAILABLE(page.target, reason=_failure(page))
        return
    feeds = {feed.address for feed in discover_feeds(page.content, page.target, page.fields)}
    addresses = {
        observations.address,
        observations.target,
        *([observations.self_link.target] if observations.self_link is not None else []),
    }
    if addresses & feeds:
        yield AUTODISCOVERY_WORKS(page.target)
    elif feeds:
        yield AUTODISCOVERY_OTHER_FEEDS(page.target, count=len(feeds))
    else:
        yield AUTODISCOVERY_MISSING(page.target)


class AUTODISCOVERY_WORKS(Note, level=Level.GOOD, category=Category.SUBSCRIBING):
    summary = "The feed and its page link to each other."
    reference = "Universal Subscription Mechanism; RSS Autodiscovery"


class AUTODISCOVERY_MISSING(Note, level=Level.WARN, category=Category.SUBSCRIBING):
    summary = "The feed's page does not link to a feed."
    advice = """\
    Readers search the page for feeds when a user enters the address of the site. Put `<link rel="alternate"
    type="application/rss+xml" href="…">` into the head of the page."""
    reference = "RSS Autodiscovery; HTML, link type alternate"


class AUTODISCOVERY_OTHER_FEEDS(Note, level=Level.WARN, category=Category.SUBSCRIBING):
    summary = "The feed's page does not link to this feed. Other feeds that it links to: %(count)s."
    advice = """\
    Readers cannot find the feed from the page or verify that it belongs to the page. Add a link to the feed, or put
    the address of another page into the channel's link."""
    reference = "Universal Subscription Mechanism; RSS Autodiscovery"


class PAGE_UNAVAILABLE(Note, level=Level.WARN, category=Category.SUBSCRIBING):
    summary = "The page that the channel links to is not available: %(reason)s."
    advice = "Feed readers link the feed's title to this page. Correct the address in the channel's link."
    reference = "RSS 2.0, link; RFC 4287, section 4.1.1"


class HUB_AVAILABLE(Note, level=Level.GOOD, category=Category.NOTIFICATION):
    summary = "The feed's WebSub hub responds."
    reference = "WebSub, section 4"


class HUB_UNAVAILABLE(Note, level=Level.WARN, category=Category.NOTIFICATION):
    summary = "The feed's WebSub hub does not respond: %(reason)s."
    advice = "Subscription requests to the hub fail. Use another hub, or remove the link."
    reference = "WebSub, section 4"


class HUB_WITHOUT_SELF_LINK(Note, level=Level.WARN, category=Category.NOTIFICATION):
    summary = "The feed has a hub link, but no self link."
    advice = """\
    A subscriber sends the self link to the hub as the topic and cannot subscribe without it. Add a self link."""
    reference = "WebSub, section 4"


def _check_cloud(cloud: Cloud | None) -> Iterator[Note]:
    if cloud is None:
        return
    missing = [name for name in ("domain", "port", "path", "protocol") if not getattr(cloud, name)]
    if cloud.protocol in ("xml-rpc", "soap") and not cloud.register_procedure:
        missing.append("registerProcedure")
    if missing:
        yield CLOUD_INCOMPLETE(names=", ".join(missing))
    if cloud.protocol and cloud.protocol not in PROTOCOLS:
        yield CLOUD_PROTOCOL_UNKNOWN(protocol=cloud.protocol[:40])


class CLOUD_INCOMPLETE(Note, level=Level.WARN, category=Category.NOTIFICATION):
    summary = "The cloud element is incomplete: %(names)s missing."
    advice = """\
    Readers cannot register at this cloud, because all five attributes are required. For http-post, write an empty
    registerProcedure."""
    reference = "RSS 2.0, cloud; rssCloud"


class CLOUD_PROTOCOL_UNKNOWN(Note, level=Level.WARN, category=Category.NOTIFICATION):
    summary = "The cloud's protocol is `%(protocol)s`, which RSS 2.0 does not define."
    advice = "Write `xml-rpc`, `soap` or `http-post`, in lower case."
    reference = "RSS 2.0, cloud; rssCloud"


class CLOUD_AVAILABLE(Note, level=Level.GOOD, category=Category.NOTIFICATION):
    summary = "The feed's rssCloud responds."
    reference = "RSS 2.0, cloud"


class CLOUD_UNAVAILABLE(Note, level=Level.WARN, category=Category.NOTIFICATION):
    summary = "The feed's rssCloud does not respond: %(reason)s."
    advice = "Readers cannot register, so they continue to poll. Repair the rssCloud, or remove the cloud element."
    reference = "RSS 2.0, cloud"


def _is_alive(exchange: ProbeExchange) -> bool:
    """Return True if a hub or cloud can have sent the response. Some answer 400 or 405 to a GET without parameters."""
    return 0 < exchange.status < 500 and exchange.status not in (404, 410)


def _failure(exchange: ProbeExchange) -> str:
    return exchange.error or (f"{exchange.status}" if exchange.status != 200 else "the content differs")
