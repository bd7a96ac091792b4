"""Immediate requests: sent at once, limited per host and in time."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from feedproxy.http.message import Response
from feedproxy.notify.delivery import delivery_worker
from feedproxy.notify.delivery.delivery_worker import MAX_PER_HOST, Overloaded
from feedproxy.notify.notification_protocol import DeliveryRequest, Message
from feedproxy.upstream.upstream_errors import FetchTimeout
from tests.stages.notify import TARGET, Stand, wait_idle
from tests.stages.origin import a_feed
from tests.waiting import PATIENCE

CALLBACK = Message("GET", "http://me.example/callback")


async def until_called(stand: Stand, url: str) -> None:
    """Wait until the URL was called."""
    async with asyncio.timeout(PATIENCE):
        while url not in [called for _, called, _ in stand.others.calls]:  # noqa: ASYNC110 -- a call signals nothing
            await asyncio.sleep(0.001)


async def test_immediate_requests_to_one_host_are_limited(stand: Stand) -> None:
    stand.others.gate = asyncio.Event()
    asked = [asyncio.ensure_future(stand.notifications.delivery_worker.request_now(CALLBACK)) for _ in range(10)]
    while stand.others.at_once < MAX_PER_HOST:  # noqa: ASYNC110 -- the requests wait for a slot
        await asyncio.sleep(0)

    stand.others.gate.set()
    answers = await asyncio.gather(*asked)

    assert [each.status for each in answers] == [200] * 10
    assert stand.others.most_at_once == MAX_PER_HOST


async def test_deliveries_wait_for_immediate_requests_to_their_host(stand: Stand) -> None:
    await stand.subscribe("http://me.example/told")
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    stand.others.gate = asyncio.Event()
    asked = [
        asyncio.ensure_future(stand.notifications.delivery_worker.request_now(CALLBACK)) for _ in range(MAX_PER_HOST)
    ]
    while stand.others.at_once < MAX_PER_HOST:  # noqa: ASYNC110
        await asyncio.sleep(0)

    stand.origin.publish("/feed.xml", a_feed("two"))
    await stand.app.service._coordinator.refresh("http://origin.example/feed.xml")
    await wait_idle(stand.notifications)
    assert len(stand.others.calls) == MAX_PER_HOST
    stand.others.gate.set()
    await asyncio.gather(*asked)
    await stand.settled()

    assert stand.others.calls[-1][1] == "http://me.example/told"
    assert stand.others.most_at_once == MAX_PER_HOST


async def test_immediate_request_times_out(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_worker, "REQUEST_TIMEOUT", 0.01)
    stand.others.gate = asyncio.Event()

    with pytest.raises(FetchTimeout):
        await stand.notifications.delivery_worker.request_now(CALLBACK)

    stand.others.gate = None
    assert (await stand.notifications.delivery_worker.request_now(CALLBACK)).status == 200


async def test_immediate_request_beyond_capacity_is_overload(
    stand_at: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = await stand_at()
    monkeypatch.setattr(delivery_worker, "REQUESTS_WAITING_MAX", 0)

    with pytest.raises(Overloaded):
        await stand.notifications.delivery_worker.request_now(CALLBACK)


@pytest.mark.parametrize(
    ("address", "own"), [("192.0.2.1", True), ("::ffff:192.0.2.1", True), ("192.0.2.2", False), ("2001:db8::1", False)]
)
async def test_callback_resolving_to_client_address_is_recognised(stand: Stand, address: str, own: bool) -> None:
    stand.others.at["me.example"] = ["198.51.100.1", "192.0.2.1"]
    stand.others.answer = lambda _: Response(500)

    assert await stand.notifications.delivery_worker.resolves_to("http://me.example/x", address) is own
    assert stand.others.calls == []


async def test_slow_hosts_leave_capacity_for_immediate_requests(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two calls to each of sixteen hosts would use the whole capacity."""
    monkeypatch.setattr(delivery_worker, "SLOW_CALL", 0)
    monkeypatch.setattr(delivery_worker, "MAX_CONCURRENT_REQUESTS", 2 * 16)
    for number in range(16):
        await stand.notifications.delivery_worker.request_now(Message("GET", f"http://hangs{number}.example/"))
    monkeypatch.setattr(delivery_worker, "SLOW_CALL", 60)
    stand.others.gate = asyncio.Event()
    hanging = [
        asyncio.ensure_future(
            stand.notifications.delivery_worker.request_now(Message("GET", f"http://hangs{number % 16}.example/"))
        )
        for number in range(32)
    ]
    asked = asyncio.ensure_future(stand.notifications.delivery_worker.request_now(CALLBACK))
    async with asyncio.timeout(30):
        while (CALLBACK.method, CALLBACK.url, b"") not in stand.others.calls:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    assert stand.others.at_once == delivery_worker.MAX_CONCURRENT_SLOW + 1
    stand.others.gate.set()
    await asyncio.gather(asked, *hanging)


