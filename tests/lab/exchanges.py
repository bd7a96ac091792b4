"""Exchanges for tests."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from feedproxy.http.message import Fields, Request
from feedproxy.lab.record.exchange import Exchange, Recording, Side
from feedproxy.lab.record.har_writer import HarWriter

AT = 1_795_262_400.25
"""21 Nov 2026, noon, and a quarter of a second."""


def an_exchange(target: str = "https://example.com/feed", **changes: Any) -> Exchange:
    """Return a GET and its 200. `asked` and `answered` are field lines, as pairs."""
    asked, answered = changes.pop("asked", ()), changes.pop("answered", ())
    values = {"side": Side.READER, "at": AT, "status": 200, "reason": "OK", **changes}
    return Exchange(request=Request("GET", target, Fields(asked)), fields=Fields(answered), **values)


def dump_recording(recording: Recording) -> bytes:
    """Return the HAR file of a recording."""
    with TemporaryDirectory() as folder:
        writer = HarWriter(Path(folder) / "week.har")
        for exchange in recording.exchanges:
            writer.append(exchange, recording.contents.get(exchange.digest))
        writer.close(recording.until)
        return writer.path.read_bytes()
