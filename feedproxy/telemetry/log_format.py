"""Formats of the log lines of all loggers, and of the errors of commands.

access_log_format.py formats the requests of the access log.

In every line, control characters are escaped, and secrets in addresses are removed. User information is left out, and
tokens in a query become `…`.
"""

import json
import logging
import re
import sys
from typing import Any

from feedproxy.http.date import format_rfc3339
from feedproxy.http.target_uri.url_redaction import text_without_secrets

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


def printable_lines(text: str) -> str:
    r"""Return a text, JSON or HTML with control characters other than line feeds written as in JSON, such as
    `\u001b`."""
    return "\n".join(map(printable, text.split("\n")))


def print_error(message: object) -> None:
    """Print an error of a command as one line, with its control characters escaped. Names of files and arguments can
    contain such characters."""
    print(printable(f"feedproxy: {message}"), file=sys.stderr)


class LineFormatter(logging.Formatter):
    """Formatter of a record as one line, with a status in place of a level for an access line. The lines of a traceback
    are indented below the line."""

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
    """Formatter that writes every line as a JSON object. Access lines are JSON objects already. Any other line has
    `time`, `level`, and the members of the record's `fields` or, if there are none, `message`."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if record.name == ACCESS_LOGGER:
            return printable(text)
        at = format_rfc3339(record.created)
        message = {"message": text_without_secrets(text)}
        line = {"time": at, "level": record.levelname.lower(), **getattr(record, "fields", message)}
        return printable(json.dumps(line, ensure_ascii=False))


def line_formatter(form: str) -> logging.Formatter:
    if form == "json":
        return JsonLines()
    kind = CombinedLines if form == "combined" else LineFormatter
    return kind("%(asctime)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S%z")


def _indent(text: str) -> str:
    return "\n".join("  " + printable(line) for line in text_without_secrets(text).split("\n"))
