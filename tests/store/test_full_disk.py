"""A file system that is really full, and then has room again."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
MOUNT = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=4m none "$1" && shift && exec "$@"', "sh"]
"""Command before another command, which then has a private file system of 4 MB in a folder. The file system ends with
the command."""

FILL_AND_FREE = r"""
import asyncio, logging, os, random, sys
from pathlib import Path
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.http.message import Fields
from feedproxy.store.resource import Resource
from feedproxy.store.store_location import open_store

folder, shared = Path(sys.argv[1]), sys.argv[2] == "shared"
targets = [f"https://example.com/{number}" for number in range(30)]
logging.basicConfig(level="INFO", format="%(message)s", stream=sys.stdout)

def open_():
    return open_store(str(folder / "store"), memory_max=10**8, disk_max=10**8, on_failure=failures.append,
                      shared=shared and Path("/dev/shm") / f"feedproxy-test-{os.getpid()}")

def feed(target, version):
    body = random.Random(target).randbytes(20_000)
    content = Content(Bodies({"identity": body}), tag=version, feed=True)
    stored = StoredResponse(target, 200, Fields(), content, 1.0, 2.0)
    return Resource(target, (stored,), fetched=2.0)

async def main():
    store = open_()
    for target in targets:
        await store.put(feed(target, "old"))
    await store.flush()
    assert not failures, failures

    with open(folder / "filler", "wb", 0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError as error:
            print(error.strerror)
    for target in targets:
        await store.put(feed(target, "new"))
    await store.put_state("readers", bytes(100_000))
    await store.flush()
    assert failures and store.unwritten_count > 20, (failures, store.unwritten_count)
    assert {store.get(target).variants[0].content.tag for target in targets} == {"new"}

    (folder / "filler").unlink()
    store._retries.hasten()
    await store.put(feed(targets[0], "new"))
    await store.flush()
    assert store.unwritten_count == 0
    await store.close()

    again = open_()
    assert {again.get(target).variants[0].content.tag for target in targets} == {"new"}
    assert again.get_state("readers") == bytes(100_000)
    await again.close()

failures = []
asyncio.run(main())
if shared:
    os.unlink(f"/dev/shm/feedproxy-test-{os.getpid()}")
"""


@pytest.mark.parametrize("processes", ["one", "shared"])
def test_full_disk_that_has_room_again_gets_every_value(tmp_path: Path, processes: str) -> None:
    if subprocess.run([*MOUNT, tmp_path, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a file system (unshare --mount)")

    ended = subprocess.run(
        [*MOUNT, tmp_path, sys.executable, "-c", FILL_AND_FREE, tmp_path, processes],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "No space left on device",
        "store: a value could not be written: such values stay in memory, and are written later",
        "store: all values are written again",
    ]
