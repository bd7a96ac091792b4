"""Properties of every feed in every encoding: the self link is present, and everything else is unchanged."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lxml import etree

from feedproxy.feed.edit.self_link import apply_self_link, plain_title
from feedproxy.feed.encoding_detection import to_utf8
from feedproxy.feed.parse.channel_parser import read

ATOM_10 = "http://www.w3.org/2005/Atom"
MARKED = {"utf-8-sig": "utf-8", "utf-16": "utf-16", "utf-32": "utf-32"}
ENCODINGS = [
    *("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", *MARKED),
    *("us-ascii", "iso-8859-1", "iso-8859-5", "windows-1251", "windows-1252", "koi8-r"),
    *("shift_jis", "euc-jp", "iso-2022-jp", "big5", "gb2312", "gb18030", "euc-kr"),
]
LEGAL = st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff\ufeff")
WORDS = st.text(LEGAL, max_size=12) | st.sampled_from(
    ["日本語～①", "Лента", "中文㎡", "한국어", "é€“”", "¥\\~", "a<b", "&amp;", "<i>x</i>", "]]>", "/>"]
)
HREFS = st.sampled_from(["https://example.com/", "https://example.com/~a?b=1&c='2'", "http://xn--p1ai/%7B%7D"])


def written(text: str, codec: str) -> str:
    """Return the text as a publisher writes it in an encoding that lacks some of its characters."""

    def one(char: str) -> str:
        if char in "&<>":
            return {"&": "&amp;", "<": "&lt;", ">": "&gt;"}[char]
        held = char.isascii() or char.encode(codec, "ignore").decode(codec) == char
        return char if held else f"&#{ord(char)};"

    return "".join(map(one, text))


@st.composite
def feeds(draw: st.DrawFn) -> bytes:
    codec = draw(st.sampled_from(ENCODINGS))
    label = MARKED.get(codec, codec)

    def words() -> str:
        return written(draw(WORDS), codec)

    children = [
        f"<title>{words()}</title>",
        f"<link>{words()}</link>",
        f"<description>{words()}<!--{written('é', 'ascii')} <link/> --></description>",
        f"<item><title>{words()}</title><link>{words()}</link></item>",
        f"<x:link x:rel='self'>{words()}</x:link>",
        "<link />",
        "\n ",
    ]
    inside = "".join(draw(st.lists(st.sampled_from(children), max_size=8)))
    scope = draw(st.sampled_from(["", f' xmlns:a="{ATOM_10}"', ' xmlns:atom="urn:y"']))
    kind = draw(st.sampled_from(["rss", "rdf", "atom"]))
    if kind == "rss":
        feed = f'<rss version="2.0" xmlns:x="urn:x"{scope}><channel\n>{inside}</channel ></rss>'
    elif kind == "rdf":
        rdf = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"'
        feed = f'<rdf:RDF {rdf} xmlns:x="urn:x"{scope}><channel>{inside}</channel><item/></rdf:RDF>'
    else:
        feed = f"<feed xmlns='{ATOM_10}' xmlns:x='urn:x'{scope}>{inside.replace('item>', 'entry>')}</feed>"
    return f'<?xml version="1.0" encoding="{label}"?>\r\n{feed}'.encode(codec)


def infoset(body: bytes) -> etree._Element:
    text = to_utf8(body)
    assert text.sound
    return etree.fromstring(text.data, etree.XMLParser(encoding="utf-8"))


@settings(max_examples=400, deadline=None)
@given(feeds(), HREFS, st.booleans())
def test_feed_is_unchanged_except_for_its_self_link(body: bytes, href: str, link_text: bool) -> None:
    channel = read(body, None)
    assume(channel is not None)  # a root with a few unknown elements is no feed
    assert channel is not None
    assert channel.well_formed
    before = infoset(body)

    edited = apply_self_link(body, channel, href=href, mode="add", link_text=link_text)

    after = infoset(edited)
    [link] = [each for each in after.iter(f"{{{ATOM_10}}}link") if each.get("rel") == "self"]
    assert link.get("href") == href
    assert link.get("title", "") == ("" if channel.kind == "atom" else plain_title(channel.title))
    parent, previous = link.getparent(), link.getprevious()
    assert parent is not None
    # lxml stores the text after an element in the element.
    if previous is not None:
        previous.tail = (previous.tail or "") + (link.tail or "") or None
    else:
        parent.text = (parent.text or "") + (link.tail or "") or None
    parent.remove(link)
    assert etree.tostring(after, method="c14n") == etree.tostring(before, method="c14n")

    again = read(edited, None)
    assert again is not None
    for mode in ("add", "correct"):
        assert apply_self_link(edited, again, href=href, mode=mode, link_text=link_text) == edited
    assert apply_self_link(edited, channel, href=href, mode="add", link_text=link_text) == edited


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["add", "correct"]), st.none() | st.text(max_size=10))
def test_no_input_bytes_raise_an_error(junk: bytes, mode: str, charset: str | None) -> None:
    for body in (
        junk,
        b'<rss version="2.0"><channel><link/>' + junk,
        b"<feed xmlns='" + ATOM_10.encode() + b"'>" + junk,
    ):
        channel = read(body, None)
        if channel is not None:
            apply_self_link(body, channel, href="https://example.com/", mode=mode, charset=charset)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_encodings_of_these_tests_are_known(encoding: str) -> None:
    assert to_utf8(f'<?xml version="1.0" encoding="{MARKED.get(encoding, encoding)}"?><a/>'.encode(encoding)).sound
