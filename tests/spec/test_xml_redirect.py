"""RSS Feed State, "Redirect" and "Gone": the XML forms of 301 and 410."""

import pytest

from feedproxy.feed.xml_redirect import Gone, Moved, make_document, read

DECLARATION = b'<?xml version="1.0"?>\n'


def test_a_redirect_document_says_where_the_feed_is_now() -> None:
    body = DECLARATION + b"<redirect>\n   <newLocation>http://feeds.example.com/TheRssBlog</newLocation>\n</redirect>"

    assert read(body) == Moved("http://feeds.example.com/TheRssBlog")


def test_an_empty_new_location_says_that_the_feed_is_over() -> None:
    body = DECLARATION + b"<redirect>\n   <newLocation/>\n</redirect>\n"

    assert read(body) == Gone()


def test_the_texts_own_sample_is_ill_formed_and_says_nothing() -> None:
    body = DECLARATION + b"<redirect>\n   <newLocation>http://feeds.example.com/TheRssBlog<newLocation>\n</redirect>"

    assert read(body) is None


def test_the_texts_own_sample_says_nothing_even_when_its_tags_are_closed_at_the_end() -> None:
    body = DECLARATION + b"<redirect><newLocation>http://a.example/<newLocation></newLocation></newLocation></redirect>"

    assert read(body) is None


@pytest.mark.parametrize("location", ["https://new.example/feed?a=1&b=2", "/feeds/new.xml", None])
def test_the_documents_we_write_are_read_as_they_were_meant(location: str | None) -> None:
    assert read(make_document(location)) == (Gone() if location is None else Moved(location))


def test_the_document_of_a_feed_that_is_over_has_the_form_of_the_text() -> None:
    assert b"<redirect>\n   <newLocation/>\n</redirect>" in make_document(None)
