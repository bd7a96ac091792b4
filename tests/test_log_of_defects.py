"""The log line of a defect names what failed, without secrets, and says what follows."""

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any, cast

import pytest

from feedproxy.clock import ManualClock
from feedproxy.endpoints import imported_feeds
from feedproxy.fleet.event_listener import EventListener
from feedproxy.fleet.redis_operations import FleetEvent
from feedproxy.http.message import Fields, Response
from feedproxy.refresh.policy.refresh_ahead import Plan, Refresh
from feedproxy.request.context import ClientContext, Entrance
from feedproxy.server.mitm.flow_handler import FlowHandler
from feedproxy.server.response_head import finish_response
from tests.refresh.schedules import a_scheduler

TARGET = "https://example.com/feed.xml?token=0123456789abcdef"
SHOWN = "https://example.com/feed.xml?token=…"


async def fail(*_: object, **__: object) -> Any:
    raise ZeroDivisionError


async def test_scheduler_names_the_feed_of_a_failed_refresh(caplog: pytest.LogCaptureFixture) -> None:
    def plan_for(_: str) -> Plan:
        return Refresh("now")

    scheduler = a_scheduler(ManualClock(1_800_000_000.0), plan_for, fail)
    scheduler.reschedule(TARGET)
    for _ in range(20):
        await asyncio.sleep(0)
    await scheduler.close()

    assert f"scheduler: refresh of {SHOWN} failed" in caplog.messages[0]


async def test_feed_list_names_the_imported_feed_that_failed(caplog: pytest.LogCaptureFixture) -> None:
    admin = SimpleNamespace(deferral=lambda _: None, refresh=fail)
    service = SimpleNamespace(store=SimpleNamespace(peek=lambda _: None), admin=admin)

    await imported_feeds._fetch(TARGET, cast("Any", service), ManualClock(0.0))

    assert f"fetch of the imported feed {SHOWN} failed" in caplog.messages[0]


async def test_event_listener_names_the_event_that_failed(caplog: pytest.LogCaptureFixture) -> None:
    operations = SimpleNamespace(
        machine="here",
        keys=SimpleNamespace(channel="fp:events"),
        connection=SimpleNamespace(up=True, address="127.0.0.1:6379", subscribe=None),
    )
    listener = EventListener(cast("Any", operations), fail, lambda: None)

    await listener._apply(FleetEvent(7, 1, "put", "there", TARGET))
    listener.start()
    await asyncio.sleep(0)
    await listener.close()

    assert f"fleet: event 7 (put of {SHOWN}) not applied" in caplog.messages[0]
    assert "fleet: subscription to fp:events at 127.0.0.1:6379 ended" in caplog.messages[1]


async def test_flow_handler_names_the_request_that_failed(caplog: pytest.LogCaptureFixture) -> None:
    flow = SimpleNamespace(request=SimpleNamespace(method="GET", url=TARGET))
    handler = SimpleNamespace(refuse=lambda *_: None)

    with contextlib.suppress(AttributeError):
        await FlowHandler.handle(cast("Any", handler), cast("Any", flow), fail())

    assert f"flow handler: GET {SHOWN} answered 500" in caplog.messages[0]


def test_withheld_response_names_its_invalid_field(caplog: pytest.LogCaptureFixture) -> None:
    response = Response(200, Fields([("Date", "x"), ("X-Note", "a\x00b")]), b"")
    client = ClientContext(Entrance.PROXY, "http://proxy.example", "192.0.2.1")

    assert finish_response(response, "GET", client, 0.0).status == 500

    assert "response 200 withheld, 500 sent: control characters in 'X-Note'" in caplog.messages[0]
