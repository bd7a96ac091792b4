"""While the disk does not respond, hits from memory are answered, and other clients wait for the disk."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from feedproxy.store.disk import DiskStore
from tests.server.conftest import Front, Opened, until
from tests.stages.origin import a_feed
from tests.waiting import PATIENCE


class SlowDisk:
    """A disk whose reads wait until `responds` is set."""

    def __init__(self) -> None:
        self.responds = threading.Event()
        self.responds.set()
        self.read_targets: list[str] = []

    def wait(self, target: str) -> None:
        self.read_targets.append(target)
        assert self.responds.wait(PATIENCE)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    slow_disk, read = SlowDisk(), DiskStore.read_encoded

    def read_slowly(store: DiskStore, target: str) -> bytes | None:
        slow_disk.wait(target)
        return read(store, target)

    monkeypatch.setattr(DiskStore, "read_encoded", read_slowly)
    yield slow_disk
    slow_disk.responds.set()


async def open_with_feed_on_disk(front: Opened, folder: Path) -> Front:
    """Return a proxy with /feed.rss in memory, and /other.rss only on disk."""
    proxy = await front(store=str(folder))
    proxy.origin.publish("/other.rss", a_feed("other", ttl=60))
    await (await proxy.line()).ask(proxy.get("/other.rss"))
    store = proxy.stage.app.service.store
    await store.flush()
    memory = store.wrapped._memory  # type: ignore[attr-defined]
    memory.drop(next(target for target in store.targets() if target.endswith("/other.rss")))
    return proxy


async def test_hits_from_memory_are_answered_while_the_disk_does_not_respond(
    front: Opened, tmp_path: Path, disk: SlowDisk
) -> None:
    proxy = await open_with_feed_on_disk(front, tmp_path)
    hits, waiting = await proxy.warm(), await proxy.line()
    disk.responds.clear()
    disk.read_targets.clear()

    await waiting.say(proxy.get("/other.rss"))
    await until(lambda: len(disk.read_targets) > 0)
    for _ in range(20):
        assert (await hits.ask(proxy.get())).cache == "feedproxy; hit; ttl=3600"
    assert (await hits.ask(proxy.get("/feed.rss", "Accept: text/xml"))).status == 200  # without a template
    disk.responds.set()

    assert (await waiting.hear()).cache == "feedproxy; hit; ttl=3600"
    assert proxy.origin.requests == 2


async def test_requests_for_the_same_feed_share_a_read_of_the_disk(
    front: Opened, tmp_path: Path, disk: SlowDisk
) -> None:
    proxy = await open_with_feed_on_disk(front, tmp_path)
    lines = [await proxy.line() for _ in range(5)]
    disk.responds.clear()
    disk.read_targets.clear()

    for line in lines:
        await line.say(proxy.get("/other.rss"))
    await until(lambda: proxy.service_calls >= 6 and len(disk.read_targets) > 0)
    disk.responds.set()

    answers = await asyncio.gather(*(line.hear() for line in lines))
    assert [answer.status for answer in answers] == [200] * 5
    assert len(disk.read_targets) == 1
