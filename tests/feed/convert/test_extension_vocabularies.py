"""Extension vocabularies: RSS 1.0 and Atom carry what they have no element for in common namespaces."""

import json

import pytest

from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.convert.model import Feed
from feedproxy.feed.convert.namespaces import RSS2
from feedproxy.feed.convert.read.from_document import read
from tests.feed.convert.round_trip import written_and_read

IN_OTHER_WORDS = ("rdf", "atom")

XHTML = "http://www.w3.org/1999/xhtml"
MODELS = ("rss", "rdf", "atom", "json")
"""Formats that are read back as the same model."""


def an_entry(inside: str, scope: str = "", namespace: str = "http://www.w3.org/2005/Atom", author: str = "") -> Feed:
    feed = read(
        f"""<feed xmlns="{namespace}" {scope}><title>Tea</title><id>urn:tea</id>{author}
        <updated>2026-11-20T11:00:00Z</updated><entry><title>Oolong</title><id>urn:tea:1</id>
        <updated>2026-11-20T11:00:00Z</updated>{inside}</entry></feed>""".encode()
    )
    assert feed is not None
    return feed


def a_feed(channel: str = "", item: str = "") -> Feed:
    feed = read(
        f"""<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:media="http://search.yahoo.com/mrss/">
        <channel><title>Tea</title><link>https://tea.example/</link><description>Leaves</description>{channel}
        <item><title>Oolong</title><link>https://tea.example/oolong</link><description>Dark.</description>{item}</item>
        </channel></rss>""".encode(),
        address="https://tea.example/feed.rss",
    )
    assert feed is not None
    return feed


@pytest.mark.parametrize("name", IN_OTHER_WORDS)
@pytest.mark.parametrize("guid", ["oolong 7", "https://tea.example/oolong"])
def test_guid_without_permalink_becomes_dc_identifier(name, guid):
    feed = a_feed(item=f'<guid isPermaLink="false">{guid}</guid>')

    document, again = written_and_read(feed, name)

    assert f"<dc:identifier>{guid}</dc:identifier>" in document
    assert RSS2 not in document
    assert (again.items[0].id, again.items[0].is_permalink) == (guid, False)
    assert again.items[0].extensions == ()


@pytest.mark.parametrize("name", IN_OTHER_WORDS)
@pytest.mark.parametrize("identifier", ["oolong 7", "https://tea.example/oolong", "doi:10.1000/7"])
@pytest.mark.parametrize("guid", ["<guid>https://tea.example/oolong</guid>", '<guid isPermaLink="false">no 7</guid>'])
def test_dc_identifier_of_the_publisher_is_kept(name, identifier, guid):
    feed = a_feed(item=f"{guid}<dc:identifier>{identifier}</dc:identifier>")

    _, again = written_and_read(feed, name)

    assert (again.items[0].id, again.items[0].is_permalink) == (feed.items[0].id, feed.items[0].is_permalink)
    assert [each.text for each in again.items[0].extensions] == [identifier]


def test_item_id_of_an_article_with_a_url_is_that_url_beside_dc_identifier():
    feed = read(b"""<rdf:RDF xmlns="http://purl.org/rss/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/"
        xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
        <channel rdf:about="https://tea.example/feed"><title>Tea</title><link>https://tea.example/</link></channel>
        <item rdf:about="https://tea.example/oolong"><title>Oolong</title><link>https://tea.example/oolong</link>
        <dc:identifier>doi:10.1000/7</dc:identifier></item></rdf:RDF>""")

    assert feed is not None
    assert feed.items[0].id == "https://tea.example/oolong"
    assert feed.items[0].is_permalink
    assert feed.items[0].extensions[0].text == "doi:10.1000/7"


@pytest.mark.parametrize("name", IN_OTHER_WORDS)
@pytest.mark.parametrize("size", ["<width>88</width><height>31</height>", "<width>88</width>", "<height>31</height>"])
def test_channel_image_size_becomes_media_thumbnail(name, size):
    feed = a_feed(f"<image><url>https://tea.example/pot.png</url>{size}</image>")

    document, again = written_and_read(feed, name)

    assert '<media:thumbnail url="https://tea.example/pot.png"' in document
    assert RSS2 not in document
    assert again.image == feed.image
    assert again.extensions == ()


