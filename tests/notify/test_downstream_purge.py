"""Purges sent to caches in front of the proxy: configuration, requests and retries."""

from collections.abc import Callable
from typing import Any

import pytest

from feedproxy.errors import UsageError
from feedproxy.http.message import Response
from feedproxy.notify.delivery.delivery_retries import RETRY_DELAY_MIN
from feedproxy.notify.downstream_purge import (
    DownstreamPurge,
    PurgeMethod,
    read_purge_fields,
    read_purge_sink,
)
from feedproxy.notify.sink_address import SinkAddress
from feedproxy.request.feed_id import surrogate_key
from feedproxy.upstream.upstream_errors import Unreachable
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
def test_purge_sink_may_have_prefix(text: str, sink: SinkAddress[PurgeMethod]) -> None:
    assert read_purge_sink(text) == sink


@pytest.mark.parametrize("text", ["", "nonsense", "ftp://a.example/", "url:http://a.example/path"])
def test_purge_sink_invalid_is_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        read_purge_sink(text)


@pytest.mark.parametrize("line", ["no colon of hunter2", "a b: hunter2", "Key:", "Key: hunter2\r\nX: y"])
def test_purge_field_error_omits_value(line: str) -> None:
    with pytest.raises(UsageError) as told:
        read_purge_fields([line])
    assert "hunter2" not in str(told.value)


async def stand_with(stand_at: StandAt, *sinks: str, **more: Any) -> Any:
    stand = await stand_at(
        upstream="http://origin.example", public_url="https://feeds.example/", purge_sinks=sinks, **more
    )
    protocol = DownstreamPurge(stand.notifications.settings)
    stand.notifications.add_sinks(protocol)
    return stand


async def changed_once(stand: Any) -> None:
    for title in ("one", "two"):
        stand.origin.publish("/feed.xml", a_feed(title))
        await stand.read()


async def test_purge_names_surrogate_key_of_responses(stand_at: StandAt) -> None:
    stand = await stand_with(stand_at, VARNISH)

    await changed_once(stand)

    assert stand.others.calls == [("PURGE", VARNISH, b"")]
    assert stand.others.heads[0].get("surrogate-key") == KEY


async def test_purge_request_has_form_of_its_sink(stand_at: StandAt) -> None:
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


@pytest.mark.parametrize(("lines", "agent"), [([], "feedproxy/"), (["User-Agent: purger"], "purger")])
async def test_purge_has_one_user_agent(stand_at: StandAt, lines: list[str], agent: str) -> None:
    stand = await stand_with(stand_at, VARNISH, purge_fields=lines)

    await changed_once(stand)

    (value,) = stand.others.heads[0].get_all("user-agent")
    assert value.startswith(agent)


async def test_purge_includes_private_feed(stand_at: StandAt) -> None:
    stand = await stand_with(stand_at, VARNISH, private=True)

    await changed_once(stand)

    assert len(stand.others.calls) == 1


async def test_purge_excludes_feeds_of_other_origins(stand_at: StandAt) -> None:
    stand = await stand_with(stand_at, VARNISH)
    for title in ("one", "two"):
        stand.origin.publish("/feed.xml", a_feed(title))
        await stand.read("http://elsewhere.example/feed.xml")

    assert stand.others.calls == []


@pytest.mark.parametrize("answer", [Unreachable("down"), Response(503), Response(403), Response(405)])
async def test_purge_failed_or_refused_is_retried(stand_at: StandAt, answer: Any) -> None:
    stand = await stand_with(stand_at, VARNISH)
    stand.others.answer = lambda _: answer
    await changed_once(stand)
    ((_, _, words),) = await stand.notifications.queue.failing_deliveries()
    assert words
    stand.others.answer = lambda _: Response(200)

    await stand.pass_time(RETRY_DELAY_MIN)

    assert len(stand.others.calls) == 2
    assert await stand.notifications.queue.count_waiting() == {}


@pytest.mark.parametrize("status", [200, 202, 404, 410])
async def test_purge_succeeds_with_2xx_404_and_410(stand_at: StandAt, status: int) -> None:
    stand = await stand_with(stand_at, VARNISH)
    stand.others.answer = lambda _: Response(status)

    await changed_once(stand)

    assert await stand.notifications.queue.count_waiting() == {}


async def test_purge_of_removed_sink_is_dropped(stand_at: StandAt) -> None:
    stand = await stand_with(stand_at, VARNISH)
    stand.others.answer = lambda _: Unreachable("down")
    await changed_once(stand)
    protocol = DownstreamPurge(lambda: stand.notifications.settings().__class__())
    stand.notifications.add_sinks(protocol)

    await stand.pass_time(RETRY_DELAY_MIN)

    assert len(stand.others.calls) == 1
    assert await stand.notifications.queue.count_waiting() == {}
