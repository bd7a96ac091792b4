"""Media type and self link: which documents are edited, and that nothing else in them changes."""

import re
from pathlib import Path

import pytest
from lxml import etree
from msgspec.structs import replace

from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.edit.media_type_and_charset import media_type_of
from feedproxy.feed.edit.self_link import apply_self_link, plain_title
from feedproxy.feed.parse.channel_parser import read

ATOM_10 = "http://www.w3.org/2005/Atom"
HREF = "https://example.com/~a?b=1&c=2"
ESCAPED_HREF = HREF.replace("&", "&amp;").encode()
RSS = Channel(Kind.RSS, "2.0", True)


def rss(inside: str, scope: str = "", prolog: str = "") -> bytes:
    return f'{prolog}<rss version="2.0"{scope}><channel>{inside}</channel></rss>'.encode()


def linked(body: bytes, mode: str = "add", href: str = HREF, charset: str | None = None) -> bytes:
    channel = read(body, f"text/xml; charset={charset}" if charset else None)
    assert channel is not None
    return apply_self_link(body, channel, href=href, mode=mode, charset=charset)


def assert_left_alone(body: bytes) -> None:
    for mode in ("add", "correct"):
        assert linked(body, mode) == body


def assert_link_added(body: bytes, mode: str = "add") -> None:
    edited = linked(body, mode)
    assert edited != body
    assert re.sub(rb'<(?:[a-z]+:)?link rel="self" type="[^>]*/>', b"", edited, count=1) == body


# -- media type


@pytest.mark.parametrize(
    ("declared", "served"),
    [
        ("text/xml; charset=utf-8", "application/rss+xml; charset=utf-8"),
        ('text/xml; charset="UTF-8"', "application/rss+xml; charset=UTF-8"),
        ("text/xml;charset=windows-1251", "application/rss+xml; charset=windows-1251"),
        ("text/xml; charset=x-sjis", "application/rss+xml; charset=x-sjis"),
        ("text/xml", "application/rss+xml"),
        ("text/xml;", "application/rss+xml"),
        ("", "application/rss+xml"),
        (None, "application/rss+xml"),
        ("; charset=utf-8", "application/rss+xml; charset=utf-8"),
        ("text/xml; charset=utf-9", "application/rss+xml"),
        ("text/xml; charset=rot13", "application/rss+xml"),
        ("text/xml; charset=", "application/rss+xml"),
        ('text/xml; charset="utf-8\r\nx: y"', "application/rss+xml"),
        ('application/rss+xml; charset="utf-8"; q=0.9', "application/rss+xml; charset=utf-8"),
        ("application/rss+xml; profile=x", "application/rss+xml; profile=x"),
        ("text/xml; profile=x", "application/rss+xml"),
    ],
)
def test_charset_in_content_type_is_kept_where_meaningful_and_never_added(declared: str | None, served: str) -> None:
    assert media_type_of(RSS, declared) == served


@pytest.mark.parametrize(
    ("charset", "mark", "kept"),
    [
        ("utf-8", b"\xef\xbb\xbf", True),
        ("iso-8859-1", b"\xef\xbb\xbf", False),
        ("utf-8", b"\xff\xfe", False),
        ("utf-16", b"\xff\xfe", True),
        ("utf-16le", b"\xff\xfe", True),
        ("utf-16be", b"\xff\xfe", False),
        ("utf-16", b"\xff\xfe\0\0", False),
        ("utf-32", b"\0\0\xfe\xff", True),
    ],
)
def test_charset_that_contradicts_the_byte_order_mark_is_dropped(charset: str, mark: bytes, kept: bool) -> None:
    served = media_type_of(RSS, f"text/xml; charset={charset}", mark + b"<\0r\0s\0s\0")

    assert served == ("application/rss+xml" + (f"; charset={charset}" if kept else ""))


