"""Processes that are killed, and processes that share a folder."""

import os
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
"""Reads a line of arguments for each life. A life is a fork, which writes feeds with process and round in every part,
and prints those that are on the disk."""
import asyncio, os, random, sys
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.http.message import Fields
from feedproxy.store.resource import Resource
from feedproxy.store.store_location import open_store

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
    print("ready", os.getpid(), flush=True)
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

for line in iter(sys.stdin.readline, ""):
    if life := os.fork():
        code = os.waitstatus_to_exitcode(os.waitpid(life, 0)[1])
        print("end", flush=True)
        if code > 0:
            sys.exit(code)
    else:
        folder, who, *numbers = line.split()
        first, rounds, seed = map(int, numbers)
        choose = random.Random(seed)
        asyncio.run(main())
        os._exit(0)
'''


def start() -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", WRITER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )


def open_folder(process: "subprocess.Popen[str]", folder: Path, who: str, *, first: int, rounds: int, seed: int) -> int:
    """Let the process begin a life, which opens the store in the folder. Return the number of the life's process."""
    say(process, f"{folder} {who} {first} {rounds} {seed}")
    assert process.stdout is not None
    ready, number = process.stdout.readline().split()
    assert ready == "ready"
    return int(number)


def say(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
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
    process = start()
    assert process.stdout is not None
    for life in range(6):
        life_process = open_folder(
            process, tmp_path, "one", first=1_000_000 * life, rounds=900_000, seed=choose.randrange(10**6)
        )
        say(process, "go")
        report = process.stdout.read(choose.randrange(1, 4000))
        os.kill(life_process, signal.SIGKILL)
        # What is still in the pipe was said before the end. The life writes whole lines.
        while not report.endswith("end\n"):
            report += process.stdout.readline()
        for line in report.splitlines()[:-1]:
            target, number = line.split()
            safe[target] = int(number)

        store = open_store(str(tmp_path), memory_max=1, disk_max=100_000_000, on_failure=failures.append)
        found = {target: store.get(target) for target in store.targets()}
        for target, resource in found.items():
            assert resource is not None
            assert number_of(resource) >= safe.get(target, 0)
        assert found.keys() >= safe.keys()
        await store.close()
    process.communicate()
    assert failures == []
    assert safe


async def test_processes_on_one_folder_read_whole_values(tmp_path: Path, failures: list[StoreError]) -> None:
    """Two processes write the same feeds into an empty folder while this process reads them."""
    writers = [start(), start()]
    for seed, who in enumerate(("one", "two")):
        open_folder(writers[seed], tmp_path, who, first=0, rounds=150, seed=seed)
    store = open_store(str(tmp_path), memory_max=1, disk_max=100_000_000, on_failure=failures.append)
    for process in writers:
        say(process, "go")
        assert process.stdin is not None
        process.stdin.close()  # there is no other life

    seen = set()
    while any(process.poll() is None for process in writers):
        for target in store.targets():
            resource = store.get(target)
            if resource is not None:
                number_of(resource)
                seen.add((resource.variants[0].content.tag or "").split()[1])

    for process in writers:
        assert process.stdout is not None
        with process.stdout:
            output = process.stdout.read()
        assert "failed" not in output
        assert process.returncode == 0
    assert failures == []
    assert seen == {"one", "two"}
    assert len(list(store.targets())) == 12
    await store.close()
