"""Checks of subscription and notification: self link, autodiscovery by the page, hub and cloud."""

from collections.abc import Iterator

from feedproxy.check.document import Document
from feedproxy.check.observations import Exchange, FeedObservations
from feedproxy.errors import BadTarget
from feedproxy.feed.channel import Channel, Cloud, Kind, SelfLink
from feedproxy.feed.discovery import FEED_TYPES, discover_feeds, self_address
from feedproxy.feed.edit.self_link import NOT_EXTENSIBLE, plain_title
from feedproxy.feed.parse.parser import read
from feedproxy.feed.parse.xml_elements import SELF_RELATIONS
from feedproxy.feed.xml import ATOM
from feedproxy.findings import Category, Level, Note
from feedproxy.http import uri
from feedproxy.http.field_values import parse_parameters
from feedproxy.http.link import parse_links

PROTOCOLS = ("xml-rpc", "soap", "http-post")
"""Protocols of a cloud; case-sensitive (RSS 2.0)."""

_RELATIONS = {(Kind.ATOM, False): frozenset({"self"})}
"""Link relations of self links, by format and True for Atom 0.3. In Atom 1.0 `start` is the first of several pages."""


def check(document: Document, channel: Channel, observations: FeedObservations | None, subject: str) -> Iterator[Note]:
    """Yield the Notes on subscription links. `observations` is None for a file."""
    yield from _check_self_link(document, channel, observations, subject)
    yield from _check_cloud(channel.cloud, subject)
    if channel.hubs and not channel.self_links:
        yield HUB_WITHOUT_SELF_LINK(subject)
    if observations is None:
        return
    if observations.page is not None:
        yield from _check_page(observations, observations.page)
    for hub in observations.hubs:
        yield HUB_ANSWERS(hub.target) if _is_alive(hub) else HUB_SILENT(hub.target, why=_failure(hub))
    if observations.cloud is not None:
        if not _is_alive(observations.cloud):
            yield CLOUD_SILENT(observations.cloud.target, why=_failure(observations.cloud))
        elif channel.cloud is not None and channel.cloud.protocol in PROTOCOLS:
            yield CLOUD_ANSWERS(observations.cloud.target)


def _check_self_link(
    document: Document, channel: Channel, observations: FeedObservations | None, subject: str
) -> Iterator[Note]:
    if not channel.self_links and document.wrong_namespaces:
        yield SELF_LINK_NAMESPACE_WRONG(subject, namespace=document.wrong_namespaces[0] or "none")
        return
    if not channel.self_links:
        is_old = channel.kind in (Kind.RSS, Kind.RDF) and channel.version in NOT_EXTENSIBLE
        yield NO_ROOM_FOR_SELF_LINK(subject) if is_old or channel.kind is Kind.CDF else SELF_LINK_MISSING(subject)
        return
    is_old = channel.kind is Kind.ATOM and channel.version == "0.3"
    proper = "start" if is_old else "self"
    self_link = next((link for link in channel.self_links if link.rel == proper), channel.self_links[0])
    notes = [*_check_type(channel, self_link, subject)]
    if is_old and self_link.rel != proper:
        notes.append(SELF_LINK_RELATION_WRONG(subject))
    self_links = [
        link for link in channel.self_links if link.rel in _RELATIONS.get((channel.kind, is_old), SELF_RELATIONS)
    ]
    if len({link.href for link in self_links}) > 1:
        notes.append(SELF_LINKS_SEVERAL(subject, count=len(self_links)))
    yield from notes
    yield from _check_title(document, channel, subject)
    if not _is_absolute(self_link.href):
        yield SELF_LINK_RELATIVE(subject, href=self_link.href[:200])
        return
    if observations is None:
        if not notes:
            yield SELF_LINK_THERE(subject, href=self_link.href)
        return
    target = self_address(channel, observations.target)
    known = {uri.without_fragment(address) for address in (observations.address, observations.target)}
    if target in known:
        if not notes:
            yield SELF_LINK_RIGHT(subject)
    elif target and observations.self_link is not None:
        yield from _check_self_link_target(channel, target, observations.self_link, subject)
    else:
        yield SELF_LINK_NAMES_ANOTHER(subject, href=self_link.href[:200])


