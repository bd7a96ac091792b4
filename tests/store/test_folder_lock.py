"""One process at a time uses the folder of a store."""

import os
from pathlib import Path

import pytest

from feedproxy.store.coordination import folder_lock
from feedproxy.store.coordination.folder_lock import FolderInUse


def test_folder_in_use_is_refused_with_the_number_of_its_process(tmp_path: Path) -> None:
    held = folder_lock.acquire(tmp_path / "store")
    assert held is not None

    with pytest.raises(FolderInUse, match=rf"^store: .*store is in use by process {os.getpid()}:"):
        folder_lock.acquire(tmp_path / "store")

    os.close(held)
    again = folder_lock.acquire(tmp_path / "store")
    assert again is not None
    os.close(again)


def test_folder_that_cannot_be_created_is_not_locked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert folder_lock.acquire(tmp_path / "file" / "store") is None


def test_lock_file_that_is_a_link_or_a_fifo_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / folder_lock.LOCK_NAME).symlink_to(tmp_path / "elsewhere")
    assert folder_lock.acquire(tmp_path / "a") is None
    assert not (tmp_path / "elsewhere").exists()