@pytest.mark.parametrize(
    ("charset", "declaration", "codec", "kept"),
    [
        ("utf-8", "ISO-8859-1", "latin_1", False),
        ("us-ascii", "utf-8", "utf_8", False),
        ("iso-8859-1", "UTF-8", "utf_8", False),
        ("utf-8", "ISO-8859-1", "utf_8", True),  # the declaration may be wrong
        ("iso-8859-1", "UTF-8", "latin_1", True),
        ("windows-1252", "ISO-8859-1", "latin_1", True),
        ("windows-1251", "ISO-8859-1", "latin_1", True),
        ("utf-8", "UTF-8", "utf_8", True),
        ("iso-8859-1", "utf-9", "utf_8", True),
    ],
)
def test_charset_that_contradicts_a_right_declaration_is_dropped(
    charset: str, declaration: str, codec: str, kept: bool
) -> None:
    body = f'<?xml version="1.0" encoding="{declaration}"?><rss><channel><title>Thé</title></channel></rss>'.encode(
        codec
    )

    served = media_type_of(RSS, f"text/xml; charset={charset}", body)

    assert served == ("application/rss+xml" + (f"; charset={charset}" if kept else ""))


def test_character_cut_off_where_the_check_of_the_charset_ends_is_valid() -> None:
    beginning = '<?xml version="1.0" encoding="utf-8"?><rss><channel><title>'
    for spaces in range(2):
        body = f"{beginning}{' ' * spaces}{'é' * 200_000}".encode()
        assert media_type_of(RSS, "text/xml; charset=iso-8859-1", body) == "application/rss+xml"


def test_media_types_of_json_feed_and_atom_are_their_own() -> None:
    json, atom = Channel(Kind.JSON, "1.1", True), Channel(Kind.ATOM, "1.0", True)

    assert media_type_of(json, "application/json; charset=utf-8") == "application/feed+json; charset=utf-8"
    assert media_type_of(atom, "application/atom+xml;type=feed") == "application/atom+xml; type=feed"


def test_media_type_of_cdf_is_kept_as_declared() -> None:
    cdf = Channel(Kind.CDF, "", True)

    assert media_type_of(cdf, "text/xml; charset=utf-8") == "text/xml; charset=utf-8"
    assert media_type_of(cdf, None) == "application/x-cdf"


# -- what is left alone


def test_signed_document_is_unchanged() -> None:
    signature = '<ds:Signature xmlns:ds="http://www.w3.org/2000/09/xmldsig#"/>'

    link = '<link rel="self" href="https://other.example/"/>'
    atom = f'<feed xmlns="{ATOM_10}">{link}<entry/>{signature}</feed>'.encode()

    assert_left_alone(rss(f"<link/><item/>{signature}"))
    assert linked(atom, "correct") == atom


def test_signature_namespace_in_text_does_not_make_a_document_signed() -> None:
    text = "<item><description>see http://www.w3.org/2000/09/xmldsig#</description></item>"

    assert_link_added(rss(f"<link/>{text}"))


def test_ill_formed_document_is_unchanged() -> None:
    assert_left_alone(rss("<link/><item><title>AT&T</title></item>"))
    assert_left_alone(rss("<link/><item><title>cut short")[:-20])
    assert_left_alone(rss("<link/><itunes:author/>"))


def test_ill_formed_document_of_a_well_formed_channel_is_unchanged() -> None:
    body = rss("<a></b><link/>")

    assert apply_self_link(body, RSS, href=HREF, mode="add") == body


@pytest.mark.parametrize(
    "subset",
    [
        '<!ENTITY a "b">',
        '<!ENTITY a SYSTEM "file:///etc/passwd">',
        "<!ENTITY % p 'x'>",
        "<!ATTLIST rss v CDATA '1'>",
    ],
)
def test_document_with_an_internal_dtd_subset_is_unchanged(subset: str) -> None:
    body = rss("<link/>", prolog=f"<!DOCTYPE rss [{subset}]>")
    channel = replace(RSS, well_formed=True)

    edited = apply_self_link(body, channel, href=HREF, mode="add")

    assert edited == body


def test_document_with_an_external_dtd_is_edited_without_fetching_it() -> None:
    assert_link_added(rss("<link/>", prolog='<!DOCTYPE rss SYSTEM "http://127.0.0.1:9/rss.dtd">'))


def test_document_nested_too_deeply_is_unchanged() -> None:
    body = rss("<a>" * 300 + "</a>" * 300)

    assert apply_self_link(body, RSS, href=HREF, mode="add") == body


def test_document_in_an_unknown_encoding_is_unchanged() -> None:
    body = rss("<link/>", prolog='<?xml version="1.0" encoding="x-unknown-8"?>')

    assert apply_self_link(body, RSS, href=HREF, mode="add") == body


