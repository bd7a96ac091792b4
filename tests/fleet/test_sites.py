"""Requests to one site from all machines: the interval between two requests, and the pauses that the site asks for."""

from tests.fleet.conftest import Start
from tests.fleet.machines import until

SITE = "origin.example"
INTERVAL = 30


async def test_fleet_slot_of_one_machine_delays_the_others_and_is_no_pause(start: Start) -> None:
    one, two = await start(), await start()
    now = one.app.clock.now()

    slot = one.fleet.store.coordination.sites.reserve(SITE, now, INTERVAL)
    await one.flush()

    sites = two.fleet.store.coordination.sites
    free = await until(lambda: sites.next_free(SITE, INTERVAL, two.app.clock.now()))
    assert free == slot + INTERVAL
    assert sites.next_free(SITE, 2 * INTERVAL, two.app.clock.now()) == slot + 2 * INTERVAL
    assert sites.paused_until(SITE, two.app.clock.now()) == 0


async def test_fleet_pause_of_a_site_holds_on_all_machines(start: Start) -> None:
    one, two = await start(), await start()
    end = one.app.clock.now() + 20

    one.fleet.store.coordination.sites.pause(SITE, end)
    await one.flush()

    sites = two.fleet.store.coordination.sites
    assert await until(lambda: sites.paused_until(SITE, two.app.clock.now())) == end
