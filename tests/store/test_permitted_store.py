"""A resource counts as absent if access rules or the address policy forbid its target, or the source of a response."""

import pytest
from msgspec.structs import replace

from feedproxy.store.lru_memory_store import MemoryStore
from feedproxy.store.permitted_store import PermittedStore
from feedproxy.store.resource import Resource
from tests.store.conftest import MakeFeed

PUBLIC, PRIVATE = "https://example.com/feed", "http://10.0.0.1/feed"


@pytest.mark.parametrize(
    ("target", "source", "is_visible"),
    [
        (PUBLIC, PUBLIC, True),
        (PUBLIC, None, True),
        (PUBLIC, "", True),
        (PUBLIC, PRIVATE, False),
        (PRIVATE, PRIVATE, False),
        (PRIVATE, PUBLIC, False),
        (PRIVATE, "", False),
    ],
)
async def test_permitted_store_hides_responses_of_forbidden_targets(
    a_feed: MakeFeed, target: str, source: str | None, is_visible: bool
) -> None:
    feed = a_feed(target)
    wrapped = MemoryStore(1_000_000)
    await wrapped.put(replace(feed, variants=(replace(feed.variants[0], final_target=source),)))
    store = PermittedStore(wrapped, lambda start, end: True, lambda target: target != PRIVATE)

    for read in (store.get, store.get_latest, store.peek):
        assert (read(target) is not None) == is_visible
    assert store.holds(target)  # the operator can purge it


async def test_permitted_store_hides_forbidden_targets_without_responses() -> None:
    wrapped = MemoryStore(1_000_000)
    await wrapped.put(Resource(PRIVATE, oversized=True))

    assert PermittedStore(wrapped, lambda start, end: True, lambda target: False).get(PRIVATE) is None
