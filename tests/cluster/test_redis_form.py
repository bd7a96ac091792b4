"""Names and messages in Redis, written out by hand: machines of different versions share them."""

from feedproxy.cluster.keys import RedisKeys
from feedproxy.cluster.redis_store import ClusterEvent, parse_event

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
    assert keys.copy(TARGET) == b"{fp}:1:copy:https://example.com/feed"
    assert keys.lease(TARGET) == f"{{fp}}:1:lease:{DIGEST}"
    assert keys.delivery_claim(TARGET) == f"{{fp}}:1:told:{DIGEST}"
    assert keys.readers(TARGET, 7) == f"{{fp}}:1:readers:7:{DIGEST}"
    assert keys.claims(TARGET) == f"{{fp}}:1:claims:{DIGEST}"


def test_redis_message_is_number_version_and_json() -> None:
    message = b'12 34 ["put","machine","https://example.com/feed",{"first":true}]'

    assert parse_event(message) == ClusterEvent(12, 34, "put", "machine", TARGET, {"first": True})
