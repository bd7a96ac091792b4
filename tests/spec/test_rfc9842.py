"""RFC 9842, compression dictionaries: a test for each sentence that binds the fields and the coding `dcz`."""

import base64
import contextlib
import hashlib
import os
import random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from feedproxy.errors import TooLarge, Undecodable
from feedproxy.http.coding import compression_dictionary as dictionaries
from feedproxy.http.coding.compression_dictionary import (
    HEADER_BYTES,
    UseAsDictionary,
    decode,
    dictionary_hash,
    encode,
    exact_pattern,
    parse_available_dictionary,
    parse_use_as_dictionary,
    use_as_dictionary,
    window_limit,
)
from feedproxy.http.message import Fields
from feedproxy.proxy.representations.dcz_to_clients import may_encode

MB = 1024 * 1024
OLD = b'<rss version="2.0"><channel>' + b"".join(b"<item>%d news</item>" % n for n in range(500)) + b"</channel></rss>"
NEW = OLD.replace(b"<channel>", b"<channel><item>500 news</item>").replace(b"<item>0 news</item>", b"")
HASH = hashlib.sha256(OLD).digest()
LIMIT = 10 * MB


# -- 2.1, Use-As-Dictionary


def test_use_as_dictionary_has_match_destinations_id_and_type() -> None:
    value = 'match="/product/*", match-dest=("document" "frame"), id="v1", type=raw'

    assert parse_use_as_dictionary(value) == UseAsDictionary("/product/*", "v1")


def test_use_as_dictionary_without_match_is_not_valid() -> None:
    # 'The "match" value is required and MUST be included … for the dictionary to be considered valid.' -- 2.1.1
    assert parse_use_as_dictionary('id="v1"') is None


@pytest.mark.parametrize("match", ["/a/(b|c)", "/:id(\\d+)", "(.*)", "/\\\\(x)"])
def test_pattern_with_a_regular_expression_is_not_used(match: str) -> None:
    # "FALSE for an invalid pattern that MUST NOT be used … If PATTERN has regexp groups, then return FALSE" -- 2.1.1
    assert parse_use_as_dictionary(use_as_dictionary(match)) is None


@pytest.mark.parametrize("match", ["/a/*", "/a/{b}?", "/a/\\(b\\)", "/:id"])
def test_pattern_without_a_regular_expression_is_used(match: str) -> None:
    assert parse_use_as_dictionary(use_as_dictionary(match)) == UseAsDictionary(match)


def test_absent_match_dest_means_all_destinations() -> None:
    # 'The "match-dest" value is optional and defaults to an empty list.' -- 2.1.2
    found = parse_use_as_dictionary('match="/a"')

    assert found is not None
    assert found == parse_use_as_dictionary('match="/a", match-dest=()')


@pytest.mark.parametrize(("length", "valid"), [(1024, True), (1025, False)])
def test_use_as_dictionary_id_has_1024_characters_at_most(length: int, valid: bool) -> None:
    # 'The "id" value string length (after any decoding) supports up to 1024 characters.' -- 2.1.3
    name = "\\" * length
    value = f'match="/a", id="{name.replace(chr(92), chr(92) * 2)}"'

    assert (parse_use_as_dictionary(value) is not None) is valid


def test_dictionary_type_defaults_to_raw_and_dictionaries_of_other_types_are_not_used() -> None:
    # "a type that it does not understand, it MUST NOT use the dictionary … defaults to "raw"" -- 2.1.4
    assert parse_use_as_dictionary('match="/a"') == parse_use_as_dictionary('match="/a", type=raw') is not None
    assert parse_use_as_dictionary('match="/a", type=trained') is None


@pytest.mark.parametrize(
    "value",
    ["", "match", "match=/a", "match=:aGk=:", 'match="/a", match-dest="x"', 'match="/a", match-dest=(x)',
     'match="/a", match-dest=(1)', 'match="/a", id=x', 'match="/a", id=5', 'match="/a", type="raw"',
     'match="/a", type=?1', 'match="/a', 'match="/ä"', "match=?0"],
)  # fmt: skip
def test_use_as_dictionary_with_a_value_of_another_type_is_not_valid(value: str) -> None:
    assert parse_use_as_dictionary(value) is None


def test_use_as_dictionary_is_written_as_it_is_read() -> None:
    pattern = '/https{\\:}//e.com/"x"'

    assert parse_use_as_dictionary(use_as_dictionary(pattern)) == UseAsDictionary(pattern)
    assert use_as_dictionary("/feed") == 'match="/feed"'


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("/feed.xml", "/feed.xml"),
        ("/https://example.com:8443/feed.xml", "/https{\\:}//example.com{\\:}8443/feed.xml"),
        ("/feed?a=b:c&d=*?", "/feed?a=b{\\:}c&d=\\*\\?"),
        ("/a(b){c}+*", "/a\\(b\\)\\{c\\}\\+\\*"),
        ("/a%20b", "/a%20b"),
        ("/", "/"),
    ],
)
def test_pattern_of_a_path_escapes_special_characters(path: str, pattern: str) -> None:
    found = exact_pattern(path)

    assert found == pattern
    assert parse_use_as_dictionary(use_as_dictionary(pattern)) is not None


