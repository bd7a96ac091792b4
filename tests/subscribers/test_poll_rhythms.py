"""Poll rhythms: polls that are expected from earlier polls of the readers."""

import math
import random
from collections.abc import Iterable

import pytest

from feedproxy.errors import StoreError
from feedproxy.subscribers.poll_rhythms import READERS_MAX, ExpectedPoll, PollRhythms
from feedproxy.subscribers.reader_pseudonyms import Pseudonym
from tests.subscribers.dumps import dumped

FEED = "https://example.com/feed.xml"
NOW = 1_795_176_000.0
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


def reader(number: int) -> Pseudonym:
    return Pseudonym(number * 0x9E3779B97F4A7C15 % 2**60, 0)


def polled(instants: Iterable[float], number: int = 1, rhythms: PollRhythms | None = None) -> PollRhythms:
    rhythms = PollRhythms() if rhythms is None else rhythms
    for instant in instants:
        rhythms.record(FEED, reader(number), instant)
    return rhythms


def expected(rhythms: PollRhythms, now: float = NOW, ahead: float = 6 * HOUR, readers: int = 0) -> list[ExpectedPoll]:
    return rhythms.expected_polls(FEED, now, now + ahead, readers=readers)


def weight_between(polls: list[ExpectedPoll], begin: float, end: float) -> float:
    return sum(poll.weight for poll in polls if begin <= poll.at <= end)


def test_no_poll_is_expected_after_a_single_poll() -> None:
    assert expected(polled([NOW])) == []


def test_no_poll_of_an_unknown_feed_is_expected() -> None:
    assert expected(PollRhythms()) == []


@pytest.mark.parametrize("interval", [15 * MINUTE, HOUR, 3 * HOUR])
def test_regular_reader_is_expected_one_interval_after_its_last_poll(interval: float) -> None:
    rhythms = polled(NOW - number * interval for number in (3, 2, 1, 0))
    first = expected(rhythms)[0]
    assert first.at == pytest.approx(NOW + interval, abs=1)
    assert weight_between(expected(rhythms), NOW, NOW + 1.2 * interval) > 0.8


def test_reader_on_the_hour_is_expected_on_the_hour() -> None:
    rhythms = polled(NOW - number * HOUR + number % 2 for number in (5, 4, 3, 2, 1, 0))
    assert all(abs((poll.at - NOW + HOUR / 2) % HOUR - HOUR / 2) < 10 for poll in expected(rhythms, ahead=4 * HOUR))


def test_irregular_reader_is_expected_at_and_around_its_last_intervals() -> None:
    at, instants = NOW, [NOW]
    for gap in (40, 55, 35, 50, 45):
        at -= gap * MINUTE
        instants.append(at)
    polls = expected(polled(reversed(instants)), ahead=HOUR)
    assert sorted(round((poll.at - NOW) / MINUTE) for poll in polls) == [25, 35, 40, 45, 50, 55, 65]
    assert sum(poll.weight for poll in polls) <= 1


def test_reader_that_is_overdue_is_expected_with_less_weight() -> None:
    rhythms = polled(NOW - number * HOUR for number in (3, 2, 1, 0))
    in_time = weight_between(expected(rhythms), NOW, NOW + 1.5 * HOUR)
    missed = weight_between(expected(rhythms, NOW + 1.4 * HOUR), NOW, NOW + 2.5 * HOUR)
    assert 0 < missed < in_time


def test_reader_of_working_hours_is_expected_again_the_next_morning() -> None:
    morning = NOW - 9 * HOUR
    rhythms = polled(morning + hour * HOUR for hour in range(9))
    night = morning + 20 * HOUR
    polls = expected(rhythms, night, 12 * HOUR)
    assert weight_between(polls, night, morning + 23 * HOUR) == 0
    assert weight_between(polls, morning + DAY - HOUR, morning + DAY + HOUR) > 0.7


def test_reader_of_working_hours_has_low_weight_in_the_evening() -> None:
    morning = NOW - DAY
    rhythms = polled(morning + hour * HOUR for hour in range(9))
    polled((morning + DAY + hour * HOUR for hour in range(9)), rhythms=rhythms)
    evening = morning + DAY + 8 * HOUR
    assert weight_between(expected(rhythms, evening, 3 * HOUR), evening + 2 * HOUR, evening + 4 * HOUR) < 0.5
    assert weight_between(expected(polled([evening - HOUR, evening]), evening), evening, evening + 4 * HOUR) > 2


