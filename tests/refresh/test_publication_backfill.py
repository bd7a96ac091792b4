"""The publication dates of a feed fetched once are read before its refresh, and the resource may change meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest

from feedproxy.clock import ManualClock
from feedproxy.feed.publication_history import find_publications
from feedproxy.http.date import format_http_date
from feedproxy.http.target_uri.registrable_domain import site_of
from feedproxy.refresh.refresh_coordinator import RefreshCoordinator
from feedproxy.store.resource import Resource
from tests.stages.origin import a_feed
from tests.stages.play import OnService, Proxy
from tests.waiting import PATIENCE

DAY = 86_400


class Stand:
    """A proxy whose reading of dates waits for `go_on`."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock(1_800_000_000)
        self.stage = OnService(self.clock, {"stale_while_refreshing": DAY, **settings})
        self.origin = self.stage.origin
        self.proxy = Proxy(self.stage)
        self.target = self.origin.url("/feed.rss")
        self.stored_histories = 0
        self.reading, self.go_on = asyncio.Event(), asyncio.Event()

    async def open(self) -> None:
        await self.stage.open()
        self.coordinator: RefreshCoordinator = self.stage.service._coordinator
        submit = self.coordinator.helper_pool.submit

        async def submit_later(work: Callable[[], Any], *args: Any, **options: Any) -> Any:
            if isinstance(work, partial) and work.func is find_publications and not self.reading.is_set():
                self.reading.set()
                await self.go_on.wait()
            return await submit(work, *args, **options)

        put = self.coordinator._store.put

        async def count_put(resource: Resource, precondition: Callable[[], bool] | None = None) -> None:
            self.stored_histories += not resource.backfill_pending and resource.fetched < self.clock.now()
            await put(resource, precondition)

        self.coordinator._store.put = count_put  # type: ignore[method-assign]
        self.coordinator.helper_pool.submit = submit_later  # type: ignore[method-assign]

    def publish(self, gap: float) -> None:
        """Publish a feed with eight items, `gap` seconds apart."""
        dates = [format_http_date(self.clock.now() - number * gap) for number in range(1, 9)]
        items = "".join(f"<item><title>{date}</title><pubDate>{date}</pubDate></item>" for date in dates)
        self.origin.publish("/feed.rss", a_feed("one", extra=items), cache_control="max-age=3600")

    async def read_until_history(self) -> None:
        """Let a reader poll every 25 minutes, until the dates are being read before the second refresh."""
        for _ in range(300):
            if round(self.clock.now()) % 1500 == 0:
                (await self.proxy.get("/feed.rss")).expect(200)
            await self.turn()
            if self.reading.is_set():
                return
            self.clock.advance(20)
        raise AssertionError("the dates are not read")

    def pause(self, seconds: float) -> None:
        """Let the origin permit no request to its site for `seconds`."""
        self.coordinator._coordination.sites.pause(site_of(self.target), self.clock.now() + seconds)

    async def turn(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    async def finish(self) -> None:
        self.go_on.set()
        await self.proxy.settled()
        await self.turn()


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., Any]]:
    made: list[Stand] = []

    async def open_stand(gap: float, **settings: Any) -> Stand:
        made.append(stand := Stand(**settings))
        await stand.open()
        stand.publish(gap)
        await stand.read_until_history()
        assert stand.origin.requests == 1
        return stand

    yield open_stand
    for stand in made:
        stand.go_on.set()
        await stand.stage.close()


@pytest.mark.parametrize("polling", ["off", "balanced"])
async def test_refresh_after_publication_backfill_is_omitted_if_the_feed_was_fetched_meanwhile(
    opened, polling: str
) -> None:
    stand = await opened(1200, polling=polling)
    refreshing = stand.coordinator.refresh(stand.target)
    await asyncio.wait_for(refreshing, PATIENCE)
    stand.clock.advance(5)  # the site may be requested again
    await stand.finish()

    assert stand.origin.requests == 2


async def test_refresh_scheduled_during_publication_backfill_is_made_after_a_pause(opened) -> None:
    stand = await opened(7 * DAY)
    stand.pause(5)
    stand.coordinator.schedule_refresh(stand.target)
    await stand.finish()
    assert stand.origin.requests == 1

    stand.clock.advance(6)
    await stand.turn()
    await stand.proxy.settled()

    assert stand.origin.requests == 2


async def test_refresh_after_publication_backfill_is_independent_of_a_refresh_scheduled_for_later() -> None:
    stand = Stand()
    await stand.open()
    stand.publish(1200)
    (await stand.proxy.get("/feed.rss")).expect(200)
    stand.pause(30)
    stand.coordinator.schedule_refresh(stand.target)
    stand.go_on.set()

    stand.clock.advance(75 * 60)
    (await stand.proxy.get("/feed.rss")).expect(200)
    await stand.turn()
    await stand.proxy.settled()

    assert stand.origin.requests == 2
    await stand.stage.close()


async def test_publication_backfill_counts_as_refresh_in_progress_until_it_ends(opened) -> None:
    stand = await opened(7 * DAY)
    assert stand.stage.service.admin.active_refreshes == 1

    await stand.finish()

    assert stand.stage.service.admin.active_refreshes == 0
    assert stand.stored_histories == 1
    assert stand.origin.requests == 1


@pytest.mark.parametrize("event", ["invalidated", "lease held"])
async def test_publication_dates_are_not_stored_after_an_invalidation_or_during_a_fetch_of_another_process(
    opened, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    stand = await opened(7 * DAY)
    coordination = stand.coordinator._coordination

    async def refuse_lease(target: str, *, local: bool = False) -> bool:
        return not local

    if event == "invalidated":
        monkeypatch.setattr(coordination, "invalidation_epoch", lambda target: 1)
    else:
        monkeypatch.setattr(coordination, "acquire_lease", refuse_lease)
    await stand.finish()

    assert stand.stored_histories == 0
