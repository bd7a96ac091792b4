"""The table of feeds is reused, the longer the more CPU time it took."""

from collections.abc import Iterator

import pytest

from feedproxy.admin.pages import feed_table
from feedproxy.admin.pages.feed_table import FeedTable, FeedTableCache
from tests.stages.admin import NOW, TARGET, Proxy, a_resource

OTHER = "https://example.com/other.xml"


class Timer:
    """Replacement of the module `time`, with an instant and CPU times that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._cpu = 0.0
        self._costs: Iterator[float] = iter(())

    def monotonic(self) -> float:
        return self.now

    def process_time(self) -> float:
        self._cpu += next(self._costs)
        return self._cpu

    def expect(self, *costs: float) -> None:
        """State the CPU times of the next readings of rows and makings of tables."""
        self._costs = iter([value for cost in costs for value in (0.0, cost)])


@pytest.fixture
def timer(monkeypatch: pytest.MonkeyPatch) -> Timer:
    made = Timer()
    monkeypatch.setattr(feed_table, "time", made)
    return made


async def table_of(cache: FeedTableCache, proxy: Proxy) -> FeedTable:
    return await cache.table(proxy.app.service, proxy.app.settings_for, NOW)


async def test_table_is_reused_for_ten_times_the_time_of_reading_and_of_making_it(proxy: Proxy, timer: Timer) -> None:
    cache = FeedTableCache()
    timer.expect(3.0, 0.1, 3.0, 0.1)
    first = await table_of(cache, proxy)

    timer.now += 30
    assert await table_of(cache, proxy) is first
    timer.now += 2
    assert await table_of(cache, proxy) is not first


async def test_table_made_of_rows_that_were_read_before_is_at_most_one_minute_old(proxy: Proxy, timer: Timer) -> None:
    cache = FeedTableCache()
    await proxy.keep(a_resource())
    timer.expect(20.0, 20.0, 20.0, 20.0)
    assert await cache.feeds(proxy.app.service) == [TARGET]
    await proxy.keep(a_resource(OTHER))

    timer.now += 59
    assert len((await table_of(cache, proxy)).rows) == 1
    timer.now += 2
    assert len((await table_of(cache, proxy)).rows) == 2


async def test_feed_table_is_made_again_after_it_was_forgotten(proxy: Proxy, timer: Timer) -> None:
    cache = FeedTableCache()
    timer.expect(3.0, 0.1, 3.0, 0.1)
    first = await table_of(cache, proxy)

    cache.forget([])

    assert await table_of(cache, proxy) is not first
