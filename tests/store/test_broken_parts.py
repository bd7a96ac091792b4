"""Any part of a store's folder that is broken at the start is set aside; the others are kept, and nothing hangs."""

import errno
import os
import random
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from feedproxy.clock import Seconds
from feedproxy.errors import StoreError
from feedproxy.notify.notification_database import NotificationDatabase
from feedproxy.store.corrupt_files import clear_file, file_fault
from feedproxy.store.interface import Store
from feedproxy.store.sqlite_rows import FILE_MIN
from feedproxy.store.store_location import open_store
from tests.store.conftest import MakeFeed

FEEDS = 48
LARGE = "https://large.example/"
SECONDS_MAX: Seconds = 20

type Break = Callable[[Path], None]

pytestmark = pytest.mark.timeout(SECONDS_MAX)


def a_directory(path: Path) -> None:
    (path / "something").mkdir(parents=True)


def a_file(path: Path) -> None:
    path.write_bytes(b"in the way")


def an_empty_file(path: Path) -> None:
    path.touch()


def zeros(path: Path) -> None:
    path.write_bytes(bytes(65_536))


def noise(path: Path) -> None:
    path.write_bytes(random.Random(7).randbytes(65_536))


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path has 108 bytes at most
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(here)


def a_dangling_link(path: Path) -> None:
    path.symlink_to("/nowhere/at/all")


def cut(share: float) -> Break:
    def cut_to(path: Path) -> None:
        os.truncate(path, int(path.stat().st_size * share))

    return cut_to


INSTEAD = (a_directory, a_file, an_empty_file, zeros, noise, a_fifo, a_socket, a_dangling_link)


def break_part(path: Path, break_: Break) -> None:
    if break_ in INSTEAD:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    break_(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("whole") / "store"


@pytest.fixture
async def folder(whole: Path, tmp_path: Path, a_feed: MakeFeed) -> Path:
    """Return the folder of a store with state, a ledger, and feeds in every shard, one of them in its own file."""
    if not whole.exists():  # noqa: ASYNC240 (a fixture may block)
        store = opened(whole, [])
        for target in targets():
            await store.put(a_feed(target, says=target))
        await store.put(a_feed(LARGE, says=LARGE, size=2 * FILE_MIN))
        await store.put_state("name", b"feedproxy-1")
        await store.close()
    copy = tmp_path / "store"
    shutil.copytree(whole, copy)
    return copy


def targets() -> list[str]:
    return [f"https://{number}.example/" for number in range(FEEDS)]


def opened(folder: Path, failures: list[StoreError]) -> Store:
    return open_store(str(folder), memory_max=10**8, disk_max=10**9, on_failure=failures.append)


async def check(folder: Path, a_feed: MakeFeed) -> int:
    """Open the store and use it. Return how many feeds remain; those must be intact."""
    store = opened(folder, [])
    kept = 0
    for target in targets():
        found = store.get(target)
        if found is not None:
            assert found == a_feed(target, says=target)
            kept += 1
    assert store.get(LARGE) in (None, a_feed(LARGE, says=LARGE, size=2 * FILE_MIN))
    for target in (*targets(), LARGE):
        await store.put(a_feed(target, says="new", size=2 * FILE_MIN if target == LARGE else 1000))
    await store.put_state("name", b"feedproxy-2")
    await store.close()
    again = opened(folder, [])
    for target in (*targets(), LARGE):
        found = again.get(target)
        assert found is not None
        assert found.variants[0].content.tag == "new"
    assert again.get_state("name") == b"feedproxy-2"
    await again.close()
    return kept


@pytest.mark.parametrize("break_", [*INSTEAD, cut(0.999), cut(0.6), cut(0.1), cut(0.01)])
async def test_broken_database_loses_only_its_shard(folder: Path, a_feed: MakeFeed, break_: Break) -> None:
    break_part(folder / "feeds" / "003" / "cache.db", break_)

    assert FEEDS - 12 <= await check(folder, a_feed) < FEEDS


@pytest.mark.parametrize("name", ["cache.db-wal", "cache.db-shm", "cache.db-journal", "../lock"])
async def test_broken_journal_or_lock_loses_nothing(folder: Path, a_feed: MakeFeed, name: str) -> None:
    for number, break_ in enumerate(INSTEAD):
        if name != "../lock" or number < 2:
            break_part(folder / "feeds" / f"{number:03}" / name, break_)

    assert await check(folder, a_feed) == FEEDS


@pytest.mark.parametrize("break_", [a_file, a_fifo, a_dangling_link])
@pytest.mark.parametrize(("part", "lost"), [("feeds/003", 12), ("feeds", FEEDS), ("state", 0), ("state/000", 0)])
async def test_broken_folder_loses_only_its_contents(
    folder: Path, a_feed: MakeFeed, part: str, lost: int, break_: Break
) -> None:
    break_part(folder / part, break_)

    assert await check(folder, a_feed) >= FEEDS - lost


@pytest.mark.parametrize("break_", [*INSTEAD, cut(0.5)])
async def test_broken_value_file_loses_only_its_value(folder: Path, a_feed: MakeFeed, break_: Break) -> None:
    (value,) = (folder / "feeds").glob("*/??/??/*.val")
    break_part(value, break_)

    store = opened(folder, [])
    assert store.get(LARGE) is None
    await store.close()
    assert await check(folder, a_feed) == FEEDS


async def test_broken_part_is_logged_once_with_its_path(
    folder: Path, a_feed: MakeFeed, caplog: pytest.LogCaptureFixture
) -> None:
    part = folder / "feeds" / "003" / "cache.db"
    break_part(part, a_directory)

    await check(folder, a_feed)

    (record,) = [record for record in caplog.records if "set aside" in record.getMessage()]
    assert str(part.parent) in record.getMessage()
    assert (folder / "feeds" / "003.corrupt").is_dir()


@pytest.mark.parametrize("part", ["", "/ledger.sqlite3", "/ledger.lock", "/ledger.sqlite3-wal"])
@pytest.mark.parametrize("break_", [a_file, a_directory, a_fifo, a_dangling_link, zeros, noise])
async def test_broken_notification_database_is_replaced(tmp_path: Path, part: str, break_: Break) -> None:
    folder = tmp_path / "notify"
    if part:
        folder.mkdir()
    break_part(Path(f"{folder}{part}"), break_)
    ledger = NotificationDatabase(folder / "ledger.sqlite3", lambda _: None)

    assert ledger.acquire_delivery_lock()
    for number in range(2):
        try:
            await ledger.run(lambda db: db.execute("INSERT INTO rung VALUES ('https://1.example/', 1.0)"))
            break
        except StoreError:
            assert number == 0  # what is found corrupt in use fails once

    await ledger.close()


def test_forbidden_parent_folder_is_no_fault_of_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that cannot be examined is not renamed: it may be whole, and its folder may be permitted again later."""
    part = tmp_path / "feeds"
    part.mkdir()

    def stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", stat)
        fault = file_fault(part)
        clear_file(part)

    assert fault == ""
    assert os.listdir(tmp_path) == ["feeds"]