@pytest.mark.parametrize("path", ["", "feed", "/a:?b", "/a#b", "/ä", "/a\n"])
def test_pattern_is_absent_for_a_path_that_no_pattern_can_match(path: str) -> None:
    assert exact_pattern(path) is None


# -- 2.2 and 2.3, Available-Dictionary and Dictionary-ID


def test_available_dictionary_is_the_sha_256_as_a_byte_sequence() -> None:
    value = ":pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4=:"  # section 2.2's own example

    found = parse_available_dictionary(value)

    assert found == base64.b64decode(value.strip(":"))
    assert parse_available_dictionary(value.replace("=", "")) == found  # RFC 9651, 4.2.7
    assert parse_available_dictionary(f" {value};q=1 ") == found


@pytest.mark.parametrize(
    "value",
    ["", ":", "::", ":aGk=:", '"pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4="',
     "pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4=",
     ":pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4=", ":pZGm1Av0IEBKARczz7ex=kNYsZb8LzaMrV7J32a2fFG4:",
     ":pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4AAAA=:", ":p:", "?1", ":é:"],
)  # fmt: skip
def test_available_dictionary_other_than_one_sha_256_is_ignored(value: str) -> None:
    assert parse_available_dictionary(value) is None


def test_available_dictionary_with_two_hashes_is_ignored() -> None:
    # "MUST only send a single "Available-Dictionary" request header field with a single hash value" -- 2.2
    one = f":{base64.b64encode(HASH).decode()}:"

    assert parse_available_dictionary(f"{one}, {one}") is None


# -- 5, dcz


def test_dcz_begins_with_the_fixed_bytes_and_the_dictionarys_hash() -> None:
    # "The 40-byte header consists of a fixed 8-byte sequence followed by the 32-byte SHA-256 hash" -- 5
    body = encode(NEW, OLD)

    assert HEADER_BYTES == 40
    assert body[:8] == bytes([0x5E, 0x2A, 0x4D, 0x18, 0x20, 0x00, 0x00, 0x00])
    assert body[8:40] == HASH == dictionary_hash(OLD)
    assert zstandard.get_frame_parameters(body[40:]).content_size == len(NEW)


def test_dcz_header_is_a_frame_that_zstandard_decoders_skip() -> None:
    # "a Zstandard skippable frame … compatible with existing Zstandard decoders" -- 5
    raw = zstandard.ZstdCompressionDict(OLD, dict_type=zstandard.DICT_TYPE_RAWCONTENT)

    read = zstandard.ZstdDecompressor(dict_data=raw).stream_reader(encode(NEW, OLD), read_across_frames=True)

    assert read.read() == NEW


def test_dcz_of_similar_versions_is_smaller_than_gzip() -> None:
    assert len(encode(NEW, OLD)) < 150


@pytest.mark.parametrize("content", [b"", b"x", NEW, os.urandom(70_000)])
@pytest.mark.parametrize("dictionary", [b"", b"x", b"1234567", OLD, bytes.fromhex("37a430ec") + OLD])
def test_dcz_round_trip_returns_the_same_bytes(content: bytes, dictionary: bytes) -> None:
    # Bytes that begin as a trained dictionary does are raw, too (the last one): 'is a "raw" dictionary type' -- 5
    assert decode(encode(content, dictionary), dictionary, limit=len(content)) == content


def test_dcz_output_is_deterministic() -> None:
    assert encode(NEW, OLD) == encode(NEW, OLD)


def test_dictionary_is_verified_before_use() -> None:
    # "The dictionary hash MUST be validated before use." -- 2.1.3
    with pytest.raises(Undecodable, match="another dictionary"):
        decode(encode(NEW, OLD), OLD + b" ", limit=LIMIT)


@pytest.mark.parametrize(
    ("size", "limit"),
    [
        (0, 8 * MB),
        (6 * MB, 8 * MB),
        (8 * MB, 10 * MB),
        (100 * MB, 125 * MB),
        (110 * MB, 128 * MB),
        (999 * MB, 128 * MB),
    ],
)
def test_window_is_8_mb_or_a_quarter_more_than_the_dictionary(size: int, limit: int) -> None:
    # "at least 8 MB or 1.25 times the size of the dictionary, whichever is greater, up to a maximum of 128 MB" -- 5
    assert window_limit(size) == limit


