"""A client's side of one of the proxy's layers, with an injected clock."""

from collections.abc import Iterable

import pytest
from mitmproxy.proxy import commands, events
from mitmproxy.test import tflow


class TimedWire:
    """A connection that hands input and due wake-ups to a layer. Subclasses name the layer and its module."""

    MODULE: str
    """The module under test. Its `time.monotonic` is replaced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(f"{self.MODULE}.time.monotonic", lambda: self.now)
        self.client = tflow.tclient_conn()
        self.sent, self.is_closed = b"", False
        self.alarms: list[tuple[float, commands.RequestWakeup]] = []

    def handle(self, event: events.Event) -> Iterable[commands.Command]:
        """Let the layer handle an event, and return its commands."""
        raise NotImplementedError

    def on_hook(self, command: commands.StartHook) -> None:
        """Answer a hook of the layer."""

    def play(self, event: events.Event) -> None:
        """Let the layer handle an event, and carry out its commands."""
        for command in list(self.handle(event)):
            if isinstance(command, commands.SendData):
                self.sent += command.data
            elif isinstance(command, commands.CloseConnection):
                self.is_closed = True
            elif isinstance(command, commands.RequestWakeup):
                self.alarms.append((self.now + command.delay, command))
            elif isinstance(command, commands.StartHook):
                self.on_hook(command)

    def says(self, data: bytes) -> None:
        self.play(events.DataReceived(self.client, data))

    def advance(self, seconds: float) -> None:
        """Advance the clock by some seconds and fire due alarms."""
        self.now += seconds
        due = [alarm for alarm in self.alarms if alarm[0] <= self.now]
        for alarm in due:
            self.alarms.remove(alarm)
            self.play(events.Wakeup(alarm[1]))
