"""Discovery: feed links of pages, page links of feeds, and the subscription URL of a feed."""

import json
from pathlib import Path

import pytest

from feedproxy.feed.autodiscovery import (
    BYTES_MAX,
    FEEDS_MAX,
    DiscoveredFeed,
    discover_feeds,
    is_page,
    prefers_feeds,
    prefers_pages,
)
from feedproxy.feed.channel_addresses import page_address, self_address
from feedproxy.feed.feed_scheme import strip_feed_scheme
from feedproxy.feed.parse.channel_parser import read
from feedproxy.http.message import Fields

PAGE = "https://example.com/blog/post"
RSS = "application/rss+xml"


def a_page(*links: str, head: str = "") -> bytes:
    return f"<!doctype html><html><head><title>x</title>{head}{''.join(links)}</head><body>hello</body></html>".encode()


def a_link(href: str, kind: str = RSS, rel: str = "alternate", **more: str) -> str:
    extra = "".join(f' {name}="{value}"' for name, value in more.items())
    return f'<link rel="{rel}" type="{kind}" href="{href}"{extra}>'


def addresses(body: bytes, address: str = PAGE) -> list[str]:
    return [each.address for each in discover_feeds(body, address)]


def test_page_links_are_listed_in_document_order_with_type_and_title() -> None:
    found = discover_feeds(
        a_page(a_link("/a.xml", title="News &amp; more"), a_link("b.atom", "application/atom+xml")), PAGE
    )

    assert found == (
        DiscoveredFeed("https://example.com/a.xml", RSS, "News & more"),
        DiscoveredFeed("https://example.com/blog/b.atom", "application/atom+xml"),
    )


def test_page_base_applies_to_all_links() -> None:
    body = a_page(a_link("a.xml"), '<base href="https://cdn.example/x/">', '<base href="https://other.example/">')

    assert addresses(body) == ["https://cdn.example/x/a.xml"]


@pytest.mark.parametrize("kind", ["application/rss+xml; charset=utf-8", "APPLICATION/RSS+XML", "application/feed+json"])
def test_page_link_types_ignore_parameters_and_case(kind: str) -> None:
    assert addresses(a_page(a_link("/a", kind))) == ["https://example.com/a"]


def test_page_link_of_a_generic_type_is_used_only_without_a_specific_one() -> None:
    generic = a_link("/old.xml", "text/xml")

    assert addresses(a_page(generic)) == ["https://example.com/old.xml"]
    assert addresses(a_page(generic, a_link("/new.xml"))) == ["https://example.com/new.xml"]


@pytest.mark.parametrize(
    "link",
    [
        a_link("/style.css", "text/css", "alternate stylesheet"),
        a_link("/en/", "text/html", hreflang="en"),
        a_link("/wp-json/wp/v2/posts/1", "application/json"),
        a_link("/oembed", "application/json+oembed"),
        a_link("javascript:alert(1)"),
        a_link("ftp://example.com/a"),
        a_link("https://user:word@example.com/a"),
        a_link(""),
        a_link("#here"),
        f"<!-- {a_link('/hidden')} -->",
        f"<script>'{a_link('/hidden')}'</script>",
    ],
)
def test_page_links_to_other_resources_are_ignored(link: str) -> None:
    assert addresses(a_page(link)) == []


def test_page_link_with_rel_feed_needs_no_type() -> None:
    assert addresses(a_page('<link rel="feed" href="/a">')) == ["https://example.com/a"]


def test_page_links_follow_those_of_link_fields() -> None:
    fields = Fields([("Link", '</f>; rel="alternate"; type="application/rss+xml"; title="F", </x>; rel=next')])

    found = discover_feeds(a_page(a_link("/a.xml"), a_link("/f")), PAGE, fields)

    assert [each.address for each in found] == ["https://example.com/f", "https://example.com/a.xml"]
    assert found[0].title == "F"


def test_page_without_a_url_has_absolute_links_only() -> None:
    assert addresses(a_page(a_link("/a.xml"), a_link("https://example.com/b.xml")), "") == ["https://example.com/b.xml"]


@pytest.mark.parametrize(
    ("encoding", "head", "content_type"),
    [
        ("iso-8859-2", "", "text/html; charset=iso-8859-2"),
        ("shift_jis", '<meta charset="shift_jis">', None),
        ("utf-16", "", None),
        ("utf-8", "", None),
    ],
)
def test_page_titles_are_decoded_in_the_encoding_of_the_page(
    encoding: str, head: str, content_type: str | None
) -> None:
    title = "ニュース" if encoding == "shift_jis" else "Nový"
    body = a_page(a_link("/a", title=title), head=head).decode().encode(encoding)

    fields = Fields([("Content-Type", content_type)] if content_type else [])
    assert [each.title for each in discover_feeds(body, PAGE, fields)] == [title]


