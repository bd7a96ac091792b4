"""The store as the rest of feedproxy uses it: memory over disk, writing behind."""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.errors import StoreError, UsageError
from feedproxy.http.message import Fields
from feedproxy.store import disk_reads, sqlite_rows, tiered
from feedproxy.store.disk import DiskStore
from feedproxy.store.interface import Store
from feedproxy.store.lru_memory_store import MemoryStore
from feedproxy.store.packing.memory_entry import memory_size
from feedproxy.store.resource import Resource
from feedproxy.store.store_location import open_store
from feedproxy.store.tiered import TieredStore
from tests.waiting import PATIENCE

MakeFeed = Callable[..., Resource]
FEED = "https://example.com/feed"
OTHER = "https://example.com/other"


class Gate:
    """Delays the writer before each write, and can make the write fail."""

    def __init__(self, disk: DiskStore) -> None:
        self._write, self._write_all, self._delete = disk.write, disk.write_all, disk.delete
        disk.write_all = self.write_all  # type: ignore[method-assign]
        disk.write = self.write  # type: ignore[method-assign]
        disk.delete = self.delete  # type: ignore[method-assign]
        self.open = threading.Event()
        self.open.set()
        self.arrived = threading.Event()
        self.error: Exception | None = None
        self.written: list[str] = []

    def pass_(self, what: str) -> None:
        self.arrived.set()
        assert self.open.wait(PATIENCE)
        if self.error:
            raise self.error
        self.written.append(what)

    def write(self, resource: Resource) -> None:
        self.pass_(resource.variants[0].content.tag or "")
        self._write(resource)

    def write_all(self, resources: Iterable[Resource], on_header: Callable[[Resource, bytes], None]) -> None:
        batch = list(resources)
        for resource in batch:
            self.pass_(resource.variants[0].content.tag or "")
        self._write_all(batch, on_header)

    def delete(self, target: str) -> None:
        self.pass_("delete")
        self._delete(target)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
async def open_tiered(folder: Path, failures: list[StoreError]) -> AsyncIterator[Callable[..., TieredStore]]:
    opened: list[TieredStore] = []
    gates: list[Gate] = []

    def open_(*, memory_max: int = 10_000_000, disk_max: int = 100_000_000) -> TieredStore:
        disk = DiskStore(folder, size_max=disk_max, on_failure=failures.append)
        gate = Gate(disk)
        store = TieredStore(MemoryStore(memory_max), disk, on_failure=failures.append)
        store.gate = gate  # type: ignore[attr-defined]
        gates.append(gate)
        opened.append(store)
        return store

    yield open_
    for gate in gates:
        gate.open.set()
    for store in opened:
        await store.close()


Open = Callable[..., TieredStore]


def gate_of(store: TieredStore) -> Gate:
    gate: Gate = store.gate  # type: ignore[attr-defined]
    return gate


async def reached(event: threading.Event) -> None:
    await asyncio.to_thread(event.wait, PATIENCE)
    assert event.is_set()


# -- what is kept


async def test_tiered_feed_survives_reopening(folder: Path, a_feed: MakeFeed) -> None:
    store = open_store(str(folder), memory_max=10_000_000, disk_max=100_000_000)
    await store.put(a_feed(FEED))
    await store.put(a_feed(OTHER, size=700_000))
    await store.put_state("readers", b"\x00state")
    await store.close()

    again = open_store(str(folder), memory_max=10_000_000, disk_max=100_000_000)

    assert again.get(FEED) == a_feed(FEED)
    assert again.get(OTHER) == a_feed(OTHER, size=700_000)
    assert again.get("https://unknown.example/") is None
    assert again.get_state("readers") == b"\x00state"
    assert again.get_state("unknown") is None
    assert sorted(again.targets()) == [FEED, OTHER]
    await again.close()


async def test_tiered_read_from_disk_enters_the_hot_set(open_tiered: Open, a_feed: MakeFeed) -> None:
    first = open_tiered()
    await first.put(a_feed(FEED))
    await first.flush()
    store = open_tiered()

    resource = store.get(FEED)

    assert resource is not None
    assert store.get(FEED) is resource


