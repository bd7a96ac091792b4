"""Requests of feedproxy to origins while it records."""

from typing import Any

from feedproxy.clock import ManualClock
from feedproxy.http.message import Fields, Request, Response
from feedproxy.lab.record.recorder import RecordingClient
from feedproxy.upstream.fetch_result import Fetched

LINES = [("Accept-Encoding", "gzip, br, zstd, dcz"), ("Available-Dictionary", ":aGk=:"), ("Dictionary-ID", '"v1"')]


class Client:
    """A client that keeps the fields of its requests."""

    def __init__(self) -> None:
        self.sent: list[Fields] = []

    async def fetch(self, request: Request, *, skip_address_check: bool = False) -> Fetched:
        self.sent.append(request.fields)
        return Fetched(Response(200, Fields(), b"<rss/>"), 0.0, 0.0)

    async def close(self) -> None:
        """There is nothing to close."""


class Recorder:
    """A recorder that counts the exchanges."""

    def __init__(self) -> None:
        self.count = 0

    def record(self, exchange: Any, body: bytes | None = None) -> None:
        self.count += 1


async def test_recording_client_asks_for_whole_contents_only_while_it_records() -> None:
    client = Client()
    recorder: Any = Recorder()
    request = Request("GET", "https://example.com/feed", Fields(LINES))

    await RecordingClient(client, lambda: None, ManualClock(0.0)).fetch(request)
    await RecordingClient(client, lambda: recorder, ManualClock(0.0)).fetch(request)

    idle, recording = client.sent
    assert idle == request.fields
    assert recorder.count == 1
    assert recording.get("accept-encoding") == "gzip, br, zstd"
    assert len(recording) == 1