@pytest.mark.parametrize("name", IN_OTHER_WORDS)
@pytest.mark.parametrize(
    "thumbnail",
    [
        '<media:thumbnail url="https://tea.example/other.png" width="10"/>',
        '<media:thumbnail url="https://tea.example/pot.png"/>',
        '<media:thumbnail url="https://tea.example/pot.png" width="wide"/>',
        '<media:thumbnail url="https://tea.example/pot.png" width="10" time="00:01"/>',
    ],
)
def test_media_thumbnail_without_the_size_of_the_channel_image_is_kept(name, thumbnail):
    feed = a_feed(f"<image><url>https://tea.example/pot.png</url></image>{thumbnail}")

    _, again = written_and_read(feed, name)

    assert again.image == feed.image
    assert [each.name for each in again.extensions] == ["thumbnail"]
    assert again.extensions == feed.extensions


def test_channel_image_description_becomes_dc_description_in_rss_1():
    feed = a_feed("<image><url>https://tea.example/pot.png</url><description>A pot</description></image>")

    document, again = written_and_read(feed, "rdf")

    assert "<dc:description>A pot</dc:description>" in document
    assert RSS2 not in document
    assert again.image == feed.image


@pytest.mark.parametrize("name", ["rss", "rdf", "atom"])
def test_extension_in_a_namespace_that_is_no_uri_is_omitted(name: str) -> None:
    document = (
        b"<rss version='2.0'><channel><title>t</title><item><title>x</title>"
        b"<n:x xmlns:n='n/&lt;y&gt;' n:a='b'>y</n:x></item></channel></rss>"
    )
    feed = read(document)

    assert feed is not None
    assert b"x" in FORMATS[name].render(feed)


# -- texts


@pytest.mark.parametrize(
    ("scope", "div"),
    [
        ("", f'<div xmlns="{XHTML}"><p>One <b>x</b></p></div>'),
        ("", f'<h:div xmlns:h="{XHTML}"><h:p>One <h:b>x</h:b></h:p></h:div>'),
        (f'xmlns:h="{XHTML}"', "<h:div><h:p>One <h:b>x</h:b></h:p></h:div>"),
        ("", "<div><p>One <b>x</b></p></div>"),
    ],
)
@pytest.mark.parametrize("name", MODELS)
def test_xhtml_content_becomes_html_without_namespaces(scope, div, name):
    feed = an_entry(f'<content type="xhtml">{div}</content>', scope)

    _, again = written_and_read(feed, name)

    for each in (feed, again):
        content = each.items[0].content
        assert content is not None
        assert content.value.removeprefix("<div>").removesuffix("</div>") == "<p>One <b>x</b></p>"


def test_svg_within_xhtml_keeps_its_namespace():
    svg = '<svg xmlns="http://www.w3.org/2000/svg"></svg>'
    content = an_entry(f'<content type="xhtml"><div xmlns="{XHTML}">{svg}</div></content>').items[0].content

    assert content is not None
    assert content.value == svg


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ('<content type="text/html" mode="base64">PGI+SGk8L2I+IHRoZXJl</content>', ("<b>Hi</b> there", "html")),
        ('<content mode="base64">\n SGkg\n PGI+ </content>', ("Hi <b>", "text")),
        ('<content type="image/png" mode="base64">iVBORw0KGgo=</content>', ("iVBORw0KGgo=", "image/png")),
        ('<content type="text/html" mode="base64">no base64!</content>', ("no base64!", "text")),
    ],
)
def test_atom_03_text_in_base64_is_decoded(given, meant):
    content = an_entry(given, namespace="http://purl.org/atom/ns#").items[0].content

    assert content is not None
    assert (content.value, content.type) == meant


# -- enclosures and persons


