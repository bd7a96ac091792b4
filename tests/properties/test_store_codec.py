"""What is written can be read back, and nothing else is."""

import dataclasses
import functools
import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any, TypeAliasType, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedproxy.cache.stored_response import Content, StoredResponse
from feedproxy.errors import StoreError
from feedproxy.http.message import Fields
from feedproxy.store import envelope
from feedproxy.store.codec import dump, load
from feedproxy.store.previous_contents import NO_CONTENTS, PreviousContents
from feedproxy.store.resource import Failures, Resource, VersionRecord

TEXTS = st.text(st.characters(), max_size=12)  # lone surrogates among them
NUMBERS = st.floats(allow_nan=False)
NAMES = st.text("!#$%&'*+.^_`|~-09AZaz", min_size=1, max_size=12)
VALUES = st.text(st.characters(max_codepoint=255, exclude_categories=["Cc"], include_characters="\t"), max_size=12)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=6).map(Fields)
BODIES = st.dictionaries(st.sampled_from(["identity", "gzip", "br", "zstd", "x-odd"]), st.binary(max_size=40))


def of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a declared type: every member of a dataclass is drawn, defaults or not."""
    if isinstance(hint, TypeAliasType):
        return of(hint.__value__)
    if hint in SIMPLE:
        return SIMPLE[hint]
    if isinstance(hint, UnionType):
        return st.one_of([of(each) for each in get_args(hint)])
    if get_origin(hint) in (tuple, Sequence):
        return st.lists(of(get_args(hint)[0]), max_size=3).map(tuple)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        return st.builds(hint, **{member.name: of(hints[member.name]) for member in dataclasses.fields(hint)})
    return st.from_type(hint)


PREVIOUS = st.lists(st.tuples(st.binary(max_size=60), st.binary(max_size=60)), max_size=3).map(
    lambda pairs: functools.reduce(lambda held, pair: held.with_content(*pair, size_max=10_000), pairs, NO_CONTENTS)
)

SIMPLE = {
    PreviousContents: PREVIOUS,
    str: TEXTS,
    float: NUMBERS,
    Fields: FIELDS,
    Mapping[str, bytes]: BODIES,
    # Sizes and numbers of items are counted: never below zero.
    VersionRecord: st.builds(VersionRecord, NUMBERS, st.integers(0, 2**63), st.integers(0, 2**31), TEXTS),
}
RESOURCES: st.SearchStrategy[Resource] = of(Resource)


@given(RESOURCES)
@settings(max_examples=100)
def test_what_is_written_can_be_read_back(resource: Resource) -> None:
    assert load(dump(resource)) == resource


@pytest.mark.parametrize(
    "line",
    [("X-A", "a\r\nSet-Cookie: b"), ("X-A", "a\rb"), ("X-A", "a\0b"), ("X\r\nA", "b"), ("", "b"), ("X-A", "\u2028")],
)
def test_a_field_that_breaks_the_grammar_is_damage(line: tuple[str, str]) -> None:
    """Who can write to a shared store (Redis) must not thereby split the answers of the proxies that read it."""
    target, content = "https://example.com/feed", Content({"identity": b"x"}, tag="x", feed=True)
    resource = Resource(target, (StoredResponse(target, 200, Fields([line]), content, 1.0, 2.0),), fetched=2.0)

    with pytest.raises(envelope.Damaged):
        load(dump(resource))


@given(RESOURCES)
@settings(max_examples=50)
def test_what_is_read_back_has_the_types_that_were_written(resource: Resource) -> None:
    again = load(dump(resource))

    assert dump(again) == dump(resource)
    assert all(type(body) is bytes for variant in again.variants for body in variant.content.bodies.values())


@given(RESOURCES, st.data())
@settings(max_examples=100)
def test_a_truncated_value_is_a_store_error(resource: Resource, data: st.DataObject) -> None:
    written = dump(resource)
    length = data.draw(st.integers(0, len(written) - 1))

    with pytest.raises(StoreError):
        load(written[:length])


@given(RESOURCES, st.data())
@settings(max_examples=100)
def test_a_value_with_one_byte_altered_is_a_store_error(resource: Resource, data: st.DataObject) -> None:
    written = bytearray(dump(resource))
    place = data.draw(st.integers(0, len(written) - 1))
    written[place] ^= data.draw(st.integers(1, 255))

    with pytest.raises(StoreError):
        load(bytes(written))


@given(st.binary(max_size=200))
def test_bytes_that_were_never_ours_are_a_store_error(data: bytes) -> None:
    with pytest.raises(StoreError):
        load(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(RESOURCES, st.data())
@settings(max_examples=120)
def test_a_header_that_lies_is_a_store_error_or_a_resource(resource: Resource, data: st.DataObject) -> None:
    """The checksum is right here: somebody made it up, or a program of ours went wrong."""
    header, bodies = envelope.open_parts(envelope.Kind.RESOURCE, dump(resource))
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
        envelope.Kind.RESOURCE, json.dumps(plain).encode("utf-8", "surrogatepass"), bytes(bodies)
    )

    try:
        loaded = load(forged)
    except StoreError:
        return
    assert load(dump(loaded)).target == loaded.target


def test_a_number_that_nobody_can_count_to_is_a_store_error() -> None:
    resource = dataclasses.replace(a_resource(), version_records=(VersionRecord(1.0, 5, 7),))
    header, bodies = envelope.open_parts(envelope.Kind.RESOURCE, dump(resource))
    plain = json.loads(bytes(header))
    plain["editions"][0]["items"] = -7

    with pytest.raises(StoreError, match="invalid header"):
        load(envelope.seal_parts(envelope.Kind.RESOURCE, json.dumps(plain).encode(), bytes(bodies)))


@given(st.binary(max_size=300))
def test_state_is_read_back_as_it_was(data: bytes) -> None:
    assert envelope.unseal(envelope.seal(data)) == data


def a_resource() -> Resource:
    body = b"<rss/>" * 50
    fields = Fields([("Content-Type", "text/xml"), ("Server", "x" * 500)])
    one = StoredResponse("https://example.com/feed", 200, fields, Content({"identity": body, "gzip": b"z"}), 1.0, 2.0)
    other = dataclasses.replace(one, vary_request=Fields([("Accept-Language", "de")]))
    return Resource("https://example.com/feed", (one, other))


def test_a_value_of_another_version_is_a_store_error_that_says_so() -> None:
    written = bytearray(dump(a_resource()))
    written[4] = envelope.LATER_VERSION + 1
    rest = zlib.crc32(written[16:], zlib.crc32(written[:12]))
    written[12:16] = rest.to_bytes(4)

    with pytest.raises(envelope.UnknownVersion, match="version 3"):
        load(bytes(written))


def test_state_is_no_resource_and_a_resource_no_state() -> None:
    with pytest.raises(StoreError):
        load(envelope.seal(b"{}"))
    with pytest.raises(StoreError):
        envelope.unseal(dump(a_resource()))


def test_a_body_that_variants_share_is_written_once_and_shared_again() -> None:
    resource = a_resource()
    written = dump(resource)

    first, second = load(written).variants

    assert written.count(b"<rss/>" * 50) == 1
    assert first.content.bodies["identity"] is second.content.bodies["identity"]


def test_feeds_of_one_server_share_their_field_lines_and_a_feed_its_target() -> None:
    written = dump(a_resource())
    first, second = load(written), load(written)

    assert first.variants[0].target is first.target
    assert next(iter(first.variants[0].fields)) is next(iter(second.variants[0].fields))


def test_a_member_that_a_later_feedproxy_added_is_passed_over() -> None:
    header, bodies = envelope.open_parts(envelope.Kind.RESOURCE, dump(a_resource()))
    plain = json.loads(bytes(header))
    plain["mood"] = {"good": True}
    plain["variants"][0]["colour"] = "blue"

    later = envelope.seal_parts(envelope.Kind.RESOURCE, json.dumps(plain).encode(), bytes(bodies))

    assert load(later) == a_resource()


def test_the_form_is_the_one_that_the_reference_states() -> None:
    """A golden value: whoever changes the form must change the version, too."""
    written = dump(Resource("http://a.example/", fetched=1.5, failures=Failures(count=1, detail="timeout")))

    assert written == (
        b"FPXY\x01R\x00\x00\x00\x00\x00\x56"
        + zlib.crc32(
            b'{"target":"http://a.example/","fetched":1.5,"failures":{"count":1,"detail":"timeout"}}',
            zlib.crc32(b"FPXY\x01R\x00\x00\x00\x00\x00\x56"),
        ).to_bytes(4)
        + b'{"target":"http://a.example/","fetched":1.5,"failures":{"count":1,"detail":"timeout"}}'
    )


def test_what_gzip_stands_for_is_not_written_and_read_back_all_the_same() -> None:
    plain = b"<rss>" + b"words and words, " * 4000 + b"</rss>"
    packed = gzip.compress(plain)
    resource = resource_with(Content({"identity": plain, "gzip": packed}, tag="5d41", feed=True))

    written = dump(resource)
    again = load(written)

    assert len(written) < len(packed) + 1000
    assert again.size() == resource.size(), "known before anybody has asked for it"
    assert dump(again) == written
    assert again.variants[0].content.bodies["identity"] == plain
    assert again == resource
    assert dump(again) == written


@pytest.mark.parametrize("tag", [None, "5d41"])
def test_what_gzip_does_not_stand_for_is_written(tag: str | None) -> None:
    content = Content({"identity": b"<rss/>", "gzip": gzip.compress(b"<rsz/>")}, tag=tag, feed=True)

    assert load(dump(resource_with(content))).variants[0].content == content


def resource_with(content: Content) -> Resource:
    return Resource("http://example.com/", (StoredResponse("http://example.com/", 200, Fields(), content, 1.0, 2.0),))


def test_value_without_previous_contents_has_the_version_that_earlier_programs_read() -> None:
    resource = Resource("https://example.com/feed", fetched=2.0)
    with_previous = dataclasses.replace(resource, previous=NO_CONTENTS.with_content(b"old", b"new", size_max=1000))

    assert dump(resource)[4] == 1
    assert dump(with_previous)[4] == 2
    assert load(dump(with_previous)).previous.content(hashlib.sha256(b"old").digest(), [b"new"]) == b"old"
