"""Content digest: which differences of a document change it, and which do not."""

import pytest

from feedproxy.feed.parse.channel_parser import read

FEED = """\
<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:atom="http://www.w3.org/2005/Atom">
  <channel>
    <title>t</title>
    <pubDate>Fri, 20 Nov 2026 08:00:00 GMT</pubDate>
    <lastBuildDate>Fri, 20 Nov 2026 08:00:00 GMT</lastBuildDate>
    <atom:updated>2026-11-20T08:00:00Z</atom:updated>
    <generator>Press 1</generator>
    <atom:link rel="self" href="http://example.com/f"/>
    <item>
      <title>one</title>
      <dc:creator id="1">Ann</dc:creator>
      <pubDate>Fri, 20 Nov 2026 08:00:00 GMT</pubDate>
      <description>a <![CDATA[<b>bold</b>]]> word</description>
    </item>
    <item><title>two</title></item>
  </channel>
</rss>
"""
JSON = """\
{"version": "https://jsonfeed.org/version/1.1", "title": "t", "items": [{"id": "1", "content_text": "a"}]}"""
CHANNEL_DATE = "<lastBuildDate>Fri, 20 Nov 2026 08:00:00 GMT</lastBuildDate>"
ITEM_DATE = "<pubDate>Fri, 20 Nov 2026 08:00:00 GMT</pubDate>\n      <desc"


def digest(text: str, codec: str = "utf-8") -> str:
    channel = read(text.encode(codec), None)
    assert channel is not None
    assert channel.content_digest
    return channel.content_digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (CHANNEL_DATE, "<lastBuildDate>Sat, 21 Nov 2026 09:00:00 GMT</lastBuildDate>"),
        (CHANNEL_DATE, ""),
        ("<pubDate>Fri, 20 Nov 2026 08:00:00 GMT</pubDate>\n    <last", "<pubDate>Sat</pubDate>\n    <last"),
        ("<atom:updated>2026", "<atom:updated>2027"),
        ("<generator>Press 1", "<generator>Press 2"),
        ("<item>", "<!-- made in 12 ms --><item>"),
        ("<title>one", "<title><!-- x -->one"),
        ("\n    <item>", "<item>"),
        ("\n      <title>one", "\r\n\t<title>one"),
        ('rel="self" href="http://example.com/f"', "href = 'http://example.com/f'  rel='self'"),
        ("<title>t</title>", "<title  >t</title >"),
        ("<![CDATA[<b>bold</b>]]>", "&lt;b>bold&lt;/b&gt;"),
        ("dc:", "core:"),
        ('xmlns:dc="http://purl.org/dc/elements/1.1/" ', ""),
    ],
)
def test_digest_ignores_insignificant_differences(old: str, new: str) -> None:
    assert old in FEED
    changed = FEED.replace(old, new)
    if old == "dc:":
        changed = changed.replace("xmlns:dc", "xmlns:core")
    if old.startswith("xmlns:dc"):
        changed = changed.replace("<dc:creator", '<dc:creator xmlns:dc="http://purl.org/dc/elements/1.1/"')

    assert digest(changed) == digest(FEED)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<title>t<", "<title>u<"),
        ("<title>one<", "<title>One<"),
        (ITEM_DATE, ITEM_DATE.replace("20 Nov", "21 Nov")),
        ("<item><title>two</title></item>", ""),
        ("<item><title>two</title></item>", "<item><title>two</title></item><item><title>two</title></item>"),
        ("http://purl.org/dc/elements/1.1/", "http://purl.org/dc/terms/"),
        ('id="1"', 'id="2"'),
        ("a <![CDATA[", "a  <![CDATA["),
        ("<title>one</title>", "<title>one</title><guid/>"),
        ('<?xml version="1.0" encoding="utf-8"?>', "<?xml-stylesheet href='a'?>"),
    ],
)
def test_digest_changes_with_significant_differences(old: str, new: str) -> None:
    assert old in FEED

    assert digest(FEED.replace(old, new)) != digest(FEED)


def test_digest_depends_on_the_order_of_items() -> None:
    first, second = "<item><title>a</title></item>", "<item><title>b</title></item>"
    feed = "<rss><channel>{}{}</channel></rss>"

    assert digest(feed.format(first, second)) != digest(feed.format(second, first))


def test_digest_ignores_the_encoding() -> None:
    assert digest(FEED.replace("utf-8", "utf-16"), "utf-16") == digest(FEED)


def test_digest_includes_atom_dates_of_entries_only() -> None:
    feed = "<feed xmlns='http://www.w3.org/2005/Atom'><updated>{}</updated><entry><updated>{}</updated></entry></feed>"

    assert digest(feed.format(1, 1)) == digest(feed.format(2, 1))
    assert digest(feed.format(1, 1)) != digest(feed.format(1, 2))


def test_digest_ignores_the_update_date_of_an_entry_source() -> None:
    feed = (
        "<feed xmlns='http://www.w3.org/2005/Atom'><entry><id>1</id>"
        "<source><updated>{}</updated><title>{}</title></source></entry></feed>"
    )

    assert digest(feed.format(1, "a")) == digest(feed.format(2, "a"))
    assert digest(feed.format(1, "a")) != digest(feed.format(1, "b"))


def test_digest_ignores_lastmod_of_the_cdf_channel() -> None:
    feed = '<CHANNEL HREF="http://example.com/" LASTMOD="{}"><ITEM LASTMOD="{}"/></CHANNEL>'

    assert digest(feed.format(1, 1)) == digest(feed.format(2, 1))
    assert digest(feed.format(1, 1)) != digest(feed.format(1, 2))


def test_digest_ignores_the_order_of_json_members() -> None:
    other = '{"items":[{"content_text":"a","id":"1"}],\n"title":"t","version":"https://jsonfeed.org/version/1.1"}'

    assert digest(other) == digest(JSON)
    assert digest(JSON.replace('"a"', '"b"')) != digest(JSON)


def test_digest_includes_content_after_a_fatal_parser_error() -> None:
    broken = FEED.replace("</rss>", "</rss>" + FEED)

    assert digest(broken) != digest(broken.replace("two", "three"))


@pytest.mark.parametrize("old", [CHANNEL_DATE, "<generator>Press 1</generator>", "\n    <item>"])
def test_digest_of_an_ill_formed_feed_ignores_insignificant_differences(old: str) -> None:
    broken = FEED.replace("<title>one", "<title>one & only")
    new = old.replace("20 Nov", "21 Nov").replace("1", "2") if "\n" not in old else "<item>"

    assert digest(broken.replace(old, new)) == digest(broken)


def test_digest_includes_unexpanded_entities() -> None:
    feed = '<!DOCTYPE rss PUBLIC "n" "http://127.0.0.1:9/x.dtd"><rss><channel><title>&{};</title></channel></rss>'

    assert digest(feed.format("eacute")) != digest(feed.format("egrave"))
