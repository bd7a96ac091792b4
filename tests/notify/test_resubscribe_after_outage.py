"""After an outage, registrations with hubs and clouds are renewed, because they may have been dropped."""

from feedproxy.cache.cache_status import Detail
from feedproxy.notify.resubscribe_after_outage import OUTAGE_MIN, Outages
from feedproxy.store.resource import Failures, Resource

ANSWERED = Resource("http://a.example/feed")
UNREACHABLE = Resource("http://a.example/feed", failures=Failures(3, 0.0, 0.0, Detail.UNREACHABLE))
BROKEN = Resource("http://a.example/feed", failures=Failures(3, 0.0, 0.0, Detail.ERROR_STATUS))


def test_outage_ends_at_first_tick_and_after_gap() -> None:
    outages = Outages()

    assert [outages.record_tick(now) for now in (100.0, 105.0, 106.0 + OUTAGE_MIN, 111.0 + OUTAGE_MIN)] == [
        True,
        False,
        True,
        False,
    ]


def test_outage_is_not_caused_by_clock_set_back() -> None:
    outages = Outages()
    outages.record_tick(10_000.0)

    assert outages.record_tick(5_000.0) is False


def test_outage_of_network_ends_at_first_response() -> None:
    outages = Outages()

    assert outages.record_refresh(ANSWERED, 0.0) is False
    assert outages.record_refresh(UNREACHABLE, 10.0) is False
    assert outages.record_refresh(UNREACHABLE, 10.0 + OUTAGE_MIN) is False
    assert outages.record_refresh(ANSWERED, 20.0 + OUTAGE_MIN) is True
    assert outages.record_refresh(ANSWERED, 21.0 + OUTAGE_MIN) is False


def test_outage_is_not_caused_by_single_origin() -> None:
    outages = Outages()

    for minute in range(60):
        assert outages.record_refresh(UNREACHABLE, minute * 60.0) is False
        assert outages.record_refresh(ANSWERED, minute * 60.0 + 30) is False


def test_outage_ends_at_error_response() -> None:
    outages = Outages()
    outages.record_refresh(UNREACHABLE, 0.0)

    assert outages.record_refresh(BROKEN, 10.0) is False
    assert outages.record_refresh(UNREACHABLE, OUTAGE_MIN) is False
    assert outages.record_refresh(ANSWERED, OUTAGE_MIN + 20.0) is False
