"""Changes found by one machine: its own subscribers are notified by it, all others by exactly one machine."""

from pathlib import Path

from feedproxy.notify.changes.change_log import FeedSnapshot
from feedproxy.notify.notification_protocol import Change, DeliveryRequest
from tests.fleet.conftest import Start
from tests.fleet.machines import Machine, until
from tests.stages.notify import wait_idle
from tests.stages.origin import Origin, a_feed

NOW = "max-age=0"


class RecordingPlugin:
    """A protocol with deliveries that any machine would send (`standing`), and the list of those sent."""

    def __init__(self) -> None:
        self.standing_for: list[Change] = []

    def extra_deliveries(self, change: Change) -> list[DeliveryRequest]:
        self.standing_for.append(change)
        return []


async def listening(machine: Machine) -> RecordingPlugin:
    subscriber = RecordingPlugin()
    machine.app.notifications.extra_deliveries.append(subscriber.extra_deliveries)
    machine.app.notifications.start()
    return subscriber


async def listed(machine: Machine) -> list[str]:
    return [change.target for change in await machine.app.notifications.changes.between(0, 1e12, 100)]


async def test_fleet_change_is_listed_by_all_machines_and_delivered_by_one(
    start: Start, origin: Origin, tmp_path: Path
) -> None:
    origin.publish("/feed", a_feed("one"), cache_control=NOW)
    machines = [await start(folder=tmp_path / name) for name in ("one", "two", "three")]
    subscribers = [await listening(machine) for machine in machines]
    one, two, three = machines
    await one.get("/feed")
    await one.flush()
    await two.get("/feed")
    await two.flush()

    origin.publish("/feed", a_feed("one", "two"), cache_control=NOW)
    await two.get("/feed")
    await until(lambda: sum(len(subscriber.standing_for) for subscriber in subscribers))

    for machine in machines:
        while await listed(machine) != [origin.url("/feed")]:
            await machine.flush()
    await three.get("/feed")
    await three.flush()
    for machine in machines:
        await wait_idle(machine.app.notifications)
        assert await listed(machine) == [origin.url("/feed")]
    assert [len(subscriber.standing_for) for subscriber in subscribers] == [0, 1, 0]


async def test_fleet_change_found_twice_is_delivered_by_one_machine(start: Start, origin: Origin) -> None:
    one, two = await start(), await start()
    seen = FeedSnapshot(origin.url("/feed"), "digest", 1.0, "News", "", is_new=False, listed=True)

    assert [await machine.fleet.claim_delivery(seen) for machine in (one, two, one)] == [
        True,
        False,
        True,
    ]


async def test_fleet_change_during_a_machines_restart_reaches_its_subscribers(
    start: Start, origin: Origin, tmp_path: Path
) -> None:
    origin.publish("/feed", a_feed("one"), cache_control=NOW)
    one, two = await start(folder=tmp_path / "one"), await start(folder=tmp_path / "two")
    for machine in (one, two):
        await listening(machine)
        await machine.get("/feed")
        await machine.flush()
    await wait_idle(two.app.notifications)
    await two.close()

    origin.publish("/feed", a_feed("one", "two"), cache_control=NOW)
    await one.get("/feed")
    await one.flush()
    two = await start(folder=tmp_path / "two")
    await listening(two)

    while await listed(two) != [origin.url("/feed")]:
        await two.flush()
    await wait_idle(two.app.notifications)
    assert await listed(two) == [origin.url("/feed")]


async def test_fleet_change_during_a_machines_restart_is_delivered_once(
    start: Start, origin: Origin, tmp_path: Path
) -> None:
    origin.publish("/feed", a_feed("one"), cache_control=NOW)
    one, two = await start(folder=tmp_path / "one"), await start(folder=tmp_path / "two")
    subscriber = await listening(one)
    await listening(two)
    for machine in (one, two):
        await machine.get("/feed")
        await machine.flush()
    await wait_idle(two.app.notifications)
    await two.close()
    origin.publish("/feed", a_feed("one", "two"), cache_control=NOW)
    await one.get("/feed")
    await one.flush()
    await wait_idle(one.app.notifications)
    two = await start(folder=tmp_path / "two")
    await two.flush()

    restarted = await listening(two)
    await wait_idle(two.app.notifications)

    assert await listed(two) == [origin.url("/feed")]
    assert (len(subscriber.standing_for), len(restarted.standing_for)) == (1, 0)
