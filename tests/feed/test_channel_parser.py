"""Parser: detection of feeds, encodings and tolerance of faults."""

import json

import pytest

from feedproxy.feed.channel import Channel, Cloud, Kind
from feedproxy.feed.convert.read import from_document
from feedproxy.feed.document_syntax import DocumentSyntax, detect_syntax
from feedproxy.feed.encoding_detection import Utf8Text, to_utf8
from feedproxy.feed.parse import channel_parser
from feedproxy.feed.parse.channel_parser import read
from feedproxy.feed.parse.channel_scan import scan_channel

RSS = """\
<rss version="2.0"><channel><title>Čaj, 茶, чай</title><ttl>45</ttl>\
<item><title>a</title></item></channel></rss>"""
LATIN = '<rss version="2.0"><channel><title>Thé</title><ttl>45</ttl></channel></rss>'


def channel_of(body: bytes, content_type: str | None = None) -> Channel:
    channel = read(body, content_type)
    assert channel is not None
    return channel


def declared(encoding: str, text: str) -> str:
    return f'<?xml version="1.0" encoding="{encoding}"?>{text}'


# what is no feed


@pytest.mark.parametrize(
    ("body", "sort"),
    [
        (b"", DocumentSyntax.EMPTY),
        (b" \r\n\t", DocumentSyntax.EMPTY),
        (b"\xef\xbb\xbf\n", DocumentSyntax.EMPTY),
        (b"<!DOCTYPE html><html><head><title>Sorry</title></head></html>", DocumentSyntax.HTML),
        (b"\n\n<!-- hello --><HTML><BODY>busy</BODY></HTML>", DocumentSyntax.HTML),
        (b'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body/></html>', DocumentSyntax.HTML),
        (
            b'<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" ""><html/>',
            DocumentSyntax.HTML,
        ),
        (b"<h1>503</h1> come back later", DocumentSyntax.HTML),
        (b"<p>Checking your browser</p>", DocumentSyntax.HTML),
        (b"Warning<br><html><body>&lt;rss&gt; <rss></body></html>", DocumentSyntax.HTML),
        (b'{"error":"rate limited"}', DocumentSyntax.JSON),
        (b"[1, 2]", DocumentSyntax.JSON),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", DocumentSyntax.OTHER),
        (b"not found", DocumentSyntax.OTHER),
        (b'<opml version="2.0"><body/></opml>', DocumentSyntax.XML),
        (b'<entry xmlns="http://www.w3.org/2005/Atom"><title/></entry>', DocumentSyntax.XML),
        (b"<redirect><newLocation/></redirect>", DocumentSyntax.XML),
        (b'<feed xmlns="http://example.com/animals"><oats/></feed>', DocumentSyntax.XML),
        (b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><a/></rdf:RDF>', DocumentSyntax.XML),
        (b"<channel><lineup/></channel>", DocumentSyntax.XML),
    ],
)
def test_document_that_is_no_feed_is_rejected_with_any_content_type(body: bytes, sort: DocumentSyntax) -> None:
    assert detect_syntax(body) is sort
    assert read(body, "application/rss+xml") is None
    assert read(body, None) is None


EXAMPLE = "Here is a feed:\n" + RSS + "\nThat was it.\n"


@pytest.mark.parametrize(
    ("text", "media_type", "is_feed"),
    [
        (EXAMPLE, "text/plain; charset=utf-8", False),
        (EXAMPLE, "text/markdown", False),
        (EXAMPLE, "application/rss+xml", True),
        (EXAMPLE, "TEXT/HTML", True),
        (EXAMPLE, None, True),
        (RSS, "text/plain", True),
        ("\n " + RSS, "text/plain", True),
        ("\ufeff\ufeff" + RSS, "text/plain", True),
        ("\ufeff\n\ufeff" + RSS, "application/octet-stream", True),
        ("\0\xa0\u200b" + RSS, "text/plain", True),
        ('const start = "<rss version=";', "application/javascript", False),
        ("A text about <rss> and <feed>", "text/html", False),
        ("/* <feed> */ a {}", None, False),
        ("\x89PNG <rss version='2.0'><channel>", "image/png", False),
    ],
)
def test_feed_after_other_text_is_a_feed_by_its_media_type(text: str, media_type: str | None, is_feed: bool) -> None:
    assert (read(text.encode(), media_type) is not None) is is_feed


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "iso-8859-1", "windows-1251"])
def test_feed_larger_than_the_searched_beginning_is_read_in_every_encoding(encoding: str) -> None:
    text = "é" if encoding != "windows-1251" else "й"
    items = f"<item><title>{text * 50}</title></item>" * 2_000
    body = declared(
        encoding.removesuffix("-le"), f"<rss version='2.0'><channel><title>t</title>{items}</channel></rss>"
    )

    assert channel_of(body.encode(encoding)).items == 2_000