def test_self_link_is_not_supported_in_json_feed() -> None:
    json = Channel(Kind.JSON, "1.1", True)

    assert apply_self_link(b"{}", json, href=HREF, mode="add") == b"{}"


def test_atom_document_without_namespace_is_unchanged() -> None:
    assert_left_alone(b"<feed><title>T</title></feed>")


def test_empty_channel_gets_no_self_link() -> None:
    assert_left_alone(b'<rss version="2.0"><channel/></rss>')


def test_self_link_off_changes_nothing() -> None:
    assert linked(rss("<link/>"), "off") == rss("<link/>")


@pytest.mark.parametrize("href", ["", "https://example.com/\0", "https://example.com/\ufffe", "\ud800"])
def test_href_that_xml_cannot_represent_is_not_written(href: str) -> None:
    assert linked(rss("<link/>"), href=href) == rss("<link/>")


# -- what is written


def test_href_with_markup_is_escaped() -> None:
    href = "https://example.com/f?\"><script>alert('x')</script>&y"

    edited = linked(rss("<link/>"), href=href)

    assert b"<script" not in edited
    assert etree.fromstring(edited)[0][1].get("href") == href


@pytest.mark.parametrize(
    ("title", "plain"),
    [
        ("  The\n RSS\tBlog ", "The RSS Blog"),
        ("<b>Bold</b> news", "Bold news"),
        ("Tom &amp; Jerry &#8211; 1 < 2", "Tom & Jerry – 1 < 2"),
        ("R&D ¬it", "R&D ¬it"),
        ("a\x00b\ufffec", "abc"),
        ("x" * 300, "x" * 255),
        ("&lt;i>", "<i>"),
        ("", ""),
    ],
)
def test_title_is_reduced_to_one_line_of_text(title: str, plain: str) -> None:
    assert plain_title(title) == plain


@pytest.mark.timeout(120)
@pytest.mark.parametrize("piece", ["<a", "<!--"])
def test_title_of_great_length_is_reduced_in_linear_time(piece: str) -> None:
    # With quadratic time, hours.
    assert len(plain_title(piece * 500_000)) <= 255


def test_self_link_in_item_image_comment_or_cdata_is_ignored() -> None:
    link = f'<a:link xmlns:a="{ATOM_10}" rel="self" href="x"/>'
    for inside in (
        f"<item>{link}</item>",
        f"<image>{link}</image>",
        f"<!--{link}-->",
        f"<t><![CDATA[{link}]]></t>",
    ):
        assert_link_added(rss(inside))


def test_self_link_after_the_items_is_recognised() -> None:
    body = rss(f'<link/><item/><a:link xmlns:a="{ATOM_10}" rel="self" type="application/rss+xml" href="http://x/"/>')

    assert linked(body) == body
    assert linked(body, "correct") == body.replace(b"http://x/", ESCAPED_HREF)


def test_self_link_in_the_default_namespace_is_recognised() -> None:
    body = rss(f'<link xmlns="{ATOM_10}" rel="self" href="http://x/"/>')

    assert linked(body) == body


def test_self_link_without_namespace_is_not_recognised() -> None:
    assert_link_added(rss('<link rel="self" href="x"/>'))


@pytest.mark.parametrize("rel", ["Self", "http://www.iana.org/assignments/relation/self", "self alternate"])
def test_self_link_rel_in_other_spellings_is_correct(rel: str) -> None:
    own = f'rel="{rel}" type="application/rss+xml" href="{HREF.replace("&", "&amp;")}"'
    body = rss(f'<a:link xmlns:a="{ATOM_10}" {own}/>')

    for mode in ("add", "correct"):
        assert linked(body, mode) == body


def test_self_link_with_rel_start_in_atom_10_is_not_recognised() -> None:
    body = f'<feed xmlns="{ATOM_10}"><link rel="start" href="?page=1"/></feed>'.encode()

    assert_link_added(body)
    assert_link_added(body, "correct")


@pytest.mark.parametrize("prefixes", [["atom"], ["atom", "atom10", "a10"]])
def test_prefix_declared_for_another_namespace_is_not_used(prefixes: list[str]) -> None:
    edited = linked(rss("<link/>", "".join(f' xmlns:{prefix}="urn:other"' for prefix in prefixes)))

    link = etree.fromstring(edited)[0][1]
    assert link.tag == f"{{{ATOM_10}}}link"
    assert link.prefix not in prefixes


