"""Properties of refresh plans: lowest cost, limits, and service for every reader."""

import itertools
import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedproxy.feed.change_rate import expected_staleness
from feedproxy.feed.channel import Schedule
from feedproxy.feed.schedule_hints import is_skipped, next_unskipped
from feedproxy.refresh.policy.expected_polls_and_price import (
    CLUSTERS_MAX,
    LEAD,
    RENEWED,
    WAIT_PRICE,
    Copy,
    Planned,
    lifetime_for,
    margin,
    plan,
)
from feedproxy.subscribers.poll_rhythms import ExpectedPoll, PollRhythms
from feedproxy.subscribers.reader_pseudonyms import Pseudonym

NOW = 1_795_176_000.0
HOUR, DAY = 3600.0, 86_400.0
RATES = st.floats(min_value=1e-7, max_value=1e-2)
PRICES = st.floats(min_value=1.0, max_value=DAY)
POLLS = st.lists(
    st.tuples(st.floats(min_value=1, max_value=DAY), st.floats(min_value=0.05, max_value=20)), max_size=24
).map(lambda found: [ExpectedPoll(NOW + ahead, weight) for ahead, weight in sorted(found)])


def a_copy(refreshed: float, expires: float, lifetime: float) -> Copy:
    """Return a copy refreshed at `refreshed`, whose successors each have this lifetime."""
    return Copy(refreshed, expires, lambda at: at + lifetime)


COPIES = st.builds(
    lambda age, left, lifetime: a_copy(NOW - age, NOW + left, lifetime),
    st.floats(min_value=0, max_value=2 * DAY),
    st.floats(min_value=-DAY, max_value=DAY),
    st.floats(min_value=60, max_value=DAY),
)


def without_delay(at: float) -> float:
    return at


def planned(
    polls: list[ExpectedPoll],
    copy: Copy,
    rate: float,
    price: float,
    permitted: Callable[[float], float] = without_delay,
) -> Planned | None:
    return plan(polls, NOW, copy, per_second=rate, price=price, permitted=permitted)


def apart(count: int, dice: random.Random) -> list[ExpectedPoll]:
    """Return polls so far apart that each is a cluster of its own."""
    ahead, polls = 0.0, []
    for _ in range(count):
        ahead += max(100.0, 0.11 * ahead) * dice.uniform(1, 5)
        polls.append(ExpectedPoll(NOW + ahead, dice.uniform(0.1, 5)))
    return polls


def cost(polls: list[ExpectedPoll], before: tuple[int, ...], copy: Copy, rate: float, price: float) -> float:
    """Return the cost of the plan with refreshes before these polls, computed step by step.

    After a copy has expired, the first poll that comes renews it. A poll of weight 0.4 comes with that probability, so
    that the next poll renews the copy with the probability that remains.
    """
    spent, refreshed, expires, not_renewed = 0.0, copy.refreshed, copy.expires, 0.0
    for number, (at, weight) in enumerate(polls):
        if number in before:
            refreshed, not_renewed = max(NOW, at - LEAD), 0.0
            expires = copy.until(refreshed)
            spent += price
        if not not_renewed and at >= expires - margin(refreshed, expires):
            not_renewed = 1.0
        if not not_renewed:
            spent += weight * expected_staleness(rate, at - refreshed)
            continue
        share = min(weight, not_renewed)
        spent += share * (1 + WAIT_PRICE) * price
        not_renewed -= share
        if not_renewed < RENEWED:
            refreshed, expires, not_renewed = at, copy.until(at), 0.0
    return spent


def cheapest(polls: list[ExpectedPoll], copy: Copy, rate: float, price: float) -> tuple[float, tuple[int, ...]]:
    """Return the cheapest plan, found by trying each."""
    plans = itertools.chain.from_iterable(
        itertools.combinations(range(len(polls)), count) for count in range(len(polls) + 1)
    )
    return min((cost(polls, before, copy, rate, price), before) for before in plans)


@given(st.integers(0, 2**32), RATES, PRICES, COPIES)
def test_plan_has_the_lowest_cost_of_all_plans(seed: int, rate: float, price: float, copy: Copy) -> None:
    polls = apart(7, random.Random(seed))
    least, _ = cheapest(polls, copy, rate, price)
    found = planned(polls, copy, rate, price)
    if found is None:
        assert cost(polls, (), copy, rate, price) == pytest.approx(least)
        return
    first = next(number for number, poll in enumerate(polls) if max(NOW, poll.at - LEAD) == found.at)
    others = range(first + 1, len(polls))
    rests = itertools.chain.from_iterable(itertools.combinations(others, count) for count in range(len(others) + 1))
    assert min(cost(polls, (first, *rest), copy, rate, price) for rest in rests) == pytest.approx(least)


@given(st.integers(0, 2**32), RATES, PRICES, st.floats(1.01, 50), COPIES)
def test_higher_price_never_plans_more_requests(
    seed: int, rate: float, price: float, dearer: float, copy: Copy
) -> None:
    def requests(price: float) -> float:
        """Return the number of requests in the cheapest plan: planned refreshes, and those that waiting readers
        cause."""
        return (cost(polls, cheapest(polls, copy, rate, price)[1], copy, rate, price) - stale(price)) / price

    def stale(price: float) -> float:
        before = cheapest(polls, copy, rate, price)[1]
        return cost(polls, before, copy, rate, price) - _priced(polls, before, copy, price)

    polls = apart(6, random.Random(seed))
    assert requests(price * dearer) <= requests(price) + 1e-6


