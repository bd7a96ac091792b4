"""Shards: a corrupt file is set aside and replaced; every failure is a StoreError."""

import contextlib
import errno
import fcntl
import logging
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from feedproxy.errors import StoreError
from feedproxy.store import disk_shard as module
from feedproxy.store.disk_shard import Shard
from feedproxy.store.sqlite_rows import FILE_MIN, Rows

type OpenShard = Callable[[], Shard]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "feeds" / "000"


@pytest.fixture
def open_shard(folder: Path, failures: list[StoreError]) -> Iterator[OpenShard]:
    opened = []

    def open_() -> Shard:
        opened.append(Shard(folder, size_max=10_000_000, on_failure=failures.append))
        return opened[-1]

    yield open_
    for shard in opened:
        shard.close()


def damage(path: Path, at: int, data: bytes = b"\xa5" * 4096) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def filled(shard: Shard, folder: Path) -> None:
    """Write values for several pages of the file, all of them in the file itself."""
    for number in range(200):
        shard.set(f"https://{number}.example/", b"value" * 300)
    shard.close()
    assert not (folder / "cache.db-wal").exists()


def overwrite_everything(path: Path) -> None:
    path.write_bytes(b"this is no database" * 1000)


def overwrite_the_head(path: Path) -> None:
    damage(path, 0)


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def drop_the_table(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE Cache")
        connection.execute("CREATE TABLE Cache (key, hello)")
    connection.close()


def spoil_the_settings(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO Settings VALUES ('_disk', 'nonsense')")
        connection.execute("INSERT INTO Settings VALUES ('_sql', 'nonsense')")
        connection.execute("INSERT INTO Settings VALUES (x'00ff', 'nonsense')")
    connection.close()


@pytest.mark.parametrize(
    "spoil", [overwrite_everything, overwrite_the_head, cut_in_half, drop_the_table, spoil_the_settings]
)
def test_shard_corrupt_at_opening_is_set_aside_with_a_warning(
    open_shard: OpenShard,
    folder: Path,
    failures: list[StoreError],
    caplog: pytest.LogCaptureFixture,
    spoil: Callable[[Path], None],
) -> None:
    filled(open_shard(), folder)
    spoil(folder / "cache.db")
    spoiled = (folder / "cache.db").read_bytes()

    with caplog.at_level(logging.WARNING):
        shard = open_shard()
        use(shard)

    assert (folder.parent / "000.corrupt" / "cache.db").read_bytes()[-100:] == spoiled[-100:]
    assert "set aside" in caplog.text
    assert any("set aside" in str(failure) for failure in failures)
    shard.set("https://new.example/", b"new")
    assert list(shard.keys()) == ["https://new.example/"]


def test_shard_with_unexpected_tables_is_set_aside_with_a_reason_in_words(
    open_shard: OpenShard, folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full during the creation of a shard leaves tables without the rows that diskcache unpacks."""
    filled(open_shard(), folder)
    opened = iter([ValueError("not enough values to unpack (expected 1, got 0)")])

    def open_rows(path: Path, *, size_max: int | None) -> Rows:
        for error in opened:
            raise error
        return Rows(path, size_max=size_max)

    monkeypatch.setattr(module, "Rows", open_rows)
    with caplog.at_level(logging.WARNING):
        use(open_shard())

    assert "000.corrupt: the tables of cache.db are not those of a store" in caplog.text
    assert "unpack" not in caplog.text


def use(shard: Shard) -> None:
    """Use the shard as the store does: failures are ignored, and the writer replaces a corrupt file."""
    for number in range(200):
        try:
            shard.get(f"https://{number}.example/")
        except StoreError:
            shard.repair()


def test_shard_corrupt_in_use_is_set_aside_by_the_next_write(
    open_shard: OpenShard, folder: Path, failures: list[StoreError]
) -> None:
    filled(open_shard(), folder)
    shard = open_shard()
    for page in range(2, (folder / "cache.db").stat().st_size // 4096):
        damage(folder / "cache.db", page * 4096)

    with pytest.raises(StoreError):
        shard.get("https://1.example/")
    shard.set("https://new.example/", b"new")

    assert shard.get("https://new.example/") == b"new"
    assert shard.get("https://1.example/") is None
    assert len(failures) == 1


def test_shard_keeps_only_one_corrupt_file(open_shard: OpenShard, folder: Path) -> None:
    for _ in range(3):
        filled(open_shard(), folder)
        overwrite_everything(folder / "cache.db")
        open_shard().close()

    assert sorted(path.name for path in folder.parent.iterdir()) == ["000", "000.corrupt", "lock"]


def test_shard_file_is_unharmed_by_connection_to_the_old_one(open_shard: OpenShard, folder: Path) -> None:
    """SQLite removes journals by name, and the new file has the name of the old one."""
    filled(open_shard(), folder)
    other = Rows(folder, size_max=None)
    other.set("https://1.example/", b"in the old one's journal")
    shard = open_shard()
    shard._corrupt = True

    shard.set("https://2.example/", b"new")
    other.get("https://1.example/")
    other.close()

    assert shard.get("https://2.example/") == b"new"
    shard.close()
    assert open_shard().get("https://2.example/") == b"new"


def test_shard_replaced_by_another_process_is_reopened(
    open_shard: OpenShard, folder: Path, failures: list[StoreError]
) -> None:
    filled(open_shard(), folder)
    one, other = open_shard(), open_shard()
    one._corrupt = other._corrupt = True

    one.set("https://one.example/", b"one")
    other.set("https://other.example/", b"other")

    assert sorted(one.keys()) == ["https://one.example/", "https://other.example/"]
    assert len(failures) == 1


def test_shard_folder_removed_in_use_is_made_anew(open_shard: OpenShard, folder: Path) -> None:
    shard = open_shard()
    shard.set("https://1.example/", b"old")
    shutil.rmtree(folder.parent)

    shard.set("https://2.example/", b"new")

    assert shard.get("https://2.example/") == b"new"
    assert shard.get("https://1.example/") is None


def test_shard_folder_removed_in_use_is_not_read_any_more(
    open_shard: OpenShard, folder: Path, failures: list[StoreError]
) -> None:
    reader, writer = open_shard(), open_shard()
    writer.set("https://1.example/", b"old")
    assert reader.get("https://1.example/") == b"old"
    shutil.rmtree(folder.parent)
    writer.set("https://1.example/", b"new")

    assert reader.get("https://1.example/") == b"new"
    assert [str(each) for each in failures] == ["store: shard 000 was removed or replaced: opening it again"] * 2


def test_shard_is_read_while_the_writer_opens_it_again(
    open_shard: OpenShard, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = open_shard()
    shard.set("https://1.example/", b"value")
    shard._corrupt = True
    opening = shard._open

    def open_while_read() -> Rows:
        assert shard.get("https://1.example/") in (b"value", None)
        return opening()

    monkeypatch.setattr(shard, "_set_aside", lambda reason: None)
    monkeypatch.setattr(shard, "_open", open_while_read)
    shard.repair()

    assert shard.get("https://1.example/") == b"value"


def test_shard_truncated_in_use_raises_and_is_replaced(
    open_shard: OpenShard, folder: Path, failures: list[StoreError]
) -> None:
    """With a memory map, the first read beyond the end of the file would end the process by SIGBUS."""
    shard = open_shard()
    keys = [f"https://{number}.example/" for number in range(40)]
    shard.set_all(dict.fromkeys(keys, b"v" * 100000))  # more than the connection's page cache
    with contextlib.closing(sqlite3.connect(folder / "cache.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    os.truncate(folder / "cache.db", 4096)

    with pytest.raises(StoreError):
        [shard.get(key) for key in keys]
    shard.set("https://new.example/", b"new")

    assert shard.get("https://new.example/") == b"new"
    assert len(failures) == 1


@pytest.mark.parametrize("size", [50_000, FILE_MIN])
def test_shard_on_full_disk_raises_and_keeps_values(
    open_shard: OpenShard, folder: Path, failures: list[StoreError], size: int
) -> None:
    shard = open_shard()
    shard.set("https://1.example/", b"old")
    ((pages,),) = shard._rows._sql("PRAGMA page_count").fetchall()
    shard._rows._sql(f"PRAGMA max_page_count = {pages}")

    def fill() -> None:
        for number in range(2, 300):
            shard.set(f"https://{number}.example/", b"x" * size)

    with pytest.raises(StoreError, match="full"):
        fill()

    assert shard.get("https://1.example/") == b"old"
    assert failures == []
    shard.set("https://1.example/", b"new, for there is room again")
    assert shard.get("https://1.example/") == b"new, for there is room again"


def test_shard_locked_too_long_raises_and_recovers(
    open_shard: OpenShard, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCK_TRIES", 2)
    shard = open_shard()
    other = sqlite3.connect(folder / "cache.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreError, match="locked"):
        shard.set("https://1.example/", b"value")
    other.execute("ROLLBACK")
    other.close()
    shard.set("https://1.example/", b"value")

    assert shard.get("https://1.example/") == b"value"


def test_shard_read_does_not_wait_for_a_writer(open_shard: OpenShard, folder: Path) -> None:
    shard = open_shard()
    shard.set("https://1.example/", b"value")
    other = sqlite3.connect(folder / "cache.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")

    assert shard.get("https://1.example/") == b"value"

    other.execute("ROLLBACK")
    other.close()


def test_shard_that_cannot_be_set_aside_raises_until_it_can(
    open_shard: OpenShard, folder: Path, failures: list[StoreError], monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(open_shard(), folder)
    overwrite_everything(folder / "cache.db")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        shard = open_shard()
        for _ in range(3):
            with pytest.raises(StoreError, match="not permitted"):
                shard.get("https://1.example/")
            with pytest.raises(StoreError, match="not permitted"):
                shard.set("https://1.example/", b"value")
    assert len(failures) == 1

    monkeypatch.setattr(shard, "_retry_at", 0.0)
    shard.set("https://1.example/", b"value")

    assert shard.get("https://1.example/") == b"value"


def refuse(*_: object) -> Path:
    raise PermissionError(errno.EPERM, "Operation not permitted")


def test_shard_that_is_locked_is_opened_at_once_and_read(open_shard: OpenShard, folder: Path) -> None:
    filled(open_shard(), folder)
    other = sqlite3.connect(folder / "cache.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")

    shard = open_shard()

    # An access that waited for the lock would fail: it is released afterwards.
    assert shard.get("https://1.example/") is not None
    other.execute("ROLLBACK")
    other.close()
    shard.set("https://1.example/", b"new")
    assert shard.get("https://1.example/") == b"new"


def test_shard_is_opened_while_a_stopped_process_holds_the_lock_of_opening(
    open_shard: OpenShard, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OPEN_TIMEOUT", 0.05)
    filled(open_shard(), folder)
    with (folder.parent / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        assert open_shard().get("https://1.example/") is not None


def test_shard_raises_for_key_that_sqlite_cannot_store(open_shard: OpenShard) -> None:
    with pytest.raises(StoreError):
        open_shard().set("https://\udc00.example/", b"value")


def test_shard_allows_reading_and_writing_in_two_threads(open_shard: OpenShard) -> None:
    shard = open_shard()
    shard.set("key", b"0" * 1000)
    ended = threading.Event()

    def write() -> None:
        for number in range(100):
            shard.set("key", str(number % 10).encode() * 1000)
        shard.close()
        ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not ended.is_set():
        value = shard.get("key")
        assert value is not None
        assert len(set(value)) == 1
    writer.join()

    assert shard.get("key") == b"9" * 1000


def test_error_that_a_failed_rollback_hides_is_named(open_shard: OpenShard, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        try:
            raise sqlite3.OperationalError("database or disk is full")
        finally:
            raise sqlite3.OperationalError("cannot rollback - no transaction is active")

    shard = open_shard()
    monkeypatch.setattr(Rows, "set", fail)

    with pytest.raises(StoreError, match=r"shard .* cannot be used: database or disk is full"):
        shard.set("https://a.example/", b"value")


def test_values_on_a_read_only_file_system_can_be_read(
    open_shard: OpenShard, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_shard().set("https://a.example/", b"value")
    real_open = os.open

    def open_on_read_only_file_system(path: str | Path, flags: int, mode: int = 0o777, **named: int) -> int:
        if Path(path).parent == folder.parent and flags & (os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return real_open(path, flags, mode, **named)

    monkeypatch.setattr(os, "open", open_on_read_only_file_system)

    assert open_shard().get("https://a.example/") == b"value"
