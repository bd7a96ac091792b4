"""Shutdown: the last state is written to the store."""

import asyncio
from pathlib import Path

import pytest

from feedproxy.app import App
from feedproxy.clock import ManualClock
from feedproxy.subscribers import subscriber_counts
from feedproxy.subscribers.reader_pseudonyms import Pseudonym

NOON = 1_780_056_000.0


def an_app(folder: Path) -> App:
    app = App(ManualClock(NOON))
    app.configure({"store": str(folder)})
    return app


async def test_reader_recorded_during_the_last_write_is_known_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriber_counts, "THROTTLED_BLOCKING_TIME", -1)
    first = an_app(tmp_path / "store")
    feeds = [f"https://example.com/{number}" for number in range(20)]
    counts, opened = first.service.counts, first.parts
    for target in feeds:
        counts.record_read(target, Pseudonym(1, 0), "curl/8", NOON)
    begun, write = asyncio.Event(), counts._write

    def noticed(writing: object) -> object:
        begun.set()
        return write(writing)  # type: ignore[arg-type]

    monkeypatch.setattr(counts, "_write", noticed)
    saving = asyncio.ensure_future(opened._save_counts())
    opened._tasks.append(saving)
    await begun.wait()
    counts.record_read(feeds[0], Pseudonym(2, 0), "curl/8", NOON)
    counts.record_read("https://example.com/new", Pseudonym(2, 0), "curl/8", NOON)
    assert not saving.done()
    await first.close()

    second = an_app(tmp_path / "store")
    known = {target: second.service.counts.total(target, NOON) for target in second.service.counts.targets()}
    await second.close()

    assert known == {**dict.fromkeys(feeds, 1), feeds[0]: 2, "https://example.com/new": 1}


async def test_connection_that_ends_after_the_shutdown_does_not_open_the_store_again(tmp_path: Path) -> None:
    app = an_app(tmp_path / "store")
    service = app.service
    await app.close()
    tasks = asyncio.all_tasks()

    assert app.service is service
    assert app.service.store.get("https://example.com/feed.xml") is None
    assert not app.is_open
    assert asyncio.all_tasks() == tasks
    await app.close()
