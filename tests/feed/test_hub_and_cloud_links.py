"""Hub and cloud links: each format gets them in the elements that it defines for them."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedproxy.feed.channel import Channel, Cloud
from feedproxy.feed.edit.hub_and_cloud_links import Announcement, add_link_fields, announce
from feedproxy.feed.parse import channel_parser
from feedproxy.http.message import Fields

HUB = "https://feeds.example/-/hub"
CLOUD = Cloud("feeds.example", "443", "/-/RPC2", "rssCloud.pleaseNotify", "xml-rpc")

RSS = b"""<rss version="2.0"><channel><title>News</title><link>http://example.com/</link>
<description>All</description><item><title>one</title></item></channel></rss>"""
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title><link href="http://example.com/"/>
<entry><title>one</title></entry></feed>"""
RDF = b"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
<channel rdf:about="http://example.com/"><title>News</title><link>http://example.com/</link></channel>
<item><title>one</title></item></rdf:RDF>"""


def channel_of(body: bytes) -> Channel:
    channel = channel_parser.read(body, None)
    assert channel is not None
    return channel


def told(body: bytes, said: Announcement = Announcement(HUB, CLOUD)) -> bytes:  # noqa: B008 -- a frozen value
    return announce(body, channel_of(body), said)


def test_rss_20_gets_an_atom_hub_link_and_a_cloud_after_its_link() -> None:
    body = told(RSS)

    assert body == RSS.replace(
        b"http://example.com/</link>",
        b'http://example.com/</link><atom:link rel="hub" href="https://feeds.example/-/hub"'
        b' xmlns:atom="http://www.w3.org/2005/Atom"/><cloud domain="feeds.example" port="443" path="/-/RPC2"'
        b' registerProcedure="rssCloud.pleaseNotify" protocol="xml-rpc"/>',
    )
    assert (channel_of(body).hubs, channel_of(body).cloud) == ((HUB,), CLOUD)


@pytest.mark.parametrize("version", ["0.92", "0.93", "0.94"])
def test_rss_versions_with_cloud_get_one(version: str) -> None:
    assert channel_of(told(RSS.replace(b'"2.0"', f'"{version}"'.encode()))).cloud == CLOUD


def test_rss_091_gets_no_cloud() -> None:
    assert channel_of(told(RSS.replace(b'"2.0"', b'"0.91"'))).cloud is None


@pytest.mark.parametrize("body", [ATOM, RDF])
def test_atom_and_rss_10_get_a_hub_link_and_no_cloud(body: bytes) -> None:
    channel = channel_of(told(body))

    assert (channel.hubs, channel.cloud, channel.well_formed) == ((HUB,), None, True)
    assert b"cloud" not in told(body)


@pytest.mark.parametrize(
    "feed",
    [
        {"version": "https://jsonfeed.org/version/1.1", "title": "Ünews", "items": []},
        {"hubs": [{"type": "rssCloud", "url": "http://x.example/"}], "items": [], "version": "jsonfeed.org/version/1"},
        {"title": "}", "version": "https://jsonfeed.org/version/1", "items": [{"id": "{[,"}], "hubs": []},
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_json_feed_gets_an_entry_in_hubs(feed: dict[str, object], indent: int | None) -> None:
    body = json.dumps(feed, indent=indent, ensure_ascii=False).encode()

    found = json.loads(told(body))

    assert found.pop("hubs") == [{"type": "WebSub", "url": HUB}, *feed.get("hubs", [])]  # type: ignore[misc]
    assert found == {name: value for name, value in feed.items() if name != "hubs"}


def test_json_feed_with_repeated_hubs_gets_the_entry_in_the_list_that_decoders_read() -> None:
    body = b'{"version": "https://jsonfeed.org/version/1.1", "title": "", "items": [], "hubs": [], "hubs": []}'

    assert channel_of(told(body)).hubs == (HUB,)


def test_hub_and_cloud_of_the_publisher_are_kept() -> None:
    own = RSS.replace(
        b"<link>",
        b'<cloud domain="a.example" port="80" path="/" registerProcedure="" protocol="http-post"/>'
        b'<atom:link xmlns:atom="http://www.w3.org/2005/Atom" rel="hub" href="https://hub.example/"/><link>',
    )
    channel = channel_of(told(own))

    assert channel.hubs == ("https://hub.example/", HUB)
    assert channel.cloud is not None
    assert channel.cloud.domain == "a.example"
    assert told(told(own)) == told(own)


def test_unextensible_or_ill_formed_feed_is_unchanged() -> None:
    old = RSS.replace(b"2.0", b"0.91")
    broken = RSS.replace(b"</item>", b"")

    assert told(old) == old
    assert told(broken) == broken


def test_link_field_names_hub_and_self_once() -> None:
    bare = add_link_fields(Fields(), hub=HUB, self_href="https://feeds.example/feed")
    assert bare.get_all("link") == [f'<{HUB}>; rel="hub", <https://feeds.example/feed>; rel="self"']
    assert add_link_fields(bare, hub=HUB, self_href="https://feeds.example/feed") == bare

    own = Fields([("Link", "</feed>; rel=self")])
    assert add_link_fields(own, hub=HUB, self_href="https://feeds.example/feed").get_all("link") == [
        "</feed>; rel=self",
        f'<{HUB}>; rel="hub"',
    ]


def test_corpus_feeds_keep_their_channel_and_items(corpus: Path) -> None:
    changed = 0
    for record in json.loads((corpus / "feeds.json").read_text("utf-8")):
        body = (corpus / record["file"]).read_bytes()
        channel = channel_parser.read(body, None)
        if channel is None:
            continue
        edited = announce(body, channel, Announcement(HUB, CLOUD))
        if edited == body:
            continue
        changed += 1
        after = channel_of(edited)
        assert set(after.hubs) <= {*channel.hubs, HUB}, record["file"]
        may = channel.version in ("0.92", "0.93", "0.94", "2.0")
        cloud = CLOUD if may and channel.cloud is None else channel.cloud
        expected = replace(channel, hubs=after.hubs, cloud=cloud, content_digest=after.content_digest)
        assert after == expected, record["file"]
    assert changed > 50