async def test_slow_hosts_leave_capacity_for_deliveries(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(40):
        await stand.subscribe(f"http://hangs{number}.example/")
    await stand.subscribe("http://swift.example/")
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    monkeypatch.setattr(delivery_worker, "SLOW_CALL", 0)
    for number in range(40):
        await stand.notifications.delivery_worker.request_now(Message("GET", f"http://hangs{number}.example/"))
    monkeypatch.setattr(delivery_worker, "SLOW_CALL", 60)
    stand.others.calls.clear()
    stand.others.gate = asyncio.Event()

    stand.origin.publish("/feed.xml", a_feed("two"))
    await stand.app.service._coordinator.refresh("http://origin.example/feed.xml")
    await until_called(stand, "http://swift.example/")

    assert len(stand.others.calls) == delivery_worker.MAX_CONCURRENT_SLOW + 1
    stand.others.gate.set()
    await stand.settled()
    assert len(stand.others.calls) == 41


async def test_addresses_in_one_ipv6_network_share_the_limit_of_a_site(stand: Stand) -> None:
    """A client with a /64 could otherwise use the whole capacity with callbacks that do not respond."""
    for number in range(40):
        await stand.subscribe(f"http://[2001:db8::{number + 1:x}]/")
    await stand.subscribe("http://swift.example/")
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    stand.others.gate = asyncio.Event()

    stand.origin.publish("/feed.xml", a_feed("two"))
    await stand.app.service._coordinator.refresh("http://origin.example/feed.xml")
    await until_called(stand, "http://swift.example/")

    assert len(stand.others.calls) == MAX_PER_HOST + 1
    stand.others.gate.set()
    await stand.settled()
    assert len(stand.others.calls) == 41


@pytest.mark.parametrize("what", ["verify", "subscribe", "unsubscribe"])
async def test_subscription_requests_leave_capacity_for_deliveries(stand: Stand, what: str) -> None:
    await stand.subscribe("http://swift.example/")
    stand.origin.publish("/feed.xml", a_feed("one"))
    await stand.read()
    stand.others.gate = asyncio.Event()
    requests = [
        DeliveryRequest("plain", what, TARGET, f"http://silent{number}.example/")
        for number in range(2 * delivery_worker.MAX_CONCURRENT)
    ]
    await stand.notifications.enqueue(*requests)
    async with asyncio.timeout(PATIENCE):
        while stand.others.at_once < delivery_worker.MAX_CONCURRENT_SUBSCRIPTION_REQUESTS:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    stand.origin.publish("/feed.xml", a_feed("two"))
    await stand.app.service._coordinator.refresh(TARGET)
    await until_called(stand, "http://swift.example/")

    assert stand.others.at_once == delivery_worker.MAX_CONCURRENT_SUBSCRIPTION_REQUESTS + 1
    stand.others.gate.set()
    await stand.settled()
    assert len(stand.others.calls) == 2 * delivery_worker.MAX_CONCURRENT + 1