def _priced(polls: list[ExpectedPoll], before: tuple[int, ...], copy: Copy, price: float) -> float:
    return cost(polls, before, copy, 1e-30, price)


@given(POLLS, COPIES, RATES, PRICES)
def test_refresh_saves_more_staleness_than_its_price_or_saves_a_reader_the_wait(
    polls: list[ExpectedPoll], copy: Copy, rate: float, price: float
) -> None:
    found = planned(polls, copy, rate, price)
    if found is not None and not found.anticipates:
        assert found.worth >= price * 0.999


@given(POLLS, COPIES, RATES, PRICES)
def test_refresh_comes_shortly_before_an_expected_poll(
    polls: list[ExpectedPoll], copy: Copy, rate: float, price: float
) -> None:
    found = planned(polls, copy, rate, price)
    if found is not None:
        assert any(found.at == max(NOW, poll.at - LEAD) for poll in polls)
        assert found.at <= found.by
        assert found.readers > 0


@given(POLLS, COPIES, RATES, PRICES, st.floats(0, DAY))
def test_refresh_is_never_before_it_is_permitted(
    polls: list[ExpectedPoll], copy: Copy, rate: float, price: float, pause: float
) -> None:
    found = planned(polls, copy, rate, price, lambda at: max(at, NOW + pause))
    assert found is None or found.at >= NOW + pause


@given(
    POLLS,
    COPIES,
    RATES,
    PRICES,
    st.frozensets(st.integers(0, 23), max_size=23),
    st.frozensets(st.integers(0, 6), max_size=6),
)
def test_refresh_is_never_in_a_skipped_hour(
    polls: list[ExpectedPoll],
    copy: Copy,
    rate: float,
    price: float,
    hours: frozenset[int],
    days: frozenset[int],
) -> None:
    schedule = Schedule(skip_hours=hours, skip_days=days)
    found = planned(polls, copy, rate, price, lambda at: next_unskipped(schedule, at))
    assert found is None or not is_skipped(schedule, found.at)


def test_without_expected_polls_no_refresh_is_planned() -> None:
    assert planned([], a_copy(NOW - 30 * DAY, NOW - 29 * DAY, DAY), 1 / HOUR, 1.0) is None


def test_likely_poll_is_anticipated_if_the_copy_cannot_answer_it() -> None:
    found = planned([ExpectedPoll(NOW + HOUR, 0.9)], a_copy(NOW, NOW + 300, 300), 1e-7, 1800)
    assert found is not None
    assert (found.at, found.anticipates) == (NOW + HOUR - LEAD, True)


def test_unlikely_poll_is_not_anticipated() -> None:
    assert planned([ExpectedPoll(NOW + HOUR, 0.3)], a_copy(NOW, NOW + 300, 300), 1e-7, 1800) is None


def test_polls_on_the_hour_share_one_refresh() -> None:
    polls = [ExpectedPoll(NOW + HOUR + second, 0.9) for second in range(0, 60, 5)]
    found = planned(polls, a_copy(NOW, NOW + DAY, DAY), 1 / HOUR, 1800)
    assert found is not None
    assert found.at == NOW + HOUR - LEAD
    assert found.readers == pytest.approx(0.9 * 12)


def test_number_of_evaluated_refreshes_is_bounded_for_any_number_of_polls() -> None:
    counted = 0

    def permitted(at: float) -> float:
        nonlocal counted
        counted += 1
        return at

    planned(
        [ExpectedPoll(NOW + 10 * number, 1.0) for number in range(10_000)], a_copy(NOW, NOW, 60), 1e-3, 60, permitted
    )
    assert counted <= CLUSTERS_MAX


@given(RATES, PRICES, st.floats(1, 3600), st.floats(1, 100))
def test_lifetime_is_within_its_bounds_and_grows_with_the_price(
    rate: float, price: float, minimum: float, times: float
) -> None:
    lifetime = lifetime_for(rate, price, minimum=minimum, maximum=DAY)
    assert minimum <= lifetime <= DAY
    assert lifetime <= lifetime_for(rate, price * times, minimum=minimum, maximum=DAY) * (1 + 1e-6)
    assert lifetime >= lifetime_for(rate * times, price, minimum=minimum, maximum=DAY) * (1 - 1e-6)


@pytest.mark.parametrize("price", [10.0, 1800.0, 1e9])
@pytest.mark.parametrize("gap", [HOUR, 90 * DAY])
def test_feed_with_readers_is_refreshed_within_lifetime_max(price: float, gap: float) -> None:
    lifetime_max, dice = 6 * HOUR, random.Random(3)
    rhythms, refreshed, due, waited = PollRhythms(), NOW, math.inf, 0
    for number in range(400):
        now = NOW + (number + dice.uniform(0, 0.02)) * HOUR
        while due <= now:
            refreshed, due = due, math.inf
        rhythms.record("", Pseudonym(1, 1), now)
        if now - refreshed > lifetime_for(1 / gap, price, minimum=300, maximum=lifetime_max):
            refreshed = now
            waited += 1
        assert now - refreshed <= lifetime_max
        lifetime = lifetime_for(1 / gap, price, minimum=300, maximum=lifetime_max)
        found = plan(
            rhythms.expected_polls("", now, now + DAY),
            now,
            a_copy(refreshed, refreshed + lifetime, lifetime),
            per_second=1 / gap,
            price=price,
            permitted=without_delay,
        )
        due = found.at if found is not None else math.inf
    assert waited <= 4  # before the rhythm is known, and when a poll is later than expected
