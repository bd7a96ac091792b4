"""The history by hour and day: it survives restarts and counts each request once."""

import json
from collections.abc import Callable
from typing import cast

import pytest

from feedproxy.cache.cache_status import CacheStatus, Detail, Fwd
from feedproxy.clock import DAY, HOUR
from feedproxy.store.interface import Store
from feedproxy.telemetry import traffic_history
from feedproxy.telemetry.metrics import Metrics
from feedproxy.telemetry.traffic_history import NO_TRAFFIC, History, HistoryRecorder, TrafficCounts
from tests.stages.admin import NOW


class StateStore:
    """A store of state in memory."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def get_state(self, name: str) -> bytes | None:
        return self.values.get(name)

    async def put_state(self, name: str, data: bytes) -> None:
        self.values[name] = data


def a_recorder(count: Callable[[], TrafficCounts], store: StateStore, index: int = 0, size: int = 1) -> HistoryRecorder:
    return HistoryRecorder(count, cast(Store, store), index, size)


def count_hits(metrics: Metrics, count: int, *, size: int = 100) -> None:
    for _ in range(count):
        metrics.count_response("gateway", 200, CacheStatus(hit=True), size, 0.001)


def days(result: History, now: float, count: int = 3) -> list[int]:
    return [tally.requests for _, tally in result.last(DAY, count, now)]


def test_recorder_adds_growth_to_the_current_hour_and_day() -> None:
    metrics = Metrics()
    recorder = a_recorder(metrics.tally, StateStore())

    count_hits(metrics, 3)
    recorder.record(NOW)
    count_hits(metrics, 2)
    result = recorder.record(NOW + HOUR)

    assert [tally.requests for _, tally in result.last(HOUR, 3, NOW + HOUR)] == [0, 3, 2]
    assert days(result, NOW + HOUR, 1) == [5]
    assert days(recorder.record(NOW + DAY), NOW + DAY, 2) == [5, 0]


async def test_recorder_continues_the_stored_history_after_a_restart() -> None:
    store, metrics = StateStore(), Metrics()
    recorder = a_recorder(metrics.tally, store)
    count_hits(metrics, 4)
    await recorder.save(NOW)

    after = Metrics()  # counters of a new process begin at zero
    recorder = a_recorder(after.tally, store)
    count_hits(after, 1)
    await recorder.save(NOW + 60)

    assert days(recorder.history, NOW + 60, 1) == [5]


async def test_recorder_of_first_worker_adopts_histories_of_former_workers_once() -> None:
    store = StateStore()
    for index in range(3):
        metrics = Metrics()
        recorder = a_recorder(metrics.tally, store, index, 3)
        count_hits(metrics, 10**index)
        await recorder.save(NOW)

    histories = []
    for _ in range(2):  # the second start adopts nothing
        first, second = (a_recorder(Metrics().tally, store, index, 2) for index in range(2))
        await first.save(NOW + 60)
        histories = [first.history, second.history]

    assert days(traffic_history.merge_histories(histories), NOW, 1) == [111]


async def test_recorder_begins_a_new_history_if_the_stored_one_is_invalid() -> None:
    store = StateStore()
    for data in (b"{}", b"[]", b"\xff", b'{"hours":{},"days":{"1":[-4]}}', b'{"hours":[1],"days":{}}'):
        store.values["history-0"] = data
        assert a_recorder(Metrics().tally, store).history.days == {}


def test_history_is_bounded_and_survives_storing() -> None:
    result = History()
    for day in range(1000):
        result.add(TrafficCounts(requests=day + 1, hits=1), NOW + day * DAY)

    assert len(result.days) == traffic_history.DAYS_MAX
    assert len(result.hours) <= traffic_history.HOURS_MAX
    stored = json.dumps(result.plain(), separators=(",", ":"))
    loaded = traffic_history.parse_history(json.loads(stored))
    assert (loaded.days, loaded.hours) == (result.days, result.hours)
    assert len(stored) < 30_000


def test_tally_counts_spared_bytes_without_streamed_responses() -> None:
    metrics = Metrics()
    count_hits(metrics, 9, size=1000)
    metrics.count_response("gateway", 200, CacheStatus(fwd=Fwd.URI_MISS), 1000, 0.1)
    metrics.count_response("proxy", 200, CacheStatus(fwd=Fwd.METHOD, detail=Detail.PASS_THROUGH), 7_000_000, 0.1)
    metrics.count_fetch(200, "", 5000, 0.1, received=800)
    metrics.count_fetch(304, "", 5000, 0.1)

    tally = metrics.tally()

    assert (tally.requests, tally.hits, tally.passed, tally.fetches) == (10, 9, 1, 2)
    assert (tally.sent, tally.received, tally.bytes_spared, tally.requests_saved) == (10_000, 800, 9200, 8)
    assert tally.hit_share == 0.9
    assert NO_TRAFFIC.hit_share is None


@pytest.mark.parametrize(
    ("status", "detail", "failures"),
    [
        (200, "", 0),
        (404, "", 0),
        (410, Detail.GONE, 0),
        (500, "", 1),
        (520, "", 1),
        (503, Detail.ERROR_STATUS, 1),
        (None, Detail.UNREACHABLE, 1),
    ],
)
def test_tally_counts_server_errors_as_failures_with_and_without_detail(
    status: int | None, detail: str, failures: int
) -> None:
    metrics = Metrics()

    metrics.count_fetch(status, detail, 0, 0.1)

    assert metrics.tally().failures == failures
