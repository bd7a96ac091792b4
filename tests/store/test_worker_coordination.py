"""Several processes on one folder: coherence of values, leases, slots and overflow."""

import asyncio
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedproxy.errors import StoreError, UsageError
from feedproxy.store import write_behind as queue_module
from feedproxy.store.coordination import worker_coordination
from feedproxy.store.coordination.shared_overflow import DELETED, SLOTS, SharedOverflow
from feedproxy.store.coordination.worker_coordination import RING_SIZE, SharedMemoryCoordination
from feedproxy.store.disk import DiskStore
from feedproxy.store.disk_shard import Shard
from feedproxy.store.interface import Store
from feedproxy.store.store_location import open_store
from feedproxy.store.tiered import TieredStore
from tests.store.conftest import MakeFeed
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
FEED = "https://example.com/feed"

OTHER = r"""
import asyncio, os, sys
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.errors import StoreError
from feedproxy.http.message import Fields
from feedproxy.store.resource import Resource
from feedproxy.store.disk_shard import Shard
from feedproxy.store.store_location import open_store

async def main():
    store = open_store(sys.argv[1], memory_max=10**8, disk_max=10**8, on_failure=lambda error: None, shared=True)
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while True:
        line = await loop.run_in_executor(None, sys.stdin.readline)
        verb, _, rest = line.strip().partition(" ")
        target, _, says = rest.partition(" ")
        answer = "done"
        if verb == "put":
            says, _, token = says.partition(" ")
            content = Content(Bodies({"identity": says.encode()}), tag=says, feed=True)
            stored = StoredResponse(target, 200, Fields(), content, 1.0, 2.0)
            await store.put(Resource(target, (stored,), fetched=2.0, fencing_token=int(token or 0)))
        elif verb == "get":
            found = store.get(target)
            answer = found.variants[0].content.tag if found else "nothing"
        elif verb == "delete":
            await store.delete(target)
        elif verb == "break":
            def full(*_):
                raise StoreError("disk is full")
            Shard.kept = Shard._write
            Shard._write = full
        elif verb == "repair":
            Shard._write = Shard.kept
        elif verb == "state":
            answer = (store.get_state(target) or b"nothing").decode()
        elif verb == "put_state":
            await store.put_state(target, says.encode())
            await store.flush()
        elif verb == "take":
            answer = str(await store.coordination.acquire_lease(target))
        elif verb == "release":
            store.coordination.release_lease(target)
        elif verb == "book":
            answer = str(store.coordination.sites.reserve(target, float(says), 10.0))
        elif verb == "outdate":
            store.coordination.invalidate(target or None)
        else:
            break
        print(answer, flush=True)

asyncio.run(main())
os._exit(0)
"""


