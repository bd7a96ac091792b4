"""Hostile XML: time and memory are bounded, and no exception is raised."""

import tracemalloc
from collections.abc import Callable
from functools import partial

import pytest

from feedproxy.feed import xml_parser, xml_well_formedness
from feedproxy.feed.encoding_detection import to_utf8
from feedproxy.feed.parse.channel_parser import read
from feedproxy.feed.xml_repairs import close_void_elements, escape_bare
from tests.growth import MOMENT, TIMES, cost, grows_no_faster

MB = 1024 * 1024
MANY = MB // 8
HEAD = b"<rss><channel><ttl>5</ttl>"
ATTACKS: dict[str, Callable[[int], bytes]] = {
    "elements": lambda many: HEAD + b"<x/>" * many,
    "items within an item": lambda many: HEAD + b"<item>" + b"<item/>" * (many // 2),
    "hours": lambda many: HEAD + b"<skipHours>" + b"<hour>x</hour>" * (many // 4),
    "depth": lambda many: HEAD + b"<a>" * many,
    "one attribute": lambda many: HEAD + b'<a b="' + b"x" * (8 * many) + b'"/>',
    "attributes": lambda many: HEAD + b"<a " + b" ".join(b'a%d=""' % number for number in range(many // 4)) + b"/>",
    "tags without end": lambda many: HEAD + b"<date " * many,
    "comments without end": lambda many: HEAD + b"&" + b"<!--" * many,
    "ampersands": lambda many: HEAD + b"& " * many,
    "unclosed elements of HTML": lambda many: HEAD + b"<br>" * many,
    "depth after a reference": lambda many: HEAD + b"&amp;" + b"<a>" * many,
    "depth after a text like a namespace declaration": lambda many: (
        HEAD + b"<![CDATA[xmlns='" + b"x" * 300 + b"']]>" + b"<a>" * many
    ),
    "balanced depth after a surrogate": lambda many: (
        HEAD + b"&#55357;" + b"<a>" * (many // 2) + b"</a>" * (many // 2) + b"</channel></rss>"
    ),
    "signs of less": lambda many: HEAD + b"< " * many,
    "items without end": lambda many: HEAD + b"<item><b>" * (many // 2),
    "deep items without end": lambda many: HEAD + b"<a>" * 200 + b"<item></b>" * (many // 2),
    "end tags in an item without end": lambda many: HEAD + b"<item><item>" + b"</b>" * many,
    "quotes in a deep element": lambda many: HEAD + b"<a>" * 300 + (b"<a '<a ''" * 3000 + b">") * (many // 8000),
    "depth with quotes": lambda many: HEAD + b"<a b='" * (many // 2) + b"<a>" * (many // 2),
    "references": lambda many: HEAD + b"&x;" * many,
    "instructions": lambda many: HEAD + b"<?a?>" * many,
    "CDATA without end": lambda many: HEAD + b"<![CDATA[" * (many // 4),
    "prolog": lambda many: b"<?a?>" * many,
    "document type": lambda many: b"<!DOCTYPE x [" + b"] " * many,
    "declaration": lambda many: b"<?xml version='1.0' " + b"encoding " * many,
    "space": lambda many: b" " * (4 * many),
    "entities": lambda many: (
        b"<!DOCTYPE r [" + b"".join(b'<!ENTITY e%d "x">' % number for number in range(many // 8)) + b"]>" + HEAD
    ),
    "entities in an attribute": lambda many: (
        b'<!DOCTYPE r [<!ENTITY e "' + b"x" * (many // 5) + b'">]><rss a="' + b"&e;" * (many // 128) + b'"/>'
    ),
    "references to entities": lambda many: (
        b"<!DOCTYPE r ["
        + b"".join(b"<!ENTITY e%d '&e%d;&e%d;'>" % (n, n + 1, n + 1) for n in range(999))
        + b"]>"
        + HEAD
        + b"&e0;&e990;" * (many // 8)
    ),
    "escaped text after a fault": lambda many: HEAD + b"<item>&nbsp;" + b"&lt;ab" * many,
    "namespace in an entity": lambda many: (
        b"<!DOCTYPE r [<!ENTITY a 'xml'><!ENTITY e \"<item &a;ns='"
        + b"x" * 8000
        + b"'>\">]>"
        + HEAD
        + b"&e;"
        + b"<a/>" * (many // 8)
        + b"</item></channel></rss>"
    ),
    "declarations without end": lambda many: b"<!DOCTYPE r [" + b"<!ENTITY a '<!--" * (many // 16) + b"]>" + HEAD,
    "an item with elements of many namespaces": lambda many: (
        b"<!DOCTYPE rss><rss><channel "
        + b" ".join(b'xmlns:n%d="u%d"' % (number, number) for number in range(many // 16))
        + b"><item>"
        + b"".join(b"<n%d:a/>" % (number % (many // 16)) for number in range(many // 4))
        + b"</item></channel></rss>"
    ),
    "JSON": lambda many: b'{"title":"t","items":' + b"[" * many,
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_attack_takes_bounded_time_and_memory(attack: str) -> None:
    assert not grows_no_faster(lambda many: partial(read, ATTACKS[attack](many), "application/rss+xml"), MANY // TIMES)

    body = ATTACKS[attack](MANY // 4)
    tracemalloc.start()  # which takes five times as long
    read(body, "application/rss+xml")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The parser holds the items of one piece of 64 KiB at once, and this attack has the most items that it holds.
    assert peak < 3 * len(body) + (4 if attack == "items within an item" else 2.5) * MB


def test_longer_tag_without_end_takes_no_longer_than_the_longest_that_is_parsed() -> None:
    # libxml2's time grows almost with the square of the number of quotes. Quotes of an even number have an end.
    shorter, longer = (
        cost(partial(read, HEAD + b"<a b='" * number + b"<a>" * number, None)) for number in (10_000, 40_000)
    )

    assert longer < 3 * max(MOMENT, shorter)


@pytest.mark.parametrize("attack", ["elements", "hours", "depth", "one attribute", "tags without end", "ampersands"])
def test_hint_before_hostile_markup_is_read(attack: str) -> None:
    channel = read(ATTACKS[attack](MANY), None)

    assert channel is not None
    assert channel.schedule.ttl == 5
    assert not channel.well_formed


def test_attribute_of_2_mb_is_accepted() -> None:
    picture = b"A" * (2 * MB)
    channel = read(HEAD + b'<item><a b="data:' + picture + b'"/></item></channel></rss>', None)

    assert channel is not None
    assert channel.well_formed


@pytest.mark.parametrize(
    "text",
    [
        b'write xmlns="' + b"x" * 300,
        b'<![CDATA[s.replace("xmlns=\'", s)' + b"x" * 300 + b"' <svg xmlns:a='" + b"x" * 300 + b"'>]]>",
        b'&lt;svg xmlns:xlink="http://www.w3.org/1999/xlink"/&gt;' * 10_001,
    ],
    ids=["text", "CDATA", "many"],
)
def test_text_that_looks_like_a_namespace_declaration_is_no_fault(text: bytes) -> None:
    channel = read(HEAD + b"<item><title>" + text + b"</title></item><item/></channel></rss>", None)

    assert channel is not None
    assert (channel.items, channel.well_formed) == (2, True)


@pytest.mark.parametrize(
    "tag",
    [
        b"<x xmlns='" + b"x" * 300 + b"'/>",
        b"<x a='>' xmlns:b='" + b"x" * 300 + b"'/>",
        b"".join(b"<x xmlns:a='%d'/>" % number for number in range(10_001)),
    ],
    ids=["default", "prefix", "many"],
)
def test_namespace_declaration_beyond_a_limit_ends_the_document(tag: bytes) -> None:
    channel = read(HEAD + b"<item><title>a</title></item>" + tag + b"<item/></channel></rss>", None)

    assert channel is not None
    assert (channel.items, channel.well_formed) == (1, False)


def test_text_that_looks_like_a_namespace_declaration_expands_no_entities(monkeypatch: pytest.MonkeyPatch) -> None:
    # expat expands entities to a hundred times the document
    monkeypatch.setattr(xml_well_formedness, "ParserCreate", None)
    text = b'<title>&e;</title><!-- xmlns="' + b"x" * 300 + b'" -->'
    doctype = b'<!DOCTYPE rss [<!ENTITY e "x">]>'

    assert xml_parser.safe_length(doctype + HEAD + text + b"</channel></rss>") < len(doctype + HEAD + text)


def test_channel_with_20000_items_is_read_completely() -> None:
    body = b"<rss><channel>" + b"<item><title>t</title></item>\n" * 20_000 + b"<ttl>7</ttl></channel></rss>"
    channel = read(body, None)

    assert channel is not None
    assert (channel.items, channel.schedule.ttl, channel.well_formed) == (20_000, 7, True)


def test_chunk_boundaries_do_not_affect_the_result() -> None:
    item = "<item><title>é</title>\n<x:y xmlns:x='u'>&amp;</x:y></item>"
    digests = set()
    for spaces in range(0, 70_000, 6_997):
        body = f"<rss>{' ' * spaces}<channel>{item * 2_000}<ttl>7</ttl></channel></rss>"
        channel = read(body.encode(), None)
        assert channel is not None
        assert (channel.items, channel.schedule.ttl, channel.well_formed) == (2_000, 7, True)
        digests.add(channel.content_digest)
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("reference", "read_as"),
    [
        ("?a=1&b=2", "?a=1&b=2"),
        ("?a=1&amp;b=2", "?a=1&b=2"),
        ("?a=1&#38;b=2&copy=3", "?a=1&b=2&copy=3"),
        ("?a&&#x26;&#;& b", "?a&&&#;& b"),
    ],
)
def test_ampersand_without_reference_is_text(reference: str, read_as: str) -> None:
    page, own = f"https://e.example/{reference}", f"https://e.example/feed{reference}"
    link = f'<atom:link xmlns:atom="http://www.w3.org/2005/Atom" rel="self" href="{own}"/>'

    channel = read(f"<rss version='2.0'><channel><link>{page}</link>{link}</channel></rss>".encode(), None)

    assert channel is not None
    assert channel.link == f"https://e.example/{read_as}"
    assert channel.self_links[0].href == f"https://e.example/feed{read_as}"
    assert channel.well_formed is (reference == "?a=1&amp;b=2")


@pytest.mark.parametrize(
    "part", ["<![CDATA[a & b ]] ]>&c]]]>", "<!-- a & b -- >&c -->", "<?php a & b?>", "&nbsp;&#8217;"]
)
def test_ampersand_outside_content_is_no_fault(part: str) -> None:
    document = f"<rss version='2.0'><channel>{part}<item><title>t</title></item></channel></rss>".encode()

    assert escape_bare(document) == document
    assert escape_bare(document + b"&") == document + b"&amp;"


def test_sign_of_less_in_a_text_is_read_as_text_and_loses_no_item() -> None:
    items = b"<item><title>a < b and 3<4</title></item><item><title>next</title></item>"

    channel = read(b"<rss version='2.0'><channel><title>1<2</title>" + items + b"</channel></rss>", None)

    assert channel is not None
    assert (channel.title, channel.items, channel.well_formed) == ("1<2", 2, False)


@pytest.mark.parametrize("part", ["<![CDATA[a < b]]>", "<!-- a < b -->", "<?php 1 < 2?>", "<é>a</é>", "<_a/>"])
def test_sign_of_less_where_xml_allows_it_is_unchanged(part: str) -> None:
    document = f"<rss version='2.0'><channel>{part}</channel></rss>".encode()

    assert escape_bare(document) == document


def tree_and_item_texts(document: str) -> tuple[xml_parser.XmlTree, list[str]]:
    items: list[str] = []
    tree = xml_parser.parse(
        to_utf8(document.encode()), lambda element: items.append("".join(map(str, element.itertext())))
    )
    assert tree is not None
    return tree, items


@pytest.mark.parametrize("depth", [240, 256, 5_000])
@pytest.mark.parametrize(
    "tags", [("<d>", "</d>"), ("<d a='>'><!-- <d> --><e/>", "</d>"), ("<d>", "<![CDATA[<d>]]></d>")]
)
def test_item_with_deeply_nested_elements_is_read_and_so_are_the_items_after_it(
    depth: int, tags: tuple[str, str]
) -> None:
    deep = f"<item><title>deep</title><x>{tags[0] * depth}text{tags[1] * depth}</x></item>"
    item = "<item><title>t</title></item>"

    tree, items = tree_and_item_texts(f"<rss><channel>{item}{deep}{item}</channel></rss>")

    assert [text.replace("<d>", "") for text in items] == ["t", "deeptext", "t"]
    assert tree.well_formed is (depth < 250)


@pytest.mark.parametrize(
    ("fault", "texts"),
    [
        ("<item><title>a</title>", ["a"]),
        ("<item><title>a</title><d>b</item>", ["ab"]),
        ("<item><title>a</title><d><p>b<i>c</p></d></item>", ["abc"]),
        ("<item><title>a</title><d><p>b<i>c</i></d><e>d</e></item>", ["abcd"]),
        ("<item><title>a</titel><d>b</d></item><item><title>c</title>", ["ab", "c"]),
        ("<item><title>a</title><d>b</p></d></item><item>c", ["ab", "c"]),
        ("<item><title>a</title><d><![CDATA[<item>]]></d>", ["a<item>"]),
        ("<item><title>a</title><item/>", ["a", ""]),
        ("<item><title>a<item><title>b", ["a", "b"]),
        (f"<item><title>a</title>{'<d>' * 300}b</item>", ["ab"]),
    ],
)
@pytest.mark.parametrize("count", [1, 1_600])  # the parser reads pieces of 64 KiB, and 1600 items are longer
def test_missing_end_tag_merges_no_items(fault: str, texts: list[str], count: int) -> None:
    item = "<item><title>t</title><link>u</link></item>"

    tree, items = tree_and_item_texts(
        f"<rss><channel><title>x</title>{item * count}{fault}{item * count}</channel></rss>"
    )

    assert items == ["tu"] * count + texts + ["tu"] * count
    assert tree.well_formed is False


def test_missing_end_tag_merges_no_atom_entries() -> None:
    entries = "<entry><title>a</title><entry><title>b</title></entry><entry><title>c</title></entry>"

    channel = read(f"<feed xmlns='{xml_parser.ATOM}'><title>t</title>{entries}</feed>".encode(), None)

    assert channel is not None
    assert (channel.items, channel.well_formed) == (3, False)


@pytest.mark.parametrize("tail", ["", "<!--" + "x" * 300_000 + "-->"])
def test_nested_item_of_a_well_formed_document_is_part_of_the_outer_item(tail: str) -> None:
    document = f"<rss version='2.0'><channel><title>t</title><item>a<item>b</item></item>{tail}</channel></rss>"

    channel = read(document.encode(), None)

    assert channel is not None
    assert (channel.items, channel.well_formed) == (1, True)


@pytest.mark.parametrize("tag", ["<br>", "<BR clear='all'>", "<hr>", "<img src='a'>"])
def test_unescaped_html_element_without_content_loses_no_item(tag: str) -> None:
    items = f"<item><description><p>a{tag}b</p></description></item><item><title>next</title></item>"

    channel = read(f"<rss version='2.0'><channel><title>t</title>{items}</channel></rss>".encode(), None)

    assert channel is not None
    assert (channel.items, channel.well_formed) == (2, False)


@pytest.mark.parametrize("part", ["<br/>", "<br></br>", "<![CDATA[<br>]]>", "<!-- <br> -->", "<brand>a</brand>"])
def test_element_without_content_is_unchanged_where_it_is_no_fault(part: str) -> None:
    document = f"<rss version='2.0'><channel>{part}</channel></rss>".encode()

    assert close_void_elements(document) == document
    assert close_void_elements(document + b"<br>") == document + b"<br/>"
