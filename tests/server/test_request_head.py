"""A head that was begun comes to its end in time; a connection that is idle is another matter."""

import asyncio
from collections.abc import Iterable

import pytest
from mitmproxy.options import Options
from mitmproxy.proxy import commands, context, events
from mitmproxy.test import tflow

from feedproxy.clock import ManualClock
from feedproxy.server.mitm import http1_patches
from feedproxy.server.mitm.http_layer import SerialHttp1Server
from tests.stages.play import OnProxy
from tests.waiting import PATIENCE

BEGINNING = b"GET / HTTP/1.1\r\nX-Slow: "


class Wire:
    """A connection to the listening side, and the time it takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, head_timeout: float) -> None:
        self.now = 100.0
        monkeypatch.setattr(http1_patches.time, "monotonic", lambda: self.now)
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

    def connect_approvals(self, seconds: float) -> None:
        self.now += seconds
        due = [each for each in self.alarms if each[0] <= self.now]
        for each in due:
            self.alarms.remove(each)
            self._play(events.Wakeup(each[1]))


def test_a_head_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch, 15)
    wire.says(BEGINNING)
    for _ in range(14):
        wire.connect_approvals(1)
        wire.says(b"a")
    assert not wire.is_closed

    wire.connect_approvals(1)

    assert wire.is_closed
    assert wire.sent.startswith(b"HTTP/1.1 408 Request Timeout")


def test_a_connection_that_says_nothing_is_none_of_a_heads_business(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch, 15)

    wire.connect_approvals(3_600)

    assert not wire.is_closed
    assert wire.alarms == []


def test_of_a_head_that_has_come_the_alarm_means_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch, 15)
    wire.says(BEGINNING)
    wire.connect_approvals(10)
    wire.says(b"a\r\nHost: us\r\n\r\n")

    wire.connect_approvals(3_600)

    assert not wire.is_closed
    assert wire.alarms == []


def test_every_head_has_its_own_time_and_all_of_a_connection_one_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch, 15)
    wire.says(b"\r")  # of an empty line before a request, which means nothing
    wire.connect_approvals(10)
    wire.says(b"\n")
    wire.says(BEGINNING)
    assert len(wire.alarms) == 1

    wire.connect_approvals(5)
    assert not wire.is_closed
    wire.connect_approvals(9)
    assert not wire.is_closed
    wire.connect_approvals(1.5)

    assert wire.is_closed


def test_without_a_limit_nobody_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch, 0)

    wire.says(BEGINNING)

    assert wire.alarms == []


async def test_in_the_proxy_the_alarm_reaches_the_head_that_asked_for_it() -> None:
    stage = OnProxy(ManualClock(1_800_000_000.0), {"head_timeout": 1})
    await stage.open()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(stage.base.rpartition(":")[2]))
    writer.write(BEGINNING)

    answer = await asyncio.wait_for(reader.read(), PATIENCE)

    assert answer.startswith(b"HTTP/1.1 408 ")
    writer.close()
    await stage.close()
