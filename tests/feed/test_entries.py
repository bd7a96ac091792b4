"""Entries: their identity, digest and byte offsets."""

import pytest

from feedproxy.feed.delta.entry_identities import IdentifiedEntry, find_entries, find_items, pack, unpack
from feedproxy.feed.parse.channel_parser import read

FEED = """\
<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/">
  <channel>
    <title>t</title>
    <item>
      <title>one</title>
      <guid>1</guid>
      <dc:creator id="1" role="x">Ann</dc:creator>
      <pubDate>Fri, 20 Nov 2026 08:00:00 GMT</pubDate>
      <description>a <![CDATA[<b>bold</b>]]> word</description>
    </item>
    <item><title>two</title></item>
  </channel>
</rss>
"""
RDF = """\
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
<channel rdf:about="http://example.com/"><title>t</title></channel>{}</rdf:RDF>"""
ATOM = "<feed xmlns='http://www.w3.org/2005/Atom'><title>t</title>{}</feed>"
ATOM_03 = ATOM.replace("http://www.w3.org/2005/Atom", "http://purl.org/atom/ns#")
RSS = "<rss><channel><title>t</title>{}</channel></rss>"
JSON = '{{"version": "https://jsonfeed.org/version/1.1", "title": "t", "items": [{}]}}'


def all_of(document: str | bytes, charset: str | None = None) -> tuple[IdentifiedEntry, ...]:
    body = document.encode() if isinstance(document, str) else document
    channel = read(body, f"text/xml; charset={charset}" if charset else None)
    assert channel is not None
    found = find_entries(body, channel, charset=charset)
    assert found is not None
    return found


def texts_of(body: bytes, charset: str | None = None) -> list[str]:
    """Return the bytes of each entry, as text."""
    channel = read(body, f"text/xml; charset={charset}" if charset else None)
    assert channel is not None
    found = find_items(body, channel, charset)
    assert found is not None
    document, outline = found
    return [document.utf8[item.start : item.end].decode() for item in outline.items]


def none_of(document: str | bytes) -> bool:
    body = document.encode() if isinstance(document, str) else document
    channel = read(body, None)
    assert channel is not None
    return find_entries(body, channel) is None


def only(document: str) -> IdentifiedEntry:
    [entry] = all_of(document)
    return entry


# -- identity

NAMED = {
    "a guid": (RSS, "<item><guid isPermaLink='false'> {} </guid><link>http://l/</link></item>"),
    "an id of Atom 1.0": (ATOM, "<entry><id>{}</id><link href='http://l/'/></entry>"),
    "an id of Atom 0.3": (ATOM_03, "<entry><id>{}</id><link rel='alternate' href='http://l/'/></entry>"),
    "rdf:about": (RDF, "<item rdf:about='{}'><link>http://l/</link></item>"),
    "an id of JSON": (JSON, '{{"id": "{}", "url": "http://l/"}}'),
    "a link of RSS": (RSS, "<item><guid/><link>{}</link></item>"),
    "a link of Atom": (ATOM, "<entry><link rel='enclosure' href='x'/><link href='{}'/></entry>"),
    "a link of RSS 1.0": (RDF, "<item><link>{}</link></item>"),
    "a link of JSON": (JSON, '{{"url": "{}"}}'),
}


@pytest.mark.parametrize(("feed", "item"), NAMED.values(), ids=NAMED)
def test_entry_identity_depends_on_its_id_only(feed: str, item: str) -> None:
    one, again = only(feed.format(item.format("n"))), only(feed.format(item.format("n").replace("l/", "other/")))
    closing = "}" if feed is JSON else f"</{'entry' if 'entry' in item else 'item'}>"
    more = ', "title": "new"}' if feed is JSON else f"<title>new</title>{closing}"
    changed = only(feed.format(item.format("n").removesuffix(closing) + more))
    other = only(feed.format(item.format("m")))

    assert one.identity == again.identity == changed.identity != other.identity
    assert one.digest != changed.digest


