"""Redirect documents: what counts as one, and what only looks like one."""

import codecs

import pytest

from feedproxy.feed.xml_redirect import Gone, Moved, make_document, read


def redirect(inner: str, before: str = "", root: str = "redirect") -> bytes:
    return f"{before}<{root}>{inner}</{root.split(maxsplit=1)[0]}>".encode()


def to(location: str) -> bytes:
    return redirect(f"<newLocation>{location}</newLocation>")


def test_white_space_around_the_address_does_not_count() -> None:
    assert read(to("\n\t https://new.example/feed \n")) == Moved("https://new.example/feed")


def test_references_and_cdata_are_resolved() -> None:
    assert read(to("https://new.example/?a=1&amp;b=2")) == Moved("https://new.example/?a=1&b=2")
    assert read(to("<![CDATA[https://new.example/?a=1&b=2]]>")) == Moved("https://new.example/?a=1&b=2")


def test_a_relative_address_is_returned_as_it_stands() -> None:
    assert read(to("../new/feed.xml")) == Moved("../new/feed.xml")
    assert read(to("//new.example/feed.xml")) == Moved("//new.example/feed.xml")


@pytest.mark.parametrize("inner", ["<newLocation/>", "<newLocation></newLocation>", "<newLocation>\n </newLocation>"])
def test_only_an_explicit_empty_new_location_is_an_end(inner: str) -> None:
    assert read(redirect(inner)) == Gone()


@pytest.mark.parametrize(
    "inner", ["", "https://new.example/", "<newlocation/>", "<location/>", "<a><newLocation/></a>"]
)
def test_a_redirect_without_new_location_says_nothing(inner: str) -> None:
    assert read(redirect(inner)) is None


def test_two_new_locations_say_nothing() -> None:
    inner = "<newLocation>https://a.example/</newLocation><newLocation>https://b.example/</newLocation>"

    assert read(redirect(inner)) is None


def test_elements_beside_the_new_location_are_passed_over() -> None:
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
def test_addresses_that_no_reader_could_subscribe_to_say_nothing(address: str) -> None:
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
def test_whatever_is_not_exactly_a_redirect_document_says_nothing(body: bytes) -> None:
    assert read(body) is None


def test_a_feed_that_shows_such_xml_in_an_item_has_not_moved() -> None:
    shown = "<redirect><newLocation/></redirect>"
    for example in (shown, f"<![CDATA[{shown}]]>"):
        body = f"<rss><channel><item><description>{example}</description></item></channel></rss>".encode()

        assert read(body) is None


@pytest.mark.parametrize("before", ["\n ", '<?xml version="1.0"?>', "<!-- we moved -->", "\ufeff", "<?pi x?>\n"])
def test_what_may_stand_before_a_root_may_stand_before_this_one(before: str) -> None:
    assert read(redirect("<newLocation/>", before)) == Gone()


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig", "latin-1", "shift_jis"])
def test_the_encoding_of_the_document_makes_no_difference(codec: str) -> None:
    label = codec.removesuffix("-sig")
    text = f'<?xml version="1.0" encoding="{label}"?><redirect><newLocation>https://a.example/</newLocation></redirect>'

    assert read(text.encode(codec)) == Moved("https://a.example/")


def test_a_document_longer_than_any_address_is_not_even_parsed() -> None:
    assert read(to("https://a.example/" + "x" * 30_000)) is None


def test_deep_nesting_does_no_harm() -> None:
    assert read(redirect("<a>" * 4_000)) is None


def test_a_document_is_written_in_ascii_and_escaped() -> None:
    body = make_document("https://bücher.example/?a=1&b=<2>")

    assert body.isascii()
    assert b"&amp;b=&lt;2&gt;" in body
    assert not body.startswith(codecs.BOM_UTF8)


@pytest.mark.parametrize("location", ["", "https://a.example/\0", "\ud800"])
def test_document_with_location_invalid_in_xml_is_refused(location: str) -> None:
    with pytest.raises(ValueError, match="invalid location"):
        make_document(location)
