"""Signals call their subscribers in order until these unsubscribe."""

from feedproxy.event_signal import Signal


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
