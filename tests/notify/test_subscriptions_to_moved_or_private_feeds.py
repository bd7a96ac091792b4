"""Subscribers of feeds that become private or move."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest

from feedproxy.notify.subscription_table import Role
from feedproxy.upstream.upstream_errors import Unreachable
from tests.stages.clouds import answering, call, clouds_on
from tests.stages.notify import TARGET, Stand
from tests.stages.origin import a_feed
from tests.stages.websub import LINKS, ME, PUBLIC, WebSubStand, links_of, websub_at

OLD = ("one", "two", "three")
OPEN = {"store": "memory:", "public_url": PUBLIC, "websub_hub": "known", "feed_min_interval": 0, "site_interval": 0}


@pytest.fixture
async def stage(stand_at: Callable[..., Any]) -> WebSubStand:
    made = await websub_at(stand_at)
    await made.change(*OLD)
    await made.subscribe()
    return made


def last_word(stage: WebSubStand) -> tuple[list[str], list[str]]:
    told = stage.verifications[-1]
    return told["hub.mode"], told["hub.topic"]


@pytest.mark.parametrize("said", ["private", "no-store"])
async def test_feed_made_private_by_origin_denies_subscribers_at_once(stage: WebSubStand, said: str) -> None:
    stage.stand.origin.publish("/feed.xml", a_feed("secret", *OLD), cache_control=said)

    await stage.stand.read()

    assert last_word(stage) == (["denied"], [TARGET])
    assert await stage.held() == []
    assert stage.deliveries == []


async def test_feed_made_private_by_rule_denies_subscribers_within_minutes(stage: WebSubStand) -> None:
    stage.stand.app.configure({**OPEN, "private": True})

    await stage.stand.pass_time(600)

    assert last_word(stage) == (["denied"], [TARGET])
    assert await stage.held() == []


async def test_denial_of_unreachable_callback_is_tried_three_times(stage: WebSubStand) -> None:
    stage.confirms = False
    stage.callback = lambda _: Unreachable("away")
    stage.stand.app.configure({**OPEN, "private": True})

    for _ in range(5):
        await stage.stand.pass_time(3_600)

    assert len([each for each in stage.verifications if each["hub.mode"] == ["denied"]]) == 3
    assert await stage.stand.notifications.queue.count_waiting() == {}


async def test_feed_not_stored_keeps_subscribers(stage: WebSubStand) -> None:
    await stage.stand.app.service.admin.purge(TARGET)

    await stage.stand.pass_time(1_200)

    assert [each.callback for each in await stage.held()] == [ME]


async def test_feed_made_private_ends_own_subscription(
    stand_at: Callable[..., Any],
) -> None:
    made = await websub_at(stand_at)
    made.stand.origin.publish("/feed.xml", a_feed(*OLD), link=LINKS)
    await made.read_by_somebody()
    await made.verify()
    made.stand.origin.publish("/feed.xml", a_feed("secret", *OLD), link=LINKS, cache_control="private")

    await made.stand.read()
    await made.stand.settled()

    assert made.asked[-1]["hub.mode"] == "unsubscribe"
    assert (await made.verify()).status == 200
    assert await made.held(Role.PUBLISHER) == []


NEW = "http://origin.example/new.xml"


async def moved(stage: WebSubStand) -> None:
    """Move the feed permanently, and read it at the new address."""
    stage.stand.origin.publish("/new.xml", a_feed("three", *OLD))
    stage.stand.origin.publish("/feed.xml", b"", status=301, location=NEW)
    for _ in range(3):
        await stage.stand.read()
        await stage.stand.pass_time(3_700)
    await stage.stand.read(NEW)
    await stage.stand.pass_time(600)


async def test_moved_feed_keeps_subscribers(stage: WebSubStand) -> None:
    await moved(stage)
    stage.stand.origin.publish("/new.xml", a_feed("four", "three", *OLD))

    await stage.stand.read(NEW)

    url, body, fields = stage.deliveries[-1]
    assert (url, b"four" in body) == (ME, True)
    assert links_of(fields)["self"] == NEW
    assert [each.topic for each in await stage.held()] == [NEW]


async def test_moved_feed_accepts_subscription_by_old_url(stage: WebSubStand) -> None:
    await moved(stage)

    await stage.subscribe(callback=ME + "2")
    await stage.post(mode="unsubscribe", callback=ME, topic=TARGET)

    assert [(each.topic, each.callback) for each in await stage.held()] == [(NEW, ME + "2")]


async def test_moved_feed_notifies_subscriber_of_both_urls_once(stage: WebSubStand) -> None:
    stage.stand.origin.publish("/new.xml", a_feed("three", *OLD))
    await stage.stand.read(NEW)
    await stage.subscribe(topic=NEW)

    await moved(stage)

    assert [each.topic for each in await stage.held()] == [NEW]


async def believed(stand: Stand) -> None:
    """Move the feed permanently without a read at its new address."""
    stand.origin.publish("/new.xml", a_feed("three", *OLD))
    stand.origin.publish("/feed.xml", b"", status=301, location=NEW)
    for _ in range(3):
        await stand.read()
        await stand.pass_time(3_700)
    await stand.read()


async def publish_and_read(stand: Stand, address: str, title: str) -> None:
    stand.origin.publish("/" + address.rpartition("/")[2], a_feed(title, "three", *OLD))
    stand.clock.advance(60)
    await stand.read(address)


async def test_moved_feed_notifies_its_subscribers_before_the_next_sweep(stage: WebSubStand) -> None:
    await believed(stage.stand)
    await stage.stand.read(NEW)

    await publish_and_read(stage.stand, NEW, "four")

    url, body, fields = stage.deliveries[-1]
    assert (url, b"four" in body, links_of(fields)["self"]) == (ME, True, NEW)


async def test_moved_feed_that_returns_notifies_at_once(stage: WebSubStand) -> None:
    await moved(stage)
    stage.stand.origin.publish("/new.xml", b"", status=404)
    await stage.stand.read(NEW)

    for title in ("four", "five"):
        await publish_and_read(stage.stand, TARGET, title)

    _, body, fields = stage.deliveries[-1]
    assert (b"five" in body, links_of(fields)["self"]) == (True, TARGET)


async def test_moved_feed_that_returns_is_restored_by_sweep(stage: WebSubStand) -> None:
    await moved(stage)
    await publish_and_read(stage.stand, TARGET, "four")
    await stage.stand.app.service.admin.refresh(TARGET)

    await stage.stand.pass_time(600)

    assert [(each.topic, each.moved_from) for each in await stage.held()] == [(TARGET, "")]


@pytest.mark.parametrize("topic", [TARGET, NEW])
async def test_moved_feed_accepts_unsubscription_by_both_urls(stage: WebSubStand, topic: str) -> None:
    await believed(stage.stand)

    answer = await stage.post(mode="unsubscribe", callback=ME, topic=topic)

    assert answer.status == 202
    await stage.stand.settled()
    assert await stage.held() == []


async def test_moved_feed_keeps_subscribers_over_second_move(stage: WebSubStand) -> None:
    await moved(stage)
    held = stage.stand.notifications.subscriptions
    newest = "http://origin.example/newest.xml"

    await held.move("websub", NEW, newest)

    assert [(each.topic, each.moved_from) for each in await stage.held()] == [(newest, TARGET)]


async def test_moved_feed_is_notified_by_cloud_under_registered_url(stand_at: Callable[..., Any]) -> None:
    clouds = await clouds_on(stand_at, **{**OPEN, "rsscloud_hub": "known"})
    clouds.stand.others.answer = answering()
    clouds.stand.origin.publish("/feed.xml", a_feed(*OLD))
    await clouds.stand.read()
    given = {"protocol": "http-post", "port": 80, "path": "/told", "domain": "me.example", "url1": TARGET}
    await clouds.hub.by_form(call("pleaseNotify", urlencode(given).encode()))
    await believed(clouds.stand)
    await clouds.stand.read(NEW)
    before = len(clouds.stand.others.calls)

    await publish_and_read(clouds.stand, NEW, "four")

    told = [(url, parse_qs(body.decode())["url"]) for _, url, body in clouds.stand.others.calls[before:]]
    assert told == [("http://me.example/told", [TARGET])]


async def test_feed_made_private_ends_cloud_registrations(
    stand_at: Callable[..., Any],
) -> None:
    clouds = await clouds_on(stand_at, public_url=PUBLIC)
    clouds.stand.others.answer = answering(b'<notifyResult success="true" msg=""/>')
    cloud = '<cloud domain="cloud.example" port="80" path="/" registerProcedure="" protocol="http-post"/>'
    clouds.stand.origin.publish("/feed.xml", a_feed("one", extra=cloud))
    await clouds.stand.read()
    given = {"protocol": "http-post", "port": 80, "path": "/told", "domain": "me.example", "url1": TARGET}
    assert b'success="true"' in (await clouds.hub.by_form(call("pleaseNotify", urlencode(given).encode()))).body
    assert len(await clouds.stand.notifications.subscriptions.all()) == 2
    told = len(clouds.stand.others.calls)
    clouds.stand.origin.publish("/feed.xml", a_feed("secret", "one", extra=cloud), cache_control="private")

    await clouds.stand.read()

    assert await clouds.stand.notifications.subscriptions.all() == []
    assert len(clouds.stand.others.calls) == told
