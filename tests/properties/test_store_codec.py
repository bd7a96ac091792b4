"""Encoded values can be decoded, and nothing else can."""

import contextlib
import functools
import gzip
import hashlib
import json
import zlib
from collections.abc import Sequence
from random import Random
from types import UnionType
from typing import Any, TypeAliasType, get_args, get_origin, get_type_hints

import msgspec.structs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.errors import StoreError
from feedproxy.feed.channel import Channel, Kind, Schedule
from feedproxy.http.message import Fields
from feedproxy.store import envelope
from feedproxy.store.resource import Failures, Resource, VersionRecord
from feedproxy.store.resource_codec import dump, load
from feedproxy.store.versions_for_dictionaries import NO_CONTENTS, PreviousContents

TEXTS = st.text(st.characters(), max_size=12)  # including lone surrogates
NUMBERS = st.floats(allow_nan=False)
NAMES = st.text("!#$%&'*+.^_`|~-09AZaz", min_size=1, max_size=12)
VALUES = st.text(st.characters(max_codepoint=255, exclude_categories=["Cc"], include_characters="\t"), max_size=12)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=6).map(Fields)
BODIES = st.dictionaries(st.sampled_from(["identity", "gzip", "br", "zstd", "x-odd"]), st.binary(max_size=40)).map(
    Bodies
)


def of(hint: Any) -> st.SearchStrategy[Any]:
    """Generate values of a declared type. Every member of a value class is drawn, even those with defaults."""
    if isinstance(hint, TypeAliasType):
        return of(hint.__value__)
    if hint in SIMPLE:
        return SIMPLE[hint]
    if isinstance(hint, UnionType):
        return st.one_of([of(each) for each in get_args(hint)])
    if get_origin(hint) in (tuple, Sequence):
        return st.lists(of(get_args(hint)[0]), max_size=3).map(tuple)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = get_type_hints(hint)
        return st.builds(hint, **{member.name: of(hints[member.name]) for member in msgspec.structs.fields(hint)})
    return st.from_type(hint)


PREVIOUS = st.lists(st.tuples(st.binary(max_size=60), st.binary(max_size=60)), max_size=3).map(
    lambda pairs: functools.reduce(lambda held, pair: held.with_content(*pair, size_max=10_000), pairs, NO_CONTENTS)
)

SIMPLE = {
    PreviousContents: PREVIOUS,
    str: TEXTS,
    float: NUMBERS,
    Fields: FIELDS,
    # Larger sets may be written in another order after decoding.
    frozenset[int]: st.frozensets(st.integers(0, 6)),
    Bodies: BODIES,
    # Sizes and numbers of items are never negative.
    VersionRecord: st.builds(VersionRecord, NUMBERS, st.integers(0, 2**63), st.integers(0, 2**31), TEXTS),
}
RESOURCES: st.SearchStrategy[Resource] = of(Resource)


@given(RESOURCES)
@settings(max_examples=100)
def test_encoded_value_decodes_to_itself_with_the_same_types(resource: Resource) -> None:
    written = dump(resource)
    again = load(written)

    assert again == resource
    assert dump(again) == written
    assert all(type(body) is bytes for variant in again.variants for body in variant.content.bodies.values())


@pytest.mark.parametrize(
    "line",
    [("X-A", "a\r\nSet-Cookie: b"), ("X-A", "a\rb"), ("X-A", "a\0b"), ("X\r\nA", "b"), ("", "b"), ("X-A", "\u2028")],
)
def test_field_that_violates_the_grammar_is_a_store_error(line: tuple[str, str]) -> None:
    """A program that can write to a shared store (Redis) must not be able to split the responses of other proxies."""
    target, content = "https://example.com/feed", Content(Bodies({"identity": b"x"}), tag="x", feed=True)
    resource = Resource(target, (StoredResponse(target, 200, Fields([line]), content, 1.0, 2.0),), fetched=2.0)

    with pytest.raises(envelope.Damaged):
        load(dump(resource))