def test_entry_identity_without_id_depends_on_the_content() -> None:
    one, two = all_of(RSS.format("<item><title>a</title></item><item><title>b</title></item>"))

    assert one.identity != two.identity
    assert only(RSS.format("<item> <title>b</title></item>")).identity == two.identity


def test_entry_identity_distinguishes_guid_from_link_and_equates_numeric_ids() -> None:
    assert (
        only(RSS.format("<item><guid>x</guid></item>")).identity
        != only(RSS.format("<item><link>x</link></item>")).identity
    )
    assert only(JSON.format('{"id": 7}')).identity == only(JSON.format('{"id": "7"}')).identity


@pytest.mark.parametrize("foreign", ["<x:guid xmlns:x='u'>x</x:guid>", "<source><guid>x</guid></source>"])
def test_entry_identity_ignores_guids_of_nested_or_foreign_elements(foreign: str) -> None:
    item = f"<item>{foreign}<guid>g</guid></item>"

    assert only(RSS.format(item)).identity == only(RSS.format("<item><guid>g</guid></item>")).identity


def test_entries_with_duplicate_guids_are_distinguished_by_content() -> None:
    a, b, c = (f"<item><guid>g</guid><title>{title}</title></item>" for title in "abc")
    [alone] = all_of(RSS.format(b))
    first, second = all_of(RSS.format(a + b))
    newest, first_later, second_later = all_of(RSS.format(c + a + b))

    assert len({newest.identity, first.identity, second.identity}) == 3
    assert alone.identity == second.identity == second_later.identity
    assert first.identity == first_later.identity


def test_entries_that_are_identical_have_distinct_identities() -> None:
    one, two, three = all_of(RSS.format("<item><guid>g</guid></item>" * 3))

    assert len({one.identity, two.identity, three.identity}) == 3


# -- digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<title>one", "<!-- made in 12 ms --><title>one"),
        ("<title>one", "<title><!-- x -->one"),
        ("\n      <title>one", "\r\n\t<title>one"),
        ('id="1" role="x"', "role = 'x'  id='1'"),
        ("<title>one</title>", "<title  >one</title >"),
        ("<![CDATA[<b>bold</b>]]>", "&lt;b>bold&lt;/b&gt;"),
        ("dc:", "core:"),
        ("<title>t<", "<title>another<"),
        ("<item><title>two</title></item>", ""),
        ("<title>t</title>", "<title>t</title><item><title>new</title></item>"),
    ],
)
def test_entry_digest_ignores_insignificant_differences(old: str, new: str) -> None:
    changed = FEED.replace(old, new)
    if old == "dc:":
        changed = changed.replace("xmlns:dc", "xmlns:core")
    assert changed != FEED

    assert all_of(FEED)[0] in all_of(changed)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<title>one<", "<title>One<"),
        ("20 Nov", "21 Nov"),
        ("http://purl.org/dc/elements/1.1/", "http://purl.org/dc/terms/"),
        ('id="1"', 'id="2"'),
        ("a <![CDATA[", "a  <![CDATA["),
        ("<title>one</title>", "<title>one</title><category/>"),
        ("<title>one</title>", "<title>one</title><?x y?>"),
    ],
)
def test_entry_digest_changes_with_significant_differences(old: str, new: str) -> None:
    before, after = all_of(FEED)[0], all_of(FEED.replace(old, new))[0]

    assert before.identity == after.identity
    assert before.digest != after.digest


def test_entry_digest_of_a_long_text_ignores_its_escaping() -> None:
    text = "<p>&amp;é</p>" * 3000
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")

    one = only(RSS.format(f"<item><description>{escaped}</description></item>"))
    other = only(RSS.format(f"<item><description><![CDATA[{text}]]></description></item>"))

    assert one.digest == other.digest


