"""Universal Subscription Mechanism 1.7 (Randy Charles Morin): each of its promises."""

import pytest
from lxml import etree

from feedproxy.feed.channel import Channel, Kind
from feedproxy.feed.edit.media_type import media_type_of
from feedproxy.feed.edit.self_link import EditResult, apply_self_link
from feedproxy.feed.parse.parser import read

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


def linked(body: bytes, mode: str = "add", link_text: bool = False) -> EditResult:
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
def test_every_version_of_rss_is_sent_as_application_rss_xml(version: str, declared: str | None) -> None:
    assert media_type_of(Channel(Kind.RSS, version, True), declared) == "application/rss+xml"


def test_rdf_is_sent_as_application_rss_xml_which_is_preferred() -> None:
    assert media_type_of(Channel(Kind.RDF, "1.0", True), "application/rdf+xml") == "application/rss+xml"


def test_rdf_may_be_sent_as_application_rdf_xml_which_is_allowed() -> None:
    rdf = Channel(Kind.RDF, "1.0", True)

    assert media_type_of(rdf, "text/xml", rdf_media_type="application/rdf+xml") == "application/rdf+xml"


def test_atom_has_a_media_type_of_its_own() -> None:
    assert media_type_of(Channel(Kind.ATOM, "1.0", True), "text/xml") == "application/atom+xml"


# -- Atom Link Constructs


def test_the_link_is_a_child_of_the_channel_and_has_all_that_the_example_has() -> None:
    [link] = links_in_channel(linked(rss()).body)

    assert link == {
        "rel": "self",
        "type": "application/rss+xml",
        "title": "The RSS Blog",
        "href": HREF,
        "namespace": ATOM_10,
    }


def test_the_title_is_that_of_the_channel() -> None:
    [link] = links_in_channel(linked(rss("<image><title>No</title></image><title>Yes</title>")).body)

    assert link["title"] == "Yes"


def test_the_href_is_the_subscription_url() -> None:
    assert links_in_channel(linked(rss()).body)[0]["href"] == HREF


@pytest.mark.parametrize("namespace", [ATOM_10, ATOM_03])
@pytest.mark.parametrize("rel", ["self", "start"])
def test_links_of_both_namespaces_and_with_both_rels_are_recognised(namespace: str, rel: str) -> None:
    body = rss(f'{BLOG}<a:link rel="{rel}" href="http://other.example/" xmlns:a="{namespace}"/>')

    assert linked(body) == EditResult(body, (), "the document has a self link")


@pytest.mark.parametrize("rel", ["alternate", "next", "hub", "related", ""])
def test_links_with_other_rels_name_no_subscription_url(rel: str) -> None:
    body = rss(f'{BLOG}<a:link rel="{rel}" href="http://other.example/" xmlns:a="{ATOM_10}"/>')

    assert linked(body).changes == ("self link added",)


def test_the_namespace_that_was_deprecated_is_put_right() -> None:
    body = rss(f'<a:link rel="self" type="application/rss+xml" href="{HREF}" xmlns:a="{ATOM_03}"/>')

    assert linked(body, "correct").body == body.replace(ATOM_03.encode(), ATOM_10.encode())


def test_the_value_self_is_preferred() -> None:
    body = rss(f'<a:link rel="start" type="application/rss+xml" href="{HREF}" xmlns:a="{ATOM_10}"/>')

    assert linked(body, "correct").body == body.replace(b"start", b"self")


def test_the_type_application_rdf_xml_is_allowed_in_rdf() -> None:
    link = f'<a:link rel="self" type="application/rdf+xml" href="{HREF}" xmlns:a="{ATOM_10}"/>'
    syntax = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    scope = f'xmlns:rdf="{syntax}" xmlns="http://purl.org/rss/1.0/"'
    body = f"<rdf:RDF {scope}><channel>{link}</channel></rdf:RDF>".encode()

    assert linked(body, "correct") == EditResult(body, (), "the self link is correct")


def test_the_href_is_put_right_where_it_names_another_place() -> None:
    link = '<a:link rel="self" type="application/rss+xml" href="http://old.example/rss.xml"'
    body = rss(f'{link} xmlns:a="{ATOM_10}"/>')

    assert linked(body, "correct").body == body.replace(b"http://old.example/rss.xml", HREF.encode())


# -- The <channel/atom:link> Bug


def test_the_channels_own_link_comes_first_for_readers_that_take_the_first_link() -> None:
    channel = etree.fromstring(linked(rss()).body)[0]

    assert [etree.QName(child).localname for child in channel] == ["title", "link", "link"]
    assert channel[1].text == "http://www.example.com/rss/"


def test_the_channels_link_is_repeated_inside_the_element_where_that_is_wanted() -> None:
    channel = etree.fromstring(linked(rss(), link_text=True).body)[0]

    assert [link.text for link in channel if etree.QName(link).localname == "link"] == [
        "http://www.example.com/rss/",
        "http://www.example.com/rss/",
    ]


def test_without_that_wish_the_element_is_empty() -> None:
    channel = etree.fromstring(linked(rss()).body)[0]

    assert channel[2].text is None


# -- RSS Versions, and the warning on Atom 0.3


@pytest.mark.parametrize("version", ["0.92", "0.93", "0.94", "2.0", "2.0.1", ""])
def test_the_link_goes_into_every_version_of_rss_that_is_extensible(version: str) -> None:
    assert len(links_in_channel(linked(rss(version=version)).body)) == 1


@pytest.mark.parametrize("mode", ["add", "correct"])
@pytest.mark.parametrize("version", ["0.90", "0.91"])
def test_rss_091_is_not_extensible(version: str, mode: str) -> None:
    body = rss(version=version)

    assert linked(body, mode) == EditResult(body, (), f"RSS {version} does not permit extensions")


def test_atom_10_has_a_mechanism_of_its_own_with_self() -> None:
    [_, link] = links_in_channel(linked(atom('<link href="http://www.example.com/"/>')).body)

    assert link == {"rel": "self", "type": "application/atom+xml", "href": HREF, "namespace": ATOM_10}


def test_atom_03_gets_start_because_self_is_invalid_there() -> None:
    [link] = links_in_channel(linked(atom("", ATOM_03)).body)

    assert link == {"rel": "start", "type": "application/atom+xml", "href": HREF, "namespace": ATOM_03}


def test_self_in_atom_03_is_put_right() -> None:
    body = atom(f'<link rel="self" href="{HREF}"/>', ATOM_03)

    assert linked(body, "correct").body == body.replace(b"self", b"start")
