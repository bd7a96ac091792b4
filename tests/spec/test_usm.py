"""Universal Subscription Mechanism 1.7 (Randy Charles Morin): each of its promises."""

import pytest
from lxml import etree

from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.edit.media_type_and_charset import media_type_of
from feedproxy.feed.edit.self_link import apply_self_link
from feedproxy.feed.parse.channel_parser import read

ATOM_10 = "http://www.w3.org/2005/Atom"
ATOM_03 = "http://purl.org/atom/ns#"
HREF = "http://www.example.com/rss/rss.xml"
BLOG = "<title>The RSS Blog</title><link>http://www.example.com/rss/</link>"


def rss(inside: str = BLOG, version: str = "2.0", scope: str = "") -> bytes:
    return f'<rss version="{version}"{scope}><channel>{inside}</channel></rss>'.encode()


def atom(inside: str, namespace: str = ATOM_10) -> bytes:
    return f'<feed xmlns="{namespace}"><title>T</title>{inside}</feed>'.encode()


def channel_of(body: bytes) -> Channel:
    channel = read(body, None)
    assert channel is not None
    return channel


def linked(body: bytes, mode: str = "add", link_text: bool = False) -> bytes:
    return apply_self_link(body, channel_of(body), href=HREF, mode=mode, link_text=link_text)


def links_in_channel(body: bytes) -> list[dict[str, str]]:
    root = etree.fromstring(body)
    channel = root if root.tag.endswith("feed") else next(root.iterchildren("{*}channel"))
    return [
        {
            **{str(key): str(value) for key, value in link.attrib.items()},
            "namespace": etree.QName(link).namespace,
        }
        for link in channel.iterchildren(f"{{{ATOM_10}}}link", f"{{{ATOM_03}}}link")
    ]


# -- Content-Type


@pytest.mark.parametrize("version", ["0.91", "0.92", "0.93", "0.94", "2.0", ""])
@pytest.mark.parametrize("declared", ["text/xml", "application/xml", "text/html", "text/plain", None])
def test_media_type_of_every_rss_version_is_application_rss_xml(version: str, declared: str | None) -> None:
    assert media_type_of(Channel(Kind.RSS, version, True), declared) == "application/rss+xml"


def test_media_type_of_rdf_is_application_rss_xml_by_default() -> None:
    assert media_type_of(Channel(Kind.RDF, "1.0", True), "application/rdf+xml") == "application/rss+xml"


def test_media_type_of_rdf_may_be_application_rdf_xml() -> None:
    rdf = Channel(Kind.RDF, "1.0", True)

    assert media_type_of(rdf, "text/xml", rdf_media_type="application/rdf+xml") == "application/rdf+xml"


def test_media_type_of_atom_is_application_atom_xml() -> None:
    assert media_type_of(Channel(Kind.ATOM, "1.0", True), "text/xml") == "application/atom+xml"


# -- Atom Link Constructs


def test_self_link_is_a_child_of_the_channel_with_all_attributes_of_the_example() -> None:
    [link] = links_in_channel(linked(rss()))

    assert link == {
        "rel": "self",
        "type": "application/rss+xml",
        "title": "The RSS Blog",
        "href": HREF,
        "namespace": ATOM_10,
    }


def test_self_link_title_is_that_of_the_channel() -> None:
    [link] = links_in_channel(linked(rss("<image><title>No</title></image><title>Yes</title>")))

    assert link["title"] == "Yes"


def test_self_link_href_is_the_subscription_url() -> None:
    assert links_in_channel(linked(rss()))[0]["href"] == HREF


@pytest.mark.parametrize("namespace", [ATOM_10, ATOM_03])
@pytest.mark.parametrize("rel", ["self", "start"])
def test_self_link_is_recognised_in_both_namespaces_and_with_both_rels(namespace: str, rel: str) -> None:
    body = rss(f'{BLOG}<a:link rel="{rel}" href="http://other.example/" xmlns:a="{namespace}"/>')

    assert linked(body) == body