def test_entry_digest_ignores_the_update_date_of_its_source() -> None:
    entry = "<entry><id>1</id><updated>{}</updated><source><updated>{}</updated><id>s</id></source></entry>"

    assert only(ATOM.format(entry.format(1, 1))) == only(ATOM.format(entry.format(1, 2)))
    assert only(ATOM.format(entry.format(1, 1))) != only(ATOM.format(entry.format(2, 1)))


def test_entry_digest_ignores_the_order_of_json_members() -> None:
    one, other = (only(JSON.format(item)) for item in ('{"id": "1", "a": [1]}', '{"a":[1], "id":"1"}'))

    assert one.digest == other.digest


def test_entry_digest_includes_unexpanded_entities() -> None:
    feed = '<!DOCTYPE rss PUBLIC "n" "http://127.0.0.1:9/x.dtd">' + RSS.format("<item><title>&{};</title></item>")

    assert only(feed.format("eacute")).digest != only(feed.format("egrave")).digest


# -- places


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-32-be", "iso-8859-1", "gb18030", "shift_jis", "euc-jp", "iso-2022-jp"],
)
def test_entry_offsets_are_exact_in_every_encoding(encoding: str) -> None:
    word = "é" if encoding == "iso-8859-1" else "日本語"
    items = [f"<item><title>{word}</title></item>", "<item/>", f"<item a='>'>{word}</item >"]
    label = {"utf-8-sig": "utf-8"}.get(encoding, encoding)
    text = f"<?xml version='1.0' encoding='{label}'?>" + RSS.format(f" {word} ".join(items)).replace("t<", f"{word}<")
    body = text.encode(encoding)

    assert texts_of(body) == items


def test_entry_offsets_use_the_charset_of_content_type_without_a_declaration() -> None:
    body = RSS.format("é<item><title>é</title></item>").encode("iso-8859-1")

    assert texts_of(body, "iso-8859-1") == ["<item><title>é</title></item>"]


def test_entry_offsets_in_json_cover_the_object() -> None:
    body = JSON.format(' {"id": "é", "x": "]}"} , {"id":2}').encode()

    assert texts_of(body) == ['{"id": "é", "x": "]}"}', '{"id":2}']


def test_entries_beside_the_channel_are_found() -> None:
    assert len(all_of(RDF.format("<item rdf:about='a'/><item rdf:about='b'/>"))) == 2
    assert len(all_of("<rss><channel><title>t</title></channel><item/></rss>")) == 1


def test_entries_of_an_empty_feed_are_empty() -> None:
    assert all_of(RSS.format("")) == ()
    assert all_of(ATOM.format("")) == ()
    assert all_of(JSON.format("")) == ()


# -- what cannot be done exactly


@pytest.mark.parametrize(
    "document",
    [
        RSS.format("<item><title>a & b</title></item>"),
        '<!DOCTYPE rss [<!ENTITY e "x">]>' + RSS.format("<item><title>&e;</title></item>"),
        RSS.format("<image><item/></image><item/>"),
        RSS.format("<x:item xmlns:x='urn:x'/>"),
        RSS.format("<item/>").encode() + b"\xff",
        RSS.format("<item><title>\xff</title></item>").encode("latin-1"),
        '<CHANNEL HREF="http://example.com/"><ITEM HREF="a"/></CHANNEL>',
        JSON.format('{"id": 1}') + "x",
        JSON.format('{"id": 1}, 2'),
        JSON.format('{"id": 1}')[:-1] + ', "items": []}',
        RSS.format("<item/>" * 10_001),
    ],
)
def test_entries_are_absent_where_offsets_cannot_be_exact(document: str | bytes) -> None:
    assert none_of(document)


# -- what is kept


def test_pack_round_trip_uses_sixteen_bytes_per_entry() -> None:
    version = all_of(FEED)
    packed = pack(version)

    assert len(packed) == 16 * len(version)
    assert unpack(packed) == set(version)


def test_unpack_rejects_damaged_bytes() -> None:
    with pytest.raises(ValueError, match="multiple of 16"):
        unpack(b"123")
