"""Poll rhythms of readers are shared among workers."""

import mmap
import os
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from feedproxy.app import App
from feedproxy.clock import ManualClock
from feedproxy.subscribers.poll_rhythms import PollRhythms
from feedproxy.subscribers.reader_pseudonyms import Pseudonym
from feedproxy.workers.worker_context import WorkerContext
from feedproxy.workers.worker_messages import WorkerPeers

TARGET = "https://example.com/feed"
NOON, HOUR = 1_795_176_000.0, 3600.0
READER = Pseudonym(11, 12, 13)


@pytest.fixture
def contexts(tmp_path: Path) -> Iterator[list[WorkerContext]]:
    memory = [os.memfd_create(f"test-{number}") for number in range(3)]
    lifeline, other = socket.socketpair()
    shared = (lifeline, b"key", memory[0], tuple(memory[1:]), mmap.mmap(-1, 4096))
    yield [WorkerContext(index, 2, tmp_path, (), (), *shared) for index in range(2)]
    for descriptor in memory:
        os.close(descriptor)
    lifeline.close()
    other.close()


@pytest.fixture
async def workers(contexts: list[WorkerContext], tmp_path: Path) -> AsyncIterator[list[App]]:
    """Two workers in one process, of which the first is started."""
    apps = []
    for context in contexts:
        app = App(ManualClock(NOON))
        app.worker = context
        app.configure({"store": str(tmp_path / "store"), "polling": "off"})
        apps.append(app)
    await start(apps[0])
    yield apps
    for app in apps:
        await app.close()


async def start(app: App) -> None:
    _ = app.service
    assert app.worker_peers is not None
    await app.worker_peers.start()


def polled(app: App, *ago: float) -> None:
    for hours in ago:
        app.service.counts.record_read(TARGET, READER, "reader/1", NOON - hours * HOUR)


def rhythms(app: App) -> PollRhythms:
    return app.service.counts.rhythms


async def test_worker_receives_rhythm_of_reader_of_another_worker(workers: list[App]) -> None:
    one, other = workers
    await start(other)

    polled(one, 3, 2, 1, 0)
    await send_reads(one)

    assert rhythms(other).next_poll(TARGET, NOON) == rhythms(one).next_poll(TARGET, NOON) == NOON + HOUR


async def test_worker_receives_each_poll_of_reader_that_polls_every_five_minutes(workers: list[App]) -> None:
    one, other = workers
    await start(other)

    polled(one, *(number / 12 for number in (5, 4, 3, 2, 1, 0)))
    await send_reads(one)

    assert rhythms(other).next_poll(TARGET, NOON) == pytest.approx(NOON + 300)


async def test_worker_receives_rhythms_of_another_at_start(workers: list[App]) -> None:
    one, other = workers
    polled(one, 3, 2, 1, 0)

    await start(other)

    assert rhythms(other).next_poll(TARGET, NOON) == NOON + HOUR


async def send_reads(app: App) -> None:
    peers = app.worker_peers
    assert isinstance(peers, WorkerPeers)
    await peers.send_reads()
