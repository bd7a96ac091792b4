"""A pickle planted in a store is not executed, in any file and any column of any table.

docs/security/vex.yaml states this about CVE-2025-69872 of diskcache.
"""

import ast
import contextlib
import os
import pickle
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from diskcache.core import MODE_PICKLE

from feedproxy.cache.cache_status import Detail
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.errors import FeedproxyError
from feedproxy.http.message import Fields
from feedproxy.refresh.ingest.helper_process import load_result
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource
from feedproxy.store.sqlite_rows import FILE_MIN
from feedproxy.store.store_location import open_store

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("https://a.example/feed", "https://b.example/large")
STATE = "name"

PICKLING = frozenset({"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "_pickle"})
BETWEEN_PROCESSES = frozenset(
    {
        "feedproxy/process/supervisor.py",
        "feedproxy/refresh/ingest/helper_pool.py",
        "feedproxy/refresh/ingest/helper_process.py",
    }
)
"""They exchange data with a process that they started, over a socket or a file in memory that no other process has."""


def test_only_data_exchanged_with_own_child_processes_is_pickled() -> None:
    importing = set()
    for path in [*(ROOT / "feedproxy").rglob("*.py"), *(ROOT / "addons").rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        if not any(name in text for name in PICKLING):
            continue
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if PICKLING & {name.partition(".")[0] for name in names}:
                importing.add(path.relative_to(ROOT).as_posix())

    assert importing <= BETWEEN_PROCESSES


def _state_for(module: str, name: str, attribute: str) -> bytes:
    """Return a result that sets state of a class: `setattr(class, attribute, None)` if the pickle is executed."""
    texts = [b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, name, attribute)]
    return b"\x80\x04" + texts[0] + texts[1] + b"\x93N}" + texts[2] + b"Ns\x86b0NN\x86."


@pytest.mark.parametrize(
    ("kind", "attribute"),
    [
        (Fields, "get"),
        (Resource, "target"),
        (Settings, "readers"),
        (Detail, "HIT"),
        (Detail, "new"),
        (FeedproxyError, "x"),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_result_of_a_helper_process_changes_no_class(kind: type, attribute: str) -> None:
    before = vars(kind).get(attribute)
    with contextlib.suppress(Exception):
        load_result([_state_for(kind.__module__, kind.__qualname__, attribute)])

    assert vars(kind).get(attribute) is before


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *(("os", "system"), ("builtins", "eval"), ("builtins", "getattr"), ("subprocess", "Popen")),
        *(
            ("feedproxy.refresh.ingest.helper_pool", "subprocess.Popen"),
            ("feedproxy.refresh.ingest.helper_process", "os.system"),
        ),
        *(
            ("feedproxy.refresh.ingest.helper_process", "pickle.loads"),
            ("feedproxy.store.store_location", "open_store"),
        ),
    ],
)
def test_result_of_a_helper_process_calls_nothing(module: str, name: str) -> None:
    texts = [b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, name)]

    with pytest.raises(pickle.UnpicklingError):
        load_result([b"\x80\x04" + texts[0] + texts[1] + b"\x93NN\x86."])


class Trap:
    """Creates a folder when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.place),)


def a_resource(target: str) -> Resource:
    body = b"x" * (FILE_MIN + 1 if "large" in target else 100)
    response = StoredResponse(
        target, 200, Fields([("ETag", '"1"')]), Content(Bodies({"identity": body}), tag="1"), 1.0, 2.0
    )
    return Resource(target, (response,), fetched=2.0)


async def use(folder: Path) -> None:
    """Apply all operations to a store, whatever its state."""
    with contextlib.suppress(FeedproxyError):
        store = open_store(str(folder), memory_max=10**8, disk_max=10**9, on_failure=lambda _: None)
        list(store.targets())
        for target in TARGETS:
            with contextlib.suppress(FeedproxyError):
                store.get(target)
                store.holds(target)
        with contextlib.suppress(FeedproxyError):
            store.get_state(STATE)
        for target in TARGETS:
            with contextlib.suppress(FeedproxyError):
                await store.put(a_resource(target))
                await store.delete(target)
        with contextlib.suppress(FeedproxyError):
            await store.put_state(STATE, b"new")
        await store.close()


@pytest.fixture
async def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with a value in a row, a value in its own file, and state."""
    folder = tmp_path_factory.mktemp("whole") / "store"
    store = open_store(str(folder), memory_max=10**8, disk_max=10**9)
    for target in TARGETS:
        await store.put(a_resource(target))
    await store.put_state(STATE, b"value")
    await store.close()
    return folder


def _columns(database: Path) -> Iterator[tuple[str, str]]:
    """Yield the tables that have rows, with their columns."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if connection.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone():
                for column in connection.execute(f'PRAGMA table_info("{table}")').fetchall():
                    yield table, column[1]


def _files(folder: Path) -> list[Path]:
    return [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]


def _with_values(folder: Path) -> Iterator[Path]:
    for database in sorted(folder.rglob("cache.db")):
        if "Cache" in {table for table, _ in _columns(database)}:
            yield database.relative_to(folder)


async def test_pickle_in_any_column_of_any_table_is_not_executed(whole: Path, tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    pickled = pickle.dumps(Trap(sprung))
    tried = set()
    for database in _with_values(whole):
        for table, column in _columns(whole / database):
            for mode in (None, MODE_PICKLE) if column in ("key", "value", "filename") else (None,):
                folder = tmp_path / "store"
                shutil.copytree(whole, folder)
                with contextlib.closing(sqlite3.connect(folder / database, isolation_level=None)) as connection:
                    # An attacker with access to the file can also write values that the column does not accept.
                    connection.execute("PRAGMA ignore_check_constraints = ON")
                    with contextlib.suppress(sqlite3.Error):
                        connection.execute(f'UPDATE "{table}" SET "{column}" = ?', (pickled,))
                        tried.add((table, column))
                    if mode is not None and table == "Cache":
                        connection.execute("UPDATE Cache SET mode = ?, raw = 0", (mode,))
                await use(folder)
                assert not sprung.exists(), (database, table, column, mode)
                shutil.rmtree(folder)
    assert {("Cache", name) for name in ("key", "value", "mode", "filename")} <= tried
    assert ("Settings", "value") in tried


async def test_pickle_in_place_of_any_file_is_not_executed(whole: Path, tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    pickled = pickle.dumps(Trap(sprung))
    files = _files(whole)
    assert any(path.suffix == ".val" for path in files)
    for file in files:
        folder = tmp_path / "store"
        shutil.copytree(whole, folder)
        (folder / file).write_bytes(pickled)
        await use(folder)
        assert not sprung.exists(), file
        shutil.rmtree(folder)


def test_planted_pickle_is_executed_if_it_is_unpickled(tmp_path: Path) -> None:
    """Without this check, the tests above would prove nothing."""
    pickle.loads(pickle.dumps(Trap(tmp_path / "sprung")))  # the store's own file

    assert (tmp_path / "sprung").exists()
