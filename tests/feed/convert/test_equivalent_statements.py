"""Statements that one format has in a place of its own, and another one elsewhere, reach every format."""

import json
from dataclasses import replace
from xml.sax.saxutils import quoteattr

import pytest

from feedproxy.feed.channel import Cloud, Schedule
from feedproxy.feed.convert.duration import parse_duration
from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.convert.model import Category, Feed, Person, Text
from feedproxy.feed.convert.read.from_document import read
from feedproxy.feed.parse.channel_parser import read as read_channel
from tests.feed.convert.round_trip import written_and_read

MODELS = ("rss", "rdf", "atom", "json")
"""Formats that are read back as the same model."""

WORDS = ("green tea", "oolong", "pot", "Drinks")

HUBS = [
    {"type": "rssCloud", "url": "https://cloud.example/pleaseNotify?from=json"},
    {"type": "WebSub", "url": "https://hub.example/"},
    {"type": "carrier-pigeon", "url": "https://loft.example/"},
]


def a_json_feed(item: dict[str, object] | None = None, **members: object) -> Feed:
    document = {"version": "https://jsonfeed.org/version/1.1", "title": "Tea", **members}
    feed = read(json.dumps({**document, "items": [{"id": "1", **(item or {"content_text": "Dark."})}]}).encode())
    assert feed is not None
    return feed


def a_podcast(channel: str = "", item: str = "") -> Feed:
    feed = read(
        f"""<rss version="2.0" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"
        xmlns:media="http://search.yahoo.com/mrss/"><channel><title>Tea</title><link>https://tea.example/</link>
        {channel}<item><title>Oolong</title><link>https://tea.example/oolong</link>{item}</item></channel></rss>
        """.encode()
    )
    assert feed is not None
    return feed


@pytest.mark.parametrize(
    ("address", "cloud"),
    [
        ("http://cloud.example/rss", Cloud("cloud.example", "80", "/rss", "", "http-post")),
        ("https://cloud.example", Cloud("cloud.example", "443", "/", "", "http-post")),
        ("https://cloud.example:5337/a?b=c", Cloud("cloud.example", "5337", "/a?b=c", "", "https-post")),
        ("/rss", None),
        ("http://cloud.example:port/", None),
        ("mailto:tea@cloud.example", None),
    ],
)
def test_rsscloud_of_json_feed_is_parsed_from_its_address(address: str, cloud: Cloud | None) -> None:
    assert a_json_feed(hubs=[{"type": "rssCloud", "url": address}]).cloud == cloud


@pytest.mark.parametrize("name", MODELS)
def test_hubs_of_json_feed_become_hub_links_and_cloud(name: str) -> None:
    feed = a_json_feed(hubs=HUBS)

    document, again = written_and_read(feed, name)

    assert again.cloud == feed.cloud == Cloud("cloud.example", "443", "/pleaseNotify?from=json", "", "http-post")
    assert [link.href for link in again.links if link.rel == "hub"] == ["https://hub.example/"]
    if name == "rss":
        assert '<cloud domain="cloud.example" port="443" path="/pleaseNotify?from=json"' in document
        assert '<atom:link rel="hub" href="https://hub.example/"/>' in document
    if name == "json":
        assert json.loads(document)["hubs"][1]["type"] == "rssCloud"


@pytest.mark.parametrize(
    ("cloud", "hubs"),
    [
        (Cloud("cloud.example", "443", "rss", "", "http-post"), ["https://cloud.example/rss"]),
        (Cloud("cloud.example", "port", "/rss", "", "http-post"), []),
    ],
)
def test_cloud_becomes_hub_of_json_feed_if_its_address_is_valid(cloud: Cloud, hubs: list[str]) -> None:
    document, _ = written_and_read(replace(a_json_feed(), cloud=cloud), "json")

    assert [hub["url"] for hub in json.loads(document).get("hubs", ())] == hubs


def test_hubs_of_json_feed_are_separated_by_type_for_subscriptions() -> None:
    document = {"version": "https://jsonfeed.org/version/1.1", "title": "Tea", "items": [], "hubs": HUBS}

    channel = read_channel(json.dumps(document).encode(), None)

    assert channel is not None
    assert channel.hubs == ("https://hub.example/",)
    assert channel.cloud is not None
    assert channel.cloud.domain == "cloud.example"


