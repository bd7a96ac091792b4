"""References to entities: of the document itself, of XML and of HTML, in sound and faulty documents."""

import re

import pytest

from feedproxy.feed import xml_repairs
from feedproxy.feed.channel import Channel
from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.convert.read import from_document
from feedproxy.feed.parse.channel_parser import read
from feedproxy.feed.xml_parser import SMALL_DOCUMENT_MAX
from tests.growth import cost


def a_feed(title: str, declarations: str = "", attribute: str = "") -> bytes:
    prolog = f"<!DOCTYPE rss [{declarations}]>" if declarations else ""
    return (
        f"{prolog}<rss version='2.0'><channel><title>{title}</title><link>https://e.example/</link>"
        f"<description>a &amp; &lt;b&gt;b&lt;/b&gt;</description><item><title>x &amp; y</title>"
        f"<enclosure url='https://e.example/{attribute}' length='1' type='audio/mpeg'/></item></channel></rss>"
    ).encode()


def channel_of(body: bytes) -> Channel:
    channel = read(body, None)
    assert channel is not None
    return channel


@pytest.mark.parametrize(
    ("declarations", "written", "title"),
    [
        ("<!ENTITY author 'J&#252;rg'>", "&author;", "Jürg"),
        ('<!ENTITY firm "Kraut &amp; R&#xFC;ben">', "&firm;", "Kraut & Rüben"),
        ("<!ENTITY copy '(c)'>", "&copy; &reg;", "(c) ®"),
        ("<!ENTITY a 'one'><!ENTITY a 'two'>", "&a;", "one"),
        ("<!ENTITY a 'x'><!ENTITY b '&a;&a;'>", "&b;", "xx"),
        ("<!ENTITY both '&#38;#38; &#38;#60;'>", "&both;", "& <"),
        ("<!ENTITY marks '&#34;&#39;'>", "&marks;", "\"'"),
        ("<!-- <!ENTITY a 'no'> --><!ENTITY a 'yes'>", "&a;", "yes"),
        ("<!ENTITY a 'x'>", "<![CDATA[&a;]]>", "&a;"),
        ("<!ENTITY amp 'and'>", "&amp;", "&"),
        ("<!ENTITY % more SYSTEM 'file:///etc/passwd'> <!ENTITY a 'x'>", "&a;", "x"),
        ("<!ENTITY secret SYSTEM 'file:///etc/passwd'>", "&secret;", "&secret;"),
        ("<!ENTITY a '&a;'>", "&a;", "&a;"),
        ("<!ENTITY a '&b;'><!ENTITY b '&a;'>", "&a;", "&a;"),
    ],
)
def test_entity_of_the_document_is_its_declared_text(declarations: str, written: str, title: str) -> None:
    body = a_feed(written, declarations)

    model = from_document.read(body)
    assert channel_of(body).title == title
    assert model is not None
    assert model.title is not None
    assert model.title.value == title
    again = from_document.read(FORMATS["rss"].render(model))
    assert again is not None
    assert again.title == model.title


def test_entity_with_markup_is_markup() -> None:
    body = a_feed("x", "<!ENTITY logo \"<img src='https://e.example/a.png'/>\">")

    model = from_document.read(body.replace(b"a &amp;", b"&logo;"))

    assert model is not None
    assert model.summary is not None
    assert '<img src="https://e.example/a.png">' in model.summary.value


def test_entity_in_an_attribute_does_not_end_the_value() -> None:
    model = from_document.read(a_feed("x", "<!ENTITY a '\"&#38;'>", "&a;?b"))

    assert model is not None
    assert model.items[0].enclosures[0].url == "https://e.example/%22&?b"


def test_entities_expand_to_a_limited_size() -> None:
    laughs = "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10 if n else 'lol'}'>" for n in range(9))
    repeated = f"<!ENTITY long '{'x' * 8000}'>"

    assert channel_of(a_feed("&l8;", laughs)).title == "&l8;"
    assert len(channel_of(a_feed("&l2;", laughs)).title) == 300
    model = from_document.read(a_feed("&long;" * 10_000, repeated))
    assert model is not None
    assert model.title is not None
    assert len(model.title.value) < 400_000


@pytest.mark.parametrize("fault", ["&nbsp;", "&unknown;", "\x08", "<x a=1/>"])
def test_references_after_a_fault_are_characters(fault: str) -> None:
    body = a_feed(f"Q &amp; A{fault}", attribute="?a=1&amp;b=&eacute;")

    model = from_document.read(body)
    assert not channel_of(body).well_formed
    assert model is not None
    assert model.summary is not None
    assert model.summary.value == "a & <b>b</b>"
    assert [str(item.title.value) for item in model.items if item.title] == ["x & y"]
    assert model.items[0].enclosures[0].url == "https://e.example/?a=1&b=é"


def test_entity_of_html_without_declaration_is_a_fault() -> None:
    assert channel_of(a_feed("&eacute;")).title == "é"
    assert not channel_of(a_feed("&eacute;")).well_formed


def test_entity_of_html_is_no_fault_with_an_external_document_type() -> None:
    body = b"<!DOCTYPE rss PUBLIC '-//Netscape Communications//DTD RSS 0.91//EN' 'rss-0.91.dtd'>" + a_feed("&eacute;")

    assert channel_of(body).title == "é"
    assert channel_of(body).well_formed


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("Party &#55357;&#56832;", "Party 😀"),
        ("Party &#xD83D;&#x0de00;!", "Party 😀!"),
        ("a&#xD800;b &#57343;", "a\ufffdb \ufffd"),
        ("&#x1F600;&#56832;&nbsp;&#xE000;", "😀\ufffd\xa0\ue000"),
    ],
)
def test_references_to_surrogates_are_a_fault_and_stand_for_one_character(written: str, title: str) -> None:
    body = a_feed(written, attribute=written.partition(" ")[2])

    model = from_document.read(body)

    assert not channel_of(body).well_formed
    assert channel_of(body).title == title.strip()
    assert model is not None
    assert model.title is not None
    assert model.title.value == title
    assert all(FORMATS[name].render(model) for name in FORMATS)


def test_reference_to_a_surrogate_after_a_false_cdata_section_is_read() -> None:
    body = a_feed("x &#55357;y").replace(b"<rss", b"<rss a='<![CDATA['")

    assert channel_of(body).title == "x \ufffdy"


def test_search_for_references_to_surrogates_is_as_fast_as_for_one_reference() -> None:
    """A pattern of repeated references took a third of the time of parsing a large feed."""
    body = b"<p>a text without &#233; them</p>" * 10_000
    one = re.compile(b"&#(?:x1f600|128512);")

    searched = min(cost(lambda: xml_repairs.replace_surrogates(body), 3) for _ in range(5))

    assert searched < 6 * min(cost(lambda: one.search(body), 3) for _ in range(5))


@pytest.mark.parametrize(
    "written",
    ["<![CDATA[&#55357;&#56832;]]>", "<!-- &#xD800; -->", "<?x &#xDFFF;?>", "&#55295;&#xD7FF;&#57344;&#xE000;"],
)
def test_text_that_is_no_reference_to_a_surrogate_is_no_fault(written: str) -> None:
    assert channel_of(a_feed(written + "x" * SMALL_DOCUMENT_MAX)).well_formed
