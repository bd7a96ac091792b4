"""The stored form, written out by hand: a rename of classes, members or enumerations must not change it.

A change here makes every copy on disk and in Redis unreadable, or loses members of it (docs/reference/store-format.md).
"""

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.feed.channel import Channel, Cloud, Kind, Period, Schedule, SelfLink
from feedproxy.http.message import Fields
from feedproxy.store import envelope
from feedproxy.store.disk import DiskStore
from feedproxy.store.disk_shard import Shard
from feedproxy.store.resource import (
    DeltaBase,
    Failures,
    PendingFormatChange,
    Relocation,
    RelocationKind,
    Resource,
    VersionRecord,
)
from feedproxy.store.resource_codec import dump, header_of, load, restore
from feedproxy.store.versions_for_dictionaries import PreviousContents

TARGET = "https://example.com/feed"

FIELDS = Fields([("Content-Type", "application/rss+xml")])
CONTENT = Content(
    Bodies({"identity": b"plain", "br": b"br"}),
    tag="stem",
    media_type="application/rss+xml",
    last_modified=5.0,
    feed=True,
    edited_by="digest",
    is_dictionary=True,
)
VARIANT = StoredResponse(
    TARGET,
    200,
    FIELDS,
    CONTENT,
    1.0,
    2.0,
    vary_request=Fields([("Accept", "*/*")]),
    own_agent=True,
    authorized=True,
    invalid=True,
    final_target="https://example.net/feed",
    key=Fields([("Cookie", "a=1")]),
    has_client_language=True,
)
PREVIOUS = struct.pack(">32s32sII", b"a" * 32, b"b" * 32, 3, 4) + b"zstd"
RESOURCE = Resource(
    TARGET,
    (VARIANT,),
    channel=Channel(
        Kind.RSS,
        "2.0",
        well_formed=True,
        title="Title",
        link="https://example.com/",
        schedule=Schedule(
            60, frozenset({1, 2}), frozenset({0}), Period.DAILY, 2, 3.0, 3600.0, ("ttl is no number",), finished=True
        ),
        self_links=(SelfLink("self", TARGET, "application/rss+xml", "http://www.w3.org/2005/Atom"),),
        hubs=("https://hub.example/",),
        cloud=Cloud("cloud.example", "80", "/", "notify", "http-post"),
        new_feed_url="https://example.org/",
        items=7,
        content_digest="abcd",
    ),
    changes=(10.0, 20.0),
    fetched=30.0,
    relocation=Relocation(RelocationKind.MOVED, "https://example.org/", 1.0, 2.0, 3, confirmed=True),
    failures=Failures(1, 2.0, 3.0, "timeout", 4.0, by_origin=True, retry_after=5.0),
    pending_format_change=PendingFormatChange("html", 5.0, 2),
    oversized=True,
    delta_bases=(DeltaBase("stem", 6.0, b"\0\1"),),
    parts=(StoredResponse(TARGET, 206, Fields(), Content(Bodies({})), 3.0, 4.0),),
    last_push=40.0,
    push_lease_expires=50.0,
    first_seen=60.0,
    version_records=(VersionRecord(70.0, 1000, 7, "stem"),),
    backfill_pending=True,
    fencing_token=80,
    has_expected_readers=True,
    keyed=(StoredResponse(TARGET, 404, Fields(), Content(Bodies({})), 5.0, 6.0),),
    previous=PreviousContents(PREVIOUS),
    varies_by=("accept-language",),
)

HEADER: dict[str, Any] = {
    "target": "https://example.com/feed",
    "variants": [
        {
            "target": "https://example.com/feed",
            "status": 200,
            "fields": [["Content-Type", "application/rss+xml"]],
            "content": {
                "tag": "stem",
                "media_type": "application/rss+xml",
                "last_modified": 5.0,
                "feed": True,
                "edited_by": "digest",
                "is_dictionary": True,
                "bodies": {"identity": [0, 5], "br": [5, 2]},
            },
            "request_time": 1.0,
            "response_time": 2.0,
            "vary_request": [["Accept", "*/*"]],
            "own_agent": True,
            "authorized": True,
            "invalid": True,
            "final_target": "https://example.net/feed",
            "key": [["Cookie", "a=1"]],
            "has_client_language": True,
        }
    ],
    "channel": {
        "kind": "rss",
        "version": "2.0",
        "well_formed": True,
        "title": "Title",
        "link": "https://example.com/",
        "schedule": {
            "ttl": 60,
            "skip_hours": [1, 2],
            "skip_days": [0],
            "period": "daily",
            "frequency": 2,
            "base": 3.0,
            "interval": 3600.0,
            "notes": ["ttl is no number"],
            "finished": True,
        },
        "self_links": [
            {
                "rel": "self",
                "href": "https://example.com/feed",
                "type": "application/rss+xml",
                "namespace": "http://www.w3.org/2005/Atom",
            }
        ],
        "hubs": ["https://hub.example/"],
        "cloud": {
            "domain": "cloud.example",
            "port": "80",
            "path": "/",
            "register_procedure": "notify",
            "protocol": "http-post",
        },
        "new_feed_url": "https://example.org/",
        "items": 7,
        "content_digest": "abcd",
    },
    "changes": [10.0, 20.0],
    "fetched": 30.0,
    "sighting": {
        "ending": "moved",
        "location": "https://example.org/",
        "first": 1.0,
        "last": 2.0,
        "count": 3,
        "confirmed": True,
    },
    "failures": {
        "count": 1,
        "since": 2.0,
        "last": 3.0,
        "detail": "timeout",
        "next_try": 4.0,
        "asked": True,
        "retry_after": 5.0,
    },
    "new_shape": {"shape": "html", "first": 5.0, "count": 2},
    "oversized": True,
    "versions": [{"tag": "stem", "last_modified": 6.0, "entries": "AAE="}],
    "parts": [
        {
            "target": "https://example.com/feed",
            "status": 206,
            "fields": [],
            "content": {"bodies": {}},
            "request_time": 3.0,
            "response_time": 4.0,
        }
    ],
    "heard": 40.0,
    "promised": 50.0,
    "known": 60.0,
    "editions": [{"at": 70.0, "size": 1000, "items": 7, "tag": "stem"}],
    "undated": True,
    "has_expected_readers": True,
    "fence": 80,
    "keyed": [
        {
            "target": "https://example.com/feed",
            "status": 404,
            "fields": [],
            "content": {"bodies": {}},
            "request_time": 5.0,
            "response_time": 6.0,
        }
    ],
    "previous": [7, 76],
    "varies_by": ["accept-language"],
}