def test_json_with_escaped_slashes_is_a_feed() -> None:
    assert (
        channel_of(rb'{"version": "https:\/\/jsonfeed.org\/version\/1.1", "title": "t", "items": []}').version == "1.1"
    )


def test_json_of_an_api_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json, "JSONDecoder", None)

    assert read(b'{"version": "1", "items": [{"id": "1"}]}', "application/json") is None


def test_large_document_of_another_kind_is_not_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The conversion of a picture takes 80 ms for each MB."""
    converted: list[int] = []

    def convert(body: bytes, charset: str | None = None) -> Utf8Text:
        converted.append(len(body))
        return to_utf8(body, charset)

    monkeypatch.setattr(channel_parser, "to_utf8", convert)
    picture = b"\xff\xd8\xff\xe1<rdf:RDF>" + bytes(range(128, 256)) * 10_000

    assert channel_parser.read(picture, "image/jpeg") is None
    assert converted == [65 * 1024]


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": "rate limited"}',
        b'{"title": "t", "items": [1, 2]}',
        b'{"title": {"content": "t"}, "items": [{"id": 1}]}',
        b'{"version": "1.1", "data": []}',
        b'{"title": "Cart", "items": [{"id": 0}]}',
        b'{"version": "1.1", "title": "Cart", "items": [{"id": 0}]}',
        b'{"version": "https://jsonfeed.org/version/1.1", "title": "t"}',
        b'{"version": "https://jsonfeed.org/version/1.1", "title": "t", "items": {}}',
        b'{"version": "https://jsonfeed.org/version/1.1", "title": "t", "items": ["a", "b"]}',
        b'{"version": "https://jsonfeed.org/version/1.1", "title": "t", "items": [{"price": 3}]}',
        b'{"version": "https://jsonfeed.org/version/1.1", "title": "t", "items": [',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"{" + b"9" * 10_000,
        b'{"version": ' + b"9" * 10_000 + b"}",
        b"{\xff\xfe}",
    ],
)
def test_json_that_is_no_feed_is_rejected(body: bytes) -> None:
    assert read(body, "application/feed+json") is None


@pytest.mark.parametrize(
    "document",
    [
        "<rss><memory/></rss>",
        '<rss version="2.0"><memory unit="KiB">3</memory></rss>',
        "<rss><channel><frequency/></channel></rss>",
        "<rss><channel><title>Radio</title><frequency/></channel></rss>",
        "<rss><title>Memory</title><memory/></rss>",
        "<rss><channel><frequency/><item><weight/></item></channel></rss>",
        "<feed><cow/></feed>",
        "<feed><id>7</id><cow/></feed>",
        "<feed><id>7</id><title>Hay</title><entry><weight>3</weight></entry></feed>",
        "<feed><entry><weight>3</weight></entry></feed>",
        '<feed xmlns="http://www.w3.org/2005/Atom"><cow/></feed>',
        '<feed xmlns="http://example.com/atomic"><cow/></feed>',
        '<RDF xmlns="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><channel xmlns="urn:r"><mhz/></channel></RDF>',
        "<channel><title>Five</title><item><price>3</price></item></channel>",
        "<channel><item><title>News at ten</title></item></channel>",
    ],
)
def test_feed_root_element_with_foreign_content_is_rejected(document: str) -> None:
    assert read(document.encode(), "application/rss+xml") is None
    assert read(document[:-2].encode(), "application/rss+xml") is None
    assert scan_channel(document.encode(), "application/rss+xml") is None


@pytest.mark.parametrize(
    "document",
    [
        '<rss version="2.0"><channel><station/></channel></rss>',
        '<rss version="2.0"><channel><x:summary xmlns:x="urn:x"/></channel></rss>',
        '<rss version="2.0"><channel><title>t</title><station/>',
        '<rss version="2.0"><channel><title>t</title><item><ti',
        "<rss><channel><title>t</title><link/><station/></channel></rss>",
        "<rss><channel><station/><title>t</title><item><title/></item></channel></rss>",
        '<feed xmlns="http://www.w3.org/2005/Atom"><title>t</title><cow/>',
        "<feed><title>t</title><cow/><entry><title/></entry></feed>",
        "<CHANNEL><ITEM><TITLE>t</TITLE></ITEM></CHANNEL>",
        '<channel><item href="http://example.com/"><title>t</title></item></channel>',
    ],
)
def test_channel_that_is_truncated_or_has_foreign_elements_is_accepted(document: str) -> None:
    assert read(document.encode(), None) is not None


# what is one nevertheless


@pytest.mark.parametrize(
    ("body", "kind", "version"),
    [
        ("<rss><channel><title>t</title></channel></rss>", Kind.RSS, ""),
        ("<rss/>", Kind.RSS, ""),
        ('<rss version="0.91"><title>t</title></rss>', Kind.RSS, "0.91"),
        ('<r:rss xmlns:r="http://backend.userland.com/rss2"><r:channel/></r:rss>', Kind.RSS, ""),
        ("<!DOCTYPE html><rss><channel/></rss>", Kind.RSS, ""),
        ("<feed><title>t</title><entry/></feed>", Kind.ATOM, ""),
        ('<feed version="0.3" xmlns="http://purl.org/atom/ns#"/>', Kind.ATOM, "0.3"),
        ('<feed xmlns="https://www.w3.org/2005/Atom/"/>', Kind.ATOM, ""),
        ('<RDF xmlns="http://my.netscape.com/rdf/simple/0.9/"><channel/></RDF>', Kind.RDF, "0.90"),
        ('<Channel href="http://example.com/"><Title>t</Title></Channel>', Kind.CDF, ""),
        ('{"version": "http://jsonfeed.org/version/1", "items": []}', Kind.JSON, "1"),
        ('\ufeff {"version": "https://jsonfeed.org/version/1.1", "items": [{"id": "1"}]}', Kind.JSON, "1.1"),
    ],
)
def test_kind_and_version_are_detected_from_the_document(body: str, kind: Kind, version: str) -> None:
    channel = channel_of(body.encode(), "text/html")

    assert (channel.kind, channel.version) == (kind, version)


def test_names_of_rss_in_capitals_are_read() -> None:
    channel = channel_of(
        b"<RSS VERSION='0.92'><CHANNEL><TITLE>T</TITLE><LINK>https://e.example/</LINK><TTL>5</TTL>"
        b"<CLOUD DOMAIN='e.example' PORT='80' PATH='/' REGISTERPROCEDURE='' PROTOCOL='http-post'/>"
        b"<ITEM><TITLE>a</TITLE></ITEM></CHANNEL></RSS>"
    )

    assert (channel.version, channel.title, channel.link, channel.items) == ("0.92", "T", "https://e.example/", 1)
    assert channel.schedule.ttl == 5
    assert channel.cloud == Cloud("e.example", "80", "/", "", "http-post")


RSS_11 = b"""<?xml version="1.0"?>
<Channel xmlns="http://purl.org/net/rss1.1#" xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
 rdf:about="https://e.example/feed"><title>T</title><link>https://e.example/</link><description>D</description>