def test_prefix_declared_by_the_channel_is_reused() -> None:
    body = b'<rss version="2.0"><channel xmlns:x="http://www.w3.org/2005/Atom"><link/></channel></rss>'

    assert b"<x:link rel=" in linked(body)
    assert linked(body).count(b"2005/Atom") == 1


# -- correct


@pytest.mark.parametrize("href", [HREF, "HTTPS://Example.COM:443/%7Ea?b=1&c=2"])
def test_self_link_href_in_an_equivalent_spelling_is_correct(href: str) -> None:
    own = f'rel="self" type="application/rss+xml" href="{href.replace("&", "&amp;")}"'
    body = rss(f'<a:link xmlns:a="{ATOM_10}" {own}/>')

    assert linked(body, "correct") == body


@pytest.mark.parametrize("href", ["/~a?b=1&amp;c=2", "", "http://example.com/~a?b=1&amp;c=2", "::"])
def test_self_link_href_relative_or_different_is_corrected(href: str) -> None:
    link = f'<a:link xmlns:a="{ATOM_10}" rel="self" type="application/rss+xml" href="%b"/>'.encode()

    assert linked(rss((link % href.encode()).decode()), "correct") == rss((link % ESCAPED_HREF).decode())


def test_self_link_href_to_another_address_is_kept_in_mode_add() -> None:
    body = rss(f'<a:link xmlns:a="{ATOM_10}" rel="self" href="http://example.com/other"/>')

    assert linked(body, "add") == body


@pytest.mark.parametrize("href", ["/~a?b=1&amp;c=2", "", " ", "::", "feed.xml", "http:feed.xml"])
def test_self_link_href_unusable_from_a_saved_file_is_corrected_in_mode_add(href: str) -> None:
    link = f'<a:link xmlns:a="{ATOM_10}" rel="self" href="%b"/>'.encode()

    assert linked(rss((link % href.encode()).decode()), "add") == rss((link % ESCAPED_HREF).decode())


@pytest.mark.parametrize("mode", ["add", "correct"])
def test_self_link_without_href_gets_one(mode: str) -> None:
    body = rss(f'<a:link xmlns:a="{ATOM_10}" rel="self" type="application/rss+xml"/>')

    assert b'<a:link href="https://example.com/~a?b=1&amp;c=2" xmlns:a=' in linked(body, mode)


def test_self_link_type_that_is_missing_is_added_in_rss_and_advice_in_atom() -> None:
    escaped = HREF.replace("&", "&amp;")
    body = rss(f'<a:link xmlns:a="{ATOM_10}" rel="self" href="{escaped}"/>')
    atom = f'<feed xmlns="{ATOM_10}"><link rel="self" href="{escaped}"/></feed>'.encode()

    assert b'<a:link type="application/rss+xml" ' in linked(body, "correct")
    assert linked(body, "add") == body
    assert linked(atom, "correct") == atom


def test_self_link_type_with_parameters_is_correct() -> None:
    link = f'<a:link xmlns:a="{ATOM_10}" rel="self" type="Application/RSS+XML; charset=utf-8" href="{HREF}"/>'
    body = rss(link.replace("&", "&amp;"))

    assert linked(body, "correct") == body


@pytest.mark.parametrize("quote", ['"', "'"])
def test_self_link_title_other_than_that_of_the_channel_is_corrected(quote: str) -> None:
    href, title = HREF.replace("&", "&amp;"), f"title={quote}Old{quote}"
    link = f'<a:link xmlns:a="{ATOM_10}" {title} rel="self" type="application/rss+xml" href="{href}"/>'
    body = rss(f"<title>News &amp; views</title>{link}")
    expected = title.replace("Old", "News &amp; views").encode()

    edited = linked(body, "correct")

    assert edited == body.replace(title.encode(), expected)
    assert linked(edited, "correct") == edited
    assert linked(body, "add") == body


def test_self_link_title_with_markup_as_text_is_corrected_once() -> None:
    edited = linked(rss("<title>&amp;lt;b&amp;gt; is bold</title>"), "correct")

    assert b'title="&lt;b&gt; is bold"' in edited
    assert linked(edited, "correct") == edited


