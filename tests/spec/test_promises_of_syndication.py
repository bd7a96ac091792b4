"""Requirements on formats, discovery, lists and access, paraphrased, each with its tests. They come from the Universal
Subscription Mechanism (USM) and a book's chapter on data feeds (Feeds). Requirements without a test are listed at the
end, with the reason. This file contains the tests for the chapter that no other file contains.
"""

from pathlib import Path

import feedparser
import pytest
from lxml import etree

from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.convert.read.from_document import read
from tests.spec.promises import check_sentences, names_in, promises

HERE = Path(__file__).parent
TESTS = HERE.parent
FILES = {
    "here": Path(__file__),
    "usm": HERE / "test_usm.py",
    "client": HERE / "test_usm_client.py",
    "subscribe": TESTS / "live" / "test_subscribe.py",
    "matrix": TESTS / "feed" / "convert" / "test_matrix.py",
    "people": TESTS / "feed" / "convert" / "test_people_and_dates.py",
    "formats": TESTS / "scenarios" / "test_formats.py",
    "interpreters": TESTS / "live" / "test_interpreters.py",
    "discovery": TESTS / "feed" / "test_autodiscovery.py",
    "opml": TESTS / "feed" / "test_opml.py",
    "wsse": TESTS / "access" / "test_wsse.py",
    "tokens": TESTS / "access" / "test_tokens_and_wallet.py",
    "access": TESTS / "scenarios" / "test_access.py",
    "guarded": TESTS / "live" / "test_access.py",
}

PROMISES = """
USM, Content-Type: RSS comes as application/rss+xml
    usm media_type_of_every_rss_version_is_application_rss_xml
    usm media_type_of_rdf_is_application_rss_xml_by_default
USM, Content-Type: application/rdf+xml is allowed, and discouraged
    usm media_type_of_rdf_may_be_application_rdf_xml
    client discover_accepts_the_discouraged_type_application_rdf_xml
USM, Atom Link Construct: the feed holds its subscription URL, for it may be saved elsewhere
    usm self_link_href_is_the_subscription_url
    client discover_reads_the_self_link_of_a_saved_file_without_a_request
USM, Atom Link Construct: clients look for the namespace of today and the one before
    usm self_link_is_recognised_in_both_namespaces_and_with_both_rels
    usm self_link_in_the_deprecated_namespace_is_corrected
    client discover_recognises_both_atom_namespaces
USM, Atom Link Construct: it is a child of the channel
    usm self_link_is_a_child_of_the_channel_with_all_attributes_of_the_example
    client discover_ignores_self_links_of_items
USM, rel: self is preferred, start is accepted
    usm self_link_rel_start_is_corrected_to_self
    usm self_link_with_another_rel_is_not_recognised
    client discover_prefers_self_to_start
USM, type: the media type of RSS; application/rdf+xml is to be expected
    usm self_link_type_application_rdf_xml_is_allowed_in_rdf
USM, title: that of the channel
    usm self_link_title_is_that_of_the_channel
USM, href: the subscription URL, which may be another than where the feed came from
    usm self_link_href_to_another_address_is_corrected
    client discover_prefers_the_self_link_to_the_fetched_url
USM, the link bug: the channel's link may be repeated as text
    usm self_link_repeats_the_channel_link_with_link_text
    usm self_link_is_empty_without_link_text
    usm self_link_follows_the_link_of_the_channel
    client discover_ignores_text_in_the_self_link
USM, reflexive: the feed's page names the feed
    client discover_finds_the_feed_through_the_page_of_a_saved_file
    client discover_resolves_relative_links_against_the_redirect_target
USM, reflexive: it verifies that the feed belongs to the page
    client discover_verify_requires_the_page_to_name_the_feed
    client discover_prefers_the_requested_feed_among_those_of_its_page
USM, sample client: what the browser has saved is opened in the reader
    client subscribe_passes_the_subscription_url_to_the_reader
    subscribe xdg_open_opens_a_downloaded_feed_in_the_reader
    subscribe xdg_mime_names_feedproxy_for_both_types
USM, RSS versions: to all but Atom, which has its own, and 0.91, which is not extensible
    usm self_link_is_added_to_every_extensible_rss_version
    usm self_link_is_not_added_to_rss_091
    usm self_link_in_atom_10_uses_its_own_link_element
USM, RSS versions: self is invalid in Atom 0.3, where it is start
    usm self_link_in_atom_03_uses_rel_start
    usm self_link_in_atom_03_with_rel_self_is_corrected
    client discover_accepts_start_in_atom_03

Feeds 11.1: an item has author, title, body, time, address, enclosures; a feed title, description, author, time
    here feedparser_reads_feed_and_items_from_every_format
    people date_is_written_in_the_form_of_each_format
    people person_is_parsed_from_rss_text
Feeds 11.1: each item has a GUID by which readers know what they have seen
    here item_ids_are_unique_and_stable_in_every_format_without_ids_in_the_feed
Feeds 11.1.1 to 11.1.3: RSS of both branches, RDF and Atom
    matrix corpus_feeds_read_match_the_expected_number_and_kinds
    matrix corpus_feeds_are_written_in_every_format
    matrix corpus_feeds_written_and_read_equal_the_model
Feeds 11.1.3: the id is an IRI
    here atom_id_is_an_iri
Feeds 11.1.4: CDF, too
    here cdf_is_read_like_every_other_format
Feeds 11.1.5: link elements in a page's head name its feeds, as many as there are
    discovery page_links_are_listed_in_document_order_with_type_and_title
    client discover_lists_every_feed_of_a_page
Feeds 11.1.6: each feed is read once, and rendered into whatever users request
    formats conversion_exists_for_every_format
    formats conversion_to_all_formats_causes_one_request_to_the_origin
Feeds 11.1.6: CSV and TSV
    matrix csv_and_tsv_have_one_row_for_each_item
Feeds 11.1.6: source for Perl, PHP, Python, Ruby and JavaScript, serialized PHP, JSON
    matrix data_formats_contain_the_whole_model
    interpreters interpreter_reads_every_character_correctly
    interpreters interpreter_reads_the_corpus
Feeds 11.1.7: OPML lists feeds, all in one go
    opml list_is_written_as_opml_2
    opml subscription_list_written_as_opml_is_read_back_unchanged
    opml list_has_feeds_and_nested_folders
Feeds 11.1.8: a secret in the feed's address
    access secret_address_admits_its_reader_until_the_token_is_revoked
    access secret_address_serves_every_format_of_its_feed_and_no_other_feed
    tokens secret_token_is_redacted_from_addresses
    guarded secret_address_works_in_every_format_until_it_is_revoked
Feeds 11.1.8: HTTP Basic
    access access_rule_admits_named_readers_and_withholds_their_passwords_from_the_origin
    guarded basic_password_grants_access_and_the_response_is_not_shared
Feeds 11.1.8: who may not see private data is not shown it by a cache
    access wallet_response_is_reused_for_the_same_credential_only
    access access_rule_marks_responses_private_for_downstream_caches
    guarded response_to_credentials_is_not_served_to_another_user
Feeds 11.1.8: WSSE, raw and hexadecimal sums
    guarded wsse_token_is_accepted_once_by_all_workers_together
Feeds 11.1.8: the date of a digest has to be recent
    wsse wsse_created_may_differ_by_five_minutes
    wsse wsse_created_that_is_invalid_is_old
Feeds 11.1.8: a nonce is remembered for as long as its date may differ
    wsse wsse_token_is_accepted_once_within_its_lifetime
    wsse nonces_are_kept_until_they_expire
    wsse wsse_token_used_at_one_worker_is_refused_by_others_and_after_restart
    guarded used_wsse_token_is_refused_after_a_restart
"""

