"""Signals call their subscribers in order until these unsubscribe."""

import pytest

from feedproxy.errors import StoreError
from feedproxy.event_signal import AsyncSignal, Signal


def test_signal_calls_subscribers_in_their_order() -> None:
    signal, calls = Signal[str](), list[str]()
    signal.subscribe(lambda event: calls.append(f"first {event}"))
    signal.subscribe(lambda event: calls.append(f"second {event}"))

    signal.emit("event")

    assert calls == ["first event", "second event"]


def test_signal_calls_no_subscriber_after_it_unsubscribed() -> None:
    signal, calls = Signal[str](), list[str]()
    signal.subscribe(calls.append)

    signal.unsubscribe(calls.append)
    signal.unsubscribe(calls.append)
    signal.emit("event")

    assert not calls


def test_signal_calls_all_subscribers_though_one_unsubscribes_meanwhile() -> None:
    signal, calls = Signal[str](), list[str]()

    def once(event: str) -> None:
        signal.unsubscribe(once)

    signal.subscribe(once)
    signal.subscribe(calls.append)

    signal.emit("event")

    assert calls == ["event"]


def test_signal_calls_all_subscribers_though_one_fails_and_logs_the_failure_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    signal, calls = Signal[str](), list[str]()

    def failing(event: str) -> None:
        raise RuntimeError("no space in the table of metrics")

    signal.subscribe(failing)
    signal.subscribe(calls.append)

    signal.emit("first")
    signal.emit("second")

    assert calls == ["first", "second"]
    assert len(caplog.records) == 1
    assert "failing failed" in caplog.text
    assert "no space in the table of metrics" in caplog.text


async def test_async_signal_awaits_all_subscribers_though_one_fails(caplog: pytest.LogCaptureFixture) -> None:
    signal, calls = AsyncSignal(), list[str]()

    async def failing() -> None:
        raise RuntimeError("an unknown hub")

    async def without_database() -> None:
        raise StoreError("the database is locked")

    async def working() -> None:
        calls.append("done")

    for subscriber in (failing, without_database, working):
        signal.subscribe(subscriber)

    with pytest.raises(StoreError, match="locked"):
        await signal.emit()

    assert calls == ["done"]
    assert "an unknown hub" in caplog.text
    assert "locked" not in caplog.text
