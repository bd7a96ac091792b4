"""The history by hour and day: what a restart keeps, and that nothing is counted twice."""

import pytest

from feedproxy.cache.cache_status import CacheStatus, Detail, Fwd
from feedproxy.errors import StoreError
from feedproxy.telemetry import history
from feedproxy.telemetry.history import DAY, HOUR, NO_TRAFFIC, History, HistoryRecorder, TrafficCounts
from feedproxy.telemetry.metrics import Metrics
from tests.stages.admin import NOW, TARGET


class Shelf:
    """A store of state."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def get_state(self, name: str) -> bytes | None:
        return self.kept.get(name)

    async def put_state(self, name: str, data: bytes) -> None:
        self.kept[name] = data


def answered(metrics: Metrics, count: int, *, size: int = 100) -> None:
    for _ in range(count):
        metrics.answered("gateway", 200, CacheStatus(hit=True), size, 0.001)


def days(book: History, now: float, count: int = 3) -> list[int]:
    return [tally.requests for _, tally in book.last(DAY, count, now)]


def test_what_was_counted_goes_to_the_hour_and_the_day_of_the_look() -> None:
    metrics, diary = Metrics(), None
    diary = HistoryRecorder(metrics.tally, Shelf())

    answered(metrics, 3)
    diary.note(NOW)
    answered(metrics, 2)
    book = diary.note(NOW + HOUR)

    assert [tally.requests for _, tally in book.last(HOUR, 3, NOW + HOUR)] == [0, 3, 2]
    assert days(book, NOW + HOUR, 1) == [5]
    assert days(diary.note(NOW + DAY), NOW + DAY, 2) == [5, 0]


async def test_a_restart_goes_on_where_the_history_was_left() -> None:
    shelf, metrics = Shelf(), Metrics()
    diary = HistoryRecorder(metrics.tally, shelf)
    answered(metrics, 4)
    await diary.save(NOW)

    after = Metrics()  # a new process counts from zero
    diary = HistoryRecorder(after.tally, shelf)
    answered(after, 1)
    await diary.save(NOW + 60)

    assert days(diary.book, NOW + 60, 1) == [5]


async def test_the_first_worker_goes_on_with_the_books_of_workers_that_are_no_more() -> None:
    shelf = Shelf()
    for index in range(3):
        metrics = Metrics()
        diary = HistoryRecorder(metrics.tally, shelf, index, 3)
        answered(metrics, 10**index)
        await diary.save(NOW)

    books = []
    for _ in range(2):  # once more: what was taken over is not taken over again
        first, second = (HistoryRecorder(Metrics().tally, shelf, index, 2) for index in range(2))
        await first.save(NOW + 60)
        books = [first.book, second.book]

    assert days(history.merge_histories(books), NOW, 1) == [111]


async def test_a_kept_history_that_makes_no_sense_begins_anew() -> None:
    shelf = Shelf()
    for data in (b"{}", b"[]", b"\xff", b'{"hours":{},"days":{"1":[-4]}}', b'{"hours":[1],"days":{}}'):
        shelf.kept["history-0"] = data
        assert HistoryRecorder(Metrics().tally, shelf).book.days == {}
        with pytest.raises(StoreError):
            history.load_history(data)


def test_what_is_written_can_be_read_back_and_is_bounded() -> None:
    book = History()
    for day in range(1000):
        book.add(TrafficCounts(requests=day + 1, hits=1), NOW + day * DAY)

    assert len(book.days) == history.DAYS_MAX
    assert len(book.hours) <= history.HOURS_MAX
    again = history.load_history(book.dump())
    assert (again.days, again.hours) == (book.days, book.hours)
    assert len(book.dump()) < 30_000


def test_bytes_spared_are_those_that_origins_did_not_send_and_streams_spare_none() -> None:
    metrics = Metrics()
    answered(metrics, 9, size=1000)
    metrics.answered("gateway", 200, CacheStatus(fwd=Fwd.URI_MISS), 1000, 0.1)
    metrics.answered("proxy", 200, CacheStatus(fwd=Fwd.METHOD, detail=Detail.PASS_THROUGH), 7_000_000, 0.1)
    metrics.fetched(TARGET, 200, "", 5000, 0.1, received=800)
    metrics.fetched(TARGET, 304, "", 5000, 0.1)

    tally = metrics.tally()

    assert (tally.requests, tally.hits, tally.passed, tally.fetches) == (10, 9, 1, 2)
    assert (tally.sent, tally.received, tally.bytes_spared, tally.spared) == (10_000, 800, 9200, 8)
    assert tally.hit_share == 0.9
    assert NO_TRAFFIC.hit_share is None