KEPT_NOWHERE = {
    "USM: entries of the Windows registry": "freedesktop's are written; there is no Windows to try others on",
    "Feeds 11.1.6: Perl's serialized form (Storable)": "thawing runs code, and the form differs between machines",
}
"""Requirements that feedproxy does not meet, with the reason."""

FEED = b"""<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><title>Photos</title>
<link>http://site.example/</link><description>All of them</description>
<pubDate>Fri, 20 Nov 2026 12:00:00 GMT</pubDate>
<item><title>In a meeting</title><link>http://site.example/1</link><guid isPermaLink="false">photo 1</guid>
<pubDate>Fri, 20 Nov 2026 12:00:00 GMT</pubDate><dc:creator>Ann</dc:creator>
<description>&lt;p&gt;Hello&lt;/p&gt;</description>
<enclosure url="http://site.example/1.mp3" length="5" type="audio/mpeg"/></item></channel></rss>"""

NAMELESS = b"""<rss version="2.0"><channel><title>Notes</title><link>http://site.example/</link><description/>
<item><description>One</description></item><item><description>Two</description></item>
<item><description>Two</description></item></channel></rss>"""


@pytest.mark.parametrize("name", ["rss", "rdf", "atom"])
def test_feedparser_reads_feed_and_items_from_every_format(name: str) -> None:
    feed = read(FEED, address="http://site.example/feed")
    assert feed is not None

    told = feedparser.parse(FORMATS[name].render(feed))

    assert (told.feed.title, told.feed.link) == ("Photos", "http://site.example/")
    assert told.feed.get("subtitle") == "All of them"
    (entry,) = told.entries
    assert (entry.title, entry.link, entry.author) == ("In a meeting", "http://site.example/1", "Ann")
    assert "Hello" in (entry.get("summary") or entry.content[0].value)
    assert (entry.get("published_parsed") or entry.updated_parsed)[:4] == (2026, 11, 20, 12)
    assert [each.href for each in entry.enclosures] == ["http://site.example/1.mp3"]


@pytest.mark.parametrize("name", ["rss", "rdf", "atom"])
def test_item_ids_are_unique_and_stable_in_every_format_without_ids_in_the_feed(name: str) -> None:
    feed = read(NAMELESS, address="http://site.example/feed")
    assert feed is not None

    once, again = (feedparser.parse(FORMATS[name].render(feed)) for _ in range(2))
    ids = [entry.get("id") for entry in once.entries]

    assert all(ids)
    assert len(set(ids)) == 3
    assert ids == [entry.get("id") for entry in again.entries]


def test_atom_id_is_an_iri() -> None:
    feed = read(FEED, address="http://site.example/feed")
    assert feed is not None

    (told,) = etree.fromstring(FORMATS["atom"].render(feed)).findall("{*}entry/{http://www.w3.org/2005/Atom}id")

    assert (told.text or "").startswith("urn:uuid:")


def test_cdf_is_read_like_every_other_format() -> None:
    document = (
        b'<CHANNEL HREF="http://site.example/"><TITLE>News</TITLE><ITEM HREF="/1"><TITLE>One</TITLE></ITEM></CHANNEL>'
    )
    feed = read(document, address="http://site.example/feed.cdf")

    assert feed is not None
    assert feed.kind == "cdf"
    assert [item.link for item in feed.items] == ["http://site.example/1"]
    assert b"One" in FORMATS["rss"].render(feed)


@pytest.mark.parametrize(("sentence", "where", "test"), promises(PROMISES), ids=str)
def test_promise_names_an_existing_test(sentence: str, where: str, test: str) -> None:
    assert sentence
    assert test in names_in(FILES[where])


def test_promises_cover_every_sentence_or_list_it_as_not_kept() -> None:
    check_sentences(PROMISES, KEPT_NOWHERE)
