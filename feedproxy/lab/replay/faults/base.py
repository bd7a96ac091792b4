"""What a fault is: something wrong with what is shown, or with how it is answered, while it is at work."""

import math
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from feedproxy.clock import Instant
from feedproxy.errors import UsageError
from feedproxy.lab.replay.replay_response import ReplayRequest, ReplayResponse, Representation
from feedproxy.lab.replay.virtual_time import FaultSchedule, parse_when

NUMBER_MAX = 10**10
"""Seconds: three centuries. Beyond the year 9999 there are no dates."""


@dataclass(frozen=True, slots=True)
class FaultContext:
    """What a fault may lean on beside the request: chance that is the same in every run, and when it began."""

    now: Instant
    random: Random
    since: Instant | None = None
    """The beginning of the stretch in which the fault is at work; None where there is none."""


class Fault:
    """One entry of the catalogue.

    A class's docstring is its page in the manual: what goes wrong, where that is met, and what a good reader does.
    """

    name: ClassVar[str]
    default: ClassVar[str] = ""
    """The value where none is given."""
    when: ClassVar[str] = ""
    """When it is at work where that is not said."""
    moves: ClassVar[bool] = False
    """It leads readers to other addresses, which then have to answer."""

    def __init__(self, value: str = "") -> None:
        """Raises UsageError for a value that it does not know."""
        self.value = value or self.default
        self.check()

    def check(self) -> None:
        """Raises UsageError for a wrong value."""
        if self.value and not self.default:
            raise UsageError(f"--fault {self.name}={self.value}: {self.name} takes no value")

    def show(self, shown: Representation, asked: ReplayRequest, moment: FaultContext) -> Representation:
        """What is wrong with the representation, before conditions are evaluated against it."""
        return shown

    def answer(self, reply: ReplayResponse, asked: ReplayRequest, moment: FaultContext) -> ReplayResponse:
        """What is wrong with the answer."""
        return reply

    def number(self, least: float | None = None) -> float:
        """The value as a number. Raises UsageError."""
        try:
            found = float(self.value)
        except ValueError:
            found = math.nan
        if not abs(found) <= NUMBER_MAX or (least is not None and found < least):
            raise UsageError(f"--fault {self.name}={self.value}: expected a number")
        return found


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault, and when it is at work."""

    fault: Fault
    when: FaultSchedule
    seed: str

    def moment(self, asked: ReplayRequest) -> FaultContext | None:
        """What it may lean on now; None where it is not at work."""
        # A seed for each request: the same answer, whatever else was asked for in between.
        random = Random(f"{self.seed}/{asked.target}/{asked.number}")  # noqa: S311 -- a play, no secret
        if not self.when.holds(asked.at, asked.number, random):
            return None
        return FaultContext(asked.at, random, self.when.begin)


def parse_fault(text: str, kinds: dict[str, type[Fault]], start: Instant, seed: str) -> PlannedFault:
    """`NAME[=VALUE][@WHEN]`. Raises UsageError, and names the nearest right one."""
    import difflib  # noqa: PLC0415 -- for those who mistype

    said, _, when = text.partition("@")
    name, _, value = said.partition("=")
    if name not in kinds:
        near = difflib.get_close_matches(name, kinds, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise UsageError(f"--fault {name}: there is no such fault{hint}; see --list-faults")
    kind = kinds[name]
    try:
        at = parse_when(when or kind.when, start)
    except UsageError as error:
        raise UsageError(f"--fault {text}: {error}") from error
    return PlannedFault(kind(value), at, f"{seed}/{name}")
