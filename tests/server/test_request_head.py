"""The timeout of a request's head. An idle connection has its own timeout."""

import asyncio
from collections.abc import Iterable

import pytest
from mitmproxy.options import Options
from mitmproxy.proxy import commands, context, events
from mitmproxy.test import tflow

from feedproxy.clock import ManualClock
from feedproxy.server.mitm.http_layer import SerialHttp1Server
from tests.stages.play import OnProxy
from tests.waiting import PATIENCE

BEGINNING = b"GET / HTTP/1.1\r\nX-Slow: "


class Wire:
    """A connection to the server layer, with an injected clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, head_timeout: float) -> None:
        self.now = 100.0
        monkeypatch.setattr("feedproxy.server.mitm.http1_limits_and_corrections.time.monotonic", lambda: self.now)
        self.client = tflow.tclient_conn()
        self.server = SerialHttp1Server(context.Context(self.client, Options()), head_timeout=head_timeout)
        self.sent, self.is_closed = b"", False
        self.alarms: list[tuple[float, commands.RequestWakeup]] = []
        self._play(events.Start())

    def _play(self, event: events.Event) -> None:
        done: Iterable[commands.Command] = self.server.handle_event(event)
        for command in done:
            if isinstance(command, commands.SendData):
                self.sent += command.data
            elif isinstance(command, commands.CloseConnection):
                self.is_closed = True
            elif isinstance(command, commands.RequestWakeup):
                self.alarms.append((self.now + command.delay, command))

    def says(self, data: bytes) -> None:
        self._play(events.DataReceived(self.client, data))

    def advance(self, seconds: float) -> None:
        """Advance the clock by some seconds and fire due alarms."""
        self.now += seconds
        due = [each for each in self.alarms if each[0] <= self.now]
        for each in due:
            self.alarms.remove(each)
            self._play(events.Wakeup(each[1]))


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