@pytest.mark.parametrize(
    ("attributes", "length"), [('size="1234"', 1234), ('length="7" size="1234"', 7), ('length="" size="9"', 9)]
)
def test_enclosure_length_falls_back_to_its_size_attribute(attributes, length):
    feed = a_feed(item=f'<enclosure url="https://tea.example/a.mp3" type="audio/mpeg" {attributes}/>')

    assert feed.items[0].enclosures[0].length == length
    assert f'length="{length}"' in FORMATS["rss"].render(feed).decode()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "author",
    [
        {"name": "Ann", "avatar": "https://tea.example/ann.png"},
        {"name": "Ann", "url": "https://ann.example/", "avatar": "https://tea.example/ann.png"},
        {"name": "Ann", "url": "mailto:ann@tea.example", "avatar": "https://tea.example/ann.png"},
        {"avatar": "https://tea.example/ann.png"},
    ],
)
def test_author_avatar_is_kept_in_every_feed_format(name, author):
    given = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "Tea",
        "authors": [author],
        "items": [{"id": "1", "content_text": "Dark.", "authors": [author]}],
    }
    feed = read(json.dumps(given).encode())
    assert feed is not None

    document, again = written_and_read(feed, name)

    assert "https://tea.example/ann.png" in document
    assert again.authors == feed.authors
    assert again.items[0].authors == feed.items[0].authors
    assert feed.authors[0].avatar == "https://tea.example/ann.png"


@pytest.mark.parametrize("name", MODELS)
def test_extensions_of_an_atom_author_are_kept(name):
    scope = 'xmlns:gd="http://schemas.google.com/g/2005"'
    author = '<author><name>Ann</name><gd:image rel="thumbnail" src="https://tea.example/ann.png"/></author>'
    feed = an_entry(author, scope, author=author)

    document, again = written_and_read(feed, name)

    assert "https://tea.example/ann.png" in document
    assert again.authors == feed.authors == again.items[0].authors
    assert [each.name for each in feed.authors[0].extensions] == ["image"]


@pytest.mark.parametrize("media_type", ['type="video/mp4"', ""])
def test_page_shows_the_summary_of_an_entry_with_content_elsewhere(media_type):
    feed = an_entry(f'<summary>A film about tea</summary><content {media_type} src="https://tea.example/f.mp4"/>')

    page = FORMATS["html"].render(feed).decode()

    assert "A film about tea" in page
    assert 'href="https://tea.example/f.mp4"' in page


def test_addresses_of_media_rss_and_itunes_are_absolute():
    feed = a_feed(
        item="<media:group><media:content url='v.mp4' type='video/mp4'/></media:group>"
        "<media:thumbnail url='/a.png' width='9'/>"
    )

    item = json.loads(FORMATS["json"].render(feed))["items"][0]

    assert item["attachments"][0]["url"] == "https://tea.example/v.mp4"
    assert item["image"] == "https://tea.example/a.png"


@pytest.mark.parametrize("name", MODELS)
def test_xml_content_of_an_entry_keeps_its_elements_and_texts(name):
    content = '<p:data xmlns:p="urn:p"><p:link>one</p:link><p:br>two</p:br></p:data>'
    feed = an_entry(f'<content type="application/xml">{content}</content>')

    _, copy = written_and_read(feed, name)

    assert feed.items[0].content is not None
    assert copy.items[0].content == feed.items[0].content
    assert (feed.items[0].content.type, feed.items[0].content.value) == ("application/xml", content)


@pytest.mark.parametrize(
    ("xhtml", "html"),
    [
        ('<p xml:base="sub/"><a href="r">x</a></p>', '<p><a href="https://x.example/d/sub/r">x</a></p>'),
        (
            '<div xml:base="/e/"><p xml:base="https://y.example/"><img src="p"/></p><img srcset="q 2x"/></div>',
            '<div><p><img src="https://y.example/p"></p><img srcset="https://x.example/e/q 2x"></div>',
        ),
        (
            '<p xml:base="sub/"><a href="#part">x</a></p><a href="r">y</a>',
            '<p><a href="#part">x</a></p><a href="https://x.example/d/r">y</a>',
        ),
    ],
)
def test_addresses_in_xhtml_are_resolved_by_the_base_of_their_element(xhtml, html):
    feed = an_entry(
        f'<content type="xhtml" xml:base="https://x.example/d/"><div xmlns="{XHTML}">{xhtml}</div></content>'
    )

    assert feed.items[0].content is not None
    assert feed.items[0].content.value == html