def _check_type(channel: Channel, self_link: SelfLink, subject: str) -> Iterator[Note]:
    if channel.kind is Kind.JSON:
        return
    essence = parse_parameters(self_link.type)[0] if self_link.type else ""
    wanted = "application/atom+xml" if channel.kind is Kind.ATOM else "application/rss+xml"
    if essence and essence != wanted and not (channel.kind is Kind.RDF and essence in FEED_TYPES):
        yield SELF_LINK_TYPE_WRONG(subject, type=self_link.type, wanted=wanted)


def _check_title(document: Document, channel: Channel, subject: str) -> Iterator[Note]:
    """Yield a Note if a self link's title is not the channel's. USM requires it in RSS only."""
    if channel.kind not in (Kind.RSS, Kind.RDF) or not channel.title:
        return
    expected = plain_title(channel.title)
    wrong = [title for title in document.self_link_titles if plain_title(title) != expected]
    if wrong:
        yield SELF_LINK_TITLE_WRONG(subject, title=wrong[0][:200], wanted=expected)


def _check_self_link_target(channel: Channel, target: str, answer: Exchange, subject: str) -> Iterator[Note]:
    other = read(answer.content or b"", answer.fields.get("content-type")) if answer.status == 200 else None
    if other is None:
        yield SELF_LINK_LEADS_TO_NO_FEED(subject, href=target, why=_failure(answer))
    elif other.content_digest == channel.content_digest or other.title == channel.title:
        yield SELF_LINK_PREFERS_ANOTHER(subject, href=target)
    else:
        yield SELF_LINK_OF_ANOTHER_FEED(subject, href=target)


class SELF_LINK_MISSING(Note):
    level = Level.WARN
    category = Category.SUBSCRIBING
    summary = "The feed does not say its own address."
    advice = """\
A browser hands the reader a file that was saved somewhere; without a self link no reader knows where to subscribe. In
RSS it is `<atom:link rel="self" type="application/rss+xml" href="…"/>` in the channel, in JSON Feed `feed_url`."""
    reference = "Universal Subscription Mechanism, Atom Link Construct; RFC 4287, section 4.1.1"


class NO_ROOM_FOR_SELF_LINK(Note):
    level = Level.INFO
    category = Category.SUBSCRIBING
    summary = "The format of the feed has no place to say its own address."
    advice = "RSS 2.0 and Atom have. Every reader that knows the old formats knows those."
    reference = "Universal Subscription Mechanism, Atom Link Construct"


class SELF_LINK_RELATIVE(Note):
    level = Level.WARN
    category = Category.SUBSCRIBING
    summary = "The self link is relative: `%(href)s`."
    advice = "A file that was saved elsewhere leads nowhere by it. Write the whole address."
    reference = "Universal Subscription Mechanism, Atom Link Construct"


class SELF_LINK_TYPE_WRONG(Note):
    level = Level.WARN
    category = Category.SUBSCRIBING
    summary = "The self link says that the feed is %(type)s."
    advice = "It is the type of this very document: `%(wanted)s`."
    reference = "Universal Subscription Mechanism, Atom Link Construct; RFC 4287, section 4.2.7.3"


class SELF_LINK_RELATION_WRONG(Note):
    level = Level.WARN
    category = Category.SUBSCRIBING
    summary = "The self link of this Atom 0.3 feed has rel=self, which Atom 1.0 brought."
    advice = 'In Atom 0.3 write `rel="start"`, or publish Atom 1.0.'
    reference = "Universal Subscription Mechanism, Atom"


class SELF_LINKS_SEVERAL(Note):
    level = Level.WARN
    category = Category.SUBSCRIBING
    summary = "The feed has %(count)s self links, and they name different addresses."
    advice = "Readers take the first, the last or none. Leave the one that people should subscribe to."
    reference = "Universal Subscription Mechanism, Atom Link Construct; RFC 4287, section 4.1.1"


