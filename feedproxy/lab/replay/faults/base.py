"""Base class and schedule of faults: changes to a representation or a response while the fault is active."""

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
    """Input of a fault beside the request: the time, reproducible random numbers, and when the fault began."""

    now: Instant
    random: Random
    since: Instant | None = None
    """Start of the period in which the fault is active; None if it has no start."""


class Fault:
    """A fault of the catalogue.

    The docstring of a class is its section in the manual: the fault, where it occurs, and what a good reader does.
    """

    name: ClassVar[str]
    default: ClassVar[str] = ""
    """The value if none is given."""
    when: ClassVar[str] = ""
    """The default period, in the syntax of `@WHEN`."""
    moves: ClassVar[bool] = False
    """The fault redirects to other addresses, which then serve the feed."""

    def __init__(self, value: str = "") -> None:
        """Set and check the value. Raises UsageError for an invalid one."""
        self.value = value or self.default
        self.check()

    def check(self) -> None:
        """Check the value. Raises UsageError for an invalid one."""
        if self.value and not self.default:
            raise UsageError(f"--fault {self.name}={self.value}: {self.name} takes no value")

    def show(self, shown: Representation, incoming: ReplayRequest, context: FaultContext) -> Representation:
        """Return the faulty representation; conditions are evaluated against it afterwards."""
        return shown

    def answer(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        """Return the faulty response."""
        return reply

    def number(self, least: float | None = None) -> float:
        """Return the value as a number. Raises UsageError."""
        try:
            found = float(self.value)
        except ValueError:
            found = math.nan
        if not abs(found) <= NUMBER_MAX or (least is not None and found < least):
            raise UsageError(f"--fault {self.name}={self.value}: expected a number")
        return found


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault and the schedule of its activity."""

    fault: Fault
    when: FaultSchedule
    seed: str

    def context(self, incoming: ReplayRequest) -> FaultContext | None:
        """Return the context of a request; None if the fault is not active."""
        # A seed for each request: other requests in between do not change the response.
        random = Random(f"{self.seed}/{incoming.target}/{incoming.number}")  # noqa: S311 -- a play, no secret
        if not self.when.holds(incoming.at, incoming.number, random):
            return None
        return FaultContext(incoming.at, random, self.when.begin)


def parse_fault(text: str, kinds: dict[str, type[Fault]], start: Instant, seed: str) -> PlannedFault:
    """Parse `NAME[=VALUE][@WHEN]`. Raises UsageError, with the most similar name of a fault."""
    import difflib  # noqa: PLC0415 -- only for unknown names

    specification, _, when = text.partition("@")
    name, _, value = specification.partition("=")
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
