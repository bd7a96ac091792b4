"""Keys and messages in Redis, written out literally, because machines with different versions share them."""

import random

import pytest
import zstandard

from feedproxy.errors import StoreError
from feedproxy.fleet.copy_compression import compress, decompress
from feedproxy.fleet.redis_keys import RedisKeys
from feedproxy.fleet.redis_operations import FleetEvent, parse_event

TARGET = "https://example.com/feed"
DIGEST = "df9f6fe3ed8fcd3a296a2f95189ecc3b"


def test_redis_keys_keep_their_names() -> None:
    keys = RedisKeys("fp")

    assert keys.channel == "{fp}:1:news"
    assert keys.sequence == "{fp}:1:sequence"
    assert keys.log == "{fp}:1:log"
    assert keys.fencing_counter == "{fp}:1:fence"
    assert keys.barrier == "{fp}:1:barrier"
    assert keys.identity == "{fp}:1:identity"
    assert keys.data_id == "{fp}:1:data-id"
    assert keys.copy(TARGET) == b"{fp}:1:copy:https://example.com/feed"
    assert keys.lease(TARGET) == f"{{fp}}:1:lease:{DIGEST}"
    assert keys.delivery_claim(TARGET) == f"{{fp}}:1:told:{DIGEST}"
    assert keys.readers(TARGET, 7) == f"{{fp}}:1:readers:7:{DIGEST}"
    assert keys.claims(TARGET) == f"{{fp}}:1:claims:{DIGEST}"


def test_redis_message_is_number_version_and_json() -> None:
    message = b'12 34 ["put","machine","https://example.com/feed",{"first":true}]'

    assert parse_event(message) == FleetEvent(12, 34, "put", "machine", TARGET, {"first": True})


@pytest.mark.parametrize(
    "message",
    [b"", b"12 34", b"12 34 5", b"12 34 [1, 2]", b"a 34 [1, 2, 3]", b"12 34 {}", b"12 34 " + b"[" * 100_000],
    ids=lambda message: str(message[:20]),
)
def test_redis_message_of_another_form_is_no_event(message: bytes) -> None:
    assert parse_event(message) is None


def test_copy_is_compressed_in_redis_if_that_saves_space() -> None:
    feed, noise = b"FPXY" + b"<item>news</item>" * 5000, b"FPXY" + random.Random(1).randbytes(50_000)

    assert len(compress(feed)) < len(feed) / 10
    assert compress(feed).startswith(b"\x28\xb5\x2f\xfd")
    assert compress(noise) == noise
    for copy in (feed, noise, b"FPXY"):
        assert decompress(compress(copy)) == copy


@pytest.mark.parametrize(
    "data",
    [
        compress(b"<item>news</item>" * 5000)[:-9],
        b"\x28\xb5\x2f\xfd",
        zstandard.ZstdCompressor(write_content_size=False).compress(b"x" * 9000),
    ],
    ids=["truncated", "header only", "without its size"],
)
def test_damaged_copy_in_redis_is_a_store_error(data: bytes) -> None:
    with pytest.raises(StoreError):
        decompress(data)


def test_copy_in_redis_that_claims_a_huge_size_is_not_decompressed() -> None:
    # A frame header with a content size of 2**40 bytes (RFC 8878, section 3.1.1.1).
    data = b"\x28\xb5\x2f\xfd" + bytes([0b1110_0000]) + (2**40).to_bytes(8, "little") + b"\x01\x00\x00"

    with pytest.raises(StoreError, match="bytes"):
        decompress(data)