@given(RESOURCES, st.randoms())
@settings(max_examples=40)
def test_truncated_or_altered_value_is_a_store_error(resource: Resource, random: Random) -> None:
    written = dump(resource)
    for _ in range(10):
        place = random.randrange(len(written))
        altered = bytearray(written)
        altered[place] ^= random.randint(1, 255)

        with pytest.raises(StoreError):
            load(written[:place])
        with pytest.raises(StoreError):
            load(bytes(altered))


@given(st.binary(max_size=200))
def test_foreign_bytes_are_a_store_error(data: bytes) -> None:
    with pytest.raises(StoreError):
        load(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(RESOURCES, st.data())
@settings(max_examples=60)
def test_invalid_header_is_a_store_error_or_a_resource(resource: Resource, data: st.DataObject) -> None:
    """The checksum is correct, as in data from an attacker or from a faulty program."""
    header, bodies = envelope.open_parts(envelope.EnvelopeKind.RESOURCE, dump(resource))
    for _ in range(3):
        plain = json.loads(bytes(header).decode("utf-8", "surrogatepass"))
        holder: Any = plain
        while True:
            name = data.draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
            inner = holder[name]
            if not inner or not isinstance(inner, dict | list) or data.draw(st.booleans()):
                break
            holder = inner
        holder[name] = data.draw(JSON)
        forged = envelope.seal_parts(
            envelope.EnvelopeKind.RESOURCE, json.dumps(plain).encode("utf-8", "surrogatepass"), bytes(bodies)
        )

        with contextlib.suppress(StoreError):
            loaded = load(forged)
            assert load(dump(loaded)).target == loaded.target


@pytest.mark.parametrize("number", [-7, 2**70])
def test_number_of_any_size_is_read_as_written(number: int) -> None:
    resource = msgspec.structs.replace(a_resource(), version_records=(VersionRecord(1.0, 5, number),))

    assert load(dump(resource)).version_records == resource.version_records


def test_instant_too_large_for_a_float_is_a_store_error() -> None:
    header, bodies = envelope.open_parts(envelope.EnvelopeKind.RESOURCE, dump(a_resource()))
    plain = json.loads(bytes(header)) | {"changes": [10**400]}

    with pytest.raises(StoreError, match="invalid header"):
        load(envelope.seal_parts(envelope.EnvelopeKind.RESOURCE, json.dumps(plain).encode(), bytes(bodies)))


@given(st.binary(max_size=300))
def test_state_decodes_to_itself(data: bytes) -> None:
    assert envelope.unseal(envelope.seal(data)) == data


def a_resource() -> Resource:
    body = b"<rss/>" * 50
    fields = Fields([("Content-Type", "text/xml"), ("Server", "x" * 500)])
    one = StoredResponse(
        "https://example.com/feed", 200, fields, Content(Bodies({"identity": body, "gzip": b"z"})), 1.0, 2.0
    )
    other = msgspec.structs.replace(one, vary_request=Fields([("Accept-Language", "de")]))
    return Resource("https://example.com/feed", (one, other))


def test_value_of_another_version_is_a_store_error_that_names_it() -> None:
    written = bytearray(dump(a_resource()))
    written[4] = envelope.LATER_VERSION + 1
    rest = zlib.crc32(written[16:], zlib.crc32(written[:12]))
    written[12:16] = rest.to_bytes(4)

    with pytest.raises(envelope.UnknownVersion, match="version 3"):
        load(bytes(written))


def test_state_is_not_decoded_as_a_resource_nor_a_resource_as_state() -> None:
    with pytest.raises(StoreError):
        load(envelope.seal(b"{}"))
    with pytest.raises(StoreError):
        envelope.unseal(dump(a_resource()))


def test_body_shared_by_variants_is_encoded_once_and_shared_after_decoding() -> None:
    resource = a_resource()
    written = dump(resource)

    first, second = load(written).variants

    assert written.count(b"<rss/>" * 50) == 1
    assert first.content.bodies["identity"] is second.content.bodies["identity"]


def test_feeds_of_one_server_share_field_lines_and_each_feed_its_target() -> None:
    written = dump(a_resource())
    first, second = load(written), load(written)

    assert first.variants[0].target is first.target
    assert next(iter(first.variants[0].fields)) is next(iter(second.variants[0].fields))


def test_feeds_share_media_types_versions_and_schedules() -> None:
    content = Content(Bodies({"identity": b"<rss/>"}), media_type="application/rss+xml")
    channel = Channel(Kind.RSS, "2.0", well_formed=True, schedule=Schedule(ttl=90))
    written = dump(msgspec.structs.replace(resource_with(content), channel=channel))
    first, second = load(written), load(written)

    assert first.channel is not None
    assert second.channel is not None
    assert first.channel.schedule is second.channel.schedule
    assert first.channel.version is second.channel.version
    assert first.variants[0].content.media_type is second.variants[0].content.media_type


def test_unknown_member_of_a_later_version_is_ignored() -> None:
    header, bodies = envelope.open_parts(envelope.EnvelopeKind.RESOURCE, dump(a_resource()))
    plain = json.loads(bytes(header))
    plain["mood"] = {"good": True}
    plain["variants"][0]["colour"] = "blue"

    later = envelope.seal_parts(envelope.EnvelopeKind.RESOURCE, json.dumps(plain).encode(), bytes(bodies))

    assert load(later) == a_resource()


def test_encoding_equals_the_documented_form() -> None:
    """A golden value. A change of the form requires a new version number."""
    written = dump(Resource("http://a.example/", fetched=1.5, failures=Failures(count=1, detail="timeout")))

    assert written == (
        b"FPXY\x01R\x00\x00\x00\x00\x00\x56"
        + zlib.crc32(
            b'{"target":"http://a.example/","fetched":1.5,"failures":{"count":1,"detail":"timeout"}}',
            zlib.crc32(b"FPXY\x01R\x00\x00\x00\x00\x00\x56"),
        ).to_bytes(4)
        + b'{"target":"http://a.example/","fetched":1.5,"failures":{"count":1,"detail":"timeout"}}'
    )


def test_body_reproducible_from_gzip_is_not_stored_and_decoded_again() -> None:
    plain = b"<rss>" + b"words and words, " * 4000 + b"</rss>"
    packed = gzip.compress(plain)
    resource = resource_with(Content(Bodies({"identity": plain, "gzip": packed}), tag="5d41", feed=True))

    written = dump(resource)
    again = load(written)

    assert len(written) < len(packed) + 1000
    assert again.size() == resource.size(), "known before anybody has asked for it"
    assert dump(again) == written
    assert again.variants[0].content.bodies["identity"] == plain
    assert again == resource
    assert dump(again) == written


@pytest.mark.parametrize("tag", [None, "5d41"])
def test_body_not_reproducible_from_gzip_is_stored(tag: str | None) -> None:
    content = Content(Bodies({"identity": b"<rss/>", "gzip": gzip.compress(b"<rsz/>")}), tag=tag, feed=True)

    assert load(dump(resource_with(content))).variants[0].content == content


def resource_with(content: Content) -> Resource:
    return Resource("http://example.com/", (StoredResponse("http://example.com/", 200, Fields(), content, 1.0, 2.0),))


def test_value_without_previous_contents_has_the_version_that_earlier_programs_accept() -> None:
    resource = Resource("https://example.com/feed", fetched=2.0)
    with_previous = msgspec.structs.replace(resource, previous=NO_CONTENTS.with_content(b"old", b"new", size_max=1000))

    assert dump(resource)[4] == 1
    assert dump(with_previous)[4] == 2
    assert load(dump(with_previous)).previous.content(hashlib.sha256(b"old").digest(), [b"new"]) == b"old"
