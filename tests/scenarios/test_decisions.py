"""The operator pauses and blocks single feeds."""

import pytest

from feedproxy.refresh.policy.paused_and_blocked import FeedDecision
from tests.stages.origin import a_feed


async def decide(proxy, origin, decision):
    here, target = proxy.stage.app, origin.url("/feed.rss")
    await here.parts.decisions.decide(target, decision)
    if decision is FeedDecision.BLOCKED:
        await here.service.admin.purge(target)


async def test_blocked_feed_is_refused_under_every_address_until_it_is_allowed(door):
    proxy, origin, clock = await door()
    origin.publish("/feed.rss", a_feed(), cache_control="max-age=3600")
    origin.publish("/other", b"", status=301, location=origin.url("/feed.rss"))
    target = origin.url("/feed.rss")
    for _ in range(3):
        await proxy.ask(f"/{target}")
    fetched = origin.requests

    await decide(proxy, origin, FeedDecision.BLOCKED)

    for line in (f"/{target}", f"/{origin.url('/Feed.rss')}", f"/{origin.url('//feed.rss')}", f"/-/as/atom/{target}"):
        (await proxy.ask(line)).expect(403)
    (await proxy.ask(target)).expect(403)
    assert origin.requests == fetched
    assert (await proxy.ask(f"/{origin.url('/other')}")).status == 301
    assert b"<item" not in (await proxy.ask(f"/?url={target}")).body

    await decide(proxy, origin, None)
    clock.advance(seconds=61)
    (await proxy.ask(f"/{target}")).expect(200)


async def test_paused_feed_is_served_from_its_copy_without_contacting_the_origin(door):
    proxy, origin, clock = await door()
    origin.publish("/feed.rss", a_feed(ttl=60))
    target = origin.url("/feed.rss")
    await proxy.ask(f"/{target}")
    fetched = origin.requests

    await decide(proxy, origin, FeedDecision.PAUSED)
    clock.advance(days=9)

    (await proxy.ask(f"/{target}")).expect(200, cache="hit; detail=paused")
    assert (await proxy.service.admin.refresh(target)).outcome == "paused"
    assert origin.requests == fetched

    await decide(proxy, origin, None)
    (await proxy.ask(f"/{target}")).expect(200)
    assert origin.requests > fetched


@pytest.mark.parametrize("decision", [FeedDecision.PAUSED, FeedDecision.BLOCKED])
async def test_decision_survives_reload_of_rules_and_is_shared_by_processes(door, decision):
    proxy, origin, _ = await door()
    here, target = proxy.stage.app, origin.url("/feed.rss")
    await decide(proxy, origin, decision)
    before = here.settings_for(target)

    here.set_rules(here.configured_rules)
    assert here.settings_for(target) == before

    await here.service.store.put_state("operator-decisions", b'{"version": 1, "decided": []}')
    here.parts.decisions.reload()
    assert here.settings_for(target) == here.settings