def test_self_link_without_title_is_correct() -> None:
    href = HREF.replace("&", "&amp;")
    link = f'<a:link xmlns:a="{ATOM_10}" rel="self" type="application/rss+xml" href="{href}"/>'

    body = rss(f"<title>News</title>{link}")

    assert linked(body, "correct") == body


@pytest.mark.parametrize("rel", ["self", "start"])
def test_self_links_are_all_corrected(rel: str) -> None:
    own = f'<a:link xmlns:a="{ATOM_10}" rel="self" type="application/rss+xml" href="{HREF.replace("&", "&amp;")}"/>'
    other = f'<a:link xmlns:a="{ATOM_10}" rel="{rel}" type="text/xml" href="http://old.example/"/>'

    edited = linked(rss(f"{own}<item/>{other}"), "correct")

    right = own.replace('rel="self"', f'rel="{rel}"')
    assert edited == rss(f"{own}<item/>{right}")
    assert linked(edited, "correct") == edited


# -- encodings


@pytest.mark.parametrize("charset", ["iso-8859-1", "windows-1251", "utf-8"])
def test_self_link_is_written_in_ascii_where_charset_and_declaration_differ(charset: str) -> None:
    prolog = '<?xml version="1.0" encoding="iso-8859-15"?>'
    body = rss("<title>Caf\u00e9</title><link/>", prolog=prolog).decode().encode("iso-8859-15")

    edited = linked(body, charset=charset)

    assert b'title="Caf&#233;"' in edited


def test_self_link_characters_outside_the_encoding_become_references() -> None:
    body = rss("<title>\u00e9 &#8364; &#128052;</title><link/>", prolog='<?xml version="1.0" encoding="latin1"?>')

    edited = linked(body.decode().encode("latin-1"))

    assert 'title="\u00e9 &#8364; &#128052;"'.encode("latin-1") in edited


def test_self_link_in_shift_jis_references_yen_sign_and_tilde() -> None:
    body = rss("<title>&#165;100</title><link/>", prolog='<?xml version="1.0" encoding="Shift_JIS"?>')

    edited = linked(body)

    assert b'title="&#165;100" href="https://example.com/&#126;a?' in edited


def test_self_link_in_utf_8_declared_as_utf_16_stays_utf_8() -> None:
    body = rss("<title>\u00e9</title><link/>", prolog='<?xml version="1.0" encoding="utf-16"?>')

    assert 'title="\u00e9"'.encode() in linked(body)


# -- real and hostile feeds


def test_corpus_feeds_change_only_by_the_insertion(corpus: Path) -> None:
    added = 0
    for path in sorted((corpus / "feeds").iterdir()):
        body = path.read_bytes()
        channel = read(body, None)
        if channel is None:
            continue

        edited = apply_self_link(body, channel, href=HREF, mode="add")

        if edited is not body:
            added += 1
            after = read(edited, None)
            assert after is not None
            is_new_link = len(after.self_links) > len(channel.self_links)
            at = next(
                (i for i, (old, new) in enumerate(zip(body, edited, strict=False)) if old != new),
                len(body),
            )
            inserted = len(edited) - len(body)
            # What is inserted may begin as the rest does: the common beginning is then longer than the place.
            if is_new_link:
                near = range(at, at - 60, -1)
                assert any(body == edited[:i] + edited[i + inserted :] for i in near), path.name
            assert after.well_formed
            assert [link.href for link in after.self_links if link.href == HREF] == [HREF]
            assert replace(after, self_links=(), content_digest="") == replace(
                channel, self_links=(), content_digest=""
            )
            if is_new_link:
                assert apply_self_link(edited, after, href=HREF, mode="correct") == edited
    assert added > 150


def test_corpus_feeds_corrected_twice_equal_those_corrected_once(corpus: Path) -> None:
    for path in sorted((corpus / "feeds").iterdir()):
        body = path.read_bytes()
        channel = read(body, None)
        if channel is None:
            continue
        once = apply_self_link(body, channel, href=HREF, mode="correct")
        again = read(once, None)
        assert again is not None
        assert again.well_formed == channel.well_formed
        assert apply_self_link(once, again, href=HREF, mode="correct") == once
