"""Documents designed to take long: one piece, repeated within a frame that makes its processing expensive."""

from collections.abc import Callable

type Make = Callable[[int], bytes]

PIECES = (
    # Prefixes at which a regular expression starts again and again.
    *("<!--", "<!-- -", "-->", "<![CDATA[", "]]>", "<?a", "?>", "<!DOCTYPE a [", "<", ">", "<a", "</a", "< ", "</"),
    *("<a ", "<a b", '<a b="', "<a b='", "<a b=", "<script", "<script>", "</script", "</script ", "<p", "<br", "<h1 "),
    *(' href="', " href='", " href =", "href=", " src=x", " href=\"a'", "&", "&#", "&#x", "&amp;", "&a;", "&lt;!--"),
    *(" ", "\t", "\n", "\r\n", "\n ", "  <", "> ", ",", ";", "=", ":", "/", "//", "#", "%", "%2", "\\", '"', "'"),
    *('"\\', '",', '";', 'a="', 'a="b";', "a=b;", "a;", "a,", '"a"', "()", "(", ")", "@", "a@", "a@b", "<a@b", "(a"),
    *("a", "ab", "0", "9", "1.", "-", "_", ".", "..", "../", "a/", "a.b.", "[", "]", "{", "}", "[]", "{}", '{"a":'),
    *("http://", "http://a/", "feed:", "feed://", "é", "\u2028", "\x00", "\x01", "\x7f", "<a:b>", "<a></b>", "a:b:"),
    *("<pubDate>", "<updated ", "<item>", "</item>", "<item ", "<entry>", "<link", '"items":', '"hubs":', "xmlns:a="),
    *("<meta charset=", "<?xml ", '<?xml encoding="', "<rss", "<html", "<base ", "urn:uuid:", "T00:00", "2026-01-01"),
)
"""About 140 pieces to repeat."""


def _feed(body: bytes, channel: bytes = b"") -> bytes:
    return (
        b'<?xml version="1.0"?><rss version="2.0"><channel><title>t</title><link>http://a.example/</link>'
        + channel
        + body
        + b"</channel></rss>"
    )


def _many(one: bytes, numbered: bytes = b"") -> Make:
    if numbered:
        return lambda n: b"".join(numbered % at for at in range(n))
    return lambda n: one * n


def _in_feed(make: Make) -> Make:
    return lambda n: _feed(make(n))


def _in_item(make: Make) -> Make:
    return lambda n: _feed(b"<item><title>x</title>" + make(n) + b"</item>")


def _around(before: bytes, make: Make, after: bytes) -> Make:
    return lambda n: before + make(n) + after


_ATOM = b'<feed xmlns="http://www.w3.org/2005/Atom"><title>t</title><id>i</id>'

