"""Hostile feed content is harmless in every output format."""

import csv
import io
import json
import re
from html import escape
from pathlib import Path

import pytest
from lxml import etree, html

from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.convert.markup import resolve_html
from feedproxy.feed.convert.model import Enclosure, Feed, Item, Link, Person, Text
from feedproxy.feed.convert.read.from_document import read

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)><script>alert(1)</script></svg>",
    "<a href='javascript:alert(1)'>x</a>",
    "<a href=' &#106;avascript:alert(1)'>x</a>",
    "<a href='data:text/html,<script>alert(1)</script>'>x</a>",
    "<iframe src='https://evil.example/'></iframe>",
    "<object data='x'></object><embed src='x'>",
    "<form action='https://evil.example/'><input name=q></form>",
    "<style>body{display:none}</style><p style='position:fixed'>x</p>",
    "<base href='https://evil.example/'><meta http-equiv=refresh content='0;url=//evil.example'>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)></style></mglyph></table></mtext></math>",
    "</div></article></main><script>alert(1)</script>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'></noscript>",
    "<!--><img src=x onerror=alert(1)>-->",
    "{{ 7 * 7 }}{% raw %}",
)


def a_hostile_feed(word: str) -> Feed:
    """Return a feed with this text in every place that can hold text."""
    item = Item(
        id=word,
        title=Text(word, "html"),
        summary=Text(word, "html"),
        content=Text(word, "html"),
        links=(Link("javascript:alert(1)"),),
        authors=(Person(word, word, "javascript:alert(1)"),),
        language=word,
        image="javascript:alert(1)",
        comments="data:text/html,<script>alert(1)</script>",
        enclosures=(Enclosure("javascript:alert(1)", word, None, word),),
    )
    links = (Link("javascript:alert(1)"), Link(f'https://x.example/"{word}', "self"))
    return Feed(
        title=Text(word), summary=Text(word, "html"), links=links, language=word, rights=Text(word), items=(item,)
    )


@pytest.mark.parametrize(
    "harmless",
    [
        '<img title=" src=x/onmouseover=alert(1)//">',
        '<img alt="see src=x">',
        '<b title="<img src=x/onclick=alert(1)>">',
        '</b title="<img src=x/onclick=alert(1)>">',
        "<!-- <b title=' --><img alt=\"' src=x/onerror=alert(1) \">",
        '<svg><style><a id="</style><img src=x/onfocus=alert(1) ">',
        '<title><b id="</title><img alt=" src=x"><b title=\' onclick=alert(1) \'><b title=" onclick=alert(1) ">',
        '<!-- <a href="x--><b title="--><img src=q onerror=alert(1)>">',
    ],
)
def test_resolved_address_never_leaves_the_quotation_marks_around_it(harmless: str) -> None:
    resolved = resolve_html("https://x.example/a/", harmless)
    assert all(resolved.count(mark) == harmless.count(mark) for mark in "\"'<>")
    assert html.fromstring(f"<div>{resolved}</div>").xpath("//@*[starts-with(name(), 'on')]") == []


@pytest.mark.parametrize(
    ("relative", "absolute"),
    [
        ('<img srcset="a.jpg 1x, /b,c.jpg 2x" src=c>', "https://x.example/a/a.jpg 1x, https://x.example/b,c.jpg 2x"),
        ("<img srcset='a, data:image/png;base64,AA 2x'>", "https://x.example/a/a, data:image/png;base64,AA 2x"),
        ('<img srcset=" , ">', " , "),
    ],
)
def test_addresses_in_srcset_become_absolute(relative: str, absolute: str) -> None:
    assert html.fromstring(resolve_html("https://x.example/a/", relative)).get("srcset") == absolute


