"""The log with `log_format: json`."""

import io
import json
import logging

from feedproxy.telemetry.access_log_format import AccessLine
from feedproxy.telemetry.log_format import JsonLines


def test_json_log_writes_every_line_as_an_object() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    line = AccessLine(0.0, "r", "gateway", "GET", "http://example.com/", 200, 2, "feedproxy; hit", 0.1, 'a "b"')

    for name, text in (("feedproxy.access", line.as_json()), ("feedproxy", 'it said "no"\nand left')):
        handler.emit(logging.LogRecord(name, logging.WARNING, "", 0, text, (), None))

    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["time"], first["user_agent"]) == ("1970-01-01T00:00:00Z", 'a "b"')
    assert (second["level"], second["message"]) == ("warning", 'it said "no"\nand left')