def _stored(header: Mapping[str, Any], area: bytes, version: int) -> bytes:
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    start = b"FPXY" + bytes([version]) + b"R" + b"\0\0" + struct.pack(">I", len(text))
    return start + struct.pack(">I", zlib.crc32(start + text + area)) + text + area


def _values(value: Any) -> Iterator[Any]:
    """Yield every value class in a resource, itself first."""
    if isinstance(value, msgspec.Struct):
        yield value
        for member in msgspec.structs.fields(value):
            yield from _values(getattr(value, member.name))
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        for part in value:
            yield from _values(part)


def test_stored_form_has_names_written_by_hand() -> None:
    header, area = envelope.open_parts(envelope.EnvelopeKind.RESOURCE, dump(RESOURCE))

    assert json.loads(bytes(header)) == HEADER
    assert area == b"plainbr" + PREVIOUS
    assert load(_stored(HEADER, b"plainbr" + PREVIOUS, 2)) == RESOURCE


def test_stored_form_sample_sets_every_member() -> None:
    """A member with its default is not written, so the sample would not show its name."""
    set_members: dict[type, set[str]] = {}
    for value in _values(RESOURCE):
        set_members.setdefault(type(value), set()).update(
            member.name
            for member in msgspec.structs.fields(value)
            if getattr(value, member.name) not in (member.default, ())
        )

    assert {kind: {member.name for member in msgspec.structs.fields(kind)} for kind in set_members} == set_members


def test_stored_form_of_relocation_kinds_keeps_its_values() -> None:
    assert {kind.name: kind.value for kind in RelocationKind} == {"MOVED": "moved", "GONE": "gone"}


def test_stored_form_of_unpacked_body_names_its_coding() -> None:
    content = Content(Bodies({"identity": 5}))
    stored = dump(Resource(TARGET, (StoredResponse(TARGET, 200, Fields(), content, 1.0, 2.0),)))

    response = {
        "target": TARGET,
        "status": 200,
        "fields": [],
        "content": {"bodies": {"identity": ["gzip", 5]}},
        "request_time": 1.0,
        "response_time": 2.0,
    }
    assert stored == _stored({"target": TARGET, "variants": [response]}, b"", 1)


class _Text(str):
    """Text of a subclass of str, as lxml returns it."""

    __slots__ = ()


@pytest.mark.parametrize("title", [_Text("Notes"), "lone \ud800 surrogate", "null"])
def test_stored_form_contains_every_text(title: str) -> None:
    resource = Resource(TARGET, (), Channel(Kind.RSS, "2.0", well_formed=True, title=title), fetched=float("inf"))

    loaded = load(dump(resource))

    assert loaded.channel is not None
    assert (loaded.channel.title, loaded.fetched) == (title, float("inf"))


@pytest.mark.parametrize("title", ["lone \ud800 surrogate", "null"])
@pytest.mark.parametrize("end", [5.0, float("inf")])
def test_resource_in_memory_is_restored_from_every_header(title: str, end: float) -> None:
    channel = Channel(Kind.JSON, "1.1", well_formed=True, title=title)
    resource = msgspec.structs.replace(RESOURCE, channel=channel, push_lease_expires=end)
    bodies = [stored.content.bodies for stored in resource.responses]

    assert restore(header_of(resource), bodies, resource.previous.data, TARGET) == resource


def test_stored_form_with_text_among_instants_is_rejected() -> None:
    with pytest.raises(envelope.Damaged, match="Expected `float`, got `str`"):
        load(_stored({"target": TARGET, "changes": [10.0, "20.0"]}, b"", 1))


def test_stored_state_has_an_envelope_of_its_own_kind() -> None:
    start = b"FPXY\x01S\0\0\0\0\0\0"

    assert envelope.seal(b"state") == start + struct.pack(">I", zlib.crc32(start + b"state")) + b"state"


def test_stored_folder_has_the_same_files_and_keys(tmp_path: Path) -> None:
    store = DiskStore(tmp_path, size_max=64 * 1024 * 1024, on_failure=lambda error: None)
    store.write(RESOURCE)
    store.write_state("counts", b"state")
    store.close()

    # CRC-32 of the target, modulo eight shards.
    feeds = Shard(tmp_path / "feeds" / f"{zlib.crc32(TARGET.encode()) % 8:03}", size_max=None, on_failure=print)
    state = Shard(tmp_path / "state" / "000", size_max=None, on_failure=print)
    assert list(feeds.keys()) == [TARGET]
    assert list(state.keys()) == ["counts"]
    assert (tmp_path / "state" / "000" / "cache.db").is_file()
    feeds.close()
    state.close()