class SELF_LINK_TITLE_WRONG(Note):
    level = Level.INFO
    category = Category.SUBSCRIBING
    summary = "The self link's title is `%(title)s`, and the channel's `%(wanted)s`."
    advice = "The title attribute should be the channel's title. Readers may ignore it."
    reference = "Universal Subscription Mechanism, title Attribute"


class SELF_LINK_NAMESPACE_WRONG(Note):
    level = Level.WARN
    category = Category.SUBSCRIBING
    summary = "The self link is in no namespace of Atom's (%(namespace)s)."
    advice = f'Readers look for `xmlns:atom="{ATOM}"`, to the letter.'
    reference = "Universal Subscription Mechanism, Atom Link Construct; RFC 4287, section 1.2"


class SELF_LINK_THERE(Note):
    level = Level.GOOD
    category = Category.SUBSCRIBING
    summary = "The feed says its own address: %(href)s."
    advice = "Nothing is to be done."
    reference = "Universal Subscription Mechanism, Atom Link Construct"


class SELF_LINK_RIGHT(Note):
    level = Level.GOOD
    category = Category.SUBSCRIBING
    summary = "The feed says its own address, and it is the right one."
    advice = "Nothing is to be done."
    reference = "Universal Subscription Mechanism, Atom Link Construct"


class SELF_LINK_PREFERS_ANOTHER(Note):
    level = Level.INFO
    category = Category.SUBSCRIBING
    summary = "The feed wants to be subscribed to elsewhere, where the same feed is: %(href)s."
    advice = "If that is the better address, let this one lead there (301). If not, mend the link."
    reference = "Universal Subscription Mechanism, Atom Link Construct"


class SELF_LINK_NAMES_ANOTHER(Note):
    level = Level.WARN
    category = Category.SUBSCRIBING
    summary = "The self link names another address, which was not asked: %(href)s."
    advice = "A click to subscribe leads there. Is that expected?"
    reference = "Universal Subscription Mechanism, Atom Link Construct"


class SELF_LINK_OF_ANOTHER_FEED(Note):
    level = Level.WARN
    category = Category.SUBSCRIBING
    summary = "The self link leads to another feed: %(href)s."
    advice = "A click to subscribe leads to that one. Templates that are copied from the main feed do this."
    reference = "Universal Subscription Mechanism, Atom Link Construct; RFC 4287, section 4.2.7.2"


class SELF_LINK_LEADS_TO_NO_FEED(Note):
    level = Level.BAD
    category = Category.SUBSCRIBING
    summary = "The self link, %(href)s, leads to no feed (%(why)s)."
    advice = "A click to subscribe leads nowhere. Name the address that this feed is at."
    reference = "Universal Subscription Mechanism, Atom Link Construct"


def _check_page(observations: FeedObservations, page: Exchange) -> Iterator[Note]:
    if page.status != 200 or page.content is None:
        yield PAGE_SILENT(page.target, why=_failure(page))
        return
    links = parse_links(page.fields)
    discovered = discover_feeds(page.content, page.target, content_type=page.fields.get("content-type"), links=links)
    feeds = {feed.address for feed in discovered}
    addresses = {
        observations.address,
        observations.target,
        *([observations.self_link.target] if observations.self_link is not None else []),
    }
    if addresses & feeds:
        yield PAGE_NAMES_THE_FEED(page.target)
    elif feeds:
        yield PAGE_NAMES_OTHER_FEEDS(page.target, count=len(feeds))
    else:
        yield PAGE_NAMES_NO_FEED(page.target)


class PAGE_NAMES_THE_FEED(Note):
    level = Level.GOOD
    category = Category.SUBSCRIBING
    summary = "The feed's page names the feed, and the feed the page."
    advice = "Nothing is to be done."
    reference = "Universal Subscription Mechanism; RSS Autodiscovery"


class PAGE_NAMES_NO_FEED(Note):
    level = Level.WARN
    category = Category.SUBSCRIBING
    summary = "The feed's page names no feed."
    advice = """\
Readers look there when somebody pastes the address of the site. Put
`<link rel="alternate" type="application/rss+xml" href="…">` into the head of the page."""
    reference = "RSS Autodiscovery; HTML, link type alternate"