@pytest.mark.parametrize("piece", ['<a b="', "<a ", "<a x= ", '<a href="', '<a srcset=" ,', "<a srcset='a,", "<!--"])
def test_addresses_are_resolved_in_linear_time(piece: str) -> None:
    resolve_html("https://x.example/", piece * (300_000 // len(piece)))


@pytest.mark.parametrize("word", HOSTILE)
def test_page_contains_no_script(word: str) -> None:
    page = html.document_fromstring(FORMATS["html"].render(a_hostile_feed(word)))

    assert harm_in(page) == []


def harm_in(page: etree._Element) -> list[str]:
    """Return the parts of a page that could execute code, load a resource or lead to another page."""
    found = [str(each.tag) for each in page.iter("script", "iframe", "object", "embed", "form", "base", "svg", "math")]
    found += [str(each.text) for each in page.iter("style") if each.getparent().tag != "head"]  # type: ignore[union-attr]
    for each in page.iter("*"):
        for name, value in ((str(name), str(value)) for name, value in each.items()):
            if name.startswith("on") or name == "style":
                found.append(f"{name}={value}")
            if name in ("href", "src", "poster", "action") and not re.match(
                r"(https?|mailto):", value.strip(), re.IGNORECASE
            ):
                found.append(f"{name}={value}")
    found += [str(each.get("http-equiv")) for each in page.iter("meta") if each.get("http-equiv") == "refresh"]
    return found


def test_page_of_every_corpus_feed_is_harmless(corpus) -> None:
    for path in sorted((corpus / "feeds").iterdir())[::3]:
        if feed := read(path.read_bytes()):
            assert harm_in(html.document_fromstring(FORMATS["html"].render(feed))) == [], path.name


def test_page_has_a_content_security_policy_without_scripts() -> None:
    page = FORMATS["html"].render(Feed()).decode()

    assert "default-src &#39;none&#39;" in page
    assert "script-src" not in page
    assert "<script" not in page


def test_page_escapes_markup_in_a_title() -> None:
    page = FORMATS["html"].render(Feed(title=Text("a <b> & c"))).decode()

    assert "<title>a &lt;b&gt; &amp; c</title>" in page


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r", "\n"])
@pytest.mark.parametrize("name", ["csv", "tsv"])
def test_table_cell_never_starts_a_formula(name: str, sign: str) -> None:
    word = f"{sign}HYPERLINK(1)"
    feed = Feed(items=(Item(id=word, content=Text(word), comments=word),))

    table = FORMATS[name].render(feed).decode()

    rows = (
        list(csv.reader(io.StringIO(table, newline="")))
        if name == "csv"
        else [line.split("\t") for line in table.splitlines()]
    )
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for row in rows[1:] for cell in row)


def test_json_is_safe_within_a_script_element() -> None:
    written = FORMATS["js"].render(Feed(title=Text("</script><!-- \u2028 &amp;"))).decode()

    assert not re.search("[<>&\u2028]", written)
    assert json.loads(written)["title"]["value"] == "</script><!-- \u2028 &amp;"


@pytest.fixture(scope="module")
def hostile_feeds(corpus: Path) -> list[Feed]:
    """Return the hostile documents of the corpus that are read as feeds."""
    found: list[Feed] = []
    for case in json.loads((corpus / "hostile.json").read_text("utf-8")):
        for each in case.get("responses", ()):
            path = corpus / each if isinstance(each, str) else None
            if path is None or not path.is_file():
                continue
            _, _, body = path.read_bytes().partition(b"\r\n\r\n")
            if (feed := read(body)) is not None:
                found.append(feed)
    assert len(found) > 50
    return found


@pytest.mark.parametrize("name", FORMATS)
def test_hostile_documents_are_rendered_or_rejected(hostile_feeds: list[Feed], name: str) -> None:
    for feed in hostile_feeds:
        written = FORMATS[name].render(feed)
        assert b"root:x:" not in written
        assert len(written) < 30_000_000


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "document",
    [
        '<rss version="2.0" xmlns="http://backend.userland.com/rss2"><channel><title>t</title>'
        "<item><description>Dark <b: x='1'>tea</b:></description></item></channel></rss>",
        '<feed xmlns="http://www.w3.org/2005/Atom"><title>t</title>'
        '<entry><content type="xhtml">Dark <b:>tea</b:></content></entry></feed>',
    ],
    ids=["rss", "atom"],
)
def test_element_with_an_invalid_name_is_rendered(document: str, name: str) -> None:
    feed = read(document.encode())

    assert feed is not None
    content = feed.items[0].content
    assert content is not None
    assert "tea" in content.value
    assert FORMATS[name].render(feed)


