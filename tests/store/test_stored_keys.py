"""A miss of a target that is not stored reads no disk."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from feedproxy.errors import StoreError
from feedproxy.store.coordination.worker_coordination import NAME_MAX
from feedproxy.store.disk import DiskStore
from feedproxy.store.interface import Store
from feedproxy.store.store_location import open_store
from feedproxy.store.stored_keys import STEP, StoredKeys
from feedproxy.store.tiered import TieredStore
from tests.store.conftest import MakeFeed

FEED = "https://example.com/feed"
UNKNOWN = "https://example.com/unknown"


def opened(folder: Path, failures: list[StoreError], *, shared: bool = False) -> Store:
    return open_store(
        str(folder), memory_max=10**7, disk_max=10**8, on_failure=failures.append, shared=shared and folder / "common"
    )


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of targets that were read from the disk."""
    targets, read = list[str](), DiskStore.read_encoded

    def record(disk: DiskStore, target: str) -> bytes | None:
        targets.append(target)
        return read(disk, target)

    monkeypatch.setattr(DiskStore, "read_encoded", record)
    return targets


async def read_keys(store: Store) -> None:
    """Wait until the store knows its keys."""
    assert isinstance(store, TieredStore)
    while store._keys.may_contain(UNKNOWN):
        store._queue.wake()
        await asyncio.sleep(0.001)


async def look_up(store: Store, target: str) -> object:
    await store.load(target)
    return store.get(target)


@pytest.mark.parametrize("shared", [False, True])
async def test_unknown_target_is_not_read_from_the_disk_once_the_keys_are_known(
    tmp_path: Path, a_feed: MakeFeed, failures: list[StoreError], reads: list[str], shared: bool
) -> None:
    (tmp_path / "store").mkdir()
    store = opened(tmp_path / "store", failures, shared=shared)
    await store.put(a_feed(FEED))
    await read_keys(store)

    assert await look_up(store, UNKNOWN) is None
    assert not store.holds(UNKNOWN)
    assert reads == []
    await store.close()
    assert failures == []


async def test_stored_feeds_are_found_after_a_restart(
    tmp_path: Path, a_feed: MakeFeed, failures: list[StoreError], reads: list[str]
) -> None:
    store = opened(tmp_path, failures)
    targets = [f"https://{number}.example/" for number in range(STEP + 10)]
    for target in targets:
        await store.put(a_feed(target))
    await store.close()
    again = opened(tmp_path, failures)
    await read_keys(again)

    assert [target for target in targets if await look_up(again, target) is None] == []
    assert await look_up(again, UNKNOWN) is None
    assert reads == targets
    await again.close()


async def test_deleted_feed_is_found_when_it_is_stored_again(
    tmp_path: Path, a_feed: MakeFeed, failures: list[StoreError]
) -> None:
    store = opened(tmp_path, failures)
    await store.put(a_feed(FEED))
    await store.delete(FEED)
    await store.flush()
    assert await look_up(store, FEED) is None
    await store.put(a_feed(FEED, says="again"))
    await store.close()

    again = opened(tmp_path, failures)
    await read_keys(again)

    assert await look_up(again, FEED) == a_feed(FEED, says="again")
    await again.close()


async def test_feed_that_another_process_has_stored_is_found(
    tmp_path: Path, a_feed: MakeFeed, failures: list[StoreError]
) -> None:
    one, other = (opened(tmp_path, failures, shared=True) for _ in range(2))
    await read_keys(one)
    assert await look_up(one, FEED) is None

    await other.put(a_feed(FEED))

    assert await look_up(one, FEED) == a_feed(FEED)
    await one.close()
    await other.close()


async def test_feeds_of_a_shard_that_was_restored_are_found_after_the_next_write(
    tmp_path: Path, a_feed: MakeFeed, failures: list[StoreError]
) -> None:
    backup = opened(tmp_path / "backup", failures)
    await backup.put(a_feed(FEED))
    await backup.close()
    store = opened(tmp_path / "store", failures)
    await read_keys(store)
    assert await look_up(store, FEED) is None

    for shard in (tmp_path / "store" / "feeds").glob("*/cache.db"):
        for journal in shard.parent.glob("cache.db-*"):
            journal.unlink()
        (tmp_path / "backup" / "feeds" / shard.parent.name / "cache.db").replace(shard)
    for number in range(50):
        await store.put(a_feed(f"https://{number}.example/"))
    await store.flush()

    assert await look_up(store, FEED) == a_feed(FEED)
    await store.close()


async def test_feed_is_found_after_so_many_changes_that_their_names_are_lost(
    tmp_path: Path, a_feed: MakeFeed, failures: list[StoreError]
) -> None:
    one, other = (opened(tmp_path, failures, shared=True) for _ in range(2))
    await read_keys(one)

    await other.put(a_feed(FEED))
    other.coordination.publish_change("t" * (NAME_MAX + 1))  # type: ignore[attr-defined] # counts as a change of all

    assert await look_up(one, FEED) == a_feed(FEED)
    await read_keys(one)
    assert await look_up(one, FEED) == a_feed(FEED)
    await one.close()
    await other.close()


async def test_unknown_target_counts_as_possibly_stored_until_all_keys_have_been_read() -> None:
    keys = StoredKeys(f"https://{number}.example/" for number in range(STEP + 1))

    assert keys.read_some()
    assert keys.may_contain(UNKNOWN)
    assert keys.read_some()
    assert not keys.read_some()
    assert not keys.may_contain(UNKNOWN)
    assert all(keys.may_contain(f"https://{number}.example/") for number in range(STEP + 1))


async def test_keys_remain_unknown_if_they_cannot_be_read() -> None:
    def unreadable() -> Iterator[str]:
        yield from [FEED] * STEP
        raise StoreError("unreadable")

    keys = StoredKeys(unreadable())

    assert keys.read_some()
    assert not keys.read_some()
    assert not keys.read_some()
    assert keys.may_contain(UNKNOWN)
    keys.read_again(iter([FEED]))
    assert keys.read_some()
    assert not keys.read_some()
    assert keys.may_contain(FEED)
    assert not keys.may_contain(UNKNOWN)


async def test_stored_keys_are_not_read_while_reading_is_paused() -> None:
    keys = StoredKeys(iter([FEED]))
    keys.is_paused = True

    assert not keys.read_some()
    assert keys.may_contain(UNKNOWN)