class Other:
    """Another process on the same folder. It answers after it has executed a command."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OTHER, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT)},
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, *words: object) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self._line()


@contextmanager
def other(folder: Path) -> Iterator[Other]:
    made = Other(folder)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.communicate()


@pytest.fixture
def opened(tmp_path: Path, failures: list[StoreError]) -> Store:
    return open_store(str(tmp_path), memory_max=10**8, disk_max=10**8, on_failure=failures.append, shared=True)


def says(store: Store, target: str = FEED) -> str | None:
    found = store.get(target)
    return found.variants[0].content.tag if found else None


async def test_shared_store_never_returns_what_another_process_replaced(
    tmp_path: Path, opened: Store, a_feed: MakeFeed, failures: list[StoreError]
) -> None:
    choose = random.Random(1)
    with other(tmp_path) as there:
        expected: dict[str, str | None] = {}
        for round_ in range(400):
            target = f"https://example.com/{choose.randrange(8)}"
            match choose.randrange(5):
                case 0:
                    await opened.put(a_feed(target, says=f"here-{round_}"))
                    expected[target] = f"here-{round_}"
                case 1:
                    there.ask("put", target, f"there-{round_}")
                    expected[target] = f"there-{round_}"
                case 2 if choose.random() < 0.3:
                    await opened.delete(target)
                    expected[target] = None
                case 3 if choose.random() < 0.3:
                    there.ask("delete", target)
                    expected[target] = None
            assert says(opened, target) == expected.get(target)
            assert there.ask("get", target) == (expected.get(target) or "nothing")
    await opened.close()
    assert failures == []


async def test_shared_store_returns_queued_value_only_as_latest(
    tmp_path: Path, opened: Store, a_feed: MakeFeed
) -> None:
    await opened.put(a_feed(says="old"))
    putting = opened.put(a_feed(says="new"))
    putting.send(None)  # as far as it goes without the disk

    newest = opened.get_latest(FEED)

    assert newest is not None
    assert newest.variants[0].content.tag == "new"
    putting.close()
    await opened.flush()
    assert says(opened) == "new"
    await opened.close()


async def test_shared_store_keeps_what_it_loaded_after_a_change_of_another_target(
    tmp_path: Path, opened: Store, failures: list[StoreError], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing, changed = "https://example.com/missing", "https://example.com/changed"
    with other(tmp_path) as there:
        there.ask("put", FEED, "first")
        there.ask("put", changed, "first")
        for target in (FEED, changed, missing):
            await opened.load(target)
        there.ask("put", changed, "second")
        reads, read = list[str](), DiskStore.read_encoded

        def record(disk: DiskStore, target: str) -> object:
            reads.append(target)
            return read(disk, target)

        monkeypatch.setattr(DiskStore, "read_encoded", record)

        assert (says(opened), says(opened, changed), says(opened, missing)) == ("first", "second", None)
        assert reads == [changed]
    await opened.close()
    assert failures == []


async def test_shared_ring_overflow_counts_as_change_of_everything(tmp_path: Path, opened: Store) -> None:
    with other(tmp_path) as there:
        there.ask("put", FEED, "old")
        assert says(opened) == "old"
        there.ask("put", FEED, "new")
        common = opened.coordination
        assert isinstance(common, SharedMemoryCoordination)
        for number in range(RING_SIZE // 100 + 10):
            common.publish_change(f"https://example.com/{number:076}")

        assert says(opened) == "new"
    await opened.close()


async def test_shared_ring_publishes_long_name_as_change_of_everything(opened: Store) -> None:
    common = opened.coordination
    assert isinstance(common, SharedMemoryCoordination)
    before = common.generation
    common.publish_change("https://example.com/" + "x" * 10_000)
    assert common.changes_since(before) == (common.generation, None)
    await opened.close()


async def test_shared_lease_ends_when_its_process_is_killed(tmp_path: Path, opened: Store) -> None:
    with other(tmp_path) as there:
        assert there.ask("take", FEED) == "True"
        landings = opened.coordination.completion_count(FEED)
        assert not await opened.coordination.acquire_lease(FEED)
        assert await opened.coordination.acquire_lease("https://example.com/another")

        there.process.kill()
        there.process.wait()

        assert await opened.coordination.acquire_lease(FEED)
        assert opened.coordination.completion_count(FEED) == landings
    await opened.close()


async def test_shared_completion_count_reports_fetch_of_another_process(tmp_path: Path, opened: Store) -> None:
    with other(tmp_path) as there:
        there.ask("take", FEED)
        landings = opened.coordination.completion_count(FEED)
        there.ask("release", FEED)

        assert await opened.coordination.acquire_lease(FEED)
        assert opened.coordination.completion_count(FEED) != landings
    await opened.close()


async def test_shared_purge_invalidates_fetch_of_another_process(tmp_path: Path, opened: Store) -> None:
    with other(tmp_path) as there:
        before, of_another = (
            opened.coordination.invalidation_epoch(FEED),
            opened.coordination.invalidation_epoch("https://example.org/"),
        )
        there.ask("outdate", FEED)
        assert opened.coordination.invalidation_epoch(FEED) != before
        assert opened.coordination.invalidation_epoch("https://example.org/") == of_another

        there.ask("outdate")
        assert opened.coordination.invalidation_epoch("https://example.org/") != of_another
    await opened.close()


@pytest.mark.parametrize(("token", "expected"), [(11, "new"), (10, None)])
async def test_shared_delete_keeps_a_later_copy_that_another_process_stores_meanwhile(
    tmp_path: Path, opened: Store, a_feed: MakeFeed, monkeypatch: pytest.MonkeyPatch, token: int, expected: str | None
) -> None:
    shared = opened.coordination
    assert isinstance(shared, SharedMemoryCoordination)
    await opened.put(replace(a_feed(says="old"), fencing_token=9))
    lock = shared.write_lock
    with other(tmp_path) as there:

        @contextmanager
        def write_lock(target: str) -> Iterator[None]:
            there.ask("put", target, "new", token)  # after the delete was queued
            with lock(target):
                yield

        monkeypatch.setattr(shared, "write_lock", write_lock)

        await opened.delete(FEED, 10)

        assert says(opened) == expected
        assert there.ask("get", FEED) == (expected or "nothing")
    await opened.close()


async def test_shared_slots_of_a_site_are_distinct_between_processes(tmp_path: Path, opened: Store) -> None:
    with other(tmp_path) as there:
        slots = []
        for _ in range(5):
            slots.append(opened.coordination.sites.reserve("example.com", 1000.0, 10.0))
            slots.append(float(there.ask("book", "example.com", 1000.0)))
        assert slots == [1000.0 + 10 * number for number in range(10)]
        assert opened.coordination.sites.next_free("example.com", 10.0, 1000.0) == 1100.0
        assert opened.coordination.sites.next_free("example.org", 10.0, 1000.0) == 0.0
    await opened.close()


def test_memory_store_cannot_be_shared() -> None:
    with pytest.raises(UsageError, match="is not shared by workers"):
        open_store("memory:", memory_max=1, disk_max=10**8, shared=True)


# -- while the disk cannot be written to


def refuse(*_: object) -> None:
    raise StoreError("disk is full")


async def test_shared_store_stays_coherent_while_disk_is_full(
    tmp_path: Path, opened: Store, a_feed: MakeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose = random.Random(3)
    targets = [f"https://example.com/{number}" for number in range(6)]
    with other(tmp_path) as there:
        for target in targets:
            await opened.put(a_feed(target, says="before"))
        there.ask("break")
        monkeypatch.setattr(Shard, "_write", refuse)
        expected: dict[str, str | None] = dict.fromkeys(targets, "before")
        for round_ in range(150):
            target = choose.choice(targets)
            match choose.randrange(6):
                case 0 | 1:
                    await opened.put(a_feed(target, says=f"here-{round_}"))
                    expected[target] = f"here-{round_}"
                case 2 | 3:
                    there.ask("put", target, f"there-{round_}")
                    expected[target] = f"there-{round_}"
                case 4:
                    await opened.delete(target)
                    expected[target] = None
                case _:
                    there.ask("delete", target)
                    expected[target] = None
            for target in targets:
                assert says(opened, target) == expected[target]
                assert there.ask("get", target) == (expected[target] or "nothing")
        assert set(opened.targets()) == {target for target, said in expected.items() if said}

        # A process that is started meanwhile has what the others have.
        with other(tmp_path) as third:
            for target in targets:
                assert third.ask("get", target) == (expected[target] or "nothing")

        there.ask("repair")
        for target in targets:
            there.ask("put", target, "after")
            assert says(opened, target) == "after"
        assert opened.coordination.overflow.position(f"RESOURCE:{targets[0]}") == 0  # type: ignore[attr-defined]
    await opened.close()


async def test_shared_store_writes_values_of_any_process_when_the_disk_can_be_written_again(
    tmp_path: Path, opened: Store, a_feed: MakeFeed
) -> None:
    assert isinstance(opened, TieredStore)
    with other(tmp_path) as there:
        await opened.put(a_feed("https://example.com/purged"))
        there.ask("break")
        there.ask("put", FEED, "there")
        there.ask("put_state", "name", "feedproxy-1")
        there.ask("delete", "https://example.com/purged")
        assert opened.unwritten_count == 3

        opened._retries.hasten()
        await opened.put(a_feed("https://example.com/next"))
        await opened.flush()

        assert opened.unwritten_count == 0
        assert (says(opened), opened.get_state("name")) == ("there", b"feedproxy-1")
        assert there.ask("get", FEED) == "there"
    await opened.close()
    again = open_store(str(tmp_path), memory_max=10**8, disk_max=10**8)
    assert (says(again), again.get_state("name")) == ("there", b"feedproxy-1")
    assert set(again.targets()) == {FEED, "https://example.com/next"}
    await again.close()


async def test_shared_store_publishes_state_that_cannot_be_written(tmp_path: Path, opened: Store) -> None:
    with other(tmp_path) as there:
        there.ask("break")
        there.ask("put_state", "name", "feedproxy-1")

        assert opened.get_state("name") == b"feedproxy-1"
    await opened.close()


async def test_shared_store_puts_while_database_is_locked(tmp_path: Path, opened: Store, a_feed: MakeFeed) -> None:
    with other(tmp_path) as there:
        for number in range(5):
            await opened.put(a_feed(FEED, says=f"before-{number}"))
        locks = [
            sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            for path in (tmp_path / "feeds").glob("*/cache.db")
        ]
        for lock in locks:
            lock.execute("BEGIN IMMEDIATE")
        # No call waits for the locks: they are released afterwards.
        for number in range(5):
            await opened.put(a_feed(FEED, says=f"locked-{number}"))
            assert there.ask("get", FEED) == f"locked-{number}"
            there.ask("put", FEED, f"there-{number}")
            assert says(opened) == f"there-{number}"
        await opened.delete("https://example.com/never")
        for lock in locks:
            lock.execute("ROLLBACK")
            lock.close()
        await opened.flush()

        assert says(opened) == "there-4"
        there.ask("put", FEED, "after")
        assert says(opened) == "after"
    await opened.close()


async def test_shared_store_closes_in_time_while_database_is_locked(
    tmp_path: Path, opened: Store, a_feed: MakeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_module, "CLOSE_TIMEOUT", 0.2)
    await opened.put(a_feed())
    locks = [sqlite3.connect(path, isolation_level=None) for path in (tmp_path / "feeds").glob("*/cache.db")]
    for lock in locks:
        lock.execute("BEGIN IMMEDIATE")
    for number in range(40):
        await opened.put(a_feed(f"https://example.com/{number}"))

    async with asyncio.timeout(PATIENCE):
        await opened.close()

    for lock in locks:
        lock.close()


def test_shared_overflow_counts_overwritten_value_as_lost(tmp_path: Path) -> None:
    file = tmp_path / "common"
    shared = SharedMemoryCoordination(file)
    small = SharedOverflow(
        shared._map, worker_coordination._OVERFLOW, shared._leases, worker_coordination._SIZE, shared._mutex, 10_000
    )
    choose = random.Random(4)
    expected: dict[str, bytes | None] = {}
    for round_ in range(300):
        name = f"name-{choose.randrange(30)}"
        if choose.random() < 0.2:
            small.clear(name, small.position(name))
            expected[name] = None
        else:
            expected[name] = value = bytes([round_ % 256]) * choose.randrange(1, 1200)
            small.put(name, value, lambda: True)
            assert small.get(name) == value
        for stored, expects in expected.items():
            assert small.get(stored) in ((None,) if expects is None else (expects, DELETED))
    assert len(small) == sum(value is not None for value in expected.values())
    small.close()
    shared.close()


def test_shared_overflow_uses_all_its_buckets(tmp_path: Path) -> None:
    shared = SharedMemoryCoordination(tmp_path / "common")

    for number in range(SLOTS // 2 + 2_000):
        shared.overflow.put(f"name-{number}", b"value", lambda: True)

    assert len(shared.overflow) > SLOTS // 2
    shared.close()


def test_shared_overflow_discards_value_with_false_precondition(tmp_path: Path) -> None:
    shared = SharedMemoryCoordination(tmp_path / "common")

    assert shared.overflow.put("name", b"value", lambda: False) == 0

    assert shared.overflow.get("name") is None
    shared.close()


def test_shared_file_of_another_form_is_replaced(tmp_path: Path) -> None:
    for number, content in enumerate((b"", b"FPXYcmn1", bytes(10_000_000), None)):
        file = tmp_path / str(number)
        if content is None:
            file.mkdir()
        else:
            file.write_bytes(content)
        shared = SharedMemoryCoordination(file)
        shared.publish_change(FEED)
        assert shared.changes_since(0)[1] == frozenset({FEED})
        shared.close()