@pytest.mark.parametrize("name", MODELS)
def test_text_beside_html_in_json_feed_becomes_the_summary(name: str) -> None:
    feed = a_json_feed({"content_html": "<img src='https://tea.example/pot.png'>", "content_text": "A pot on a table."})

    document, again = written_and_read(feed, name)

    assert "A pot on a table." in document
    assert again.items[0].summary == Text("A pot on a table.")
    assert again.items[0].content == feed.items[0].content


@pytest.mark.parametrize(
    ("members", "summary"),
    [
        ({"content_text": "Dark  tea."}, None),
        ({"content_text": "Another text.", "summary": "On tea"}, Text("On tea")),
    ],
)
def test_text_beside_html_is_no_summary_if_it_repeats_the_html_or_the_item_has_one(
    members: dict[str, str], summary: Text | None
) -> None:
    assert a_json_feed({"content_html": "<p>Dark <b>tea</b>.</p>", **members}).items[0].summary == summary


@pytest.mark.parametrize("name", MODELS)
def test_statements_for_podcast_directories_replace_missing_ones(name: str) -> None:
    own = "<itunes:author>Ann</itunes:author><itunes:summary>All &lt;b&gt;about&lt;/b&gt; tea</itunes:summary>"
    feed = a_podcast(f'{own}<itunes:image href="https://tea.example/pot.png"/>', own)

    document, again = written_and_read(feed, name)

    assert again.extensions == feed.extensions
    for model in (again, *again.items):
        assert [person.name for person in model.authors] == ["Ann"]
        assert {"author", "summary"} <= {node.name for node in model.extensions}, "directories read only their own"
    assert again.items[0].content == again.summary == Text("All <b>about</b> tea", "html")
    assert again.image is not None
    assert again.image.url == "https://tea.example/pot.png"
    if name == "json":
        assert json.loads(document)["items"][0]["content_html"] == "All <b>about</b> tea"
        assert json.loads(document)["items"][0]["authors"] == [{"name": "Ann"}]


def test_statements_for_podcast_directories_replace_none_of_the_format() -> None:
    directory = "<itunes:author>Network</itunes:author><itunes:summary>Short</itunes:summary>"
    feed = a_podcast(item=f"<author>ann@tea.example (Ann)</author><description>Long</description>{directory}")

    assert [person.name for person in feed.items[0].authors] == ["Ann"]
    assert feed.items[0].content == Text("Long")


@pytest.mark.parametrize("name", MODELS)
def test_title_of_media_is_the_title_of_an_item_without_one(name: str) -> None:
    feed = a_podcast(item="<media:title>Cups</media:title>")
    untitled = read(FORMATS["rss"].render(feed).replace(b"<title>Oolong</title>", b""))
    assert untitled is not None

    _, again = written_and_read(untitled, name)

    assert feed.items[0].title == Text("Oolong")
    assert again.items[0].title == Text("Cups")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", ["", 'type="html"', 'type="video/mp4"'])
def test_content_elsewhere_is_kept_beside_the_summary(name: str, kind: str) -> None:
    feed = read(
        f"""<feed xmlns="http://www.w3.org/2005/Atom"><title>Tea</title><id>urn:x:1</id><entry><id>urn:x:2</id>
        <link href="https://tea.example/"/><title>Cups</title><summary>Short</summary>
        <content {kind} src="https://tea.example/film"/></entry></feed>""".encode()
    )
    assert feed is not None

    _, again = written_and_read(feed, name)

    assert again.items[0].summary == Text("Short")
    assert again.items[0].content == feed.items[0].content


def test_body_in_xhtml_is_the_content_of_an_item() -> None:
    feed = a_podcast(
        item="<description>Short</description>"
        "<body xmlns='http://www.w3.org/1999/xhtml' xml:base='https://tea.example/'><p><a href='x'>Tea</a></p></body>"
    )

    assert feed.items[0].content == Text('<p><a href="https://tea.example/x">Tea</a></p>', "html")
    assert feed.items[0].summary == Text("Short")


