"""Content codings: round trips, decompression bombs, damaged and mislabelled content."""

import functools
import gzip
import json
import time
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import brotli
import pytest
import zstandard

from feedproxy.errors import TooLarge, Undecodable
from feedproxy.http.coding.bounded_decompression import decode, decoding_limit
from feedproxy.http.coding.content_coding import CODINGS, UnknownCoding, encode, sniff

FEED = b'<?xml version="1.0"?><rss version="2.0"><channel>' + b"<item>news</item>" * 5000 + b"</channel></rss>"
LIMIT = 1_000_000


def bare_deflate(body: bytes) -> bytes:
    coder = zlib.compressobj(wbits=-15)
    return coder.compress(body) + coder.flush()


def test_coding_preference_is_brotli_zstd_gzip() -> None:
    assert CODINGS == ("br", "zstd", "gzip")


@pytest.mark.parametrize("coding", [*CODINGS, "identity"])
def test_coding_round_trip_preserves_content(coding: str) -> None:
    assert decode(encode(FEED, coding, 5), coding, limit=LIMIT) == FEED


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("length", [65_535, 65_536, 65_537, 131_072, 300_000, 20_000_000])
def test_coding_round_trip_preserves_highly_compressible_content(coding: str, length: int) -> None:
    body = (b"<item/>" * (length // 7 + 1))[:length]

    assert decode(encode(body, coding, 3), coding, limit=length) == body


@pytest.mark.parametrize("coding", CODINGS)
def test_encoder_is_deterministic(coding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = encode(FEED, coding, 4)
    monkeypatch.setattr(time, "time", lambda: 2e9)

    assert encode(FEED, coding, 4) == first


def test_encoder_writes_gzip_without_time() -> None:
    assert encode(FEED, "gzip", 6)[4:8] == b"\0\0\0\0"


@pytest.mark.parametrize("label", [None, "", "identity", " Identity ", ",", "identity, identity"])
def test_decoder_without_coding_returns_body_unchanged(label: str | None) -> None:
    assert decode(FEED, label, limit=0) == FEED


@pytest.mark.parametrize("label", ["gzip", "x-gzip", "GZIP", "X-GZip", "identity, gzip", "gzip,"])
def test_decoder_accepts_every_name_of_gzip(label: str) -> None:
    assert decode(gzip.compress(FEED), label, limit=LIMIT) == FEED


@pytest.mark.parametrize("code", [zlib.compress, bare_deflate])
def test_decoder_reads_deflate_with_and_without_zlib_wrapper(code: Callable[[bytes], bytes]) -> None:
    assert decode(code(FEED), "deflate", limit=LIMIT) == FEED


def test_decoder_reverses_order_of_codings() -> None:
    body = brotli.compress(gzip.compress(zstandard.compress(FEED)))

    assert decode(body, "zstd, gzip, br", limit=LIMIT) == FEED


@pytest.mark.parametrize("cut", [1, 17, 4096, 4097])
def test_decoder_concatenates_gzip_members(cut: int) -> None:
    body = gzip.compress(FEED[:cut]) + gzip.compress(b"") + gzip.compress(FEED[cut:])

    assert decode(body, "gzip", limit=LIMIT) == FEED


def test_decoder_finds_gzip_member_at_any_offset_of_its_buffer() -> None:
    noise = bytes(range(256)) * 40
    for pad in range(3990, 4110):
        first = zlib.compress(noise[:pad], 0, wbits=31)
        assert decode(first + gzip.compress(b"end"), "gzip", limit=LIMIT) == noise[:pad] + b"end"


def test_decoder_concatenates_zstd_frames() -> None:
    skippable = b"\x5a\x2a\x4d\x18\x03\0\0\0abc"
    body = zstandard.compress(FEED) + skippable + zstandard.compress(b"more")

    assert decode(body, "zstd", limit=LIMIT) == FEED + b"more"
    assert decode(skippable + zstandard.compress(b"more"), "zstd", limit=LIMIT) == b"more"


@pytest.mark.parametrize("garbage", [b"\0" * 512, b"x", b"\x1f", b"<!-- served by -->"])
@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_decoder_drops_garbage_after_complete_gzip_or_zstd(coding: str, garbage: bytes) -> None:
    assert decode(encode(FEED, coding, 1) + garbage, coding, limit=LIMIT) == FEED


@pytest.mark.parametrize("coding", [*CODINGS, "deflate"])
@pytest.mark.parametrize("kept", [1, 0.1, 0.6, -1, -5, -9])
def test_decoder_rejects_truncated_body(coding: str, kept: float) -> None:
    whole = zlib.compress(FEED) if coding == "deflate" else encode(FEED, coding, 3)
    cut = whole[: int(len(whole) * kept)] if 0 < kept < 1 else whole[: int(kept)]

    with pytest.raises(Undecodable):
        decode(cut, coding, limit=LIMIT)


def test_decoder_rejects_truncated_second_gzip_member() -> None:
    with pytest.raises(Undecodable):
        decode(gzip.compress(FEED) + gzip.compress(FEED)[:-6], "gzip", limit=LIMIT)


@pytest.mark.parametrize("at", [-1, -5])
def test_decoder_rejects_wrong_gzip_checksum_or_length(at: int) -> None:
    body = bytearray(gzip.compress(FEED))
    body[at] ^= 0xFF

    with pytest.raises(Undecodable):
        decode(bytes(body), "gzip", limit=LIMIT)


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd", "deflate", "gzip, br"])
def test_decoder_returns_empty_body_in_every_coding(coding: str) -> None:
    assert decode(b"", coding, limit=0) == b""


@pytest.mark.parametrize("label", ["x-0zap", "compress", "dcb", "gzip, x-0zap", "*"])
def test_decoder_names_unknown_coding(label: str) -> None:
    with pytest.raises(UnknownCoding) as caught:
        decode(FEED, label, limit=LIMIT)

    assert caught.value.coding in label
    assert isinstance(caught.value, Undecodable)


def test_encoder_rejects_unknown_coding() -> None:
    with pytest.raises(UnknownCoding):
        encode(FEED, "compress", 1)


def test_decoder_rejects_more_codings_than_the_maximum() -> None:
    body = FEED
    for _ in range(5):
        body = gzip.compress(body)

    with pytest.raises(Undecodable):
        decode(body, ", ".join(["gzip"] * 5), limit=LIMIT)


# -- lies


@pytest.mark.parametrize(
    "text",
    [FEED, b"\xef\xbb\xbf<rss/>", b'  \r\n{"version": ""}', b"[]", "<rss/>".encode("utf-16")],
    ids=["xml", "bom", "json", "array", "utf-16"],
)
@pytest.mark.parametrize("label", ["gzip", "x-gzip", "zstd"])
def test_decoder_returns_plain_text_labelled_gzip_or_zstd_unchanged(text: bytes, label: str) -> None:
    assert decode(text, label, limit=LIMIT) == text


@pytest.mark.parametrize("label", ["utf-8", "none", "binary", "aws-chunked", "8bit", "identity, none"])
def test_decoder_ignores_name_that_is_no_coding_if_the_body_is_text(label: str) -> None:
    assert decode(FEED, label, limit=LIMIT) == FEED


@pytest.mark.parametrize("label", ["gzip, aws-chunked", "aws-chunked, gzip", "utf-8,gzip"])
def test_decoder_ignores_name_that_is_no_coding_beside_gzip(label: str) -> None:
    assert decode(gzip.compress(FEED), label, limit=LIMIT) == FEED


def test_decoder_rejects_binary_content_under_a_name_that_is_no_coding() -> None:
    with pytest.raises(UnknownCoding):
        decode(b"\x89PNG\r\n\x1a\n" + bytes(200), "none", limit=LIMIT)


def test_decoder_decodes_once_what_is_compressed_once_and_labelled_twice() -> None:
    assert decode(gzip.compress(FEED), "gzip, gzip", limit=LIMIT) == FEED


@pytest.mark.parametrize("label", ["gzip", "br", "zstd", "deflate"])
def test_decoder_rejects_mislabelled_binary_content(label: str) -> None:
    with pytest.raises(Undecodable):
        decode(b"\x89PNG\r\n\x1a\n" + bytes(200), label, limit=LIMIT)


@pytest.mark.parametrize("label", ["br", "zstd", "deflate"])
def test_decoder_rejects_gzip_under_another_label(label: str) -> None:
    with pytest.raises(Undecodable):
        decode(gzip.compress(FEED), label, limit=LIMIT)


def test_sniffer_recognises_unlabelled_gzip_and_zstd() -> None:
    assert sniff(gzip.compress(FEED)) == "gzip"
    assert sniff(zstandard.compress(FEED)) == "zstd"
    assert sniff(FEED) is None
    assert sniff(b"") is None


# -- bombs

CODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda body: gzip.compress(body, 1),
    "deflate": lambda body: zlib.compress(body, 1),
    "br": lambda body: brotli.compress(body, quality=1),
    "zstd": zstandard.compress,
}
BOMBS = (*CODERS, "gzip, gzip", "zstd, br")


@functools.cache
def bomb(label: str) -> bytes:
    """Return 60 MB of spaces in these codings."""
    body = b" " * 60_000_000
    for coding in label.split(", "):
        body = CODERS[coding](body)
    return body


@pytest.mark.parametrize("label", BOMBS)
def test_decoder_rejects_decompression_bomb_within_bounded_memory(label: str) -> None:
    body = bomb(label)
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            decode(body, label, limit=LIMIT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 4 * LIMIT


@pytest.mark.parametrize("label", BOMBS)
def test_decoder_error_does_not_reference_decoded_content(label: str) -> None:
    body = bomb(label)
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge) as kept:
            decode(body, label, limit=LIMIT)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert kept.value.__traceback__ is not None
    assert held < LIMIT / 2


def test_decoding_limit_is_100_times_the_body_from_16_mib() -> None:
    plenty = 16 * 1024 * 1024

    assert decoding_limit(100, 50_000_000) == plenty
    assert decoding_limit(300_000, 50_000_000) == 30_000_000
    assert decoding_limit(10_000_000, 50_000_000) == 50_000_000
    assert decoding_limit(100, 1_000) == 1_000


def test_decoder_rejects_zstd_bomb_of_rle_blocks_within_bounded_memory() -> None:
    header = b"\x28\xb5\x2f\xfd\x00\x58"  # no content size; a window of 2 MiB
    block = (0x02 | 128 * 1024 << 3).to_bytes(3, "little") + b"A"  # RLE: 4 bytes stand for 128 KiB
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            decode(header + block * 10_000, "zstd", limit=LIMIT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 6 * LIMIT


def test_decoder_rejects_zstd_window_above_http_maximum() -> None:
    big = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    coder = zstandard.ZstdCompressor(compression_params=big).compressobj()
    body = coder.compress(FEED) + coder.flush()

    with pytest.raises(Undecodable):
        decode(body, "zstd", limit=10**9)


def test_decoder_limit_applies_to_sum_of_all_codings() -> None:
    noise = b"".join(zlib.crc32(bytes([i % 256, i // 256])).to_bytes(4, "big") for i in range(10_000))
    twice = gzip.compress(gzip.compress(noise))

    assert decode(twice, "gzip, gzip", limit=85_000) == noise
    with pytest.raises(TooLarge):
        decode(twice, "gzip, gzip", limit=79_000)


@pytest.mark.parametrize("coding", [*CODINGS, "deflate"])
def test_decoder_accepts_content_of_exactly_the_limit(coding: str) -> None:
    body = zlib.compress(FEED) if coding == "deflate" else encode(FEED, coding, 3)

    assert decode(body, coding, limit=len(FEED)) == FEED
    with pytest.raises(TooLarge):
        decode(body, coding, limit=len(FEED) - 1)


class Sliced(bytes):
    """Bytes that add up the lengths of their slices."""

    length = 0

    def __getitem__(self, key: Any) -> Any:
        piece = super().__getitem__(key)
        self.length += len(piece) if isinstance(piece, bytes) else 1
        return piece


def test_decoder_reads_a_bounded_part_of_the_body_for_each_gzip_member() -> None:
    body = Sliced(gzip.compress(b"") * 10_000)

    assert decode(body, "gzip", limit=LIMIT) == b""
    assert 0 < body.length / 10_000 < 8192


# -- the corpus


@pytest.mark.parametrize(
    ("case", "outcome"),
    [
        ("gzip-truncated", Undecodable),
        ("gzip-truncated-after-good", Undecodable),
        ("gzip-bad-crc", Undecodable),
        ("gzip-trailing-garbage", 3431),
        ("gzip-two-members", 3431),
        ("label-gzip-body-plain", 3431),
        ("label-br-body-gzip", Undecodable),
        ("label-unknown", UnknownCoding),
        ("double-gzip", 3431),
        ("deflate-raw", 3431),
        ("gzip-bomb", TooLarge),
        ("brotli-bomb", TooLarge),
        ("gzip-nested-bomb", TooLarge),
    ],
)
def test_decoder_handles_hostile_codings_of_corpus(corpus: Path, case: str, outcome: int | type[Exception]) -> None:
    cases = {each["id"]: each for each in json.loads((corpus / "hostile.json").read_text())}
    head, _, body = (corpus / cases[case]["responses"][0]).read_bytes().partition(b"\r\n\r\n")
    lines = [line.partition(b":") for line in head.split(b"\r\n")]
    label = ", ".join(value.decode().strip() for name, _, value in lines if name.lower() == b"content-encoding")

    if isinstance(outcome, int):
        assert len(decode(body, label, limit=50_000_000)) == outcome
    else:
        with pytest.raises(outcome):
            decode(body, label, limit=50_000_000)


@pytest.mark.parametrize(("coding", "level"), [("gzip", 6), ("br", 5), ("zstd", 3), ("zstd", 19)])
def test_coding_round_trip_preserves_every_feed_of_corpus(corpus: Path, coding: str, level: int) -> None:
    # Level 19 takes forty times as long as level 3.
    for path in sorted((corpus / "feeds").iterdir())[:: 4 if level == 19 else 1]:
        body = path.read_bytes()
        if level < 19 or len(body) < 100_000:
            assert decode(encode(body, coding, level), coding, limit=len(body)) == body, path.name


@pytest.mark.parametrize("limit", [4_000, 300_000])
def test_decoder_result_is_equal_for_gzip_decoded_at_once_and_in_pieces(limit: int) -> None:
    one, two = gzip.compress(b"one " * 100), gzip.compress(b"two " * 100)

    assert decode(one, "gzip", limit=limit) == b"one " * 100
    assert decode(one + two, "gzip", limit=limit) == b"one " * 100 + b"two " * 100
    assert decode(one + b"behind", "gzip", limit=limit) == b"one " * 100
    assert decode(gzip.compress(b""), "gzip", limit=limit) == b""
    with pytest.raises(Undecodable):
        decode(one[:-1], "gzip", limit=limit)
    with pytest.raises(TooLarge):
        decode(gzip.compress(b" " * (limit + 1)), "gzip", limit=limit)


@pytest.mark.parametrize("label", ["gzip", "br", "zstd"])
def test_encoder_result_takes_no_more_memory_than_its_bytes(label: str) -> None:
    body = b"<item>the same again</item>" * 2000
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        encoded = encode(body, label, 5)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    assert taken < len(encoded) + 4096


def test_coding_gzip_is_compatible_with_zlib() -> None:
    content = b"<rss>" + b"".join(b"<item>%d</item>" % number for number in range(5000))

    assert gzip.decompress(encode(content, "gzip", 6)) == content
    assert decode(gzip.compress(content), "gzip", limit=len(content)) == content
    with pytest.raises(Undecodable):
        decode(gzip.compress(content)[:-9], "gzip", limit=len(content))
