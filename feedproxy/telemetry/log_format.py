"""Formats of the log lines of all loggers. access_log_format.py formats the requests of the access log.

In every line, control characters are escaped, and secrets in addresses are removed. User information is left out, and
tokens in a query become `…`.
"""

import asyncio
import json
import logging
import re
import time
from collections.abc import Sequence
from typing import Any

from feedproxy.clock import Seconds
from feedproxy.http.date import format_rfc3339
from feedproxy.http.target_uri.url_redaction import text_without_secrets
from feedproxy.telemetry.log_stream import NonBlockingStream, non_blocking

ACCESS_LOGGER = "feedproxy.access"
"""Name of the logger of access lines."""

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Pattern of C0 and C1 controls, DEL, line separators, controls of writing direction (UAX 9), and surrogates."""

_PRINTABLE_ASCII = bytes(range(0x20, 0x7F))


def printable(line: str) -> str:
    r"""Return a line with control characters written as in JSON, such as `\u001b`."""
    if line.isascii():
        # For a line of the access log, `isprintable` would take five times as long.
        is_printable = not line.encode("ascii").translate(None, _PRINTABLE_ASCII)
    else:
        is_printable = line.isprintable()
    if is_printable:
        return line
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", line)


class LineFormatter(logging.Formatter):
    """Formatter of a record as one line. The lines of a traceback are indented below the line.

    Access lines have a status in place of a level.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        if record.name != ACCESS_LOGGER:
            record.message = f"[{record.levelname.lower()}] {text_without_secrets(record.message)}"
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        return _indent(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        return _indent(stack_info)


class CombinedLines(LineFormatter):
    """Formatter for `log_format=combined`. Access lines get no prefix. Other lines have the text form."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(record.getMessage()) if record.name == ACCESS_LOGGER else super().format(record)


class JsonLines(logging.Formatter):
    """Formatter that writes every line as a JSON object. Access lines are JSON objects already.

    The object of any other line has `time`, `level`, and the members of the record's `fields`. If the record has no
    `fields`, the object has `message` instead.
    """

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if record.name == ACCESS_LOGGER:
            return printable(text)
        at = format_rfc3339(record.created)
        message = {"message": text_without_secrets(text)}
        line = {"time": at, "level": record.levelname.lower(), **getattr(record, "fields", message)}
        return printable(json.dumps(line, ensure_ascii=False))


def _formatter(form: str) -> logging.Formatter:
    if form == "json":
        return JsonLines()
    kind = CombinedLines if form == "combined" else LineFormatter
    return kind("%(asctime)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S%z")


def _indent(text: str) -> str:
    return "\n".join("  " + printable(line) for line in text_without_secrets(text).split("\n"))


BATCH_INTERVAL: Seconds = 0.05
"""A log line of the access log or of a `LineBatch` is buffered for at most this many seconds. Writing each line at once
would cost a fifth of a hit's time."""

MARK = "<line>"


class LineHandler(logging.StreamHandler[Any]):
    """Handler that can write many log lines, such as those of one event-loop iteration, with one system call."""

    def __init__(self, stream: Any) -> None:
        super().__init__(non_blocking(stream, self._dropped_line))
        self._prefix_of = ("", 0)
        """The name of the logger and the second for which `_prefix` was made."""
        self._prefix = ""

    def close(self) -> None:
        if isinstance(self.stream, NonBlockingStream):
            self.stream.close()
        super().close()

    def _dropped_line(self, count: int) -> str:
        message = "log: %d lines dropped while the log was not read"
        return self.format(logging.LogRecord(__name__, logging.WARNING, "", 0, message, (count,), None)) + "\n"

    def set_form(self, form: str) -> None:
        self._prefix_of = ("", 0)
        self.setFormatter(_formatter(form))

    def write_all(self, name: str, lines: Sequence[str]) -> None:
        """Write lines as if the logger `name` had logged each at INFO."""
        prefix_of = (name, int(time.time()))
        if prefix_of != self._prefix_of:
            self._prefix_of = prefix_of
            # Formatters escape control characters, but do not change this placeholder.
            record = logging.LogRecord(name, logging.INFO, "", 0, "%s", (MARK,), None)
            self._prefix = self.format(record).partition(MARK)[0]
        try:
            self.stream.write(self._prefix + f"\n{self._prefix}".join(lines) + "\n")
            self.flush()
        except Exception:
            self.handleError(logging.LogRecord(name, logging.INFO, "", 0, "%d lines", (len(lines),), None))


def dropped_line_count() -> int:
    streams = [handler.stream for handler in logging.getLogger().handlers if isinstance(handler, LineHandler)]
    return sum([stream.dropped_count for stream in streams if isinstance(stream, NonBlockingStream)])


def write_all(logger: logging.Logger, lines: Sequence[str]) -> None:
    """Log lines at INFO, with one write if all handlers support it."""
    if not logger.isEnabledFor(logging.INFO):
        return
    handlers, ancestor = list[logging.Handler](), logger
    while True:
        handlers += ancestor.handlers
        if ancestor.parent is None or not ancestor.propagate:
            break
        ancestor = ancestor.parent
    if all(type(handler) is LineHandler for handler in handlers):
        for handler in handlers:
            assert isinstance(handler, LineHandler)
            handler.write_all(logger.name, lines)
    else:
        for line in lines:
            logger.info("%s", line)


class LineBatch:
    """Lines of one logger that are written together."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._is_scheduled = False
        self.lines: list[str] = []
        """The lines that are not written yet. A blank line stands for a request that is counted, but not logged."""
        self.written_count = 0

    def add(self, line: str) -> None:
        """Write a line within BATCH_INTERVAL seconds."""
        self.lines.append(line)
        self.schedule_flush()

    def schedule_flush(self) -> None:
        """Write the lines within BATCH_INTERVAL seconds."""
        if self.lines and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_later(BATCH_INTERVAL, self.flush)

    def flush(self) -> None:
        """Write the lines now."""
        self._is_scheduled = False
        lines, self.lines[:] = list(self.lines), ()
        self.written_count += len(lines)
        if lines_to_write := [line for line in lines if line]:
            write_all(self._logger, lines_to_write)
