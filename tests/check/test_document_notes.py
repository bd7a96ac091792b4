"""Each Note on documents is given for a document with that fault, and no other Note."""

import gzip
import json
from email.utils import formatdate

import pytest

from feedproxy.check.run_checks import check_document
from feedproxy.notes import Level, Note
from tests.check.publisher import HOUR, feed, items

NOW = 1_795_176_000.0
ATOM = (
    '<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title><id>urn:x:f</id><updated>2026-11-20T11:00:00Z</updated>'
    '<link rel="self" type="application/atom+xml" href="https://x.example/f"/>%s'
    "<entry><title>E</title><id>urn:x:1</id><updated>2026-11-20T11:00:00Z</updated>"
    '<link href="https://x.example/1"/></entry></feed>'
)
RDF = (
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" '
    'xmlns:atom="http://www.w3.org/2005/Atom" xmlns:dc="http://purl.org/dc/elements/1.1/">'
    '<channel rdf:about="https://x.example/"><title>T</title><link>https://x.example/</link><description>D</description>'
    '<atom:link rel="self" href="https://x.example/f"/><items><rdf:Seq><rdf:li rdf:resource="%s"/></rdf:Seq></items>'
    "</channel><item%s><title>E</title><link>https://x.example/1</link><dc:date>2026-11-20</dc:date></item></rdf:RDF>"
)
JSON = {
    "version": "https://jsonfeed.org/version/1.1",
    "title": "T",
    "home_page_url": "https://x.example/",
    "feed_url": "https://x.example/f",
    "items": [{"id": "1", "url": "https://x.example/1", "content_text": "E", "date_published": "2026-11-20T11:00:00Z"}],
}


def rss(channel: str = "", **changes: str) -> bytes:
    return feed(NOW, channel=channel, **changes).replace("BASE", "https://x.example").encode()


def item(inner: str) -> bytes:
    return rss(entries=items(NOW) + f"<item>{inner}</item>")


def in_gmt(hours: float) -> str:
    return formatdate(NOW - hours * HOUR, usegmt=True)


DATE = f"<pubDate>{in_gmt(3)}</pubDate>"
LINK = "<link>https://x.example/e</link><guid>https://x.example/e</guid>"
NAME = f"<title>E</title>{LINK}"
SY = '<sy:updatePeriod xmlns:sy="http://purl.org/rss/1.0/modules/syndication/">%s</sy:updatePeriod>'
CLOUD = '<cloud domain="x.example" port="80" path="/RPC2" registerProcedure="%s" protocol="xml-rpc"/>'
NEW_URL = '<n:new-feed-url xmlns:n="http://www.itunes.com/dtds/podcast-1.0.dtd">%s</n:new-feed-url>'
HUB = '<atom:link rel="hub" href="https://hub.example/"/>'


def yearly(count: int, weight: int) -> bytes:
    return rss(
        entries="".join(
            f"<item><title>E{at}</title><link>https://x.example/{at}</link><guid>https://x.example/{at}</guid>"
            f"<pubDate>{in_gmt(24 * 40 * (at + 1))}</pubDate><description>{'x' * weight}</description></item>"
            for at in range(count)
        )
    )


def slow(ttl: str) -> bytes:
    return yearly(6, 10).replace(b"<ttl>60</ttl>", f"<ttl>{ttl}</ttl>".encode())


ATOM_03 = (
    '<feed version="0.3" xmlns="http://purl.org/atom/ns#"><title>T</title><modified>2026-11-20T11:00:00Z</modified>'
    '<link rel="%s" type="application/atom+xml" href="https://x.example/f"/>'
    "<entry><title>E</title><id>urn:x:1</id><issued>2026-11-20</issued><modified>2026-11-20T11:00:00Z</modified>"
    '<link rel="alternate" href="https://x.example/1"/></entry></feed>'
)
OWN = '<atom:link rel="self" type="application/rss+xml" href="BASE/feed.xml"/>'

