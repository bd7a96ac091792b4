"""Set-up of the log: the stream, the form and the level of feedproxy's lines, and of mitmproxy's warnings."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import Any

from feedproxy.settings import Settings
from feedproxy.telemetry.log_stream import LineHandler


def _is_real_error(record: logging.LogRecord) -> bool:
    """Return True if a log record is an error. The cancellation of tasks, which asyncio logs before 3.12.3, is no
    error."""
    return not (record.exc_info and record.exc_info[0] is asyncio.CancelledError)


def _is_not_about_authority(record: logging.LogRecord) -> bool:
    """Return False for mitmproxy's warning about an expired certificate authority, and True for other records. The
    warning does not name the right folder, and is logged twice, even if no host is intercepted."""
    return "certificate authority has expired" not in record.getMessage()


def log_to(stream: Any = None) -> None:
    """Log feedproxy's lines and mitmproxy's warnings to a stream."""
    handler = LineHandler(stream or sys.stderr)
    handler.addFilter(_is_real_error)
    logging.getLogger().addHandler(handler)
    # A failure to listen is reported once, as the reason for the exit.
    logging.getLogger("mitmproxy.addons.proxyserver").setLevel(logging.CRITICAL)
    # The checks of the start report an expired authority (process/startup_checks.py).
    logging.getLogger("mitmproxy.addons.tlsconfig").addFilter(_is_not_about_authority)
    set_log(Settings())


@contextlib.contextmanager
def hold_lines() -> Iterator[list[logging.LogRecord]]:
    """Hold back the lines that are logged in the `with` block, and log them at its end with the form and level that
    were set in the block. Yield the list of these lines, from which the caller may remove lines."""
    held: list[logging.LogRecord] = []
    handlers = _line_handlers()

    def hold(record: logging.LogRecord) -> bool:
        held.append(record)
        return False

    for handler in handlers:
        handler.addFilter(hold)
    try:
        yield held
    finally:
        for handler in handlers:
            handler.removeFilter(hold)
        for record in held:
            if logging.getLogger(record.name).isEnabledFor(record.levelno):
                for handler in handlers:
                    handler.handle(record)


def set_log(settings: Settings) -> None:
    root, level = logging.getLogger(), logging.getLevelNamesMapping()[settings.log_level.upper()]
    for handler in _line_handlers():
        handler.set_form(settings.log_format)
    root.setLevel(logging.INFO if level == logging.DEBUG else max(level, logging.WARNING))
    logging.getLogger("feedproxy").setLevel(level)


def _line_handlers() -> list[LineHandler]:
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, LineHandler)]
