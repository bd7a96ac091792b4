"""Redirect documents: which documents are recognised as redirects, and which are not."""

import codecs

import pytest

from feedproxy.feed.xml_redirect import Gone, Moved, make_document, read


def redirect(inner: str, before: str = "", root: str = "redirect") -> bytes:
    return f"{before}<{root}>{inner}</{root.split(maxsplit=1)[0]}>".encode()


def to(location: str) -> bytes:
    return redirect(f"<newLocation>{location}</newLocation>")


def test_location_is_stripped_of_white_space() -> None:
    assert read(to("\n\t https://new.example/feed \n")) == Moved("https://new.example/feed")


def test_location_references_and_cdata_are_resolved() -> None:
    assert read(to("https://new.example/?a=1&amp;b=2")) == Moved("https://new.example/?a=1&b=2")
    assert read(to("<![CDATA[https://new.example/?a=1&b=2]]>")) == Moved("https://new.example/?a=1&b=2")


def test_location_that_is_relative_is_returned_unchanged() -> None:
    assert read(to("../new/feed.xml")) == Moved("../new/feed.xml")
    assert read(to("//new.example/feed.xml")) == Moved("//new.example/feed.xml")


@pytest.mark.parametrize("inner", ["<newLocation/>", "<newLocation></newLocation>", "<newLocation>\n </newLocation>"])
def test_location_explicitly_empty_means_gone(inner: str) -> None:
    assert read(redirect(inner)) == Gone()


@pytest.mark.parametrize(
    "inner", ["", "https://new.example/", "<newlocation/>", "<location/>", "<a><newLocation/></a>"]
)
def test_redirect_without_new_location_is_ignored(inner: str) -> None:
    assert read(redirect(inner)) is None


@pytest.mark.parametrize(
    "content", ["<?php echo $new; ?>", "<!-- https://new.example/ -->", "https://new.example/<?p?>"]
)
def test_location_with_a_program_or_a_comment_is_ignored(content: str) -> None:
    assert read(redirect(f"<newLocation>{content}</newLocation>")) is None


def test_redirect_with_two_new_locations_is_ignored() -> None:
    inner = "<newLocation>https://a.example/</newLocation><newLocation>https://b.example/</newLocation>"

    assert read(redirect(inner)) is None


def test_redirect_with_other_elements_is_accepted() -> None:
    inner = "<note>moved house</note><!-- at last --><newLocation>https://a.example/</newLocation>"

    assert read(redirect(inner)) == Moved("https://a.example/")


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "file:///etc/passwd",
        "ftp://a.example/",
        "feed:https://a.example/",
        "data:,x",
        "https://a.example/a b",
        "https://a.example/\nhttps://b.example/",
        "java\tscript:alert(1)",
        "https://a.example/&#x85;",
    ],
)
def test_location_that_cannot_be_subscribed_to_is_ignored(address: str) -> None:
    assert read(to(address)) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"redirect",
        b"<redirect>",
        b"<redirect><newLocation/></redirect><redirect/>",
        b"<redirect><newLocation/></redirect>trailing text",
        b"<redirect><newLocation>https://a.example/&undefined;</newLocation></redirect>",
        b'<redirect xmlns="urn:other"><newLocation/></redirect>',
        b'<x:redirect xmlns:x="urn:other"><x:newLocation/></x:redirect>',
        b'<redirect><newLocation xmlns="urn:other"/></redirect>',
        b"<!DOCTYPE redirect [<!ENTITY a 'https://a.example/'>]><redirect><newLocation>&a;</newLocation></redirect>",
        b"<!DOCTYPE redirect SYSTEM 'http://127.0.0.1/x.dtd'><redirect><newLocation>&a;</newLocation></redirect>",
        b"<redirects><newLocation/></redirects>",
        b"<html><body>redirect <newLocation/></body></html>",
        b'{"redirect": {"newLocation": ""}}',
        b"\xff\xfe<\0r",
        b'<?xml version="1.0" encoding="x-unknown-8"?><redirect><newLocation/></redirect>',
    ],
)
def test_document_other_than_a_redirect_is_ignored(body: bytes) -> None:
    assert read(body) is None


def test_feed_with_redirect_markup_in_an_item_is_ignored() -> None:
    shown = "<redirect><newLocation/></redirect>"
    for example in (shown, f"<![CDATA[{shown}]]>"):
        body = f"<rss><channel><item><description>{example}</description></item></channel></rss>".encode()

        assert read(body) is None


@pytest.mark.parametrize("before", ["\n ", '<?xml version="1.0"?>', "<!-- we moved -->", "\ufeff", "<?pi x?>\n"])
def test_redirect_after_prolog_content_is_accepted(before: str) -> None:
    assert read(redirect("<newLocation/>", before)) == Gone()


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig", "latin-1", "shift_jis"])
def test_redirect_is_read_in_every_encoding(codec: str) -> None:
    label = codec.removesuffix("-sig")
    text = f'<?xml version="1.0" encoding="{label}"?><redirect><newLocation>https://a.example/</newLocation></redirect>'

    assert read(text.encode(codec)) == Moved("https://a.example/")


def test_redirect_above_the_size_limit_is_ignored() -> None:
    assert read(to("https://a.example/" + "x" * 30_000)) is None


def test_redirect_with_deep_nesting_is_ignored() -> None:
    assert read(redirect("<a>" * 4_000)) is None


def test_make_document_writes_escaped_ascii() -> None:
    body = make_document("https://bücher.example/?a=1&b=<2>")

    assert body.isascii()
    assert b"&amp;b=&lt;2&gt;" in body
    assert not body.startswith(codecs.BOM_UTF8)


@pytest.mark.parametrize("location", ["", "https://a.example/\0", "\ud800"])
def test_make_document_rejects_a_location_invalid_in_xml(location: str) -> None:
    with pytest.raises(ValueError, match="invalid location"):
        make_document(location)
