"""The line logged for each request: what was asked, what became of it (RFC 9211's words), and why.

Secrets never get here: userinfo is left out, and what looks like a token in a query is shown as `…`, in targets and in
addresses within a reason. Every line of the log, those of other loggers included, goes through `printable`, and its
addresses lose their secrets here.
"""

import json
import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from feedproxy.clock import Instant, Seconds
from feedproxy.http.memoize import memoised
from feedproxy.http.redaction import text_without_secrets, without_secrets

REQUESTS = "feedproxy.access"
"""The logger of the lines for requests."""

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""C0, DEL and C1 controls, line separators, controls of writing direction (UAX 9), and what has no form in UTF-8."""


def printable(line: str) -> str:
    """A line without control characters: they are written as `\\u001b`, which JSON reads as the character itself."""
    if line.isprintable():
        return line
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


class LineFormatter(logging.Formatter):
    """One line for what is logged, without control characters; the lines of a traceback are indented below it.

    The level stands before every line but those of requests, which have a status.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        if record.name != REQUESTS:
            record.message = f"[{record.levelname.lower()}] {text_without_secrets(record.message)}"
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        return _indent(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        return _indent(stack_info)


class CombinedLines(LineFormatter):
    """The lines of requests with nothing before them; all others as text."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(record.getMessage()) if record.name == REQUESTS else super().format(record)


class JsonLines(logging.Formatter):
    """Every line an object: those of requests are (`Line.as_json`), all others become one.

    The members are those of the record's `fields` where it brings some, else its `message`.
    """

    def format(self, record: logging.LogRecord) -> str:
        said = super().format(record)
        if record.name == REQUESTS:
            return printable(said)
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        message = {"message": text_without_secrets(said)}
        line = {"time": at, "level": record.levelname.lower(), **getattr(record, "fields", message)}
        return printable(json.dumps(line, ensure_ascii=False))


def _formatter(form: str) -> logging.Formatter:
    """The formatter for all lines, where those of requests have this form (`log_format`)."""
    if form == "json":
        return JsonLines()
    kind = CombinedLines if form == "combined" else LineFormatter
    return kind("%(asctime)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S%z")


def _indent(text: str) -> str:
    return "\n".join("  " + printable(line) for line in text_without_secrets(text).split("\n"))


@memoised(entries=1024)
def quoted(agent: str) -> str:
    """A User-Agent, as the line for people has it."""
    return json.dumps(text_without_secrets(agent))


@dataclass(frozen=True, slots=True)
class AccessLine:
    """One request, as it is logged. `reader` is a pseudonym; `upstream` the target where readers know another."""

    at: Instant
    reader: str
    entrance: str
    method: str
    target: str
    status: int
    size: int
    cache: str
    seconds: Seconds
    agent: str
    words: str = ""
    upstream: str = ""

    def as_text(self, show: Callable[[str], str] = without_secrets) -> str:
        """For people and for grep. `show` is for who has taken the secrets out of the targets already."""
        return as_text(
            self.reader,
            self.entrance,
            self.method,
            show(self.target),
            self.status,
            self.size,
            f"{self.seconds * 1000:.1f}ms",
            self.cache,
            quoted(self.agent),
            text_without_secrets(self.words),
        )

    def written(self, form: str, show: Callable[[str], str] = without_secrets) -> str:
        """The line in this form: `text`, `json` or `combined`. `show` is as for `as_text`."""
        write = {"json": self.as_json, "combined": self.as_combined}.get(form, self.as_text)
        return write(show)

    def as_combined(self, show: Callable[[str], str] = without_secrets) -> str:
        """For log analysers: the combined log format of Apache and nginx, with the reader's pseudonym as the host.

        The version of HTTP and the referring page are not known here: they are always `HTTP/1.1` and `-`.
        """
        moment = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(self.at))
        asked = f"{self.method} {show(self.target)} HTTP/1.1".replace("\\", "\\\\").replace('"', '\\"')
        agent = text_without_secrets(self.agent).replace("\\", "\\\\").replace('"', '\\"') or "-"
        return printable(f'{self.reader} - - [{moment}] "{asked}" {self.status} {self.size} "-" "{agent}"')

    def as_json(self, show: Callable[[str], str] = without_secrets) -> str:
        """For programs: one object a line."""
        said = json.dumps(
            {
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.at)),
                "reader": self.reader,
                "entrance": self.entrance,
                "method": self.method,
                "target": show(self.target),
                **({"upstream": show(self.upstream)} if self.upstream else {}),
                "status": self.status,
                "bytes": self.size,
                "cache_status": self.cache,
                "seconds": round(self.seconds, 6),
                "user_agent": text_without_secrets(self.agent),
                "reason": text_without_secrets(self.words),
            },
            ensure_ascii=False,
        )
        return printable(said)


def as_text(
    reader: str,
    entrance: str,
    method: str,
    target: str,
    status: int,
    size: int,
    took: str,
    cache: str,
    agent: str,
    words: str,
) -> str:
    """A line for people; `took` with its unit, `agent` in its quotation marks, no secret in `target`."""
    return printable(f"{reader} {entrance} {method} {target} {status} {size} {took} [{cache}] {agent} {words}".rstrip())


MARK = "<line>"
"""Stands for the line, to find what is written before each."""


class LineHandler(logging.StreamHandler[Any]):
    """Writes lines as they come, or many at once: what a turn of the event loop answers is written in one go."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._second = 0
        self._before = ""

    def set_form(self, form: str) -> None:
        """Write lines in this form from now on (`log_format`)."""
        self._second = 0
        self.setFormatter(_formatter(form))

    def write_all(self, name: str, lines: Sequence[str]) -> None:
        """These lines, as if each had been logged under this name at INFO."""
        now = time.time()
        if int(now) != self._second:
            self._second = int(now)
            # A mark that no formatter escapes, as it does control characters.
            record = logging.LogRecord(name, logging.INFO, "", 0, "%s", (MARK,), None)
            self._before = self.format(record).partition(MARK)[0]
        try:
            self.stream.write(self._before + f"\n{self._before}".join(lines) + "\n")
            self.flush()
        except Exception:
            self.handleError(logging.LogRecord(name, logging.INFO, "", 0, "%d lines", (len(lines),), None))


def write_all(logger: logging.Logger, lines: Sequence[str]) -> None:
    """Log these lines at INFO, together where whoever listens can do that."""
    if not logger.isEnabledFor(logging.INFO):
        return
    handlers, here = list[logging.Handler](), logger
    while True:
        handlers += here.handlers
        if here.parent is None or not here.propagate:
            break
        here = here.parent
    if all(type(each) is LineHandler for each in handlers):
        for each in handlers:
            assert isinstance(each, LineHandler)
            each.write_all(logger.name, lines)
    else:
        for line in lines:
            logger.info("%s", line)
