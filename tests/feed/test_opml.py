"""Subscription lists in OPML: tolerant reading, bounds and valid output."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from feedproxy.feed.opml import DEPTH_MAX, FEEDS_MAX, Subscription, SubscriptionList, merge, read, write


def a_list(body: str, title: str = "Mine") -> bytes:
    head = f"<head><title>{title}</title></head>"
    return f'<?xml version="1.0"?><opml version="2.0">{head}<body>{body}</body></opml>'.encode()


def listed(body: bytes) -> list[tuple[str, tuple[str, ...]]]:
    found = read(body)
    assert found is not None
    return [(each.address, each.folder) for each in found.feeds]


def test_list_has_feeds_and_nested_folders() -> None:
    found = read(
        a_list(
            '<outline text="News"><outline type="rss" text="A &amp; B" xmlUrl="HTTPS://E.example/a" '
            'htmlUrl="https://e.example/"/><outline text="Deep"><outline text="c" xmlUrl="https://e.example/c"/></outline>'
            '</outline><outline text="d" xmlUrl="https://e.example/d"/>'
        )
    )

    assert found == SubscriptionList(
        "Mine",
        (
            Subscription("https://e.example/a", "A & B", "https://e.example/", ("News",)),
            Subscription("https://e.example/c", "c", "", ("News", "Deep")),
            Subscription("https://e.example/d", "d"),
        ),
    )


def test_address_with_bare_ampersand_is_read_as_written() -> None:
    outline = b'<outline text="Q & A" xmlUrl="https://e.example/feed?a=1&b=2&copy=3"/>'

    assert listed(b"<opml><body>" + outline + b"</body></opml>") == [("https://e.example/feed?a=1&b=2&copy=3", ())]


@pytest.mark.parametrize("spelt", ["xmlUrl", "xmlurl", "XMLURL"])
def test_outline_attribute_names_are_case_insensitive(spelt: str) -> None:
    assert listed(a_list(f'<outline text="a" {spelt}="feed://e.example/a"/>')) == [("http://e.example/a", ())]


@pytest.mark.parametrize(
    "outline",
    [
        '<outline text="a" xmlUrl="javascript:x"/>',
        '<outline text="a" xmlUrl="https://user:word@e.example/"/>',
        '<outline text="a" xmlUrl="/relative"/>',
        f'<outline text="a" xmlUrl="https://e.example/{"a" * 5000}"/>',
    ],
)
def test_outline_with_an_unfetchable_url_is_skipped_and_counted(outline: str) -> None:
    found = read(a_list(outline))

    assert found is not None
    assert (found.feeds, found.skipped_count) == ((), 1)


def test_outline_of_type_link_or_include_is_no_feed() -> None:
    outlines = (
        '<outline type="link" text="a" url="https://e.example/"/><outline type="include" url="https://e.example/x"/>'
    )

    assert listed(a_list(outlines)) == []


def test_outline_commented_out_is_ignored_with_its_subordinates() -> None:
    """OPML 2.0: "If it's true, the outline is commented, including all subordinate outlines"."""
    outlines = (
        '<outline text="x" isComment="true"><outline xmlUrl="https://e.example/a"/><outline text="y"/></outline>'
        '<outline text="b" xmlUrl="https://e.example/b"/>'
    )

    assert listed(a_list(outlines)) == [("https://e.example/b", ())]


@pytest.mark.parametrize("body", [b"", b"<html></html>", b"<rss/>", b"{}", b"\0\0\0", b"<opm", b"not a list"])
def test_document_other_than_opml_is_rejected(body: bytes) -> None:
    assert read(body) is None


def test_list_that_is_truncated_is_read_up_to_its_end() -> None:
    assert listed(
        a_list('<outline text="a" xmlUrl="https://e.example/a"/><outline text="b"').removesuffix(b"</opml>")
    ) == [("https://e.example/a", ())]


def test_list_size_depth_and_entities_are_bounded() -> None:
    deep = a_list("<outline text='x'>" * 200 + '<outline xmlUrl="https://e.example/a"/>' + "</outline>" * 200)
    many = a_list("".join(f'<outline xmlUrl="https://e.example/{number}"/>' for number in range(FEEDS_MAX + 100)))
    laughs = b'<!DOCTYPE opml [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>' + a_list(
        '<outline text="&b;" xmlUrl="https://e.example/a"/>'
    ).removeprefix(b'<?xml version="1.0"?>')
    outside = b'<!DOCTYPE opml [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + a_list("", "&x;").removeprefix(
        b'<?xml version="1.0"?>'
    )

    assert len(listed(deep)[0][1]) == DEPTH_MAX
    assert len(listed(many)) == FEEDS_MAX
    assert listed(laughs) == [("https://e.example/a", ())]
    found = read(outside)
    assert found is not None
    assert "root" not in found.title


texts = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=20).map(
    lambda text: " ".join(text.split())
)
names = texts.filter(lambda text: text and "<" not in text and "&" not in text)


@given(st.lists(st.tuples(names, st.lists(names, max_size=3)), max_size=8), names)
def test_subscription_list_written_as_opml_is_read_back_unchanged(
    feeds: list[tuple[str, list[str]]], title: str
) -> None:
    entries = tuple(
        Subscription(f"https://e.example/{number}?a=1&b=2", name, "https://e.example/", tuple(folder))
        for number, (name, folder) in enumerate(feeds)
    )

    back = read(write(SubscriptionList(title, entries)))

    assert back is not None
    assert back.title == title
    assert sorted(back.feeds, key=lambda each: each.address) == sorted(entries, key=lambda each: each.address)


def test_list_is_written_as_opml_2() -> None:
    body = write(SubscriptionList("", (Subscription("https://e.example/a", folder=("F",)),)), changed=1_780_000_000)

    root = etree.fromstring(body)

    assert (root.tag, root.get("version")) == ("opml", "2.0")
    assert [each.tag for each in root] == ["head", "body"]
    assert root.findtext("head/title") == "Subscriptions"
    assert root.findtext("head/dateModified", "").endswith("GMT")
    outline = root.find("body/outline/outline")
    assert outline is not None
    # "Required attributes: type, text, xmlUrl."
    assert dict(outline.items()) == {
        "type": "rss",
        "text": "https://e.example/a",
        "title": "https://e.example/a",
        "xmlUrl": "https://e.example/a",
    }


def test_lists_are_merged_by_address() -> None:
    one, two = Subscription("https://e.example/a", "old"), Subscription("https://e.example/b")
    newer = Subscription("https://e.example/a", "new")

    assert merge([one, two], [newer]) == (newer, two)


def test_lists_of_the_corpus_are_read_and_round_trip(corpus: Path) -> None:
    files = [each for each in sorted((corpus / "feeds").iterdir()) if "opml" in each.name.lower()]
    found = {each.name: read(each.read_bytes()) for each in files}

    assert sum(1 for each in found.values() if each is not None and each.feeds) >= 5
    for each in found.values():
        if each is not None:
            back = read(write(each))
            assert back is not None
            assert {feed.address for feed in back.feeds} == {feed.address for feed in each.feeds}
