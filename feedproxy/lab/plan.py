"""Test plans in YAML: the feed, the duration, the reader's command, and the required grade."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import fields, replace

from feedproxy.clock import Instant, Seconds
from feedproxy.config.config_file import item_line, line_of, read_document
from feedproxy.errors import UsageError
from feedproxy.lab.generated_feed import SYNTHETIC_START, VERSIONS_MAX, version_count
from feedproxy.lab.replay.faults import CATALOGUE
from feedproxy.lab.replay.faults.fault import parse_fault
from feedproxy.lab.replay.hint_overrides import parse_changes
from feedproxy.lab.replay.time_arguments import parse_instant, parse_length
from feedproxy.lab.replay.timeline import ReplayWorld
from feedproxy.scoring.account_serialization import KINDS

DAYS_MAX = 366
STARTS_MAX = 10_000
"""Maximum number of starts of the command in one run. A plan with more starts is rejected as a mistake."""


class Plan(Struct, frozen=True):
    """A test plan. Durations are in seconds. `every` is the interval between two starts of the command, which is
    started only once if it keeps running."""

    source: str = ""
    """Path of a recording, or of a folder with dated versions, relative to the plan's folder. If it is empty, the feed
    is generated."""
    url: str = ""
    """Address of the feed in the source, or "" for the first feed."""
    change: Seconds = 14_400
    """Seconds between two entries of a generated feed."""
    at: str = ""
    """Virtual time at which the run begins, in the syntax of `feedproxy replay --at`."""
    days: float = 2.0
    every: Seconds = 3600
    jitter: Seconds = 300
    """Maximum random delay of each start, in seconds: at most `every`. It has no effect if the command keeps
    running."""
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
_PASS_KEYS = ("grade", "without")


def read_plan(path: Path) -> Plan:
    """Return the plan in a file. If it is invalid, raises UsageError with the file and the line in the message."""
    document = read_document(path)
    if not isinstance(document, Mapping):
        raise UsageError(f"{path}:1: expected keys such as days, every, fault, pass")
    names = sorted({plan_field.name for plan_field in fields(Plan)} - {*_PASS_KEYS})
    values = _parse_values(path, document, [*names, "pass"])
    demands = document.get("pass") or {}
    if not isinstance(demands, Mapping):
        raise UsageError(f"{path}:{line_of(document, 'pass')}: pass: expected the keys grade and without")
    values |= _parse_values(path, demands, _PASS_KEYS)
    plan = Plan(**values)
    if plan.days * 86_400 / plan.every > STARTS_MAX:
        line = line_of(document, "every" if "every" in document else "days")
        raise UsageError(f"{path}:{line}: every: the command would be started more than {STARTS_MAX} times")
    if not plan.source and version_count(plan.days, plan.change) > VERSIONS_MAX:
        line = line_of(document, "change" if "change" in document else "days")
        raise UsageError(f"{path}:{line}: change: the generated feed would have more than {VERSIONS_MAX} versions")
    if "jitter" in document and not plan.speed and plan.jitter > plan.every:
        location = f"{path}:{line_of(document, 'jitter')}"
        raise UsageError(f"{location}: jitter: expected at most the value of every, {plan.every:g} s")
    return replace(plan, jitter=min(plan.jitter, plan.every))


def _parse_values(path: Path, document: Mapping[Any, Any], names: Sequence[str]) -> dict[str, Any]:
    values = {}
    for name, value in document.items():
        location = f"{path}:{line_of(document, name)}"
        if name not in names:
            similar = difflib.get_close_matches(str(name), names, 1)
            hint = f"did you mean {similar[0]}?" if similar else f"expected one of {', '.join(names)}"
            raise UsageError(f"{location}: unknown key {name}; {hint}")
        if name == "pass" or value is None:
            continue
        if name in _LIST_KEYS:
            values[name] = tuple(_parse_texts(path, location, name, value))
            continue
        try:
            values[name] = _parse_value(name, value)
        except (ValueError, OverflowError, UsageError) as error:
            raise UsageError(f"{location}: {name}: {error}") from error
    return values


def _parse_texts(path: Path, location: str, name: str, value: Any) -> Iterator[str]:
    """Yield the items of the list `value`, or `value` itself if it is no list, as texts. `name` is the key of the plan,
    and `location` its place. Raises UsageError if a fault, a hint or a finding is unknown or invalid."""
    for index, item in enumerate(value if isinstance(value, list) else [value]):
        text = str(item)
        try:
            if name == "fault":
                parse_fault(text, CATALOGUE, SYNTHETIC_START, "")
            elif name == "without":
                _check_finding(text)
            else:
                parse_changes([text] if name == "strip" else [], [text] if name == "add" else [])
        except UsageError as error:
            # The errors of the command line begin with the name of the option, such as `--fault`.
            raise UsageError(f"{path}:{item_line(value, index, location)}: {str(error).removeprefix('--')}") from error
        yield text


def _check_finding(name: str) -> None:
    if name not in KINDS:
        similar = difflib.get_close_matches(name, KINDS, 1)
        hint = f"did you mean {similar[0]}?" if similar else "see docs/reference/findings.md"
        raise UsageError(f"without {name}: unknown finding; {hint}")


def _parse_value(name: str, value: Any) -> Any:
    if name in _DURATION_KEYS:
        return _parse_duration(name, value)
    if name in _RANGES:
        lowest, highest, kind = _RANGES[name]
        if isinstance(value, bool) or not isinstance(value, (int, kind)) or not lowest <= value <= highest:
            raise ValueError(f"expected a {'whole ' if kind is int else ''}number from {lowest:g} to {highest:g}")
        return kind(value)
    if isinstance(getattr(Plan(), name), bool):
        if not isinstance(value, bool):
            raise ValueError("expected true or false")
        return value
    if isinstance(value, Mapping | list):
        raise ValueError("expected one value")
    if name == "at":
        parse_instant(str(value), SYNTHETIC_START)
    return str(value)


_RANGES: Mapping[str, tuple[float, float, type[int] | type[float]]] = {
    "days": (0.001, DAYS_MAX, float),
    "speed": (0, 1_000_000, float),
    "grade": (0, 100, int),
}


def _parse_duration(name: str, value: Any) -> Seconds:
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    else:
        seconds = parse_length(str(value))
    lowest = 0 if name == "jitter" else 1
    if not lowest <= seconds <= DAYS_MAX * 86_400:
        raise ValueError(f"expected a duration of at least {lowest} s and at most {DAYS_MAX}d")
    return seconds
