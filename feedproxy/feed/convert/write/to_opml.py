"""Writer of OPML 2.0: a subscription list with one feed.

The items are left out, because programs that import the list treat every outline with an address as a feed.
"""

from lxml import etree

from feedproxy.feed.channel import Kind
from feedproxy.feed.convert import markup
from feedproxy.feed.convert.headlines import heading
from feedproxy.feed.convert.model import Feed
from feedproxy.feed.convert.write.xml_writer import finish, put, put_nonempty
from feedproxy.http.date import format_http_date

_VERSIONS = {Kind.RSS: "RSS2", Kind.RDF: "RSS1"}
"""Values of the attribute version: "RSS1 for RSS 1.0; RSS for 0.91, 0.92 or 2.0; scriptingNews" -- OPML 2.0,
subscription lists."""


def render(feed: Feed) -> bytes:
    root = etree.Element("opml", version="2.0")
    head = put(root, "", "head")
    title = heading(feed)
    put(head, "", "title", title)
    if (changed := feed.updated if feed.updated is not None else feed.published) is not None:
        put(head, "", "dateModified", format_http_date(changed))
    for person in feed.authors[:1]:
        put_nonempty(head, "", "ownerName", person.name)
        put_nonempty(head, "", "ownerEmail", person.email)
        put_nonempty(head, "", "ownerId", person.uri if markup.is_web(person.uri) else "")
    outline = put(put(root, "", "body"), "", "outline")
    attributes = {
        "type": "rss",
        "text": title,
        "title": title,
        "xmlUrl": feed.address or feed.link,
        "htmlUrl": feed.link,
        "description": markup.to_line(feed.summary),
        "language": feed.language,
        "version": _VERSIONS.get(feed.kind, ""),
    }
    for name, value in attributes.items():
        if value:
            outline.set(name, value)
    return finish(root)