def test_page_may_be_xhtml() -> None:
    body = (
        b'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head>'
        b'<link rel="alternate" type="application/atom+xml" href="/a"/></head><body/></html>'
    )

    assert is_page(body)
    assert addresses(body) == ["https://example.com/a"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00" * 5000,
        b"<" * 500_000,
        b"<div>" * 150_000,
        b"<link rel='alternate' type='application/rss+xml' href='" + b"a" * 2_000_000,
        b"<a " + b"x=1 " * 200_000 + b">",
        b'<!DOCTYPE html [<!ENTITY x SYSTEM "file:///etc/passwd">]><title>&x;</title>',
    ],
)
def test_page_that_is_hostile_has_no_feeds_and_never_raises(body: bytes) -> None:
    assert addresses(body) == []


def test_page_is_read_up_to_limits_of_feeds_and_bytes() -> None:
    many = a_page(*(a_link(f"/{number}") for number in range(1000)))
    late = a_page("<!--" + "x" * BYTES_MAX + "-->", a_link("/late"))

    assert len(addresses(many)) == FEEDS_MAX
    assert addresses(late) == []


# -- feeds


def a_channel(*links: str, link: str = "https://example.com/"):
    spaces = 'xmlns:a="http://www.w3.org/2005/Atom" xmlns:o="http://purl.org/atom/ns#"'
    body = f'<rss version="2.0" {spaces}><channel><title>x</title><link>{link}</link>{"".join(links)}</channel></rss>'
    channel = read(body.encode(), None)
    assert channel is not None
    return channel


def test_self_address_prefers_self_to_start() -> None:
    channel = a_channel(
        '<a:link rel="start" href="http://e.example/s"/>', '<a:link rel="self" href="http://e.example/f"/>'
    )

    assert self_address(channel) == "http://e.example/f"


def test_self_address_ignores_urls_that_cannot_be_fetched() -> None:
    channel = a_channel('<a:link rel="self" href="javascript:x"/>', '<a:link rel="self" href="/f"/>', link="mailto:a@b")

    assert self_address(channel) == ""
    assert self_address(channel, PAGE) == "https://example.com/f"
    assert page_address(channel) == ""


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("feed:https://e.example/a", "https://e.example/a"),
        ("FEED://e.example/a", "http://e.example/a"),
        ("feed://https://e.example/a", "https://e.example/a"),
        ("feed:/https://e.example/a", "https://e.example/a"),
        ("https://e.example/feed:", "https://e.example/feed:"),
    ],
)
def test_feed_scheme_is_removed(written: str, meant: str) -> None:
    assert strip_feed_scheme(written) == meant


def test_feed_scheme_within_a_url_is_kept() -> None:
    assert strip_feed_scheme("https://example.com/feed:https://a") == "https://example.com/feed:https://a"


@pytest.mark.parametrize(
    ("accept", "wants"),
    [
        (None, False),
        ("", False),
        ("*/*", False),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", False),
        ("application/rss+xml", True),
        ("application/rss+xml, application/atom+xml;q=0.9, */*;q=0.1", True),
        ("application/rss+xml;q=0.5, text/html", False),
        ("application/rss+xml, text/html", False),
        ("application/feed+json, text/html;q=0.3", True),
        ("application/rss+xml;q=0, */*", False),
    ],
)
def test_prefers_feeds_compares_the_accept_weights_of_feeds_and_pages(accept: str | None, wants: bool) -> None:
    assert prefers_feeds(accept) is wants


@pytest.mark.parametrize(
    ("accept", "wants"),
    [
        (None, False),
        ("", False),
        ("*/*", False),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", True),
        ("application/xml, text/html", False),
        ("application/feed+json, text/html;q=0.3", False),
        ("application/rdf+xml, text/html", False),
    ],
)
def test_prefers_pages_compares_the_accept_weights_of_pages_and_feeds(accept: str | None, wants: bool) -> None:
    assert prefers_pages(accept) is wants


def test_discovery_never_raises_for_corpus_documents(corpus: Path) -> None:
    files = [each for folder in ("feeds", "hostile") for each in sorted((corpus / folder).rglob("*")) if each.is_file()]
    assert files
    for each in files:
        body = each.read_bytes()
        discover_feeds(body, PAGE)
        if (channel := read(body, None)) is not None:
            self_address(channel)
            page_address(channel)


def test_discovery_never_raises_for_hostile_responses(corpus: Path) -> None:
    cases = json.loads((corpus / "hostile.json").read_text())
    assert cases
    for case in cases:
        for raw in case.get("responses", ()):
            discover_feeds((corpus / raw).read_bytes().partition(b"\r\n\r\n")[2], PAGE)
