"""Validators of an origin travel in the tags of content that may not be stored, and come back unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedproxy.http.etag import own_tag
from feedproxy.http.message import Fields
from feedproxy.http.origin_validator_in_etag import TAG_MAX, carry_validators, conditions_for_origin, fields_for_client

HASH = "0123456789abcdef0123"
DATE = "Mon, 23 Nov 2026 10:00:00 GMT"
OPAQUE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters='"'), min_size=1, max_size=40)


def client(*lines: tuple[str, str], coding: str = "identity") -> Fields:
    """Return the conditions of a client whose copy came with these fields."""
    return Fields([("If-None-Match", own_tag(carry_validators(HASH, Fields(lines)), coding, b"coded").text)])


@given(opaque=OPAQUE, weak=st.booleans(), coding=st.sampled_from(["identity", "gzip", "br", "zstd"]))
def test_origin_gets_its_own_entity_tag_back_unchanged(opaque: str, weak: bool, coding: str) -> None:
    tag = f'W/"{opaque}"' if weak else f'"{opaque}"'

    sent = client(("ETag", tag), ("Last-Modified", DATE), coding=coding)

    assert conditions_for_origin(sent) == Fields([("If-None-Match", tag)])
    answer = fields_for_client(sent, Fields([("ETag", tag), ("Expires", DATE)]))
    assert answer == Fields([("Expires", DATE), ("ETag", sent.get("if-none-match") or "")])


def test_date_of_origin_without_tag_is_carried() -> None:
    sent = client(("Last-Modified", DATE))

    assert conditions_for_origin(sent) == Fields([("If-Modified-Since", DATE)])
    assert fields_for_client(sent, Fields()) == Fields([("ETag", sent.get("if-none-match") or "")])


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (("ETag", ""),),
        (("ETag", f'"{"x" * (TAG_MAX + 1)}"'),),
        (("ETag", '"a"'), ("ETag", '"b"')),
        (("ETag", '"é"'),),
        (("Last-Modified", "yesterday"),),
        (("Last-Modified", DATE), ("Vary", "Accept-Encoding, Accept-Language")),
        (("Last-Modified", DATE), ("Vary", "*")),
    ],
)
def test_hash_without_usable_validator_of_origin_is_unchanged(lines: tuple[tuple[str, str], ...]) -> None:
    assert carry_validators(HASH, Fields(lines)) == HASH
    assert conditions_for_origin(client(*lines)) == Fields()


def test_tags_of_client_are_all_sent_and_the_confirmed_tag_is_returned() -> None:
    old, new = (client(("ETag", tag)).get("if-none-match") or "" for tag in ('"old"', '"new"'))
    sent = Fields([("If-None-Match", f'"other", {old}, {new}')])

    assert conditions_for_origin(sent) == Fields([("If-None-Match", '"old", "new"')])
    assert fields_for_client(sent, Fields([("ETag", 'W/"new"')])) == Fields([("ETag", new)])


def test_if_modified_since_of_a_client_is_sent_only_without_if_none_match() -> None:
    dated = Fields([("If-Modified-Since", DATE)])

    assert conditions_for_origin(dated) == dated
    assert fields_for_client(dated, Fields([("ETag", '"of the origin"')])) == Fields()
    assert conditions_for_origin(Fields([("If-None-Match", '"other"'), ("If-Modified-Since", DATE)])) == Fields()
    assert conditions_for_origin(Fields([("If-Modified-Since", "soon")])) == Fields()


@given(st.text(max_size=60))
def test_invented_etag_of_a_client_reaches_the_origin_only_as_printable_ascii(text: str) -> None:
    for value in (text, f'"{HASH}.e{text}"', f'"{HASH}.d{text}"'):
        for _, sent in conditions_for_origin(Fields([("If-None-Match", value)])):
            assert sent.isascii()
            assert sent.isprintable()


@pytest.mark.parametrize("seconds", ["253402300800", "999999999999", "9" * 30])
def test_date_outside_calendar_is_not_sent(seconds: str) -> None:
    assert conditions_for_origin(Fields([("If-None-Match", f'"{HASH}.d{seconds}"')])) == Fields()


def test_tags_of_client_require_tag_in_304_unless_only_one_was_sent() -> None:
    old, new = (client(("ETag", tag)).get("if-none-match") or "" for tag in ('"old"', '"new"'))

    assert fields_for_client(Fields([("If-None-Match", f"{old}, {new}")]), Fields()) is None
    assert fields_for_client(Fields([("If-None-Match", old)]), Fields()) == Fields([("ETag", old)])
