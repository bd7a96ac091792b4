"""The timeout of a request's head. An idle connection has its own timeout."""

import asyncio
from collections.abc import Iterable

import pytest
from mitmproxy.options import Options
from mitmproxy.proxy import commands, context, events

from feedproxy.clock import ManualClock
from feedproxy.server.mitm.http1_limits_and_corrections import HEAD_MAX, LimitedHttp1Server
from tests.server.timed_wire import TimedWire
from tests.stages.play import OnProxy
from tests.waiting import PATIENCE

BEGINNING = b"GET / HTTP/1.1\r\nX-Slow: "


class Wire(TimedWire):
    """A connection to the server layer."""

    MODULE = "feedproxy.server.mitm.http1_limits_and_corrections"

    def __init__(self, monkeypatch: pytest.MonkeyPatch, head_timeout: float) -> None:
        super().__init__(monkeypatch)
        self.counted: list[tuple[int, int]] = []
        self.server = LimitedHttp1Server(
            context.Context(self.client, Options()),
            head_max=HEAD_MAX,
            head_timeout=head_timeout,
            still_reads=lambda _: True,
            count_unreadable=lambda _, status, page: self.counted.append((status, len(page))),
        )
        self.play(events.Start())

    def handle(self, event: events.Event) -> Iterable[commands.Command]:
        return self.server.handle_event(event)


def test_slow_head_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch, 15)
    wire.says(BEGINNING)
    for _ in range(14):
        wire.advance(1)
        wire.says(b"a")
    assert not wire.is_closed

    wire.advance(1)

    assert wire.is_closed
    assert wire.sent.startswith(b"HTTP/1.1 408 Request Timeout")
    assert wire.counted == [(408, len(wire.sent))]


def test_idle_connection_has_no_head_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch, 15)

    wire.advance(3_600)

    assert not wire.is_closed
    assert wire.alarms == []


def test_alarm_of_a_complete_head_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch, 15)
    wire.says(BEGINNING)
    wire.advance(10)
    wire.says(b"a\r\nHost: us\r\n\r\n")

    wire.advance(3_600)

    assert not wire.is_closed
    assert wire.alarms == []


def test_each_head_has_its_own_timeout_and_a_connection_has_one_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch, 15)
    wire.says(b"\r")  # begins an empty line before the request, which is ignored
    wire.advance(10)
    wire.says(b"\n")
    wire.says(BEGINNING)
    assert len(wire.alarms) == 1

    wire.advance(5)
    assert not wire.is_closed
    wire.advance(9)
    assert not wire.is_closed
    wire.advance(1.5)

    assert wire.is_closed


def test_head_timeout_zero_sets_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch, 0)

    wire.says(BEGINNING)

    assert wire.alarms == []


async def test_alarm_of_the_whole_proxy_ends_a_slow_head() -> None:
    stage = OnProxy(ManualClock(1_800_000_000.0), {"head_timeout": 1})
    await stage.open()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(stage.base.rpartition(":")[2]))
    writer.write(BEGINNING)

    answer = await asyncio.wait_for(reader.read(), PATIENCE)

    assert answer.startswith(b"HTTP/1.1 408 ")
    writer.close()
    await stage.close()
