"""A feed that is for everybody no longer is told of no more, and not heard of, at once."""

from collections.abc import Callable
from typing import Any

import pytest

from feedproxy.errors import Unreachable
from feedproxy.notify.subscriptions import Role
from tests.stages.notify import TARGET
from tests.stages.origin import a_feed
from tests.stages.websub import LINKS, ME, PUBLIC, WebSubStand, websub_at

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
async def test_subscribers_of_what_its_origin_makes_private_are_denied_at_once(stage: WebSubStand, said: str) -> None:
    stage.stand.origin.publish("/feed.xml", a_feed("secret", *OLD), cache_control=said)

    await stage.stand.read()

    assert last_word(stage) == (["denied"], [TARGET])
    assert await stage.held() == []
    assert stage.deliveries == []


async def test_subscribers_of_what_a_rule_makes_private_are_denied_within_minutes(stage: WebSubStand) -> None:
    stage.stand.runtime.configure({**OPEN, "private": True})

    await stage.stand.pass_time(600)

    assert last_word(stage) == (["denied"], [TARGET])
    assert await stage.held() == []


async def test_who_is_away_is_told_that_he_is_denied_thrice(stage: WebSubStand) -> None:
    stage.confirms = False
    stage.callback = lambda _: Unreachable("away")
    stage.stand.runtime.configure({**OPEN, "private": True})

    for _ in range(5):
        await stage.stand.pass_time(3_600)

    assert len([each for each in stage.verifications if each["hub.mode"] == ["denied"]]) == 3
    assert await stage.stand.notices.queue.waiting() == {}


async def test_what_is_merely_not_held_at_the_moment_keeps_its_subscribers(stage: WebSubStand) -> None:
    await stage.stand.runtime.service.purge(TARGET)

    await stage.stand.pass_time(1_200)

    assert [each.callback for each in await stage.held()] == [ME]


async def test_what_is_told_of_here_is_unsubscribed_from_at_once_where_it_becomes_private(
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
    assert await made.held(Role.HEAR) == []
