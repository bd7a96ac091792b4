"""Snapshots of metrics are kept after their worker ends."""

import os
from collections.abc import Iterator

import pytest

from feedproxy.workers.metrics_across_restarts import SIZE_MAX, MetricsSnapshot


@pytest.fixture
def handle() -> Iterator[int]:
    made = os.memfd_create("test")
    yield made
    os.close(made)


def test_snapshot_last_written_is_read_by_next_process(handle: int) -> None:
    assert MetricsSnapshot(handle).read() == b""
    for number in range(5):
        MetricsSnapshot(handle).write(str(number).encode() * (1000 - number))
        assert MetricsSnapshot(handle).read() == str(number).encode() * (1000 - number)


@pytest.mark.parametrize("cut", [4, 20, 500])
def test_snapshot_written_in_part_leaves_the_previous_one(
    handle: int, cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = MetricsSnapshot(handle)
    for text in (b"a", b"b", b"c"):
        snapshot.write(text * 900)
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda to, data, at: write(to, data[:cut], at))
    snapshot.write(b"d" * 900)

    assert MetricsSnapshot(handle).read() == b"c" * 900


def test_snapshot_too_large_is_not_written(handle: int) -> None:
    snapshot = MetricsSnapshot(handle)
    snapshot.write(b"small")
    snapshot.write(bytes(SIZE_MAX + 1))

    assert snapshot.read() == b"small"