CASES: dict[str, bytes] = {
    "document-empty": b" \n",
    "html-instead-of-feed": b"<!doctype html><html><body>Hello</body></html>",
    "not-a-feed": b'<opml version="2.0"><body/></opml>',
    "xml-redirect": b"<redirect><newLocation>https://x.example/new</newLocation></redirect>",
    "xml-gone": b"<redirect><newLocation/></redirect>",
    "ill-formed": rss().replace(b"<title>Entry 1<", b"<title>Entry & 1<"),
    "content-before-feed": b"\n" + rss(),
    "recoverable-errors": rss(
        entries=items(NOW) + f"<item>{NAME}{DATE}<description>{'<b>' * 300}deep{'</b>' * 300}</description></item>"
    ),
    "encoding-mismatch": rss().replace(b"What was", b"What w\xe4s", 1),
    "encoding-unknown": rss().replace(b"UTF-8", b"utf-9"),
    "not-in-utf-8": rss().replace(b"UTF-8", b"ISO-8859-1").replace(b"What was", b"What w\xe4s", 1),
    "version-missing": rss().replace(b' version="2.0"', b""),
    "version-unknown": rss().replace(b'version="2.0"', b'version="3.0"'),
    "format-superseded": rss().replace(b'version="2.0"', b'version="0.92"'),
    "channel-incomplete": rss().replace(b"<description>An example</description>", b""),
    "document-type": rss().replace(b"<rss", b'<!DOCTYPE rss [<!ENTITY x "y">]><rss'),
    "rdf-without-about": (RDF % ("https://x.example/1", "")).encode(),
    "rdf-item-list-mismatch": (RDF % ("https://x.example/2", ' rdf:about="https://x.example/1"')).encode(),
    "no-entries": rss(entries=""),
    "guids-missing": item(f"<title>E</title><link>https://x.example/e</link>{DATE}"),
    "guids-duplicate": item(f"<title>E</title><guid>https://x.example/entry/1</guid>{DATE}"),
    "guid-not-a-url": item(f"<title>E</title><link>https://x.example/e</link><guid>e-1 of 5</guid>{DATE}"),
    "dates-missing": item(NAME),
    "date-invalid": item(f"{NAME}<pubDate>yesterday</pubDate>"),
    "date-weekday-wrong": item(f"{NAME}<pubDate>Thu, 18 Nov 2026 23:00:00 -0800</pubDate>"),
    "date-format-wrong": item(f"{NAME}<pubDate>2026-11-20T08:00:00Z</pubDate>"),
    "date-in-future": item(f"{NAME}<pubDate>{in_gmt(-48)}</pubDate>"),
    "entries-empty": item(f"{LINK}{DATE}"),
    "titles-missing": item(f"{LINK}{DATE}<description>D</description>"),
    "title-with-markup": item(f"<title>&lt;b&gt;E&lt;/b&gt;</title>{LINK}{DATE}"),
    "scripts": item(f"{NAME}{DATE}<description>&lt;script&gt;x()&lt;/script&gt;</description>"),
    "links-relative": item(f"<title>E</title><link>/e</link><guid>https://x.example/e</guid>{DATE}"),
    "links-missing": item(f'<title>E</title><guid isPermaLink="false">e</guid>{DATE}'),
    "mostly-old-entries": yearly(30, 10_000),
    "feed-large": rss(entries=items(NOW) + f"<item>{NAME}{DATE}<description>{'x' * 300_000}</description></item>"),
    "hint-invalid": rss(channel="<ttl>often</ttl>"),
    "feed-finished": json.dumps({**JSON, "expired": True}).encode(),
    "hints-disagree": rss(channel=SY % "daily"),
    "ttl-very-short": rss().replace(b"<ttl>60<", b"<ttl>1<"),
    "ttl-very-long": slow("20000"),
    "ttl-above-change-interval": rss().replace(b"<ttl>60<", b"<ttl>1400<"),
    "skips-most-hours": slow("60").replace(
        b"</channel>",
        b"<skipHours>" + b"".join(b"<hour>%d</hour>" % at for at in range(24) if at != 12) + b"</skipHours></channel>",
    ),
    "entries-in-skipped-hours": rss(channel=f"<skipHours><hour>{int(NOW // 3600 - 5) % 24}</hour></skipHours>").replace(
        b"</channel>", f"<item>{NAME}<pubDate>{in_gmt(29)}</pubDate></item></channel>".encode()
    ),
    "self-link-missing": rss(self_link=""),
    "self-link-unsupported": rss(self_link="").replace(b'version="2.0"', b'version="0.91"'),
    "self-link-relative": rss(self_link='<atom:link rel="self" href="/feed.xml"/>'),
    "self-link-type-wrong": rss(self_link='<atom:link rel="self" type="text/xml" href="BASE/feed.xml"/>'),
    "self-link-relation-wrong": (ATOM_03 % "self").encode(),
    "self-links-several": rss(self_link=OWN + OWN.replace("feed.xml", "other.xml")),
    "self-link-title-wrong": rss(self_link=OWN.replace("rel=", 'title="Another" rel=')),
    "self-link-namespace-wrong": rss(
        self_link='<a:link xmlns:a="http://www.w3.org/2005/atom" rel="self" href="BASE/feed.xml"/>'
    ),
    "hub-without-self-link": rss(self_link=HUB),
    "podcast-new-feed-url": rss(channel=NEW_URL % "https://x.example/new.xml"),
    "cloud-incomplete": rss(channel=CLOUD % ""),
    "cloud-protocol-unknown": rss(channel=(CLOUD % "rssCloud.pleaseNotify").replace("xml-rpc", "XML-RPC")),
    "enclosures-incomplete": item(f'{NAME}{DATE}<enclosure url="https://x.example/a.mp3"/>'),
}

