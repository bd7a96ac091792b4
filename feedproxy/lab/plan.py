"""A plan: what a reader is played, for how long, how it is started, and what it has to reach. YAML, checked at once."""

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
from feedproxy.lab.record.exchange import digest_of
from feedproxy.lab.replay.timeline import ReplayWorld, Timeline, Version
from feedproxy.lab.replay.virtual_time import parse_instant, parse_length

MONDAY: Instant = 1_767_571_200
"""2026-01-05T00:00:00Z: when a feed that is made up begins."""

DAYS_MAX = 366
RUNS_MAX = 10_000
"""How often a command may be started: more is a mistake in the plan."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Lengths are seconds; `every` and those below it are for commands that are started for each poll."""

    source: str = ""
    """A recording or a folder of dated versions, from the plan's own folder; empty: a feed is made up."""
    url: str = ""
    """Which address of the source; empty: its first."""
    change: Seconds = 14_400
    """How often a made-up feed has something new."""
    at: str = ""
    """When it begins; as `feedproxy replay --at`."""
    days: float = 2.0
    every: Seconds = 3600
    jitter: Seconds = 300
    """Each start is later by up to so much, by chance."""
    speed: float = 0.0
    """Above 0: the command is started once and runs, while the clock runs so many times as fast as real time."""
    add: tuple[str, ...] = ()
    strip: tuple[str, ...] = ()
    fault: tuple[str, ...] = ()
    seed: str = "1"
    timeout: Seconds = 60
    """Of real time: how long a command may take for one poll."""
    faketime: bool = False
    """The command sees the virtual clock, by libfaketime."""
    own_home: bool = True
    """HOME is an empty folder, which is the same for all starts and goes at the end."""
    grade: int = 0
    without: tuple[str, ...] = field(default=())
    """Findings, by their names, that must not be there."""

    def start(self, world: ReplayWorld) -> Instant:
        """When it begins. Raises UsageError."""
        return parse_instant(self.at, world.first) if self.at else world.first


_LENGTHS = ("change", "every", "jitter", "timeout")
_LISTS = ("add", "strip", "fault", "without")


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises UsageError, which names file and key."""
    try:
        told = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, YAMLError) as error:
        raise UsageError(f"{path}: {' '.join(str(error).split())}") from error
    if not isinstance(told, Mapping):
        raise UsageError(f"{path}: expected keys such as days, every, fault, pass")
    given = dict(told)
    demands = given.pop("pass", None) or {}
    if not isinstance(demands, Mapping) or set(demands) - {"grade", "without"}:
        raise UsageError(f"{path}: pass: expected grade and without")
    names = {each.name for each in fields(Plan)} - {"grade", "without"}
    if unknown := sorted(set(map(str, given)) - names):
        raise UsageError(f"{path}: {unknown[0]}: no such key; there are {', '.join(sorted(names))} and pass")
    values = {name: _value(path, name, value) for name, value in {**given, **demands}.items() if value is not None}
    plan = Plan(**values)
    _check(path, plan)
    return plan


def _value(path: Path, name: str, value: Any) -> Any:
    try:
        if name in _LENGTHS:
            return float(value) if isinstance(value, int | float) else parse_length(str(value))
        if name in _LISTS:
            return tuple(map(str, value if isinstance(value, list) else [value]))
        kind = type(getattr(Plan(), name))
        if kind is bool and not isinstance(value, bool):
            raise ValueError("expected true or false")
        return kind(value)
    except (ValueError, TypeError, UsageError) as error:
        raise UsageError(f"{path}: {name}: {error}") from error


def _check(path: Path, plan: Plan) -> None:
    if not 0 < plan.days <= DAYS_MAX:
        raise UsageError(f"{path}: days: expected a number above 0, at most {DAYS_MAX}")
    if not 0 <= plan.speed <= 1e6:
        raise UsageError(f"{path}: speed: expected a number from 0 to 1000000")
    if plan.every < 1 or plan.days * 86_400 / plan.every > RUNS_MAX:
        raise UsageError(f"{path}: every: the command would be started more than {RUNS_MAX} times")
    if not 0 <= plan.grade <= 100:
        raise UsageError(f"{path}: pass: grade: expected a grade from 0 to 100")
    if plan.change < 1:
        raise UsageError(f"{path}: change: expected a length of time such as 4h")


def generate_feed(plan: Plan) -> ReplayWorld:
    """A feed that has a new entry every `change` seconds, known at any host under `/feed.xml`."""
    count = min(5000, math.ceil(plan.days * 86_400 / plan.change) + 2)
    return ReplayWorld({}, {"/feed.xml": Timeline([_version(number, plan.change) for number in range(count)])})


def _version(number: int, change: Seconds) -> Version:
    since = MONDAY + number * change
    content = _document(number, change)
    return Version(
        since=since,
        fields=Fields([("Content-Type", "application/rss+xml; charset=utf-8")]),
        content=content,
        tag=f'"{digest_of(content)[:16]}"',
        modified=format_http_date(since),
        coded=("gzip",),
        reason="OK",
    )


def _document(last: int, change: Seconds) -> bytes:
    items = "".join(
        f"<item><title>Entry {number}</title><link>http://example.com/{number}</link>"
        f'<guid isPermaLink="false">tag:example.com,2026:{number}</guid>'
        f"<pubDate>{format_http_date(MONDAY + number * change)}</pubDate>"
        f"<description>{'What happened then, in a few words. ' * 8}</description></item>\n"
        for number in range(last, max(-1, last - 20), -1)
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<rss version="2.0"><channel><title>A feed in the lab</title>'
        f"<link>http://example.com/</link><description>Made up</description>\n{items}</channel></rss>\n"
    ).encode()