def test_repeated_request_is_the_same_poll() -> None:
    rhythms = polled([NOW - HOUR, NOW - HOUR + 2, NOW, NOW + 3])
    assert expected(rhythms, NOW + 3)[0].at == pytest.approx(NOW + HOUR, abs=5)


def test_reader_is_recognised_by_pseudonym_of_previous_period() -> None:
    rhythms = polled([NOW - HOUR])
    rhythms.record(FEED, Pseudonym(77, reader(1).current), NOW)
    assert rhythms.count_sampled(FEED) == 1
    assert expected(rhythms)[0].at == pytest.approx(NOW + HOUR)


def test_record_reports_unexpected_polls_only() -> None:
    rhythms = PollRhythms()
    surprises = [rhythms.record(FEED, reader(1), NOW + number * HOUR) for number in range(6)]
    assert surprises == [True, True, False, False, False, False]
    assert rhythms.record(FEED, reader(1), NOW + 5 * HOUR + 55 * MINUTE)  # five minutes early
    assert rhythms.record(FEED, reader(1), NOW + 14 * HOUR)  # a new session
    assert rhythms.record(FEED, reader(2), NOW + 14 * HOUR)  # a new reader


def test_sample_is_bounded_and_stands_for_the_readers_beyond_it() -> None:
    rhythms = PollRhythms()
    for number in range(3 * READERS_MAX):
        polled([NOW - HOUR, NOW], number, rhythms)
    assert rhythms.count_sampled(FEED) == READERS_MAX
    alone = weight_between(expected(rhythms), NOW, NOW + 1.2 * HOUR)
    together = weight_between(expected(rhythms, readers=3 * READERS_MAX), NOW, NOW + 1.2 * HOUR)
    assert together == pytest.approx(3 * alone)


def test_record_of_a_reader_is_48_bytes() -> None:
    rhythms = PollRhythms()
    empty = len(dumped(polled([NOW], rhythms=rhythms)))
    assert len(dumped(polled([NOW], 2, rhythms))) - empty == 48


def test_reader_outside_window_is_replaced() -> None:
    rhythms = PollRhythms(window=DAY)
    for number in range(READERS_MAX):
        polled([NOW - 2 * DAY, NOW - 2 * DAY + HOUR], number, rhythms)
    assert expected(rhythms) == []
    polled([NOW - HOUR, NOW], 1000, rhythms)
    assert expected(rhythms)
    rhythms.expire(FEED, NOW)
    assert rhythms.count_sampled(FEED) == 1
    rhythms.expire(FEED, NOW + 2 * DAY)
    assert len(rhythms) == 0


def test_sample_filled_by_clock_that_was_ahead_accepts_readers() -> None:
    rhythms = PollRhythms()
    for number in range(READERS_MAX + 1):  # the last one finds no place
        rhythms.record(FEED, reader(number + 1), NOW + 365 * DAY)

    assert rhythms.record(FEED, reader(READERS_MAX + 2), NOW)


def test_feeds_above_the_maximum_replace_the_least_recently_polled() -> None:
    rhythms = PollRhythms(feeds_max=2)
    for number, name in enumerate(("one", "two", "one", "three")):
        rhythms.record(name, reader(1), NOW + number * HOUR)
    assert [rhythms.count_sampled(name) for name in ("one", "two", "three")] == [1, 0, 1]


def test_readers_of_all_feeds_are_bounded_together() -> None:
    rhythms = PollRhythms(readers_max=3)
    for feed in ("one", "two"):
        for number in (1, 2):
            rhythms.record(feed, reader(number), NOW)
    assert [rhythms.count_sampled(name) for name in ("one", "two")] == [0, 2]

    loaded = PollRhythms(readers_max=1)
    loaded.load(dumped(rhythms), NOW)
    assert len(loaded) == 0


def test_next_poll_is_the_first_expected_one() -> None:
    rhythms = polled(NOW - number * HOUR for number in (3, 2, 1, 0))
    polled((NOW - number * 2 * HOUR - 300 for number in (3, 2, 1, 0)), 2, rhythms)
    assert rhythms.next_poll(FEED, NOW) == expected(rhythms)[0].at == NOW + HOUR


