"""The write pacer yields the CPU every half millisecond."""

import pytest

from feedproxy.store.writer_thread_pauses import PAUSE_MIN, WritePacer


@pytest.fixture
def rested(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the list of pauses, in seconds. Only pauses and the test advance the clock."""
    rests = list[float]()

    def rest(seconds: float) -> None:
        rests.append(seconds)
        go_on(seconds)

    monkeypatch.setattr("feedproxy.store.writer_thread_pauses.time.perf_counter", lambda: NOW[0])
    monkeypatch.setattr("feedproxy.store.writer_thread_pauses.time.sleep", rest)
    return rests


NOW = [0.0]


def go_on(seconds: float) -> None:
    NOW[0] += seconds


def test_write_pacer_does_not_sleep_within_a_slice(rested: list[float]) -> None:
    turns = WritePacer()
    go_on(PAUSE_MIN * 0.9)
    turns.pause()

    assert not rested


def test_write_pacer_sleeps_as_long_as_a_slice(rested: list[float]) -> None:
    turns = WritePacer()
    for _ in range(10):
        go_on(PAUSE_MIN * 0.6)
        turns.pause()

    assert rested == [PAUSE_MIN] * 5
