"""Packed sequences equal the sequences that they were made from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedproxy.store.lru_memory_store import MemoryStore
from feedproxy.store.packing.packed_sequences import PackedInstants
from feedproxy.store.resource import DeltaBase, PackedDeltaBases, PackedVersionRecords, Resource, VersionRecord
from feedproxy.store.resource_codec import header_of
from tests.store.conftest import MakeFeed

instants = st.floats(min_value=0, max_value=1e12, allow_nan=False)
versions = st.builds(DeltaBase, st.text(max_size=30), st.none() | instants, st.binary(max_size=64))


@given(st.lists(versions, max_size=6), st.lists(instants, max_size=8))
def test_packed_sequence_equals_its_values(held: list[DeltaBase], changes: list[float]) -> None:
    resource = Resource("https://example.com/", delta_bases=tuple(held), changes=tuple(changes))

    assert list(resource.delta_bases) == held
    assert list(resource.changes) == changes
    assert resource == Resource(
        "https://example.com/", delta_bases=PackedDeltaBases(held), changes=PackedInstants(changes)
    )
    assert hash(resource) == hash(Resource("https://example.com/", delta_bases=tuple(held), changes=tuple(changes)))


@given(st.lists(instants, max_size=3), st.lists(instants, max_size=3))
def test_packed_sequences_are_equal_and_true_as_their_values(ones: list[float], others: list[float]) -> None:
    packed = PackedInstants(ones)

    assert (packed == PackedInstants(others)) == (packed == tuple(others)) == (packed == others) == (ones == others)
    assert bool(packed) == bool(ones)
    assert packed != 0.0


def test_codec_unpacks_each_sequence_of_a_resource_once(monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked: list[object] = []
    values_of = PackedVersionRecords._values

    def counted(self: PackedVersionRecords) -> tuple[VersionRecord, ...]:
        unpacked.append(self)
        return values_of(self)

    monkeypatch.setattr(PackedVersionRecords, "_values", counted)
    resource = Resource("https://example.com/", version_records=(VersionRecord(1.0, 2, 3, "tag"),))

    header_of(resource)

    assert len(unpacked) == 1


def test_memory_store_is_bounded_by_number(a_feed: MakeFeed) -> None:
    store = MemoryStore(10**9, 3)
    for number in range(5):
        store.put_now(a_feed(f"https://example.com/{number}"))
    store.get("https://example.com/2")
    store.put_now(a_feed("https://example.com/5"))

    assert sorted(store.targets()) == [f"https://example.com/{number}" for number in (2, 4, 5)]
    for target in list(store.targets()):
        store.drop(target)
    assert store.size == 0
