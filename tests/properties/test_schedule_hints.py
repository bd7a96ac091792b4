"""Properties of every schedule at every instant."""

import math
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from feedproxy.clock import Instant
from feedproxy.feed.channel import Period, Schedule
from feedproxy.feed.schedule_hints import HintExpiry, hint_expiry, is_skipped, next_update

HOUR = 3600.0
DAY = 24 * HOUR
INSTANTS = st.floats(min_value=0, max_value=4_000_000_000, allow_nan=False)
AGES = st.floats(min_value=0, max_value=20 * DAY, allow_nan=False)
CAPS = st.floats(min_value=60, max_value=4 * DAY, allow_nan=False)
SKIPS = {
    "skip_hours": st.frozensets(st.integers(0, 23), max_size=23),
    "skip_days": st.frozensets(st.integers(0, 6), max_size=6),
}
SKIPPING = st.builds(Schedule, **SKIPS)
SCHEDULES = st.builds(
    Schedule,
    ttl=st.none() | st.integers(1, 10**9),
    period=st.none() | st.sampled_from(list(Period)),
    frequency=st.integers(1, 10_000),
    base=st.none() | st.floats(min_value=-2e9, max_value=7e9, allow_nan=False),
    interval=st.none() | st.floats(min_value=1, max_value=1e7, allow_nan=False),
    finished=st.booleans(),
    **SKIPS,
)
EXPIRY = st.none() | st.floats(min_value=-DAY, max_value=10 * DAY, allow_nan=False)


@dataclass(frozen=True, slots=True)
class Situation:
    """A copy received at `base`. `expiry` and `age` are relative to it, in seconds."""

    schedule: Schedule
    base: Instant
    expiry: float | None
    age: float
    hint_max: float
    skip_max: float

    @property
    def now(self) -> Instant:
        return self.base + self.age

    @property
    def expires(self) -> Instant | None:
        return None if self.expiry is None else self.base + self.expiry

    def held(self) -> HintExpiry | None:
        return hint_expiry(
            self.schedule,
            base=self.base,
            expires=self.expires,
            now=self.now,
            hint_max=self.hint_max,
            skip_max=self.skip_max,
        )


SITUATIONS = st.builds(
    Situation, schedule=SCHEDULES, base=INSTANTS, expiry=EXPIRY, age=AGES, hint_max=CAPS, skip_max=CAPS
)


def beginning_of_stretch(schedule: Schedule, instant: Instant) -> Instant:
    start = math.floor(instant / HOUR) * HOUR
    while is_skipped(schedule, start - 1):
        start -= HOUR
    return start


@given(SITUATIONS)
def test_poll_is_never_in_a_skipped_hour(copy: Situation) -> None:
    found = copy.held()

    next_poll = max(copy.now, found.until) if found else copy.now

    if copy.expires is not None and copy.expires > next_poll:
        return  # HTTP's own lifetime continues
    if is_skipped(copy.schedule, next_poll):
        assert next_poll >= beginning_of_stretch(copy.schedule, next_poll) + copy.skip_max - 1e-3


@given(SITUATIONS)
def test_allowance_never_ends_before_its_hint(copy: Situation) -> None:
    found = copy.held()
    until = found.until if found else copy.base if copy.expires is None else copy.expires

    if copy.schedule.ttl is not None:
        assert until >= copy.base + min(60 * copy.schedule.ttl, copy.hint_max)
    if copy.schedule.interval is not None:
        assert until >= copy.base + min(copy.schedule.interval, copy.hint_max)
    if (update := next_update(copy.schedule, copy.base)) is not None:
        assert until >= min(update, copy.base + copy.hint_max)


@given(SITUATIONS)
def test_allowance_never_exceeds_its_limits(copy: Situation) -> None:
    found = copy.held()

    if found:
        hinted = max(copy.base + copy.hint_max, copy.base + (copy.expiry or 0), copy.now)
        assert found.until <= hinted + copy.skip_max


@given(SITUATIONS)
def test_allowance_is_longer_than_the_http_lifetime(copy: Situation) -> None:
    found = copy.held()

    if found and copy.expires is not None:
        assert found.until > copy.expires


@given(SKIPPING, INSTANTS)
def test_skipped_period_ends_on_the_hour_at_an_instant_that_is_not_skipped(
    schedule: Schedule, instant: Instant
) -> None:
    found = hint_expiry(schedule, base=instant, expires=None, now=instant, hint_max=DAY, skip_max=10 * DAY)

    assert (found is not None) == is_skipped(schedule, instant)
    if found is not None:
        assert found.until > instant
        assert found.until % HOUR == 0
        assert not is_skipped(schedule, found.until)
        assert is_skipped(schedule, found.until - 1)


@given(SKIPPING, INSTANTS)
def test_every_week_has_an_hour_that_is_not_skipped(schedule: Schedule, instant: Instant) -> None:
    assert any(not is_skipped(schedule, instant + hour * HOUR) for hour in range(7 * 24))


@given(SCHEDULES, INSTANTS)
def test_next_update_is_in_the_future_and_within_its_period(schedule: Schedule, after: Instant) -> None:
    update = next_update(schedule, after)

    longest = {"hourly": HOUR, "daily": DAY, "weekly": 7 * DAY, "monthly": 31 * DAY, "yearly": 366 * DAY}
    if schedule.period is None:
        assert update is None
    else:
        assert update is not None
        assert after < update <= after + longest[schedule.period] + 1e-3