@pytest.mark.parametrize(
    ("comments", "address"),
    [("/oolong#talk", "https://tea.example/oolong#talk"), ("12", ""), ("No comments yet", ""), ("", "")],
)
def test_comments_of_an_item_are_an_address(comments: str, address: str) -> None:
    assert a_podcast(item=f"<comments>{comments}</comments>").items[0].comments == address


@pytest.mark.parametrize("name", ["rss", "rdf"])
def test_plain_text_is_escaped_in_a_description(name: str) -> None:
    feed = a_json_feed({"url": "https://tea.example/1", "content_text": "List<Tea> & <blink>"})

    document, again = written_and_read(feed, name)

    assert "List&amp;lt;Tea&amp;gt; &amp;amp; &amp;lt;blink&amp;gt;" in document
    assert again.items[0].content == feed.items[0].content


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("outer", ["group", "content"])
def test_description_of_media_is_the_text_of_an_item_without_one(name: str, outer: str) -> None:
    described = "<media:description>Tea &amp; &lt;cups&gt;</media:description>"
    feed = a_podcast(item=f"<media:{outer}>{described}</media:{outer}>")

    document, again = written_and_read(feed, name)

    assert again.items[0].extensions == feed.items[0].extensions
    assert again.items[0].content == Text("Tea & <cups>")
    if name == "json":
        assert json.loads(document)["items"][0]["content_text"] == "Tea & <cups>"


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("source", ["json", "itunes", "podcasting"])
def test_end_of_a_feed_reaches_every_format(name: str, source: str) -> None:
    podcasting = "https://podcastindex.org/namespace/1.0"
    feed = {
        "json": a_json_feed(expired=True),
        "itunes": a_podcast("<itunes:complete>YES</itunes:complete>"),
        "podcasting": a_podcast(f'<p:updateFrequency xmlns:p="{podcasting}" complete="true">done</p:updateFrequency>'),
    }[source]

    document, again = written_and_read(feed, name)

    assert again.schedule == feed.schedule == Schedule(finished=True)
    assert again.extensions == feed.extensions
    assert ('"expired": true' if name == "json" else "<itunes:complete>Yes</itunes:complete>") in document
    assert (channel := read_channel(document.encode(), None)) is not None
    assert channel.schedule.finished


@pytest.mark.parametrize("value", [False, 1, "true", None])
def test_feed_that_is_not_finished_states_no_end(value: object) -> None:
    assert not a_json_feed(expired=value).schedule.finished
    assert not a_podcast("<itunes:complete>no</itunes:complete>").schedule.finished
    assert not a_podcast(item="<itunes:complete>Yes</itunes:complete>").schedule.finished


@pytest.mark.parametrize("name", MODELS)
def test_categories_and_keywords_of_modules_replace_missing_categories(name: str) -> None:
    feed = a_podcast(
        '<itunes:category text="Food"><itunes:category text="Tea"/></itunes:category>'
        "<itunes:keywords>a, a</itunes:keywords>",
        "<itunes:keywords>green  tea, oolong,</itunes:keywords>"
        "<media:group><media:keywords>oolong, pot</media:keywords>"
        '<media:category label="Drinks">x/1</media:category></media:group>',
    )

    document, again = written_and_read(feed, name)

    assert feed.categories == again.categories == (Category("Food"), Category("Tea"), Category("a"))
    assert feed.items[0].categories == again.items[0].categories == tuple(map(Category, WORDS))
    assert name != "json" or json.loads(document)["items"][0]["tags"] == list(WORDS)
    assert feed.items[0].extensions == again.items[0].extensions


def test_categories_and_keywords_of_modules_replace_none_of_the_format() -> None:
    feed = a_podcast(item="<category>Tea</category><itunes:keywords>many, words</itunes:keywords>")

    assert feed.items[0].categories == (Category("Tea"),)


@pytest.mark.parametrize("name", MODELS)
def test_owner_of_a_podcast_replaces_a_missing_author(name: str) -> None:
    owner = "<itunes:owner><itunes:name>Ann</itunes:name><itunes:email>ann@tea.example</itunes:email></itunes:owner>"
    feed = a_podcast(owner)

    _, again = written_and_read(feed, name)

    assert feed.authors == again.authors == (Person("Ann", "ann@tea.example"),)
    assert a_podcast(owner + "<itunes:author>Bob</itunes:author>").authors == (Person("Bob"),)