SIDE_FINDINGS = {
    "encoding-mismatch": {"recoverable-errors"},
    "self-link-unsupported": {"format-superseded"},
    "hub-without-self-link": {"self-link-missing"},
    "self-link-relation-wrong": {"format-superseded"},
}
"""Other Notes that a fault implies."""


def findings(notes: tuple[Note, ...]) -> set[str]:
    return {note.id() for note in notes if note.level is not Level.GOOD}


@pytest.mark.parametrize("name", CASES)
def test_document_with_fault_gets_its_note(name: str) -> None:
    found = findings(check_document(CASES[name], NOW))
    assert name in found
    assert found - {name} <= SIDE_FINDINGS.get(name, set())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (rss(entries="").replace(b"<ttl>", b"<pubDate>yesterday</pubDate><ttl>"), {"no-entries", "date-invalid"}),
        (rss().replace(b"<link>https://x.example/</link>", b"<link>x.example</link>", 1), {"links-relative"}),
        (item(f"{NAME}{DATE}<description>&lt;form onsubmit=&#34;x()&#34;></description>"), {"scripts"}),
        (item(f"{NAME}{DATE}<description>turned on = warm</description>"), set()),
        ((ATOM % "").replace("11:00:00Z", "11:00:00z").encode(), {"date-format-wrong"}),
        ((ATOM % "").replace("20T11:00:00Z", "18T24:00:00Z").encode(), {"date-format-wrong"}),
        (item(f"{NAME}<pubDate>Wed, 18 Nov 2026 24:00:00 GMT</pubDate>"), {"date-format-wrong"}),
        (item(f"{NAME}<pubDate>Wed, 18 Nov 2026 23:00:00 -0800</pubDate>"), set()),
        (item(f"{NAME}<pubDate>Wed, 18 Nov 26 01:00:00 +0900</pubDate>"), set()),
        (item(f"{NAME}<pubDate>Wed, 18 Nov 2026 23:59:60 GMT</pubDate>"), set()),
        (
            (ATOM % "")
            .replace("https://x.example/f", "f")
            .replace("<feed", "<feed xml:base='https://x.example/'")
            .encode(),
            set(),
        ),
    ],
)
def test_each_variant_of_a_document_fault_gets_its_note(body: bytes, expected: set[str]) -> None:
    assert findings(check_document(body, NOW)) == expected


@pytest.mark.parametrize(
    "body",
    [
        rss(),
        (ATOM % "").encode(),
        (RDF % ("https://x.example/1", ' rdf:about="https://x.example/1"')).encode(),
        json.dumps(JSON).encode(),
        rss(channel=CLOUD % "rssCloud.pleaseNotify"),
        rss(channel=HUB),
        rss(channel=NEW_URL % "https://x.example/feed.xml"),
        json.dumps({**JSON, "hubs": [{"type": "rssCloud", "url": "https://x.example:5337/"}]}).encode(),
        b'{"_x": %s, %s' % (b"9" * 4301, json.dumps(JSON).encode().lstrip(b"{")),
    ],
    ids=["rss", "atom", "rdf", "json", "cloud", "hub", "new-feed-url", "json-rsscloud", "json-long-integer"],
)
def test_document_without_fault_gets_only_positive_notes(body: bytes) -> None:
    notes = check_document(body, NOW)
    assert findings(notes) == set()
    assert "self-link-present" in {note.id() for note in notes}


