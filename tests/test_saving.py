"""Saving of the counts while the removal of readers outside the window is slow or fails."""

import asyncio
from typing import Any

import pytest

from feedproxy.app import App
from feedproxy.clock import ManualClock
from feedproxy.telemetry import traffic_history
from tests.waiting import PATIENCE


@pytest.mark.parametrize("failing", [False, True])
async def test_counts_are_saved_while_their_sweep_is_slow_or_fails(
    failing: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sleep, sweeps, saved = asyncio.sleep, 0, asyncio.Event()

    async def skip_intervals(seconds: float, result: Any = None) -> Any:
        return await sleep(0.001 if seconds >= traffic_history.SAVE_INTERVAL else seconds, result)

    async def sweep(now: float) -> None:
        nonlocal sweeps
        sweeps += 1
        if failing:
            raise ValueError("no sweep")
        await asyncio.Event().wait()

    async def put_state(name: str, data: bytes) -> None:
        if name == "rhythms" and sweeps > failing:
            saved.set()

    monkeypatch.setattr(asyncio, "sleep", skip_intervals)
    app = App(ManualClock(1_800_000_000))
    app.configure({"admin": "", "store": "memory:"})
    app.ready = True
    services = app.parts
    monkeypatch.setattr(services.counts, "sweep", sweep)
    monkeypatch.setattr(services.store, "put_state", put_state)
    try:
        await asyncio.wait_for(saved.wait(), PATIENCE)
    finally:
        await app.close()

    assert ("no sweep" in caplog.text) == failing