def test_title_of_itunes_replaces_a_missing_title() -> None:
    feed = read(
        b"""<rss version="2.0" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"><channel><title>Tea</title>
        <item><itunes:title>Oolong</itunes:title></item>
        <item><title>1: Oolong</title><itunes:title>Oolong</itunes:title></item></channel></rss>"""
    )

    assert feed is not None
    assert [item.title for item in feed.items] == [Text("Oolong"), Text("1: Oolong")]


@pytest.mark.parametrize("image", ["https://tea.example/p.png", "<url>https://tea.example/p.png</url>", "none"])
def test_image_of_an_item_in_rss_is_its_picture(image: str) -> None:
    feed = a_podcast(item=f"<image>{image}</image>")

    item = json.loads(FORMATS["json"].render(feed))["items"][0]

    assert item.get("image") == (None if image == "none" else "https://tea.example/p.png")


def test_self_link_of_rss_in_the_namespace_of_atom_is_not_the_page() -> None:
    feed = read(
        b"""<rss version="2.0" xmlns="http://www.w3.org/2005/Atom" xmlns:atom="http://www.w3.org/2005/Atom"><channel>
        <atom:link rel="self" href="https://tea.example/feed"/><title>Tea</title><link>https://tea.example/</link>
        </channel></rss>"""
    )

    assert feed is not None
    assert (feed.link, feed.address) == ("https://tea.example/", "https://tea.example/feed")


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("754", 754),
        ("754.9", 754),
        ("12:34", 754),
        ("12:34.5", 754),
        ("01:02:03,000", 3723),
        ("PT1H2M3S", 3723),
        ("PT3.5S", 3),
        ("P1DT1M", 86_460),
        ("0", 0),
        ("", None),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("1:2:3:4", None),
        ("-5", None),
        ("12 minutes", None),
        ("99999999999", None),
    ],
)
def test_duration_is_read_in_every_form(written: str, seconds: int | None) -> None:
    assert parse_duration(written) == seconds


def test_duration_with_a_fraction_reaches_json_feed() -> None:
    enclosure = '<enclosure url="https://tea.example/a.mp3" length="1" type="audio/mpeg"/>'
    podcast = a_podcast(item=f"{enclosure}<itunes:duration>1:02:03.5</itunes:duration>")
    media = a_podcast(item='<media:content url="https://tea.example/b.mp3" type="audio/mpeg" duration="12.5"/>')

    seconds = [
        json.loads(FORMATS["json"].render(feed))["items"][0]["attachments"][0]["duration_in_seconds"]
        for feed in (podcast, media)
    ]
    assert seconds == [3723, 12]


@pytest.mark.parametrize(
    ("address", "permitted"),
    [
        ("https://tea.example/a b.mp3", "https://tea.example/a%20b.mp3"),
        ("/pots/a b.mp3?x=[1]", "https://tea.example/pots/a%20b.mp3?x=[1]"),
        ("https://tea.example/a|b^{c}`\\.mp3", "https://tea.example/a%7Cb%5E%7Bc%7D%60%5C.mp3"),
        ("https://tea.example/\n  a.mp3", "https://tea.example/%20%20a.mp3"),
        ("https://tea.example/100%.mp3", "https://tea.example/100%.mp3"),
        ("https://tea.example/茶%20.mp3", "https://tea.example/茶%20.mp3"),
    ],
)
@pytest.mark.parametrize("name", MODELS)
def test_address_of_a_file_has_only_permitted_characters(name: str, address: str, permitted: str) -> None:
    feed = a_json_feed(
        home_page_url="https://tea.example/",
        item={"content_text": "Dark.", "attachments": [{"url": address, "mime_type": "audio/mpeg"}]},
    )
    rss = read(
        f'<rss version="2.0"><channel xml:base="https://tea.example/"><title>Tea</title><item><title>Pot</title>'
        f"<enclosure url={quoteattr(address)} type='audio/mpeg' length='1'/></item></channel></rss>".encode()
    )

    assert rss is not None
    found = [file.url for each in (feed, rss) for file in written_and_read(each, name)[1].items[0].enclosures]
    assert found == [permitted, permitted]