<image rdf:parseType="Resource"><title>I</title><url>https://e.example/i.png</url></image>
<items rdf:parseType="Collection"><item rdf:about="https://e.example/1"><title>One</title>
<link>https://e.example/1</link></item><item rdf:about="https://e.example/2"><title>Two</title></item></items></Channel>
"""


def test_rss_11_is_read() -> None:
    channel, scanned = channel_of(RSS_11), scan_channel(RSS_11, None)
    model = from_document.read(RSS_11)

    assert (channel.kind, channel.version, channel.title, channel.items) == (Kind.RDF, "1.1", "T", 2)
    assert channel.link == "https://e.example/"
    assert scanned is not None
    assert (scanned.kind, scanned.title, scanned.items) == (Kind.RDF, "T", 2)
    assert model is not None
    assert model.image is not None
    assert [item.id for item in model.items] == ["https://e.example/1", "https://e.example/2"]
    assert not model.extensions


@pytest.mark.parametrize("offset", [65530, 65533, 65535, 65536])
@pytest.mark.parametrize("tail", [0, 300_000])
def test_root_element_at_the_end_of_the_searched_bytes_is_recognised(offset: int, tail: int) -> None:
    body = b"<!--" + b"x" * (offset - 7) + b"-->" + RSS.encode() + b" " * tail

    channel = channel_of(body, "text/xml")

    assert (channel.title, channel.items) == ("Čaj, 茶, чай", 1)


def test_title_is_read_in_the_namespace_of_rss_itself() -> None:
    channel = channel_of(
        b'<rss xmlns="http://backend.userland.com/rss2" xmlns:m="http://example.com/media">'
        b"<channel><m:title>no</m:title><title>yes</title><ttl>5</ttl></channel></rss>"
    )

    assert (channel.title, channel.schedule.ttl) == ("yes", 5)


def test_json_feed_with_trailing_data_is_ill_formed() -> None:
    channel = channel_of(b'{"title": "t", "items": [], "version": "https://jsonfeed.org/version/1.1"} tail')

    assert not channel.well_formed


@pytest.mark.parametrize(
    ("before", "title"), [("\ufeff\ufeff", "News"), ("\n\ufeff", "News"), ("", "News\nof\tone"), ("", "News\x01")]
)
def test_json_feed_with_a_second_mark_or_control_characters_is_read_and_is_ill_formed(before: str, title: str) -> None:
    body = '{"version": "https://jsonfeed.org/version/1.1", "title": "TITLE", "items": [{"id": "1"}]}'
    body = before + body.replace("TITLE", title)

    channel = channel_of(body.encode(), "application/feed+json")

    assert (channel.title, channel.items, channel.well_formed) == (title.strip(), 1, False)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_json_feed_with_a_constant_that_is_no_json_is_ill_formed(constant: str) -> None:
    body = f'{{"title": "t", "items": [], "version": "https://jsonfeed.org/version/1.1", "_x": {constant}}}'
    channel = channel_of(body.encode())

    assert (channel.kind, channel.title, channel.well_formed) == (Kind.JSON, "t", False)


@pytest.mark.parametrize("digits", [4300, 4301, 1_000_000])
def test_json_feed_with_a_long_integer_is_a_feed(digits: int) -> None:
    body = f'{{"title": "t", "items": [], "version": "https://jsonfeed.org/version/1.1", "_x": {"9" * digits}}}'
    channel = channel_of(body.encode())

    assert (channel.kind, channel.title, channel.well_formed) == (Kind.JSON, "t", True)


def test_json_lone_surrogate_is_replaced() -> None:
    channel = channel_of(b'{"version": "https://jsonfeed.org/version/1", "title": "\\ud83d", "items": []}')

    assert channel.title.encode() == b"?"


# encodings


@pytest.mark.parametrize(
    ("encoding", "codec"),
    [
        ("utf-8", "utf-8"),
        ("utf-8", "utf-8-sig"),
        ("utf-16", "utf-16"),
        ("utf-16", "utf-16-le"),
        ("utf-16", "utf-16-be"),
        ("utf-32", "utf-32"),
        ("utf-32", "utf-32-be"),
        ("utf-32", "utf-32-le"),
        ("utf-8", "utf-16"),  # a mark outweighs the declaration
        ("gb18030", "gb18030"),
    ],
)
def test_hints_and_titles_are_read_in_every_unicode_encoding(encoding: str, codec: str) -> None:
    channel = channel_of(declared(encoding, RSS).encode(codec))

    assert (channel.title, channel.schedule.ttl, channel.well_formed) == ("Čaj, 茶, чай", 45, True)


@pytest.mark.parametrize(
    ("encoding", "title"),
    [
        ("iso-8859-1", "Thé"),
        ("windows-1252", "Thé – €"),
        ("windows-1251", "Чай"),
        ("KOI8-R", "Чай"),
        ("ISO-8859-7", "Τσάι"),
        ("Shift_JIS", "お茶"),
        ("EUC-JP", "お茶"),
        ("ISO-2022-JP", "お茶"),
        ("Big5", "茶"),
        ("GB2312", "茶"),
        ("EUC-KR", "차"),
        ("us-ascii", "tea"),
    ],
)
def test_hints_and_titles_are_read_in_legacy_encodings(encoding: str, title: str) -> None:
    channel = channel_of(declared(encoding, LATIN.replace("Thé", title)).encode(encoding))

    assert (channel.title, channel.schedule.ttl, channel.well_formed) == (title, 45, True)


@pytest.mark.parametrize(
    ("label", "encoding", "title"),
    [
        ("iso88591", "iso-8859-1", "Thé"),
        ("iso-8859-8-i", "iso-8859-8", "תה"),
        ("iso885915", "iso-8859-15", "Thé 1 €"),
        ("x-mac-roman", "mac-roman", "Thé"),
        ("x-cp1256", "windows-1256", "شاي"),
        ("gb_2312-80", "gb2312", "茶"),
        ("KSC_5601", "euc-kr", "차"),
        ("koi8-ru", "koi8-u", "Чай"),
    ],
)
def test_labels_of_the_web_name_the_encodings_that_browsers_read(label: str, encoding: str, title: str) -> None:
    channel = channel_of(declared(label, LATIN.replace("Thé", title)).encode(encoding))

    assert (channel.title, channel.well_formed) == (title, True)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "us-ascii", "EUC-KR", "x-unknown-8", "utf-16", "punycode", "rot13", "hex"]
)
def test_hints_are_read_under_a_wrong_declaration(encoding: str) -> None:
    channel = channel_of(declared(encoding, LATIN).encode("iso-8859-1"))

    assert channel.schedule.ttl == 45
    assert not channel.well_formed


@pytest.mark.parametrize(
    ("declaration", "encoding", "title"),
    [("iso-8859-1", "windows-1252", "“Thé” – 1 €"), ("iso-8859-9", "windows-1254", "“Şehir”")],
)
def test_characters_of_windows_are_read_under_a_declaration_of_iso_8859(
    declaration: str, encoding: str, title: str
) -> None:
    channel = channel_of(declared(declaration, LATIN.replace("Thé", title)).encode(encoding))

    assert (channel.title, channel.well_formed) == (title, True)


def test_controls_of_iso_8859_1_that_windows_lacks_remain_controls() -> None:
    assert channel_of(declared("iso-8859-1", LATIN).encode("iso-8859-1").replace(b"Th", b"\x81")).title == "\x81é"


def test_declaration_in_the_text_of_an_item_is_ignored() -> None:
    body = LATIN.replace("<ttl>", "<description><![CDATA[<?xml version='1.0' encoding='koi8-r'?>]]></description><ttl>")

    assert channel_of(body.encode()).title == "Thé"


@pytest.mark.parametrize("text", ["text", "<?xml version='1.0' encoding='iso-8859-1'?>"])
def test_json_is_utf_8_whatever_content_type_and_text_declare(text: str) -> None:
    feed = {"version": "https://jsonfeed.org/version/1.1", "description": text, "title": "Thé", "items": []}
    body = json.dumps(feed, ensure_ascii=False).encode()

    assert channel_of(body, "application/json; charset=iso-8859-1").title == "Thé"


def test_charset_of_content_type_is_used_without_a_declaration() -> None:
    body = LATIN.replace("Thé", "Чай")

    assert channel_of(body.encode("koi8-r"), "text/xml; charset=KOI8-R").title == "Чай"
    assert channel_of(body.encode(), 'text/xml; charset="utf-9"').title == "Чай"
    assert channel_of(declared("koi8-r", body).encode("koi8-r"), "text/xml; charset=utf-8").title == "Чай"


# faults


@pytest.mark.parametrize(
    "body",
    [
        "\n\n" + declared("utf-8", RSS),
        "<br />\n<b>Warning</b>: include() failed in <b>x.php</b><br />\n" + declared("utf-8", RSS),
        "Notice: undefined index\n" + RSS,
        RSS + "<!-- ok --> and then text",
        RSS + RSS,
        RSS.replace("</channel>", "<itunes:author>x</itunes:author></channel>"),
        RSS.replace("</title>", " &nbsp; & ©</title>", 1),
        RSS.replace("</title>", "\x01\x02</title>", 1),
        RSS.replace("<item>", "<item><b>", 1),
        RSS[: RSS.index("</item>")],
    ],
)
def test_hints_are_read_from_ill_formed_documents(body: str) -> None:
    channel = channel_of(body.encode())

    assert channel.schedule.ttl == 45
    assert channel.items == 1
    assert not channel.well_formed


def test_white_space_before_a_root_without_declaration_is_well_formed() -> None:
    assert channel_of(b"\n \n" + RSS.encode()).well_formed


def test_prefix_without_declaration_has_its_customary_namespace() -> None:
    channel = channel_of(
        b"<rss version='2.0'><channel><sy:updatePeriod>daily</sy:updatePeriod>"
        b"<atom:link rel='self' href='http://example.com/f'/></channel></rss>"
    )

    assert channel.schedule.period == "daily"
    assert channel.self_links[0].href == "http://example.com/f"


def test_prefix_declared_otherwise_has_the_declared_namespace() -> None:
    channel = channel_of(
        b"<rss version='2.0' xmlns:atom='http://example.com/physics'><channel>"
        b"<atom:link rel='self' href='http://example.com/f'/></channel></rss>"
    )

    assert channel.self_links == ()


def test_start_link_of_atom_03_is_a_self_link() -> None:
    channel = channel_of(
        b"<rss version='2.0' xmlns:a='http://purl.org/atom/ns#'><channel>"
        b"<a:link rel='start' type='application/rss+xml' href='http://example.com/f'/></channel></rss>"
    )

    assert channel.self_links[0].rel == "start"


@pytest.mark.parametrize(
    ("bases", "hub"),
    [
        (("", ""), "hub"),
        (("https://a.example/b/", ""), "https://a.example/b/hub"),
        (("https://a.example/b/", "c/"), "https://a.example/b/c/hub"),
        (("https://a.example/", "https://d.example/"), "https://d.example/hub"),
    ],
)
def test_hub_is_resolved_against_xml_base(bases: tuple[str, str], hub: str) -> None:
    outer, inner = (f"xml:base='{base}'" if base else "" for base in bases)
    body = f"<feed xmlns='http://www.w3.org/2005/Atom' {outer}><id>x</id><link rel='hub' href='hub' {inner}/></feed>"

    assert channel_of(body.encode()).hubs == (hub,)


def test_addresses_of_the_channel_are_resolved_against_xml_base() -> None:
    atom = channel_of(
        b"<feed xmlns='http://www.w3.org/2005/Atom' xml:base='https://a.example/b/'><id>x</id>"
        b"<link rel='self' href='feed#top'/><link rel='self' href='HTTPS://A.example/x?'/><link href='page'/></feed>"
    )
    rss = channel_of(
        b"<rss version='2.0' xml:base='https://a.example/'><channel xml:base='b/'><link>page</link></channel></rss>"
    )

    assert [link.href for link in atom.self_links] == ["https://a.example/b/feed#top", "HTTPS://A.example/x?"]
    assert (atom.link, rss.link) == ("https://a.example/b/page", "https://a.example/b/page")


def test_hub_with_an_invalid_xml_base_is_ignored() -> None:
    body = "<feed xmlns='http://www.w3.org/2005/Atom' xml:base='http://['><id>x</id><link rel='hub' href='hub'/></feed>"

    assert channel_of(body.encode()).hubs == ()


def test_item_within_an_item_is_not_counted() -> None:
    assert channel_of(b"<rss><channel><item><item/></item><item/></channel></rss>").items == 2


def test_element_of_a_module_with_the_name_of_an_item_is_part_of_its_item() -> None:
    body = (
        b"<rss version='2.0' xmlns:c='http://purl.org/rss/1.0/modules/content/'><channel><title>T</title>"
        b"<item><title>a</title><c:items><c:item><c:format/></c:item></c:items></item></channel></rss>"
    )

    model = from_document.read(body)

    assert channel_of(body).items == 1
    assert model is not None
    assert [node.children[0].name for node in model.items[0].extensions] == ["item"]


def test_relation_of_a_link_may_be_the_address_of_its_registration() -> None:
    registry = "http://www.iana.org/assignments/relation/"
    body = (
        f"<feed xmlns='http://www.w3.org/2005/Atom'><id>x</id><link rel='{registry}self' href='https://e.example/f'/>"
        f"<link rel='{registry}hub' href='https://hub.example/'/><link rel='{registry}alternate' href='https://e.example/'/>"
        "</feed>"
    ).encode()

    channel, model = channel_of(body), from_document.read(body)

    assert [link.href for link in channel.self_links] == ["https://e.example/f"]
    assert (channel.hubs, channel.link) == (("https://hub.example/",), "https://e.example/")
    assert model is not None
    assert (model.address, model.link) == ("https://e.example/f", "https://e.example/")


@pytest.mark.parametrize(
    ("title", "read_as"),
    [
        ("Nøhr Größe …".encode() + "é".encode()[:1], "Nøhr Größe …\ufffd"),
        ("Nøhr Größe".encode("cp1252"), "Nøhr Größe"),
        ("“plain” ascii".encode("cp1252"), "“plain” ascii"),
    ],
)
def test_document_with_bytes_invalid_in_utf8_is_read_in_the_more_likely_encoding(title: bytes, read_as: str) -> None:
    channel = read(b"<rss version='2.0'><channel><title>" + title + b"</title></channel></rss>", "text/xml")

    assert channel is not None
    assert (channel.title, channel.well_formed) == (read_as, False)