class PAGE_NAMES_OTHER_FEEDS(Note):
    level = Level.WARN
    category = Category.SUBSCRIBING
    summary = "The feed's page names feeds (%(count)s), and not this one."
    advice = "It cannot be found from there, nor proved to belong there. Name it, too, or link to the page of its own."
    reference = "Universal Subscription Mechanism; RSS Autodiscovery"


class PAGE_SILENT(Note):
    level = Level.WARN
    category = Category.SUBSCRIBING
    summary = "The page that the feed belongs to cannot be had: %(why)s."
    advice = "The channel's link is where people get from the feed's title. Mend it."
    reference = "RSS 2.0, link; RFC 4287, section 4.1.1"


class HUB_ANSWERS(Note):
    level = Level.GOOD
    category = Category.NOTIFICATION
    summary = "There is a WebSub hub, and it answers."
    advice = "Nothing is to be done."
    reference = "WebSub, section 4"


class HUB_SILENT(Note):
    level = Level.WARN
    category = Category.NOTIFICATION
    summary = "The WebSub hub does not answer: %(why)s."
    advice = "Each subscriber's request to it fails. Name another, or none."
    reference = "WebSub, section 4"


class HUB_WITHOUT_SELF_LINK(Note):
    level = Level.WARN
    category = Category.NOTIFICATION
    summary = "The feed names a hub and not itself."
    advice = "A subscriber has to tell the hub a topic, which is the self link. Without it, subscribing is impossible."
    reference = "WebSub, section 4"


def _check_cloud(cloud: Cloud | None, subject: str) -> Iterator[Note]:
    if cloud is None:
        return
    missing = [name for name in ("domain", "port", "path", "protocol") if not getattr(cloud, name)]
    if cloud.protocol in ("xml-rpc", "soap") and not cloud.register_procedure:
        missing.append("registerProcedure")
    if missing:
        yield CLOUD_INCOMPLETE(subject, names=", ".join(missing))
    if cloud.protocol and cloud.protocol not in PROTOCOLS:
        yield CLOUD_PROTOCOL_UNKNOWN(subject, protocol=cloud.protocol[:40])


class CLOUD_INCOMPLETE(Note):
    level = Level.WARN
    category = Category.NOTIFICATION
    summary = "The cloud is described in part only: %(names)s missing."
    advice = "Registration is impossible. All five attributes are needed (registerProcedure is empty for http-post)."
    reference = "RSS 2.0, cloud; rssCloud"


class CLOUD_PROTOCOL_UNKNOWN(Note):
    level = Level.WARN
    category = Category.NOTIFICATION
    summary = "The cloud's protocol is `%(protocol)s`, which subscribers do not speak."
    advice = "Write `xml-rpc`, `soap` or `http-post`, in lower case."
    reference = "RSS 2.0, cloud; rssCloud"


class CLOUD_ANSWERS(Note):
    level = Level.GOOD
    category = Category.NOTIFICATION
    summary = "There is an rssCloud, and it answers."
    advice = "Nothing is to be done."
    reference = "RSS 2.0, cloud"


class CLOUD_SILENT(Note):
    level = Level.WARN
    category = Category.NOTIFICATION
    summary = "The rssCloud does not answer: %(why)s."
    advice = "Readers that register there in vain poll as before. Mend it, or take the cloud element out."
    reference = "RSS 2.0, cloud"


def _is_alive(exchange: Exchange) -> bool:
    """Return True if the answer may be that of a hub or cloud, which may reject a bare GET by 400 or 405."""
    return 0 < exchange.status < 500 and exchange.status not in (404, 410)


def _failure(exchange: Exchange) -> str:
    return exchange.error or (f"{exchange.status}" if exchange.status != 200 else "it is something else")


def _is_absolute(href: str) -> bool:
    try:
        uri.normalise(href.strip())
    except BadTarget:
        return False
    return True
