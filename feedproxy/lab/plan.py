"""Test plans in YAML: the feed, the duration, the reader's command, and the required grade."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from feedproxy.clock import Instant, Seconds
from feedproxy.errors import UsageError
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields
from feedproxy.lab.record.exchange import content_digest
from feedproxy.lab.replay.time_arguments import parse_instant, parse_length
from feedproxy.lab.replay.timeline import ReplayWorld, Timeline, Version

SYNTHETIC_START: Instant = 1_767_571_200
"""Time of the first version of a generated feed: 2026-01-05T00:00:00Z."""

DAYS_MAX = 366
STARTS_MAX = 10_000
"""Maximum number of starts of the command in one run. A plan with more starts is rejected as a mistake."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A test plan. Durations are in seconds.

    `every` is the interval between two starts of the command. A command that keeps running is started only once.
    """

    source: str = ""
    """Path of a recording, or of a folder with dated versions, relative to the plan's folder. "" for a generated
    feed."""
    url: str = ""
    """Address of the feed in the source, or "" for the first feed."""
    change: Seconds = 14_400
    """Seconds between two entries of a generated feed."""
    at: str = ""
    """Virtual time at which the run begins, in the syntax of `feedproxy replay --at`."""
    days: float = 2.0
    every: Seconds = 3600
    jitter: Seconds = 300
    """Maximum random delay of a start, in seconds, unless the command keeps running."""
    speed: float = 0.0
    """Ratio of virtual to real time for a command that keeps running, or 0 to start the command for each poll."""
    add: tuple[str, ...] = ()
    strip: tuple[str, ...] = ()
    fault: tuple[str, ...] = ()
    seed: str = "1"
    timeout: Seconds = 60
    """Maximum real time of one start of the command, in seconds."""
    faketime: bool = False
    """True if libfaketime gives the command the virtual time as its system time."""
    own_home: bool = True
    """True if all starts of the command share a temporary folder as HOME."""
    grade: int = 0
    without: tuple[str, ...] = field(default=())
    """Names of findings that no reader's score may contain."""

    def start(self, world: ReplayWorld) -> Instant:
        """Return the virtual time at which the run begins. Raises UsageError if the plan states an invalid time."""
        return parse_instant(self.at, world.first) if self.at else world.first


_DURATION_KEYS = ("change", "every", "jitter", "timeout")
_LIST_KEYS = ("add", "strip", "fault", "without")


def read_plan(path: Path) -> Plan:
    """Return the plan in a file. Raises UsageError, with the file and the key in its message."""
    try:
        document = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, YAMLError) as error:
        raise UsageError(f"{path}: {' '.join(str(error).split())}") from error
    if not isinstance(document, Mapping):
        raise UsageError(f"{path}: expected keys such as days, every, fault, pass")
    values = dict(document)
    demands = values.pop("pass", None) or {}
    if not isinstance(demands, Mapping) or set(demands) - {"grade", "without"}:
        raise UsageError(f"{path}: pass: expected grade and without")
    names = {plan_field.name for plan_field in fields(Plan)} - {"grade", "without"}
    if unknown := sorted(set(map(str, values)) - names):
        raise UsageError(f"{path}: unknown key {unknown[0]}; expected one of {', '.join(sorted(names))} and pass")
    values = {
        name: _parse_value(path, name, value) for name, value in {**values, **demands}.items() if value is not None
    }
    plan = Plan(**values)
    _validate(path, plan)
    return plan


def _parse_value(path: Path, name: str, value: Any) -> Any:
    try:
        if name in _DURATION_KEYS:
            return float(value) if isinstance(value, int | float) else parse_length(str(value))
        if name in _LIST_KEYS:
            return tuple(map(str, value if isinstance(value, list) else [value]))
        kind = type(getattr(Plan(), name))
        if kind is bool and not isinstance(value, bool):
            raise ValueError("expected true or false")
        return kind(value)
    except (ValueError, TypeError, UsageError) as error:
        raise UsageError(f"{path}: {name}: {error}") from error


def _validate(path: Path, plan: Plan) -> None:
    if not 0 < plan.days <= DAYS_MAX:
        raise UsageError(f"{path}: days: expected a number above 0, at most {DAYS_MAX}")
    if not 0 <= plan.speed <= 1e6:
        raise UsageError(f"{path}: speed: expected a number from 0 to 1000000")
    if plan.every < 1 or plan.days * 86_400 / plan.every > STARTS_MAX:
        raise UsageError(f"{path}: every: the command would be started more than {STARTS_MAX} times")
    if not 0 <= plan.grade <= 100:
        raise UsageError(f"{path}: pass: grade: expected a grade from 0 to 100")
    if plan.change < 1:
        raise UsageError(f"{path}: change: expected a duration such as 4h")


def generate_feed(plan: Plan) -> ReplayWorld:
    """Return a generated feed with a new entry every `change` seconds, served at `/feed.xml` of every host."""
    count = min(5000, math.ceil(plan.days * 86_400 / plan.change) + 2)
    return ReplayWorld({}, {"/feed.xml": Timeline([_version(number, plan.change) for number in range(count)])})


def _version(number: int, change: Seconds) -> Version:
    since = SYNTHETIC_START + number * change
    content = _document(number, change)
    return Version(
        since=since,
        fields=Fields([("Content-Type", "application/rss+xml; charset=utf-8")]),
        content=content,
        tag=f'"{content_digest(content)[:16]}"',
        modified=format_http_date(since),
        coded=("gzip",),
        reason="OK",
    )


def _document(last: int, change: Seconds) -> bytes:
    items = "".join(
        f"<item><title>Entry {number}</title><link>http://example.com/{number}</link>"
        f'<guid isPermaLink="false">tag:example.com,2026:{number}</guid>'
        f"<pubDate>{format_http_date(SYNTHETIC_START + number * change)}</pubDate>"
        f"<description>{'What happened then, in a few words. ' * 8}</description></item>\n"
        for number in range(last, max(-1, last - 20), -1)
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<rss version="2.0"><channel><title>A feed in the lab</title>'
        f"<link>http://example.com/</link><description>Made up</description>\n{items}</channel></rss>\n"
    ).encode()