@pytest.mark.parametrize("rel", ["alternate", "next", "hub", "related", ""])
def test_self_link_with_another_rel_is_not_recognised(rel: str) -> None:
    body = rss(f'{BLOG}<a:link rel="{rel}" href="http://other.example/" xmlns:a="{ATOM_10}"/>')

    assert [link["href"] for link in links_in_channel(linked(body)) if link["rel"] == "self"] == [HREF]


def test_self_link_in_the_deprecated_namespace_is_corrected() -> None:
    body = rss(f'<a:link rel="self" type="application/rss+xml" href="{HREF}" xmlns:a="{ATOM_03}"/>')

    assert linked(body, "correct") == body.replace(ATOM_03.encode(), ATOM_10.encode())


def test_self_link_rel_start_is_corrected_to_self() -> None:
    body = rss(f'<a:link rel="start" type="application/rss+xml" href="{HREF}" xmlns:a="{ATOM_10}"/>')

    assert linked(body, "correct") == body.replace(b"start", b"self")


def test_self_link_type_application_rdf_xml_is_allowed_in_rdf() -> None:
    link = f'<a:link rel="self" type="application/rdf+xml" href="{HREF}" xmlns:a="{ATOM_10}"/>'
    syntax = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    scope = f'xmlns:rdf="{syntax}" xmlns="http://purl.org/rss/1.0/"'
    body = f"<rdf:RDF {scope}><channel>{link}</channel></rdf:RDF>".encode()

    assert linked(body, "correct") == body


def test_self_link_href_to_another_address_is_corrected() -> None:
    link = '<a:link rel="self" type="application/rss+xml" href="http://old.example/rss.xml"'
    body = rss(f'{link} xmlns:a="{ATOM_10}"/>')

    assert linked(body, "correct") == body.replace(b"http://old.example/rss.xml", HREF.encode())


# -- The <channel/atom:link> Bug


def test_self_link_follows_the_link_of_the_channel() -> None:
    channel = etree.fromstring(linked(rss()))[0]

    assert [etree.QName(child).localname for child in channel] == ["title", "link", "link"]
    assert channel[1].text == "http://www.example.com/rss/"


def test_self_link_repeats_the_channel_link_with_link_text() -> None:
    channel = etree.fromstring(linked(rss(), link_text=True))[0]

    assert [link.text for link in channel if etree.QName(link).localname == "link"] == [
        "http://www.example.com/rss/",
        "http://www.example.com/rss/",
    ]


def test_self_link_is_empty_without_link_text() -> None:
    channel = etree.fromstring(linked(rss()))[0]

    assert channel[2].text is None


# -- RSS Versions, and the warning on Atom 0.3


@pytest.mark.parametrize("version", ["0.92", "0.93", "0.94", "2.0", "2.0.1", ""])
def test_self_link_is_added_to_every_extensible_rss_version(version: str) -> None:
    assert len(links_in_channel(linked(rss(version=version)))) == 1


@pytest.mark.parametrize("mode", ["add", "correct"])
@pytest.mark.parametrize("version", ["0.90", "0.91"])
def test_self_link_is_not_added_to_rss_091(version: str, mode: str) -> None:
    body = rss(version=version)

    assert linked(body, mode) == body


def test_self_link_in_atom_10_uses_its_own_link_element() -> None:
    [_, link] = links_in_channel(linked(atom('<link href="http://www.example.com/"/>')))

    assert link == {"rel": "self", "type": "application/atom+xml", "href": HREF, "namespace": ATOM_10}


def test_self_link_in_atom_03_uses_rel_start() -> None:
    [link] = links_in_channel(linked(atom("", ATOM_03)))

    assert link == {"rel": "start", "type": "application/atom+xml", "href": HREF, "namespace": ATOM_03}


def test_self_link_in_atom_03_with_rel_self_is_corrected() -> None:
    body = atom(f'<link rel="self" href="{HREF}"/>', ATOM_03)

    assert linked(body, "correct") == body.replace(b"self", b"start")