@pytest.mark.parametrize(
    "instants",
    [
        pytest.param([], id="no reader"),
        pytest.param([NOW], id="one poll is no rhythm"),
        pytest.param([NOW - 30 * HOUR, NOW - 29 * HOUR], id="outside the window"),
    ],
)
def test_next_poll_is_unknown_without_a_rhythm(instants: list[float]) -> None:
    assert polled(instants).next_poll(FEED, NOW) is None


def test_next_poll_is_unknown_if_one_reader_has_no_rhythm() -> None:
    rhythms = polled(NOW - number * HOUR for number in (3, 2, 1, 0))
    assert polled([NOW], 2, rhythms).next_poll(FEED, NOW) is None


def test_clock_set_back_restarts_the_rhythm() -> None:
    rhythms = polled([NOW + 5 * HOUR, NOW + 6 * HOUR])
    assert rhythms.record(FEED, reader(1), NOW)
    assert expected(rhythms) == []


def test_rhythms_survive_a_restart_and_name_no_address() -> None:
    rhythms = polled(NOW - number * HOUR for number in (3, 2, 1, 0))
    polled([NOW - 2 * HOUR, NOW - HOUR], 2, rhythms)
    after = PollRhythms()
    after.load(dumped(rhythms), NOW)
    assert expected(after) == expected(rhythms)


def test_load_treats_polls_of_the_future_as_polled_now() -> None:
    after = PollRhythms()
    after.load(dumped(polled([NOW + 4 * HOUR, NOW + 5 * HOUR])), NOW)
    assert expected(after)[0].at == pytest.approx(NOW + HOUR)


async def test_rhythms_survive_a_start_whose_clock_is_not_set() -> None:
    rhythms = polled(NOW - number * HOUR for number in (3, 2, 1, 0))
    after = PollRhythms()
    after.load(await rhythms.dump(), 0.0)
    after.record(FEED, reader(1), 60.0)
    after.expire(FEED, 60.0)
    await after.sweep(30 * DAY)

    after.record(FEED, reader(2), NOW + 60)
    rhythms.record(FEED, reader(2), NOW + 60)
    assert expected(after, NOW + 60) == expected(rhythms, NOW + 60)


@pytest.mark.parametrize("damage", ["", "magic", "short", "bit"])
def test_load_rejects_damaged_rhythms_without_change(damage: str) -> None:
    data = bytearray(dumped(polled([NOW - HOUR, NOW])))
    match damage:
        case "":
            data = bytearray()
        case "magic":
            data[7] ^= 1
        case "short":
            del data[-1]
        case _:
            data[-3] ^= 4
    rhythms = polled([NOW - HOUR, NOW])
    before = dumped(rhythms)
    with pytest.raises(StoreError):
        rhythms.load(bytes(data), NOW)
    assert dumped(rhythms) == before


@pytest.mark.parametrize("now", [0.0, NOW])
def test_load_rejects_invalid_instants_also_while_the_clock_is_not_set(now: float) -> None:
    data = dumped(polled([math.nan]))

    with pytest.raises(StoreError, match="invalid instant"):
        PollRhythms().load(data, now)


def test_expected_polls_of_reader_that_polls_every_minute_are_bounded() -> None:
    polls = expected(polled(NOW - number * MINUTE for number in (3, 2, 1, 0)), ahead=30 * HOUR)
    assert len(polls) < 100
    assert sum(poll.weight for poll in polls) == pytest.approx(0.95 * 30 * 60, rel=0.2)


def test_expected_polls_are_sorted_and_in_the_future() -> None:
    dice = random.Random(1)
    for _ in range(300):
        rhythms, at = PollRhythms(), NOW - DAY
        for number in range(dice.randrange(6)):
            at = NOW - DAY
            while at < NOW:
                rhythms.record(FEED, reader(number), at)
                at += dice.choice((90.0, 900.0, HOUR, HOUR, 9 * HOUR)) * dice.uniform(0.7, 1.3)
        polls = expected(rhythms, ahead=30 * HOUR)
        assert polls == sorted(polls)
        assert all(poll.at > NOW for poll in polls)
        assert all(poll.weight > 0 for poll in polls)
