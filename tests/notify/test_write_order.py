"""Order of writes: the store has the content before the database says that it is known."""

import asyncio
import hashlib
import hmac
from collections.abc import Callable
from typing import Any

import pytest

from feedproxy.notify.refresh_requests import RefreshRequests
from feedproxy.notify.topics import find_feeds
from tests.stages.notify import TARGET, Stand
from tests.stages.origin import a_feed
from tests.stages.websub import LINKS, websub_at
from tests.waiting import PATIENCE


class SlowDisk:
    """A store whose writes do not reach the disk before the gate opens."""

    def __init__(self, stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = asyncio.Event()
        self.waited = asyncio.Event()
        monkeypatch.setattr(stand.app.service.store, "wait_written", self._written)

    async def _written(self, target: str) -> None:
        self.waited.set()
        await self.gate.wait()


async def test_change_is_recorded_after_store_write(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    await stand.subscribe("http://one.example/")
    disk = SlowDisk(stand, monkeypatch)
    stand.origin.publish("/feed.xml", a_feed("two", "one"))

    await stand.app.service._coordinator.refresh(TARGET)
    await asyncio.wait_for(disk.waited.wait(), PATIENCE)
    noted, told = await stand.notifications.changes.last_number(), list(stand.others.calls)
    disk.gate.set()
    await stand.settled()

    assert (noted, told) == (0, [])
    assert await stand.notifications.changes.last_number() == 1
    assert [url for _, url, _ in stand.others.calls] == ["http://one.example/"]


async def test_ping_ends_after_store_write(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    disk = SlowDisk(stand, monkeypatch)
    stand.origin.publish("/feed.xml", a_feed("two", "one"))

    await stand.notifications.refresh_requests.accept_ping([TARGET], "192.0.2.1")
    await asyncio.wait_for(disk.waited.wait(), PATIENCE)
    left = await errands(stand.notifications.refresh_requests)
    disk.gate.set()
    await stand.settled()

    assert left == 1
    assert await errands(stand.notifications.refresh_requests) == 0


async def test_push_is_acknowledged_after_store_write(
    stand_at: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await websub_at(stand_at)
    made.stand.origin.publish("/feed.xml", a_feed("one", "zero"), link=LINKS)
    await made.read_by_somebody()
    await made.verify()
    body = a_feed("two", "one", "zero")
    signed = hmac.new(made.asked[-1]["hub.secret"].encode(), body, hashlib.sha256).hexdigest()
    disk = SlowDisk(made.stand, monkeypatch)

    answering = asyncio.ensure_future(made.at_callback("POST", content=body, X_Hub_Signature=f"sha256={signed}"))
    await asyncio.wait_for(disk.waited.wait(), PATIENCE)
    acknowledged = answering.done()
    disk.gate.set()

    assert acknowledged is False
    assert (await asyncio.wait_for(answering, PATIENCE)).status == 202


async def errands(bell: RefreshRequests) -> int:
    """Return the number of queued refresh requests."""
    return await bell._database.run(lambda db: int(db.execute("SELECT count(*) FROM errands").fetchone()[0]))


async def test_new_feed_is_found_by_ping_of_its_site(stand: Stand) -> None:
    stand.origin.publish("/feed.xml", a_feed("one"))

    await stand.app.service._coordinator.refresh(TARGET)

    assert await find_feeds(stand.notifications, "http://origin.example/") == [TARGET]
