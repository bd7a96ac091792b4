"""Properties of the price policy: its bounds, its price, and that each feed with readers is refreshed."""

import dataclasses

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from feedproxy.feed.change_rate import expected_staleness
from feedproxy.refresh.policy.expected_polls_and_price import LEAD, WAIT_PRICE, Copy, Planned, lifetime_for, plan
from feedproxy.subscribers.poll_rhythms import ExpectedPoll, PollRhythms
from feedproxy.subscribers.reader_pseudonyms import Pseudonym

NOW = 1_800_000_000.0
HOUR, DAY = 3600.0, 86_400.0

rates = st.floats(1 / (90 * DAY), 1 / 300)
prices = st.floats(1, DAY)
expected_polls = st.lists(
    st.builds(ExpectedPoll, st.floats(NOW, NOW + 30 * HOUR), st.floats(0.01, 50)), min_size=1, max_size=60
).map(sorted)


@dataclasses.dataclass(frozen=True)
class Situation:
    """A stored copy of a feed, and the polls expected for it."""

    polls: list[ExpectedPoll]
    age: float
    lifetime: float
    per_second: float

    def planned(self, price: float, *, earliest: float = NOW) -> Planned | None:
        """Return the planned refresh at this price if requests are permitted from an instant on."""
        copy = Copy(NOW - self.age, NOW - self.age + self.lifetime, lambda at: at + self.lifetime)
        permitted = lambda at: max(at, earliest)  # noqa: E731
        return plan(self.polls, NOW, copy, per_second=self.per_second, price=price, permitted=permitted)


situations = st.builds(Situation, expected_polls, st.floats(0, 2 * DAY), st.floats(300, 3 * DAY), rates)


@given(situations, prices, st.floats(0, 40 * HOUR))
def test_planned_refresh_is_never_earlier_than_permitted(situation: Situation, price: float, pause: float) -> None:
    planned = situation.planned(price, earliest=NOW + pause)

    assert planned is None or planned.at >= NOW + pause


@given(situations, prices)
def test_planned_refresh_comes_shortly_before_an_expected_poll(situation: Situation, price: float) -> None:
    planned = situation.planned(price)

    assume(planned is not None)
    assert planned is not None
    assert any(abs(planned.at - max(NOW, poll.at - LEAD)) < 1e-6 for poll in situation.polls)
    assert planned.by >= planned.at
    assert planned.readers > 0


@given(situations, prices, st.floats(1, 100))
def test_refresh_rejected_at_one_price_is_rejected_at_higher_ones(
    situation: Situation, price: float, factor: float
) -> None:
    """This holds while the copy is usable.

    A poll after that costs a wait, and the price of a wait grows with the price.
    """
    lasting = dataclasses.replace(situation, lifetime=situation.age + 60 * DAY)

    if lasting.planned(price) is None:
        assert lasting.planned(factor * price) is None


@given(situations, prices)
def test_refresh_that_saves_no_wait_saves_more_staleness_than_its_price(situation: Situation, price: float) -> None:
    lasting = dataclasses.replace(situation, lifetime=situation.age + 60 * DAY)

    planned = lasting.planned(price)

    assert planned is None or planned.worth >= price * (1 - 1e-6)


@given(rates, prices, st.floats(1, 100), st.booleans())
def test_lifetime_grows_with_the_price_within_its_bounds(
    per_second: float, price: float, factor: float, is_expected: bool
) -> None:
    lower, higher = (
        lifetime_for(per_second, each, minimum=300, maximum=DAY, is_expected=is_expected)
        for each in (price, factor * price)
    )

    assert 300 <= lower <= higher <= DAY


@given(rates, prices)
def test_lifetime_ends_when_expected_staleness_equals_the_price_of_a_request_and_a_wait(
    per_second: float, price: float
) -> None:
    lifetime = lifetime_for(per_second, price, minimum=1, maximum=3650 * DAY)

    assume(1 < lifetime < 3650 * DAY)
    assert expected_staleness(per_second, lifetime) == pytest.approx((1 + WAIT_PRICE) * price, rel=0.01)


@given(
    gaps=st.lists(st.floats(300, 12 * HOUR), min_size=8, max_size=30),
    per_second=rates,
    price=prices,
    lifetime_max=st.floats(HOUR, 2 * DAY),
)
def test_feed_with_readers_is_refreshed_within_its_longest_lifetime(
    gaps: list[float], per_second: float, price: float, lifetime_max: float
) -> None:
    """No poll is answered with an older copy, whatever was planned."""
    rhythms, reader, now = PollRhythms(), Pseudonym(1, 1), NOW
    lifetime = lifetime_for(per_second, price, minimum=300, maximum=lifetime_max)
    fetched, due = now, None
    for gap in gaps:
        while due is not None and due <= now + gap:
            assert due >= fetched
            fetched = due
            due = _due(rhythms, due, fetched, lifetime, per_second, price)
        now += gap
        if now >= fetched + lifetime:
            fetched = now
        assert now - fetched <= lifetime_max
        rhythms.record("feed", reader, now)
        due = _due(rhythms, now, fetched, lifetime, per_second, price)


def _due(
    rhythms: PollRhythms, now: float, fetched: float, lifetime: float, per_second: float, price: float
) -> float | None:
    planned = plan(
        rhythms.expected_polls("feed", now, now + 30 * HOUR),
        now,
        Copy(fetched, fetched + lifetime, lambda at: at + lifetime),
        per_second=per_second,
        price=price,
        permitted=lambda at: max(at, fetched + 60),
    )
    return planned.at if planned is not None else None