def test_document_in_atom_03_gets_note_on_age_only() -> None:
    notes = check_document((ATOM_03 % "start").encode(), NOW)

    assert findings(notes) == {"format-superseded"}
    assert "self-link-present" in {note.id() for note in notes}


def test_document_with_equal_self_links_gets_no_finding() -> None:
    link = OWN + OWN.replace('rel="self"', 'rel="start"')

    assert findings(check_document(rss(self_link=link), NOW)) == set()


@pytest.mark.parametrize(
    ("enclosure", "names"),
    [
        ('<enclosure url="https://x.example/a.mp3" type="audio/mpeg" length="0"/>', None),
        ('<enclosure url="https://x.example/a.mp3" type="audio/mpeg"/>', "length"),
        ('<enclosure type="audio/mpeg" length=""/>', "url, length"),
    ],
)
def test_enclosures_incomplete_names_missing_attributes(enclosure: str, names: str | None) -> None:
    found = [note.message for note in check_document(item(NAME + DATE + enclosure), NOW) if note.level.is_finding]

    assert found == (
        [f"Entries with incomplete enclosures: 1. Missing attributes that RSS requires: {names}."] if names else []
    )


@pytest.mark.parametrize(("version", "is_expected"), [("0.91", False), ("0.92", False), ("0.93", True), ("2.0", True)])
def test_dates_missing_depends_on_rss_version(version: str, is_expected: bool) -> None:
    body = CASES["dates-missing"].replace(DATE.encode(), b"").replace(b"pubDate", b"x:date")
    body = body.replace(b"<rss", b'<rss xmlns:x="urn:x"').replace(b'version="2.0"', f'version="{version}"'.encode())

    assert ("dates-missing" in findings(check_document(body, NOW))) is is_expected


@pytest.mark.parametrize(("version", "is_expected"), [("0.91", False), ("0.92", False), ("0.94", True), ("2.0", True)])
def test_guids_missing_depends_on_rss_version(version: str, is_expected: bool) -> None:
    body = CASES["guids-missing"].replace(b'version="2.0"', f'version="{version}"'.encode())
    assert f'version="{version}"'.encode() in body

    assert ("guids-missing" in findings(check_document(body, NOW))) is is_expected


def test_ill_formed_note_gives_line_and_column() -> None:
    (note,) = [
        note
        for note in check_document(b"<rss version='2.0'>\n<channel>\n<title>a & b</title>", NOW)
        if note.id() == "ill-formed"
    ]
    assert "line 3, column 11" in note.message


def test_document_entities_are_not_expanded() -> None:
    ladder = "".join(
        f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in zip("abcdefghi", "bcdefghij", strict=True)
    )
    bomb = f'<!DOCTYPE rss [<!ENTITY a "aaaaaaaaaa">{ladder}]>'
    body = rss(entries=f"<item><title>&j;</title>{LINK}{DATE}</item>").replace(b"<rss", bomb.encode() + b"<rss")
    assert "document-type" in findings(check_document(body, NOW))


def test_check_of_document_without_syntax_says_what_it_is_not() -> None:
    (note,) = check_document(gzip.compress(rss()), NOW)

    assert "it looks like neither XML nor JSON" in note.message


@pytest.mark.parametrize(
    ("document", "line"),
    [
        (b'{"version": "https://jsonfeed.org/version/1.1",\n"title": "T", "items": [{"id": 1,}]}', 2),
        (b'<?xml version="1.0"?>\n<opml version="2.0"><body>', 2),
    ],
)
def test_check_of_ill_formed_document_that_is_no_feed_names_the_line(document: bytes, line: int) -> None:
    notes = {note.id(): note for note in check_document(document, NOW)}

    assert set(notes) == {"not-a-feed", "ill-formed"}
    assert f"line {line}, " in notes["ill-formed"].message