DOCUMENTS: dict[str, Make] = {
    "attributes of an item": lambda n: _feed(b"<item" + _many(b"", b" a%d='1'")(n) + b"><title>x</title></item>"),
    "attributes of an element": _in_item(lambda n: b"<x" + _many(b"", b" a%d='1'")(n) + b"/>"),
    "attributes of the channel": lambda n: _feed(b"").replace(b"<channel", b"<channel" + _many(b"", b" a%d='1'")(n)),
    "attributes with < in them": _in_item(lambda n: b"<x" + _many(b"", b" a%d='<'")(n) + b"/>"),
    "attributes of one element of html": _in_item(
        lambda n: b"<description>&lt;p" + _many(b"", b" a%d='1'")(n) + b"&gt;</description>"
    ),
    "comments in a title": _in_item(lambda n: b"<title>" + b"&lt;!--" * n + b"</title>"),
    "comments in a description": _in_item(lambda n: b"<description>" + b"&lt;p&gt;&lt;!--" * n + b"</description>"),
    "comments": _in_item(_many(b"<!-- x -->")),
    "comments in the channel": _in_feed(_many(b"<!-- x -->")),
    "instructions": _in_item(_many(b"a<?x y?>")),
    "instructions in an extension": _in_item(_around(b"<x>", _many(b"a<?x y?>"), b"</x>")),
    "entities in an extension": _in_item(_around(b"<x>", _many(b"a&eacute;"), b"</x>")),
    "entities in a title": _in_item(_around(b"<title>", _many(b"a&eacute;"), b"</title>")),
    "sections": _in_item(_around(b"<description>", _many(b"<![CDATA[<p>x</p>]]>"), b"</description>")),
    "elements in an item": _in_item(_many(b"<x/>")),
    "elements in the channel": _in_feed(_many(b"<x/>")),
    "elements in a title": _in_item(_around(b"<title>", _many(b"<b/>"), b"</title>")),
    "elements in a description": _in_item(_around(b"<description>", _many(b"<b>x</b>"), b"</description>")),
    "nesting": _in_item(lambda n: b"<x>" * n),
    "items of one guid": _in_feed(_many(b"<item><guid>x</guid><title>t</title></item>")),
    "items of no name": _in_feed(_many(b"<item><title/></item>")),
    "items of names like those made": _in_feed(
        _many(b"", b"<item><guid>x#%d</guid></item><item><guid>x#</guid></item>")
    ),
    "items within an item": _in_feed(lambda n: b"<item>" * n),
    "namespaces of an item": lambda n: _feed(
        b"<item" + _many(b"", b" xmlns:n%d='http://n/%d'".replace(b"/%d", b"/x"))(n) + b"><title>x<b/></title></item>"
    ),
    "namespaces in extensions": _in_item(_many(b"", b"<n:x xmlns:n='http://n/%d'>y</n:x>")),
    "namespaces of the root, items with markup": lambda n: _feed(
        b"<item><description>x<b/></description></item>" * (n // 8)
    ).replace(b"<rss", b"<rss" + _many(b"", b" xmlns:n%d='http://n/'")(n // 8)),
    "a long namespace": lambda n: _feed(b"<item>" + b"<x/>" * n + b"</item>").replace(
        b"<rss", b"<rss xmlns='http://" + b"n" * n + b"'"
    ),
    "links": _in_feed(_many(b"", b"<atom:link rel='x' href='http://a/%d'/>")),
    "self links": _in_feed(_many(b"", b"<atom:link rel='self' href='http://a/%d'/>")),
    "links of an item": _in_item(_many(b"", b"<link>http://a/%d</link>")),
    "authors": _in_item(_many(b"", b"<dc:creator>n%d</dc:creator>")),
    "authors of one name": _in_item(_many(b"", b"<author>a%d@b.example (one)</author>")),
    "enclosures": _in_item(_many(b"", b"<enclosure url='http://a/%d' type='a/b' length='1'/>")),
    "categories": _in_item(_many(b"", b"<category>c%d</category>")),
    "hours": _in_feed(_around(b"<skipHours>", _many(b"", b"<hour>%d</hour>"), b"</skipHours>")),
    "lifetimes": _in_feed(_many(b"<ttl>x</ttl>")),
    "space": _in_item(lambda n: b"<description>" + b" " * 8 * n + b"</description>"),
    "text": _in_item(lambda n: b"<description>" + b"word " * 4 * n + b"</description>"),
    "entries": lambda n: (
        _ATOM + b"".join(b"<entry><id>%d</id><title>t</title></entry>" % at for at in range(n)) + b"</feed>"
    ),
    "links of the feed": lambda n: _ATOM + b"<link rel='self' href='x'/>" * n + b"</feed>",
    "contents": lambda n: (
        _ATOM
        + b"<entry><id>1</id><content type='xhtml'><div xmlns='http://www.w3.org/1999/xhtml'>"
        + b"<p>x</p>" * n
        + b"</div></content></entry></feed>"
    ),
    "an internal subset": lambda n: (
        b"<!DOCTYPE rss [<!ATTLIST x "
        + b"".join(b"a%d CDATA 'v' " % at for at in range(n))
        + b">]>"
        + _feed(b"<item>" + b"<x/>" * n + b"</item>")
    ),
    "json items": lambda n: (
        b'{"version": "https://jsonfeed.org/version/1.1", "title": "t", "items": ['
        + b",".join(b'{"id": "%d"}' % at for at in range(n))
        + b"]}"
    ),
    "json items of one id": lambda n: (
        b'{"version": "https://jsonfeed.org/version/1.1", "title": "t", "items": ['
        + b",".join([b'{"id": "x", "tags": ["a"]}'] * n)
        + b"]}"
    ),
    "json nesting": lambda n: (
        b'{"version": "https://jsonfeed.org/version/1.1", "title": "t", "_x": '
        + b"[" * n
        + b"]" * n
        + b', "items": []}'
    ),
    "json digits": lambda n: (
        b'{"version": "https://jsonfeed.org/version/1.1", "title": "t", "items": [{"id": ' + b"9" * 10 * n + b"}]}"
    ),
    "json members": lambda n: (
        b'{"version": "https://jsonfeed.org/version/1.1", "title": "t", "items": [], '
        + b",".join(b'"m%d": {"a": 1}' % at for at in range(n))
        + b"}"
    ),
    "links of a page": lambda n: (
        b"<!doctype html><html><head>"
        + b"".join(b"<link rel='alternate' type='text/xml' href='/%d'>" % at for at in range(n))
    ),
    "attributes of a page": lambda n: (
        b"<!doctype html><html><head><link" + b"".join(b" a%d='1'" % at for at in range(n)) + b">"
    ),
    "nesting of a page": lambda n: b"<!doctype html><html><body>" + b"<div>" * n,
    "unclosed elements of a page": lambda n: b"<!doctype html><html><body>" + b"<a><p>" * n,
    "outlines": lambda n: (
        b"<opml><body>"
        + b"".join(b"<outline text='x' xmlUrl='http://a/%d'/>" % at for at in range(n))
        + b"</body></opml>"
    ),
    "attributes of an outline": lambda n: (
        b"<opml><body><outline" + b"".join(b" a%d='1'" % at for at in range(n)) + b"/></body></opml>"
    ),
    "folders": lambda n: b"<opml><body>" + b"<outline text='&lt;!--&lt;!--&lt;!--&lt;!--'>" * n,
    "names of outlines": lambda n: (
        b"<opml><body>"
        + (b"<outline xmlUrl='http://a/' text='" + b"&lt;!--" * 64 + b"'/>") * (n // 16)
        + b"</body></opml>"
    ),
}
"""Functions by name. Each returns a document whose size grows with the number."""
