"""RSS Feed State, "Redirect" and "Gone": the XML forms of 301 and 410."""

import pytest

from feedproxy.feed.xml_redirect import Gone, Moved, make_document, read

DECLARATION = b'<?xml version="1.0"?>\n'


def test_redirect_document_names_the_new_location() -> None:
    body = DECLARATION + b"<redirect>\n   <newLocation>http://feeds.example.com/TheRssBlog</newLocation>\n</redirect>"

    assert read(body) == Moved("http://feeds.example.com/TheRssBlog")


def test_redirect_document_with_an_empty_new_location_means_gone() -> None:
    body = DECLARATION + b"<redirect>\n   <newLocation/>\n</redirect>\n"

    assert read(body) == Gone()


def test_redirect_sample_of_the_specification_is_ill_formed_and_ignored() -> None:
    body = DECLARATION + b"<redirect>\n   <newLocation>http://feeds.example.com/TheRssBlog<newLocation>\n</redirect>"

    assert read(body) is None


def test_redirect_sample_of_the_specification_is_ignored_even_with_closed_tags() -> None:
    body = DECLARATION + b"<redirect><newLocation>http://a.example/<newLocation></newLocation></newLocation></redirect>"

    assert read(body) is None


@pytest.mark.parametrize("location", ["https://new.example/feed?a=1&b=2", "/feeds/new.xml", None])
def test_redirect_document_round_trip_returns_the_location(location: str | None) -> None:
    assert read(make_document(location)) == (Gone() if location is None else Moved(location))


def test_redirect_document_of_a_gone_feed_has_the_specified_form() -> None:
    assert b"<redirect>\n   <newLocation/>\n</redirect>" in make_document(None)
