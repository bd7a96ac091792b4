"""A change that one machine finds is told once: to a subscriber by the machine that has him, to all others by one."""

from pathlib import Path

from feedproxy.notify.change_log import FeedSnapshot
from feedproxy.notify.protocol import Change, DeliveryRequest
from tests.cluster.conftest import Start
from tests.cluster.machines import Machine, until
from tests.stages.origin import Origin, a_feed

NOW = "max-age=0"


class Told:
    """A way of telling: whom every machine would tell (`standing`), and what was sent."""

    name = "test"

    def __init__(self) -> None:
        self.standing_for: list[Change] = []

    def extra_deliveries(self, change: Change) -> list[DeliveryRequest]:
        self.standing_for.append(change)
        return []


async def listening(machine: Machine) -> Told:
    told = Told()
    machine.runtime.notifications.add(told)  # type: ignore[arg-type]
    machine.runtime.notifications.start()
    return told


async def listed(machine: Machine) -> list[str]:
    return [each.target for each in await machine.runtime.notifications.changes.between(0, 1e12, 100)]


async def test_a_change_is_listed_by_every_machine_and_told_to_all_by_one(
    start: Start, origin: Origin, tmp_path: Path
) -> None:
    origin.publish("/feed", a_feed("one"), cache_control=NOW)
    machines = [await start(folder=tmp_path / name) for name in ("one", "two", "three")]
    told = [await listening(each) for each in machines]
    one, two, three = machines
    await one.get("/feed")
    await one.told()
    await two.get("/feed")
    await two.told()

    origin.publish("/feed", a_feed("one", "two"), cache_control=NOW)
    await two.get("/feed")
    await until(lambda: sum(len(each.standing_for) for each in told))

    for each in machines:
        while await listed(each) != [origin.url("/feed")]:
            await each.told()
    await three.get("/feed")
    await three.told()
    for each in machines:
        await each.runtime.notifications.wait_idle()
        assert await listed(each) == [origin.url("/feed")]
    assert [len(each.standing_for) for each in told] == [0, 1, 0]


async def test_two_machines_that_found_the_same_change_agree_on_who_tells(start: Start, origin: Origin) -> None:
    one, two = await start(), await start()
    seen = FeedSnapshot(origin.url("/feed"), "digest", 1.0, "News", "", is_new=False, listed=True)

    assert [await each.fleet.claim_delivery(seen) for each in (one, two, one)] == [True, False, True]
