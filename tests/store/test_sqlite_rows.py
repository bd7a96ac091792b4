"""Rows planted in the store's files run no code, and open or remove no other files."""

import os
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path

import diskcache
import pytest
from diskcache.core import MODE_PICKLE, MODE_RAW, MODE_TEXT

from feedproxy.errors import StoreError
from feedproxy.store.sqlite_rows import FILE_MIN, Rows


class Trap:
    """Creates a folder when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.place),)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "000"


@pytest.fixture
def rows(folder: Path) -> Rows:
    return Rows(folder, size_max=None)


def plant(folder: Path, **columns: object) -> None:
    """Write a row as an attacker would."""
    row = {"key": "key", "raw": 1, "store_time": 1.0, "mode": MODE_RAW, "size": 0, **columns}
    with sqlite3.connect(folder / "cache.db") as connection:
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO Cache ({names}) VALUES ({marks})", tuple(row.values()))
    connection.close()


@pytest.mark.parametrize("in_a_file", [False, True])
def test_rows_never_unpickle_a_value(rows: Rows, folder: Path, tmp_path: Path, in_a_file: bool) -> None:
    pickled = pickle.dumps(Trap(tmp_path / "sprung"))
    if in_a_file:
        name = f"ab/cd/{'0' * 28}.val"
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(pickled)
        plant(folder, mode=MODE_PICKLE, filename=name)
    else:
        plant(folder, mode=MODE_PICKLE, value=pickled)

    with pytest.raises(StoreError):
        rows.get("key")
    with pytest.raises(StoreError):
        rows.pop("key")

    assert not (tmp_path / "sprung").exists()
    rows.close()


def test_rows_trap_works_with_diskcache_alone(folder: Path, rows: Rows, tmp_path: Path) -> None:
    """Without this check, the test above would prove nothing."""
    import diskcache

    plant(folder, mode=MODE_PICKLE, value=pickle.dumps(Trap(tmp_path / "sprung")))
    rows.close()
    plain = diskcache.Cache(str(folder))
    plain.get("key")
    plain.close()

    assert (tmp_path / "sprung").exists()


def test_rows_never_unpickle_a_key(rows: Rows, folder: Path, tmp_path: Path) -> None:
    plant(folder, key=pickle.dumps(Trap(tmp_path / "sprung")), raw=0, value=b"x")
    rows.set("https://a.example/", b"y")

    assert list(rows.iter_keys()) == ["https://a.example/"]
    with pytest.raises(StoreError):
        list(rows.iterkeys())
    assert not (tmp_path / "sprung").exists()
    rows.close()


@pytest.mark.parametrize("value", ["text", 1, 1.5, None])
def test_rows_refuse_value_that_is_not_bytes(rows: Rows, folder: Path, value: object) -> None:
    plant(folder, value=value)

    with pytest.raises(StoreError):
        rows.get("key")
    rows.close()


@pytest.mark.parametrize("mode", [MODE_TEXT, 2])
@pytest.mark.parametrize("name", ["../secret", "absolute", "ab/../../secret", "ab/cd/x.val", 7])
def test_rows_refuse_name_of_another_file(rows: Rows, folder: Path, mode: int, name: object) -> None:
    secret = folder.parent / "secret"
    secret.write_text("keep me")
    plant(folder, mode=mode, filename=str(secret) if name == "absolute" else name)

    with pytest.raises(StoreError):
        rows.get("key")
    rows.set("key", b"new")
    rows.delete("key")

    assert secret.read_text() == "keep me"
    rows.close()


@pytest.mark.parametrize("value", [None, "text", 1, ["list"], {"a": 1}, bytearray(b"x")])
def test_rows_write_only_bytes(rows: Rows, value: object) -> None:
    with pytest.raises(StoreError):
        rows.set("key", value)
    rows.close()


@pytest.mark.parametrize("key", [b"bytes", 1, None, ("tuple",)])
def test_rows_accept_only_texts_as_keys(rows: Rows, key: object) -> None:
    with pytest.raises(StoreError):
        rows.set(key, b"value")
    rows.close()


def test_rows_remove_file_of_large_value_with_it(rows: Rows, folder: Path) -> None:
    rows.set("key", b"a" * FILE_MIN)
    rows.set("key", b"b" * FILE_MIN)

    assert len(list(folder.glob("??/??/*.val"))) == 1
    assert rows.get("key") == b"b" * FILE_MIN
    rows.delete("key")
    assert not list(folder.glob("??/??/*.val"))
    rows.close()


def test_rows_make_files_for_the_owner_only(rows: Rows, folder: Path) -> None:
    before = os.umask(0)
    try:
        rows.set("small", b"a")
        rows.set("large", b"a" * FILE_MIN)

        made = [folder, *folder.rglob("*")]
        assert {path.name for path in made} >= {"cache.db", "cache.db-wal", "cache.db-shm"}
        for path in made:
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    finally:
        os.umask(before)
    rows.close()


def test_rows_sweep_removes_old_files_without_a_row(rows: Rows, folder: Path) -> None:
    """Such a file remains if a process is killed after it has written the file and before it writes the row."""
    rows.set("key", b"a" * FILE_MIN)
    (named,) = folder.glob("??/??/*.val")
    orphan, young = named.with_name(f"{'1' * 28}.val"), named.with_name(f"{'2' * 28}.val")
    for path, age in ((orphan, 100.0), (young, 5000.0), (named, 100.0)):
        path.touch()
        os.utime(path, (age, age))

    assert rows.remove_orphans(before=1000.0) == 1

    assert sorted(folder.glob("??/??/*.val")) == sorted([named, young])
    assert rows.get("key") == b"a" * FILE_MIN
    rows.close()


def test_rows_cull_least_recently_stored_in_slices(folder: Path) -> None:
    rows = Rows(folder, size_max=600_000)
    for number in range(100):
        rows.set(f"{number:03}", os.urandom(10_000))
    rows.set("000", os.urandom(10_000))
    assert rows.cull_slice(10) == 10

    while rows.cull_slice(10):
        assert len(rows) >= 10

    kept = set(rows.iter_keys())
    assert rows.volume() <= 600_000
    assert "000" in kept
    assert "099" in kept
    assert "001" not in kept
    assert kept - {"000"} == {f"{number:03}" for number in range(101 - len(kept), 100)}
    rows.close()


def test_rows_keep_replaced_files_of_uncommitted_transaction(rows: Rows) -> None:
    before = b"1" * FILE_MIN
    rows.set("a", before)

    with pytest.raises(sqlite3.Error):
        rows.set_all({"a": b"2", "b": object()})  # type: ignore[dict-item] # SQLite refuses this value

    assert rows.get("a") == before


def test_rows_remove_replaced_files_of_committed_transaction(rows: Rows, folder: Path) -> None:
    for number in range(3):
        rows.set("a", bytes([number]) * FILE_MIN)
        rows.set("b", bytes([number]) * FILE_MIN)
    rows.set_all({"b": b"3"})

    assert rows.get("a") == bytes([2]) * FILE_MIN
    assert rows.get("b") == b"3"
    assert len(list(folder.glob("??/??/*.val"))) == 1


def test_rows_stored_together_replace_values_with_and_without_files(rows: Rows, folder: Path) -> None:
    large, small = b"1" * FILE_MIN, b"2"
    rows.set("a", large)
    rows.set_all({"b": small, "c": small})

    rows.set("b", large)
    rows.set_all({"a": small, "d": small})

    assert {key: rows.get(key) for key in rows.iter_keys()} == {"a": small, "b": large, "c": small, "d": small}
    assert len(rows) == 4
    assert len(list(folder.glob("??/??/*.val"))) == 1
    assert rows.volume() == diskcache.Cache.volume(rows) >= FILE_MIN


@pytest.mark.parametrize(("size_max", "writes"), [(1_000_000, False), (2_000_000, True)])
def test_rows_write_only_changed_settings_when_a_file_is_opened_again(
    folder: Path, size_max: int, writes: bool
) -> None:
    Rows(folder, size_max=1_000_000).close()
    with closing(sqlite3.connect(folder / "cache.db")) as other:
        before = other.execute("PRAGMA data_version").fetchone()

        Rows(folder, size_max=size_max).close()

        assert (other.execute("PRAGMA data_version").fetchone() != before) == writes
        assert other.execute("SELECT value FROM Settings WHERE key = 'size_limit'").fetchall() == [(size_max,)]
