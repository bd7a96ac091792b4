"""The poll rhythms of readers are known on all machines."""

import pytest

from feedproxy.fleet.redis_operations import RedisOperations
from feedproxy.fleet.shared_polls import POLLS_MAX, SharedPolls, parse_polls
from feedproxy.subscribers.poll_rhythms import PollRhythms
from feedproxy.subscribers.reader_pseudonyms import Pseudonym
from tests.fleet.conftest import Start
from tests.fleet.machines import Machine, until

TARGET = "https://example.com/feed"
HOUR = 3600.0
READER = Pseudonym(11, 12, 13)


async def test_fleet_rhythm_of_a_reader_is_known_on_all_machines(start: Start) -> None:
    one, other = await start(), await start()
    now = one.app.clock.now()

    for ago in (3, 2, 1, 0):
        one.service.counts.record_read(TARGET, READER, "reader/1", now - ago * HOUR)

    next_poll = await until(lambda: next_poll_at(other))
    assert next_poll == pytest.approx(now + HOUR, abs=1)
    assert other.service.counts.view(TARGET, now).total == 0  # machines exchange their counts through Redis


async def test_fleet_reader_that_alternates_between_machines_has_one_rhythm_on_each(start: Start) -> None:
    machines = await start(), await start()
    now = machines[0].app.clock.now()

    for number in range(4):
        asked, other = machines[number % 2], machines[1 - number % 2]
        at = now - (3 - number) * HOUR
        asked.service.counts.record_read(TARGET, READER, "reader/1", at)
        known, is_rhythm = other.service.counts.rhythms, number > 0

        def is_known(known: PollRhythms = known, at: float = at, is_rhythm: bool = is_rhythm) -> bool:
            return known.count_regular(TARGET, at - 1) == is_rhythm

        await until(is_known)

    for machine in machines:
        assert machine.service.counts.rhythms.count_sampled(TARGET) == 1
        assert next_poll_at(machine) == pytest.approx(now + HOUR, abs=1)


def next_poll_at(machine: Machine) -> float | None:
    return machine.service.counts.rhythms.next_poll(TARGET, machine.app.clock.now())


class FakeRedis(RedisOperations):
    """Records the events. `connection` tells whether Redis is available."""

    def __init__(self, up: bool) -> None:
        self.connection = self  # type: ignore[assignment]
        self.up = up
        self.events: list[list[object]] = []

    async def publish_unlogged(self, kind: str, target: str, payload: object = None) -> None:
        assert isinstance(payload, tuple)
        self.events.append(list(payload))


async def test_shared_polls_of_a_second_are_bounded() -> None:
    redis = FakeRedis(up=True)
    polls = SharedPolls(redis)
    for number in range(POLLS_MAX + 1000):
        polls.note((f"https://{number}.example/feed", READER, "reader/1", 1.0))

    await polls.sync()
    await polls.sync()

    assert sum(map(len, redis.events)) == POLLS_MAX
    assert max(map(len, redis.events)) * 120 < 64 * 1024


async def test_shared_polls_have_pseudonyms_of_current_periods_only() -> None:
    redis = FakeRedis(up=True)
    polls = SharedPolls(redis)
    polls.note((TARGET, READER, "reader/1", 5.04))

    await polls.sync()

    assert redis.events == [[[TARGET, 11, 12, 5.0]]]
    assert list(parse_polls(redis.events[0])) == [(TARGET, Pseudonym(11, 12), 5.0)]


async def test_shared_polls_are_dropped_while_redis_is_unavailable() -> None:
    redis = FakeRedis(up=False)
    polls = SharedPolls(redis)
    polls.note((TARGET, READER, "reader/1", 1.0))
    await polls.sync()
    redis.up = True

    await polls.sync()

    assert redis.events == []


@pytest.mark.parametrize(
    "poll",
    [
        [TARGET, 11, 12, float("nan")],
        [TARGET, 11, 12, float("inf")],
        [TARGET, 2**70, 12, 5.0],
        [TARGET, 11, -1, 5.0],
        ["https://example.com/" + "x" * 10_000, 11, 12, 5.0],
        [7, 11, 12, 5.0],
    ],
    ids=["nan", "infinity", "long pseudonym", "negative pseudonym", "long target", "no target"],
)
def test_invalid_poll_of_a_peer_is_left_out(poll: list[object]) -> None:
    assert list(parse_polls([poll, [TARGET, 11, 12, 5.0]])) == [(TARGET, Pseudonym(11, 12), 5.0)]
