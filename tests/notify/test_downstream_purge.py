"""Caches in front: how they are named, what they are told, and when."""

from collections.abc import Callable
from typing import Any

import pytest

from feedproxy.errors import Unreachable, UsageError
from feedproxy.http.message import Response
from feedproxy.notify.delivery_queue import RETRY_DELAY_MIN
from feedproxy.notify.downstream_purge import (
    DownstreamPurge,
    PurgeMethod,
    read_purge_fields,
    read_purge_sink,
)
from feedproxy.notify.sink_address import SinkAddress
from feedproxy.request.upstream_request import surrogate_key
from tests.stages.notify import TARGET
from tests.stages.origin import a_feed

KEY = surrogate_key(TARGET)
VARNISH = "http://varnish.example:6081/"
API = "https://api.cdn.example/purge/{key}"

type StandAt = Callable[..., Any]


@pytest.mark.parametrize(
    ("text", "sink"),
    [
        (VARNISH, SinkAddress(PurgeMethod.KEY, VARNISH)),
        ("url:http://nginx.example/", SinkAddress(PurgeMethod.URL, "http://nginx.example/")),
        (API, SinkAddress(PurgeMethod.TEMPLATE, API)),
    ],
)
def test_a_purge_sink_is_an_address_with_a_word_before_it_or_without(text: str, sink: SinkAddress[PurgeMethod]) -> None:
    assert read_purge_sink(text) == sink


@pytest.mark.parametrize("text", ["", "nonsense", "ftp://a.example/", "url:http://a.example/path"])
def test_what_is_no_purge_sink_is_told_at_once(text: str) -> None:
    with pytest.raises(UsageError):
        read_purge_sink(text)


@pytest.mark.parametrize("line", ["no colon of hunter2", "a b: hunter2", "Key:", "Key: hunter2\r\nX: y"])
def test_a_mistake_in_a_field_is_told_without_its_value(line: str) -> None:
    with pytest.raises(UsageError) as told:
        read_purge_fields([line])
    assert "hunter2" not in str(told.value)


async def stand_with(stand_at: StandAt, *sinks: str, **more: Any) -> Any:
    stand = await stand_at(
        upstream="http://origin.example", public_url="https://feeds.example/", purge_sinks=sinks, **more
    )
    protocol = DownstreamPurge(stand.notifications.settings)
    stand.notifications.add(protocol)
    return stand


async def changed_once(stand: Any) -> None:
    for title in ("one", "two"):
        stand.origin.publish("/feed.xml", a_feed(title))
        await stand.read()


async def test_a_change_is_told_by_the_key_that_answers_carry(stand_at: StandAt) -> None:
    stand = await stand_with(stand_at, VARNISH)

    await changed_once(stand)

    assert stand.others.calls == [("PURGE", VARNISH, b"")]
    assert stand.others.heads[0].get("surrogate-key") == KEY


async def test_each_form_of_a_sink_is_told_in_its_own_words(stand_at: StandAt) -> None:
    sinks = ("url:http://nginx.example/", API)
    stand = await stand_with(stand_at, *sinks, purge_fields=["Fastly-Key: hunter2"])

    await changed_once(stand)

    told = {
        url: (method, fields) for (method, url, _), fields in zip(stand.others.calls, stand.others.heads, strict=True)
    }
    assert {url: method for url, (method, _) in told.items()} == {
        "http://nginx.example/feed.xml": "PURGE",
        f"https://api.cdn.example/purge/{KEY}": "POST",
    }
    assert told["http://nginx.example/feed.xml"][1].get("host") == "feeds.example"
    assert all(fields.get("fastly-key") == "hunter2" for _, fields in told.values())


async def test_a_private_feed_is_purged_too_for_a_key_tells_nothing(stand_at: StandAt) -> None:
    stand = await stand_with(stand_at, VARNISH, private=True)

    await changed_once(stand)

    assert len(stand.others.calls) == 1


async def test_feeds_of_others_are_purged_nowhere(stand_at: StandAt) -> None:
    stand = await stand_with(stand_at, VARNISH)
    for title in ("one", "two"):
        stand.origin.publish("/feed.xml", a_feed(title))
        await stand.read("http://elsewhere.example/feed.xml")

    assert stand.others.calls == []


@pytest.mark.parametrize("answer", [Unreachable("down"), Response(503), Response(403), Response(405)])
async def test_a_sink_that_is_away_or_will_not_is_told_later(stand_at: StandAt, answer: Any) -> None:
    stand = await stand_with(stand_at, VARNISH)
    stand.others.answer = lambda _: answer
    await changed_once(stand)
    ((_, _, words),) = await stand.notifications.queue.failing()
    assert words
    stand.others.answer = lambda _: Response(200)

    await stand.pass_time(RETRY_DELAY_MIN)

    assert len(stand.others.calls) == 2
    assert await stand.notifications.queue.count_waiting() == {}


@pytest.mark.parametrize("status", [200, 202, 404, 410])
async def test_a_sink_that_did_it_or_held_nothing_is_done_with(stand_at: StandAt, status: int) -> None:
    stand = await stand_with(stand_at, VARNISH)
    stand.others.answer = lambda _: Response(status)

    await changed_once(stand)

    assert await stand.notifications.queue.count_waiting() == {}


async def test_a_sink_that_was_taken_away_meanwhile_is_told_nothing_more(stand_at: StandAt) -> None:
    stand = await stand_with(stand_at, VARNISH)
    stand.others.answer = lambda _: Unreachable("down")
    await changed_once(stand)
    protocol = DownstreamPurge(lambda: stand.notifications.settings().__class__())
    stand.notifications.add(protocol)

    await stand.pass_time(RETRY_DELAY_MIN)

    assert len(stand.others.calls) == 1
    assert await stand.notifications.queue.count_waiting() == {}
