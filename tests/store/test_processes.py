"""Processes that are killed, and processes that share a folder."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from feedproxy.errors import StoreError
from feedproxy.store.resource import Resource
from feedproxy.store.store_location import open_store

ROOT = Path(__file__).resolve().parents[2]

WRITER = '''
"""Writes feeds with process and round in every part, and prints those that are on the disk."""
import asyncio, os, random, sys
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.http.message import Fields
from feedproxy.store.resource import Resource
from feedproxy.store.store_location import open_store

folder, who, first, rounds, seed = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
choose = random.Random(seed)

def feed(target, number):
    mark = f"{target} {who} {number:09} "
    # Some are in the SQLite file, some have a file of their own.
    length = choose.choice([10, 1000, 300_000]) // len(mark) + 1
    bodies = Bodies({"identity": (mark * length).encode(), "gzip": (mark * (length // 2 + 1)).encode()})
    fields = Fields([("ETag", mark), ("Server", mark)])
    stored = StoredResponse(target, 200, fields, Content(bodies, tag=mark), float(number), float(number))
    return Resource(target, (stored,), fetched=float(number))

async def main():
    store = open_store(folder, memory_max=1, disk_max=100_000_000, on_failure=fail)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(first, first + rounds):
        targets = [f"https://{choose.randrange(12)}.example/" for _ in range(choose.randrange(1, 4))]
        for target in targets:
            await store.put(feed(target, number))
        if choose.random() < 0.7:
            await store.flush()
            for target in targets:
                print(target, number, flush=True)
    await store.close()

def fail(error):
    print("failed", error, flush=True)
    os._exit(3)

asyncio.run(main())
'''


def start(folder: Path, who: str, *, first: int, rounds: int, seed: int) -> "subprocess.Popen[str]":
    arguments = [sys.executable, "-c", WRITER, str(folder), who, str(first), str(rounds), str(seed)]
    process = subprocess.Popen(
        arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def number_of(resource: Resource) -> int:
    """Return the round in which the resource was written. Raises AssertionError if its parts are from different
    rounds.
    """
    (stored,) = resource.variants
    mark = stored.content.tag or ""
    target, _, number = mark.split()
    assert target == resource.target == stored.target
    assert {value for _, value in stored.fields} == {mark}
    for body in stored.content.bodies.values():
        assert body == mark.encode() * (len(body) // len(mark))
        assert body
    assert resource.fetched == stored.request_time == float(number)
    return int(number)


@pytest.mark.parametrize("seed", range(3))
async def test_killed_process_loses_no_written_feed(tmp_path: Path, seed: int, failures: list[StoreError]) -> None:
    """Six processes in a row use one folder. Each is killed after a random number of bytes of its reports, and so at a
    random point of its work.
    """
    choose = random.Random(seed)
    safe: dict[str, int] = {}
    for life in range(6):
        process = start(tmp_path, "one", first=1_000_000 * life, rounds=900_000, seed=choose.randrange(10**6))
        go(process)
        assert process.stdout is not None
        report = process.stdout.read(choose.randrange(1, 4000))
        process.send_signal(signal.SIGKILL)
        # What is still in the pipe was said before the end.
        report += process.stdout.read()
        process.communicate()
        for line in report.splitlines()[: -1 if not report.endswith("\n") else None]:
            target, number = line.split()
            safe[target] = int(number)

        store = open_store(str(tmp_path), memory_max=1, disk_max=100_000_000, on_failure=failures.append)
        found = {target: store.get(target) for target in store.targets()}
        for target, resource in found.items():
            assert resource is not None
            assert number_of(resource) >= safe.get(target, 0)
        assert found.keys() >= safe.keys()
        await store.close()
    assert failures == []
    assert safe


async def test_processes_on_one_folder_read_whole_values(tmp_path: Path, failures: list[StoreError]) -> None:
    """Two processes write the same feeds into an empty folder while this process reads them."""
    writers = [start(tmp_path, who, first=0, rounds=150, seed=seed) for seed, who in enumerate(("one", "two"))]
    store = open_store(str(tmp_path), memory_max=1, disk_max=100_000_000, on_failure=failures.append)
    for process in writers:
        go(process)

    seen = set()
    while any(process.poll() is None for process in writers):
        for target in store.targets():
            resource = store.get(target)
            if resource is not None:
                number_of(resource)
                seen.add((resource.variants[0].content.tag or "").split()[1])

    for process in writers:
        output, _ = process.communicate()
        assert "failed" not in output
        assert process.returncode == 0
    assert failures == []
    assert seen == {"one", "two"}
    assert len(list(store.targets())) == 12
    await store.close()