@pytest.mark.parametrize("size", [0, 1, 1000, 5 * MB, 8 * MB - 1, 8 * MB, 9 * MB])
def test_window_of_the_encoder_is_below_the_limit(size: int) -> None:
    # "it MUST be lower than this limit" -- 5
    content = (OLD * (size // len(OLD) + 1))[:size]

    made = encode(content, OLD, level=1)

    assert zstandard.get_frame_parameters(made[40:]).window_size < window_limit(len(OLD))
    assert decode(made, OLD, limit=size) == content


def test_dictionary_is_available_to_the_end_of_larger_content() -> None:
    # "the full dictionary is available … until the size of the input exceeds the compression window" -- 5
    noise = random.Random(9842)
    old = noise.randbytes(300_000)
    new = old + noise.randbytes(50_000) + old[1000:2000]

    assert len(encode(new, old)) < 51_000


def test_larger_window_is_a_decoding_error() -> None:
    # "An implementation MAY treat a window size that exceeds the limit as a decoding error." -- 5
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=24, write_content_size=False)
    raw = zstandard.ZstdCompressionDict(OLD, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    coder = zstandard.ZstdCompressor(dict_data=raw, compression_params=parameters).compressobj()
    body = encode(NEW, OLD)[:40] + coder.compress(NEW * 10) + coder.flush()

    with pytest.raises(Undecodable):
        decode(body, OLD, limit=LIMIT)


def test_content_above_the_limit_is_refused() -> None:
    bomb = encode(b"\0" * (4 * MB), OLD)

    assert len(bomb) < 1000
    with pytest.raises(TooLarge):
        decode(bomb, OLD, limit=MB)


@pytest.mark.parametrize("size", [0, 1, 8, 39, 40, 41, 60, -1])
def test_truncated_stream_is_refused(size: int) -> None:
    with pytest.raises(Undecodable):
        decode(encode(NEW, OLD)[:size], OLD, limit=LIMIT)


@pytest.mark.parametrize("rest", [b"\0", b"<rss/>", b"\x28\xb5\x2f", b"\x1f\x8b\x08"])
def test_dcz_stream_followed_by_further_bytes_is_refused(rest: bytes) -> None:
    with pytest.raises(Undecodable):
        decode(encode(NEW, OLD) + rest, OLD, limit=LIMIT)


def test_plain_zstd_is_rejected_as_dcz() -> None:
    with pytest.raises(Undecodable, match="header"):
        decode(zstandard.compress(NEW), OLD, limit=LIMIT)


# -- 9.3.3, Server Responsibility


@pytest.mark.parametrize(
    ("request_fields", "allowed", "answer"),
    [
        ({}, None, True),
        ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "no-cors"}, None, True),
        ({"Sec-Fetch-Site": "cross-site"}, None, True),
        ({"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, None, True),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "same-origin"}, None, True),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, "*", False),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}, "*", False),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "Origin": "https://a.example"}, None, False),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "Origin": "https://a.example"}, "*", True),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Origin": "https://a.example"},
         "https://a.example", True),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Origin": "https://a.example"},
         "https://b.example", False),
    ],
)  # fmt: skip
def test_dictionary_is_used_across_origins_only_where_the_page_may_read_the_response(
    request_fields: dict[str, str], allowed: str | None, answer: bool
) -> None:
    response = {} if allowed is None else {"Access-Control-Allow-Origin": allowed}

    assert may_encode(Fields(request_fields.items()), Fields(response.items())) is answer


# -- whatever comes


@given(st.text(alphabet=st.characters(max_codepoint=0x17F), max_size=80))
def test_any_field_value_is_read_or_is_absent(value: str) -> None:
    said = parse_use_as_dictionary(value)
    if said is not None:
        assert parse_use_as_dictionary(use_as_dictionary(said.match)) == UseAsDictionary(said.match)
    assert len(parse_available_dictionary(value) or HASH) == 32


FIELDS = [
    'match="/a*"',
    "match",
    'match-dest=("a" "b")',
    "match-dest=()",
    'id="x"',
    'id=""',
    "type=raw",
    "type=x",
    "=",
    "(",
    '"',
]


@given(st.lists(st.sampled_from(FIELDS), max_size=6), st.sampled_from([", ", ",", ";", " ", ""]))
def test_members_in_any_order_are_read_or_the_field_counts_as_absent(members: list[str], between: str) -> None:
    said = parse_use_as_dictionary(between.join(members))

    assert said is None or said.match == "/a*"


@given(st.text(alphabet=st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=40))
def test_any_path_has_a_pattern_without_regular_expressions_or_none(path: str) -> None:
    pattern = exact_pattern("/" + path)

    assert pattern is None or parse_use_as_dictionary(use_as_dictionary(pattern)) is not None


@given(st.data())
def test_damaged_stream_is_content_or_refused_within_bounds(data: st.DataObject) -> None:
    body = bytearray(encode(NEW, OLD))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(body[: data.draw(st.integers(0, len(body)))])
    with contextlib.suppress(Undecodable, TooLarge):
        assert len(decode(cut, OLD, limit=2 * len(NEW))) <= 2 * len(NEW)


@given(st.binary(max_size=400))
def test_any_bytes_behind_the_header_are_content_or_refused(stream: bytes) -> None:
    with contextlib.suppress(Undecodable, TooLarge):
        assert len(decode(dictionaries.MAGIC + HASH + stream, OLD, limit=10_000)) <= 10_000


@given(st.binary(max_size=3000), st.binary(max_size=3000), st.integers(1, 12))
def test_any_content_and_dictionary_come_back(content: bytes, dictionary: bytes, level: int) -> None:
    assert decode(encode(content, dictionary, level=level), dictionary, limit=len(content)) == content