async def test_tiered_load_discards_what_it_reads_if_the_value_is_replaced_meanwhile(
    open_tiered: Open, a_feed: MakeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_tiered()
    await first.put(a_feed(FEED, says="old"))
    await first.flush()
    has_read, may_return = threading.Event(), threading.Event()
    read = DiskStore.read_encoded

    def read_slowly(disk: DiskStore, target: str) -> bytes | None:
        found = read(disk, target)
        has_read.set()
        assert may_return.wait(PATIENCE)
        return found

    monkeypatch.setattr(DiskStore, "read_encoded", read_slowly)
    store = open_tiered(memory_max=1)  # nothing stays in memory
    loading = asyncio.ensure_future(store.load(FEED))
    await reached(has_read)

    await store.put(a_feed(FEED, says="new"))
    await store.flush()
    may_return.set()
    await loading

    assert store.get(FEED) == a_feed(FEED, says="new")


async def test_tiered_read_state_reads_in_a_thread_and_returns_a_value_put_meanwhile(
    open_tiered: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_tiered()
    await first.put_state("counts", b"old")
    await first.flush()
    has_read, may_return = threading.Event(), threading.Event()
    read_state = DiskStore.read_state

    def read_slowly(disk: DiskStore, name: str) -> bytes | None:
        found = read_state(disk, name)
        has_read.set()
        assert may_return.wait(PATIENCE)
        return found

    store = open_tiered()
    assert await store.read_state("counts") == b"old"
    with monkeypatch.context() as slow:
        slow.setattr(DiskStore, "read_state", read_slowly)
        store = open_tiered()
    reading = asyncio.ensure_future(store.read_state("counts"))
    await reached(has_read)
    await store.put_state("counts", b"new")
    may_return.set()

    assert await reading == b"new"


async def test_tiered_get_after_one_of_many_loads_does_not_read_the_disk_in_the_event_loop(
    open_tiered: Open, a_feed: MakeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = [f"https://example.com/{number}" for number in range(3 * tiered.PEEKED_MAX)]
    first = open_tiered()
    for target in targets:
        await first.put(a_feed(target))
    await first.flush()
    threads, read = list[threading.Thread](), DiskStore.read_encoded

    def record_thread(disk: DiskStore, target: str) -> bytes | None:
        threads.append(threading.current_thread())
        return read(disk, target)

    monkeypatch.setattr(DiskStore, "read_encoded", record_thread)
    store = open_tiered()

    async def load_and_get(target: str) -> Resource | None:
        await store.load(target)
        return store.get(target)

    loading = asyncio.gather(*map(load_and_get, targets))
    await asyncio.sleep(0)
    time.sleep(0.1)  # noqa: ASYNC251 -- the event loop receives the results of many reads at once

    assert await loading == [a_feed(target) for target in targets]
    assert threading.current_thread() not in threads
    assert len(threads) == len(targets)


async def test_tiered_read_state_returns_the_latest_value_while_the_disk_fails(
    open_tiered: Open, failures: list[StoreError], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_tiered()
    await first.put_state("decisions", b"old")
    await first.flush()

    def fail(disk: DiskStore, name: str) -> None:
        raise StoreError("unreadable")

    with monkeypatch.context() as broken:
        broken.setattr(DiskStore, "read_state", fail)
        unreadable = open_tiered()
    assert await unreadable.read_state("decisions") is None

    store = open_tiered()
    assert await store.read_state("decisions") == b"old"
    monkeypatch.setattr(store._state_reads, "_read", lambda name: fail(store._disk, name))
    assert await store.read_state("decisions") == b"old"
    await store.put_state("decisions", b"new")
    await store.flush()
    assert await store.read_state("decisions") == b"new"
    assert [str(failure) for failure in failures] == ["unreadable"] * 3


async def test_tiered_close_waits_once_while_the_disk_does_not_respond(
    open_tiered: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    responds = threading.Event()

    def wait(disk: DiskStore, name: str) -> None:
        responds.wait(PATIENCE)

    monkeypatch.setattr(DiskStore, "read_encoded", wait)
    monkeypatch.setattr(DiskStore, "read_state", wait)
    monkeypatch.setattr(disk_reads, "CLOSE_TIMEOUT", 2)
    store = open_tiered()
    reading = [asyncio.ensure_future(store.load(FEED)), asyncio.ensure_future(store.read_state("decisions"))]
    await asyncio.sleep(0)
    began = time.monotonic()

    await store.close()

    assert time.monotonic() - began < 3.5
    responds.set()
    await asyncio.gather(*reading)


async def test_tiered_failed_load_counts_as_a_miss_without_another_read(
    open_tiered: Open, a_feed: MakeFeed, failures: list[StoreError], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_tiered()
    await first.put(a_feed(FEED))
    await first.flush()
    monkeypatch.setattr(tiered, "UNREADABLE_INTERVAL", 0.5)
    reads: list[str] = []

    def fail(disk: DiskStore, target: str) -> None:
        reads.append(target)
        raise StoreError("unreadable")

    with monkeypatch.context() as broken:
        broken.setattr(DiskStore, "read_encoded", fail)
        store = open_tiered()
        await store.load(FEED)
        assert store.get(FEED) is None
    assert reads == [FEED]
    assert list(map(str, failures)) == ["unreadable"]
    async with asyncio.timeout(PATIENCE):
        while store.get(FEED) is None:  # noqa: ASYNC110 -- a time limit
            await asyncio.sleep(0.01)


async def test_tiered_load_after_a_failed_load_reads_again(
    open_tiered: Open, a_feed: MakeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_tiered()
    await first.put(a_feed(FEED))
    await first.flush()
    read, errors = DiskStore.read_encoded, [StoreError("unreadable")]

    def fail_once(disk: DiskStore, target: str) -> bytes | None:
        if errors:
            raise errors.pop()
        return read(disk, target)

    monkeypatch.setattr(DiskStore, "read_encoded", fail_once)
    store = open_tiered()
    await store.load(FEED)
    assert store.get(FEED) is None

    await store.load(FEED)
    assert store.get(FEED) is not None


async def test_tiered_read_returns_queued_value(open_tiered: Open, a_feed: MakeFeed) -> None:
    store = open_tiered(memory_max=1)  # nothing stays in memory
    await store.put(a_feed(FEED, says="old"))
    await store.flush()
    gate_of(store).open.clear()

    await store.put(a_feed(FEED, says="new"))

    assert store.get(FEED) == a_feed(FEED, says="new")
    gate_of(store).open.set()
    await store.flush()
    assert store.get(FEED) == a_feed(FEED, says="new")


async def test_tiered_put_does_not_wait_for_the_disk(open_tiered: Open, a_feed: MakeFeed) -> None:
    store = open_tiered()
    gate_of(store).open.clear()

    for number in range(100):
        await store.put(a_feed(f"https://{number}.example/"))

    assert gate_of(store).written == []
    assert len(list(store.targets())) == 100


async def test_tiered_wait_written_waits_for_one_feed_only(open_tiered: Open, a_feed: MakeFeed) -> None:
    store = open_tiered()
    await store.wait_written(FEED)  # nothing waits
    gate_of(store).open.clear()
    await store.put(a_feed(FEED, says="first"))
    await reached(gate_of(store).arrived)
    safe = asyncio.ensure_future(store.wait_written(FEED))
    await asyncio.sleep(0)
    await store.put(a_feed(FEED, says="second"))
    await asyncio.sleep(0.05)
    assert not safe.done()

    gate_of(store).open.set()
    await safe

    assert gate_of(store).written[-1] == "second"


async def test_tiered_wait_written_returns_after_a_failure(
    open_tiered: Open, a_feed: MakeFeed, failures: list[StoreError]
) -> None:
    store = open_tiered()
    gate_of(store).error = OSError("no space left")
    await store.put(a_feed(FEED))

    await store.wait_written(FEED)

    assert failures


async def test_tiered_delete_replaces_queued_put(open_tiered: Open, a_feed: MakeFeed) -> None:
    store = open_tiered()
    gate_of(store).open.clear()
    await store.put(a_feed(OTHER, says="first"))
    await reached(gate_of(store).arrived)
    await store.put(a_feed(FEED, says="unwanted"))

    await store.delete(FEED)

    assert store.get(FEED) is None
    assert list(store.targets()) == [OTHER]
    gate_of(store).open.set()
    await store.flush()
    assert gate_of(store).written == ["first", "delete"]
    assert store.get(FEED) is None


async def test_tiered_delete_follows_put_that_is_being_written(open_tiered: Open, a_feed: MakeFeed) -> None:
    store = open_tiered()
    gate_of(store).open.clear()
    await store.put(a_feed(FEED, says="unwanted"))
    await reached(gate_of(store).arrived)

    await store.delete(FEED)

    gate_of(store).open.set()
    await store.flush()
    assert gate_of(store).written == ["unwanted", "delete"]
    assert store.get(FEED) is None
    assert list(open_tiered().targets()) == []


async def test_tiered_put_replaces_delete(open_tiered: Open, a_feed: MakeFeed) -> None:
    store = open_tiered()
    await store.put(a_feed(FEED, says="old"))
    await store.delete(FEED)
    await store.put(a_feed(FEED, says="new"))
    await store.flush()

    assert store.get(FEED) == a_feed(FEED, says="new")
    assert open_tiered().get(FEED) == a_feed(FEED, says="new")


async def test_tiered_feed_put_many_times_is_written_once(open_tiered: Open, a_feed: MakeFeed) -> None:
    store = open_tiered()
    gate_of(store).open.clear()
    await store.put(a_feed(OTHER, says="holds the writer"))
    await reached(gate_of(store).arrived)
    for number in range(50):
        await store.put(a_feed(FEED, says=str(number)))

    gate_of(store).open.set()
    await store.flush()

    assert gate_of(store).written == ["holds the writer", "49"]


async def test_tiered_targets_are_unique(open_tiered: Open, a_feed: MakeFeed) -> None:
    store = open_tiered()
    for number in range(30):
        await store.put(a_feed(f"https://{number}.example/"))
    await store.flush()
    gate_of(store).open.clear()
    await store.put(a_feed("https://3.example/", says="again"))
    await store.put(a_feed("https://30.example/"))
    await store.delete("https://4.example/")

    assert sorted(store.targets()) == sorted(f"https://{number}.example/" for number in range(31) if number != 4)


async def test_tiered_concurrent_puts_leave_the_last_value(open_tiered: Open, a_feed: MakeFeed) -> None:
    store = open_tiered(memory_max=1)
    last: dict[str, str] = {}

    async def change(number: int) -> None:
        target, says = f"https://{number % 7}.example/", str(number)
        last[target] = says
        await store.put(a_feed(target, says=says))
        await asyncio.sleep(0)
        found = store.get(target)
        assert found == a_feed(target, says=last[target])

    await asyncio.gather(*(change(number) for number in range(300)))
    await store.flush()

    assert {target: store.get(target) for target in last} == {
        target: a_feed(target, says=says) for target, says in last.items()
    }


# -- bounds


async def test_tiered_memory_and_disk_are_bounded_by_bytes(open_tiered: Open, folder: Path) -> None:
    store = open_tiered(memory_max=1_000_000, disk_max=8_000_000)
    for number in range(600):
        await store.put(an_incompressible_feed(f"https://{number}.example/", 40_000))
    await store.flush()

    assert store._memory.size <= 1_000_000
    assert size_of(folder, ".db", ".val") <= 8_000_000
    kept = set(store.targets())
    assert 100 < len(kept) < 250
    assert f"https://{599}.example/" in kept
    assert "https://0.example/" not in kept


def size_of(folder: Path, *suffixes: str) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.suffix in suffixes)


def an_incompressible_feed(target: str, size: int) -> Resource:
    return Resource(
        target, (StoredResponse(target, 200, Fields(), Content(Bodies({"identity": os.urandom(size)})), 1.0, 2.0),)
    )


async def test_tiered_lowered_bound_holds_after_opening(
    open_tiered: Open, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_rows, "JOURNAL_MAX", 0)
    before = open_tiered()
    for number in range(300):
        await before.put(an_incompressible_feed(f"https://{number}.example/", 40_000))
    await before.close()

    store = open_tiered(disk_max=6_000_000)
    await store.flush()

    assert size_of(folder, ".db", ".val") <= 6_000_000


async def test_tiered_feed_above_the_disk_bound_replaces_no_other(
    open_tiered: Open, a_feed: MakeFeed, failures: list[StoreError]
) -> None:
    store = open_tiered(disk_max=8_000_000)
    await store.put(a_feed(FEED))
    await store.put(a_feed(OTHER, says="old"))
    await store.flush()

    await store.put(a_feed(OTHER, size=2_000_000))
    await store.flush()

    assert store.get(OTHER) == a_feed(OTHER, size=2_000_000)
    assert list(open_tiered().targets()) == [FEED]
    assert failures == []


async def test_tiered_put_waits_while_the_queue_is_full(
    open_tiered: Open, a_feed: MakeFeed, failures: list[StoreError]
) -> None:
    store = open_tiered()
    store._queue._max = 3 * memory_size(a_feed(size=10_000))
    gate_of(store).open.clear()
    for number in range(3):
        await store.put(a_feed(f"https://{number}.example/", size=10_000))

    fourth = asyncio.create_task(store.put(a_feed(FEED, size=10_000)))
    await asyncio.sleep(0)

    assert not fourth.done()
    assert store.get(FEED) == a_feed(FEED, size=10_000)
    gate_of(store).open.set()
    await fourth
    await store.flush()
    assert len(list(open_tiered().targets())) == 4
    assert failures == []


async def test_tiered_put_gives_up_on_a_disk_that_hangs(
    open_tiered: Open, a_feed: MakeFeed, failures: list[StoreError]
) -> None:
    store = open_tiered()
    store._queue._max, store._queue._timeout = 1, 0.01
    gate_of(store).open.clear()

    await store.put(a_feed(FEED))
    await store.put(a_feed(OTHER))

    assert [str(failure) for failure in failures] == 2 * ["store: the disk is too slow, a value was not written"]
    assert store.get(FEED) == a_feed(FEED)


async def test_tiered_write_continues_after_its_caller_is_cancelled(open_tiered: Open, a_feed: MakeFeed) -> None:
    store = open_tiered()
    store._queue._max = 1
    gate_of(store).open.clear()
    put = asyncio.create_task(store.put(a_feed(FEED)))
    flush = asyncio.create_task(store.flush())
    await asyncio.sleep(0)

    put.cancel()
    flush.cancel()
    await asyncio.gather(put, flush, return_exceptions=True)
    gate_of(store).open.set()
    await store.flush()

    assert open_tiered().get(FEED) == a_feed(FEED)


# -- failures are misses


async def test_tiered_value_that_cannot_be_written_is_written_later(
    open_tiered: Open,
    a_feed: MakeFeed,
    failures: list[StoreError],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "feedproxy.store")
    store = open_tiered(memory_max=1)
    await store.put(a_feed(FEED, says="old"))
    await store.put(a_feed("https://example.com/purged"))
    await store.flush()
    gate_of(store).error = StoreError("full")

    await store.put(a_feed(FEED, says="new"))
    await store.put(a_feed(OTHER))
    await store.put_state("readers", b"state")
    await store.delete("https://example.com/purged")
    await store.flush()

    assert {str(failure) for failure in failures} == {"full"}
    assert store.get(FEED) == a_feed(FEED, says="new")
    assert set(store.targets()) == {FEED, OTHER}
    assert store.unwritten_count == 3
    assert caplog.messages == ["store: a value could not be written: such values stay in memory, and are written later"]

    gate_of(store).error = None
    store._retries.hasten()
    await store.put(a_feed(OTHER, says="newer"))  # any write wakes the writer thread
    await store.flush()

    assert store.unwritten_count == 0
    assert caplog.messages[1:] == ["store: all values are written again"]
    await store.close()
    again = open_tiered(memory_max=1)
    assert again.get(FEED) == a_feed(FEED, says="new")
    assert again.get(OTHER) == a_feed(OTHER, says="newer")
    assert set(again.targets()) == {FEED, OTHER}


async def test_tiered_values_that_cannot_be_written_are_written_at_the_end(open_tiered: Open, a_feed: MakeFeed) -> None:
    store = open_tiered()
    gate_of(store).error = StoreError("full")
    await store.put(a_feed())
    await store.flush()
    gate_of(store).error = None

    await store.close()

    assert open_tiered().get(FEED) == a_feed()


async def test_tiered_values_that_can_never_be_written_are_reported_at_the_end(
    open_tiered: Open, a_feed: MakeFeed, failures: list[StoreError]
) -> None:
    store = open_tiered()
    gate_of(store).error = StoreError("full")
    await store.put(a_feed(FEED))
    await store.put(a_feed(OTHER))

    await store.close()

    assert str(failures[-1]) == "store: 2 values could not be written before the end"


async def test_tiered_value_that_is_lost_hides_the_old_value(
    open_tiered: Open, a_feed: MakeFeed, failures: list[StoreError]
) -> None:
    store = open_tiered(memory_max=1)
    store._queue._max = 10_000
    await store.put(a_feed(FEED, says="old"))
    await store.flush()
    gate_of(store).error = StoreError("full")

    await store.put(a_feed(FEED, says="new"))
    for number in range(20):
        await store.put(a_feed(f"https://example.com/{number}"))
    await store.flush()

    assert store.get(FEED) is None
    assert FEED not in set(store.targets())
    assert 1 < store.unwritten_count < 20
    assert len(store._queue.failed_keys) == 1, "only what the disk has an older value of needs a mark"
    assert "store: too many values wait to be written, the oldest was dropped" in [str(failure) for failure in failures]


async def test_tiered_feed_is_read_again_after_a_successful_write(open_tiered: Open, a_feed: MakeFeed) -> None:
    store = open_tiered(memory_max=1)
    await store.put(a_feed(FEED, says="old"))
    await store.flush()
    gate_of(store).error = OSError("no disk")
    await store.put(a_feed(FEED, says="lost"))
    await store.flush()
    gate_of(store).error = None

    await store.put(a_feed(FEED, says="new"))
    await store.flush()

    assert store.get(FEED) == a_feed(FEED, says="new")
    assert list(store.targets()) == [FEED]


async def test_tiered_failed_delete_hides_the_value(
    open_tiered: Open, a_feed: MakeFeed, failures: list[StoreError]
) -> None:
    store = open_tiered()
    await store.put(a_feed(FEED))
    await store.flush()
    gate_of(store).error = StoreError("full")

    await store.delete(FEED)
    await store.flush()

    assert store.get(FEED) is None
    assert list(store.targets()) == []
    assert len(failures) == 1


async def test_tiered_writer_survives_a_metric_that_fails(folder: Path, a_feed: MakeFeed) -> None:
    def fail(error: StoreError) -> None:
        raise ValueError("a metric gone wrong")

    disk = DiskStore(folder, size_max=10_000_000, on_failure=fail)
    gate = Gate(disk)
    store = TieredStore(MemoryStore(1), disk, on_failure=fail)
    gate.error = StoreError("full")
    await store.put(a_feed(FEED))
    await store.flush()
    gate.error = None

    await store.put(a_feed(OTHER))
    await store.flush()

    assert store.get(OTHER) == a_feed(OTHER)
    await store.close()


type Spoil = Callable[[bytes], bytes]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:-1],
        lambda data: b"",
        lambda data: data[:20] + b"?" + data[21:],
        lambda data: data[:4] + b"\x63" + data[5:],
        lambda data: b"pickled, perhaps",
    ],
    ids=["truncated", "empty", "altered", "unknown version", "not ours"],
)
async def test_tiered_unreadable_value_is_reported_and_a_miss(
    open_tiered: Open, a_feed: MakeFeed, failures: list[StoreError], spoil: Spoil
) -> None:
    store = open_tiered(memory_max=1)
    await store.put(a_feed(FEED))
    await store.put_state("readers", b"state")
    await store.flush()
    for shard, key in ((store._disk._shard(FEED), FEED), (store._disk._state, "readers")):
        shard.set(key, spoil(shard.get(key) or b""))

    assert store.get(FEED) is None
    assert store.get_state("readers") is None
    assert len(failures) == 2
    await store.put(a_feed(FEED))
    await store.flush()
    assert store.get(FEED) == a_feed(FEED)


async def test_tiered_value_of_another_target_is_a_miss(
    open_tiered: Open, a_feed: MakeFeed, failures: list[StoreError]
) -> None:
    store = open_tiered(memory_max=1)
    await store.put(a_feed(FEED))
    await store.flush()
    disk = store._disk
    disk._shard(OTHER).set(OTHER, disk._shard(FEED).get(FEED) or b"")

    assert OTHER in store.targets()
    assert store.get(OTHER) is None
    assert len(failures) == 1


async def test_tiered_corrupt_file_loses_one_shard(
    open_tiered: Open, a_feed: MakeFeed, failures: list[StoreError], folder: Path
) -> None:
    before = open_tiered()
    for number in range(80):
        await before.put(a_feed(f"https://{number}.example/", size=9000))
    await before.close()
    store = open_tiered(memory_max=1)
    file = folder / "feeds" / "003" / "cache.db"
    with file.open("r+b") as handle:
        handle.seek(8192)
        handle.write(b"\xa5" * (file.stat().st_size - 8192))

    kept = [number for number in range(80) if store.get(f"https://{number}.example/")]
    await store.flush()

    assert 50 <= len(kept) < 80
    assert (folder / "feeds" / "003.corrupt").is_dir()
    assert failures
    for number in range(80):
        await store.put(a_feed(f"https://{number}.example/"))
    await store.flush()
    assert all(store.get(f"https://{number}.example/") for number in range(80))


# -- opening and closing


async def test_open_store_in_memory_writes_nothing(a_feed: MakeFeed) -> None:
    store = open_store("memory:", memory_max=1_000_000, disk_max=0)

    await store.put(a_feed(FEED))
    await store.flush()

    assert store.get(FEED) == a_feed(FEED)
    await store.close()
    assert store.get(FEED) is None


async def test_open_store_makes_folder_for_the_owner_only(tmp_path: Path, a_feed: MakeFeed) -> None:
    folder = tmp_path / "not" / "yet" / "there"
    before = os.umask(0o022)
    try:
        store = open_store(str(folder), memory_max=1_000_000, disk_max=50_000_000)
        await store.put(a_feed(FEED))
        await store.put(a_feed(OTHER, size=700_000))
        await store.put_state("readers", b"")
        await store.flush()
    finally:
        os.umask(before)

    for path in (folder, *folder.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    await store.close()


async def test_open_store_defaults_to_the_cache_folder_of_the_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    store = open_store("", memory_max=1_000_000, disk_max=50_000_000)
    await store.close()

    assert (tmp_path / "feedproxy" / "feeds").is_dir()


def a_file_in_the_way(tmp_path: Path) -> str:
    (tmp_path / "file").write_text("")
    return str(tmp_path / "file")


def below_a_file(tmp_path: Path) -> str:
    return a_file_in_the_way(tmp_path) + "/store"


def a_name_that_is_too_long(tmp_path: Path) -> str:
    return str(tmp_path / ("x" * 300))


def a_redis_that_is_not_known_yet(tmp_path: Path) -> str:
    return "redis://localhost/0"


def a_folder_that_diskcache_would_take_for_another(tmp_path: Path) -> str:
    return str(tmp_path / "$HOME")


@pytest.mark.parametrize(
    "place",
    [
        a_file_in_the_way,
        below_a_file,
        a_name_that_is_too_long,
        a_redis_that_is_not_known_yet,
        a_folder_that_diskcache_would_take_for_another,
    ],
)
def test_open_store_rejects_invalid_location_in_one_line(tmp_path: Path, place: Callable[[Path], str]) -> None:
    location = place(tmp_path)

    with pytest.raises(UsageError) as caught:
        open_store(location, memory_max=1_000_000, disk_max=50_000_000)

    assert location in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")
def test_open_store_rejects_folder_without_write_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(UsageError, match="Permission denied"):
            open_store(str(tmp_path), memory_max=1_000_000, disk_max=50_000_000)
        with pytest.raises(UsageError, match="Permission denied"):
            open_store(str(tmp_path / "store"), memory_max=1_000_000, disk_max=50_000_000)
    finally:
        tmp_path.chmod(0o700)


def test_open_store_rejects_bound_that_is_too_small(folder: Path) -> None:
    with pytest.raises(UsageError, match="store_max"):
        open_store(str(folder), memory_max=1_000_000, disk_max=1000)


@pytest.mark.parametrize("location", ["memory:", "store"])
async def test_tiered_store_may_be_closed_twice(tmp_path: Path, location: str, a_feed: MakeFeed) -> None:
    place = location if location == "memory:" else str(tmp_path / location)
    store: Store = open_store(place, memory_max=1_000_000, disk_max=50_000_000)
    await store.put(a_feed(FEED))

    await store.close()
    closing: Awaitable[None] = store.close()

    await closing


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the targets of the feeds that are read from the disk from now on."""
    targets = list[str]()
    read = DiskStore.read_encoded

    def record(disk: DiskStore, target: str) -> object:
        targets.append(target)
        return read(disk, target)

    monkeypatch.setattr(DiskStore, "read_encoded", record)
    return targets


async def test_tiered_holds_does_not_read_the_feed(open_tiered: Open, a_feed: MakeFeed, reads: list[str]) -> None:
    first = open_tiered()
    await first.put(a_feed(FEED))
    assert (first.holds(FEED), first.holds(OTHER)) == (True, False)
    await first.close()

    again = open_tiered()
    assert (again.holds(FEED), again.holds(OTHER), reads) == (True, False, [])
    await again.delete(FEED)
    assert not again.holds(FEED)
    await again.flush()
    assert not again.holds(FEED)


def test_disk_store_keeps_stored_length_of_freshened_feed(folder: Path, a_feed: MakeFeed) -> None:
    """With the same length, SQLite writes only the pages that differ."""
    lengths = set[int]()
    disk = DiskStore(folder, size_max=50_000_000, on_failure=_fail)
    for number, at in enumerate((1.0, 1_795_501_866.6576734, 1_795_501_900.25)):
        feed = replace(a_feed(FEED, size=20_000), fetched=at)
        if number:
            disk.write_all([feed], lambda *_: None)
        else:
            disk.write(feed)
        assert (found := disk.read(FEED)) is not None
        assert found[0] == feed
        lengths.add(len(disk._shard(FEED).get(FEED) or b""))
    disk.close()
    assert len(lengths) == 1


def _fail(error: StoreError) -> None:
    raise error


async def test_tiered_get_after_peek_reads_the_disk_once(open_tiered: Open, a_feed: MakeFeed, reads: list[str]) -> None:
    first = open_tiered()
    await first.put(a_feed(FEED))
    await first.close()
    again = open_tiered()

    peeked = again.peek(FEED)

    assert again.get(FEED) is peeked
    assert again.get(FEED) is peeked
    assert reads == [FEED]


async def test_tiered_resource_from_the_disk_has_the_callers_text_as_its_target(
    open_tiered: Open, a_feed: MakeFeed
) -> None:
    first = open_tiered()
    await first.put(a_feed(FEED))
    await first.close()
    target = "".join(FEED)

    resource = open_tiered().get(target)

    assert resource is not None
    assert resource.target is target
    assert resource.variants[0].target is target


@pytest.mark.parametrize("replaced", [True, False])
async def test_tiered_get_returns_what_was_stored_after_a_peek(
    open_tiered: Open, a_feed: MakeFeed, replaced: bool
) -> None:
    first = open_tiered()
    await first.put(a_feed(FEED))
    await first.close()
    again = open_tiered()
    again.peek(FEED)
    later = a_feed(FEED, says="later") if replaced else None

    if later is not None:
        await again.put(later)
    else:
        await again.delete(FEED)
    again._memory.clear()

    assert again.peek(FEED) == again.get(FEED) == later