@pytest.mark.parametrize("text", ["a &#{};", "<p title='&#{};'>a</p>"])
@pytest.mark.parametrize("name", FORMATS)
def test_reference_with_thousands_of_digits_is_rendered(text: str, name: str) -> None:
    description = escape(text.format("0" * 5000 + "65"))
    feed = read(
        f'<rss version="2.0"><channel xml:base="https://a.example/"><title>{description}</title>'
        f"<item><description>{description}</description></item></channel></rss>".encode()
    )

    assert feed is not None
    assert len(feed.items) == 1
    assert FORMATS[name].render(feed)


@pytest.mark.parametrize("name", FORMATS)
def test_size_beyond_a_float_in_a_custom_object_is_ignored(name: str) -> None:
    custom = {"enclosures": [{"url": "https://example.com/a.mp3", "length": 10**400}]}
    items = [{"id": "1", "title": "t", "_feedproxy": custom}]
    feed = read(json.dumps({"version": "https://jsonfeed.org/version/1.1", "items": items}).encode())

    assert feed is not None
    assert feed.items[0].enclosures == ()
    assert FORMATS[name].render(feed)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "Infinity", pytest.param("9" * 4301, id="4301 digits")])
def test_number_beyond_a_float_is_written_as_valid_json(number: str) -> None:
    item = f'{{"id": {number}, "content_text": "x", "_own": [1, {number}]}}'
    feed = read(f'{{"version": "https://jsonfeed.org/version/1.1", "title": "t", "items": [{item}]}}'.encode())
    assert feed is not None

    converted = json.loads(FORMATS["json"].render(feed), parse_constant=pytest.fail)

    assert converted["items"][0]["_own"] == [1, None]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "custom",
    [
        {"none": 5},
        {"members": [["title", "5"]]},
        {"members": [["_own", "{"]]},
        {"updated": 10**30},
        {"schedule": {"base": 10**20, "period": "daily"}},
        {"schedule": {"skip_days": [9]}},
        {"language": "\x01"},
        {"links": [{"href": "\x00"}]},
        {"extensions": [{"namespace": "urn:x", "name": "a b"}]},
        {"extensions": [{"namespace": "a b", "name": "x"}]},
        {"extensions": [{"name": "x", "content": [{"name": "y", "attributes": [["a b", "1"]]}]}]},
        {"authors": [{"name": "N", "extensions": [{"namespace": "urn:x", "name": "<"}]}]},
    ],
)
def test_invalid_custom_object_is_ignored(custom: object, name: str) -> None:
    document = {"version": "https://jsonfeed.org/version/1.1", "title": "t", "items": [], "_feedproxy": custom}
    feed = read(json.dumps(document).encode())

    assert feed is not None
    assert feed.title == Text("t")
    assert FORMATS[name].render(feed)


def is_too_deep_for_json(document: str) -> bool:
    """Return True if this Python's json cannot read `document`: Python 3.12 permits fewer levels than 3.13."""
    try:
        json.loads(document)
    except RecursionError:
        return True
    return False


@pytest.mark.parametrize("form", ['{"children": [%s]}', "[%s]", '{"x": %s}'])
@pytest.mark.parametrize("depth", [100, 400, 1_000, 2_000])
def test_deeply_nested_custom_object_is_ignored(form: str, depth: int) -> None:
    nested = "1"
    for _ in range(depth):
        nested = form % nested
    custom = f'{{"title": {{"value": "other"}}, "extensions": [{nested}]}}'
    document = f'{{"version": "https://jsonfeed.org/version/1.1", "title": "t", "items": [], "_feedproxy": {custom}}}'
    feed = read(document.encode())

    if is_too_deep_for_json(document):
        assert feed is None
    else:
        assert feed is not None
        assert feed.title == Text("t")


@pytest.mark.parametrize("key", ["title\x00", "title\ud800"])
def test_member_with_the_name_of_another_and_an_invalid_character_is_ignored(key: str) -> None:
    document = {"version": "https://jsonfeed.org/version/1.1", "title": "t", key: "x", "items": []}
    feed = read(json.dumps(document).encode())

    assert feed is not None
    assert json.loads(FORMATS["json"].render(feed))["title"] == "t"


def test_invalid_name_of_a_namespace_is_a_fault() -> None:
    feed = read(
        b'<rss version="2.0" xmlns="urn:&#55357;"><channel><title>t</title>'
        b"<item><title>x</title></item></channel></rss>"
    )

    assert feed is not None
    assert feed.items[0].title == Text("x")
