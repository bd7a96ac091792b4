"""Base class and schedule of faults. An active fault changes the representation or the response."""

import math
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from feedproxy.clock import Instant
from feedproxy.errors import UsageError
from feedproxy.lab.replay.replay_response import ReplayRequest, ReplayResponse, Representation
from feedproxy.lab.replay.time_arguments import FaultSchedule, parse_when

NUMBER_MAX = 10**10
"""Maximum absolute value of a number in a fault's value: in seconds, three centuries. A time that differs by this much
from today can still be written as an HTTP date, because HTTP dates end with the year 9999."""


@dataclass(frozen=True, slots=True)
class FaultContext:
    """The circumstances of a faulty response: the time, reproducible random numbers, and the time when the fault
    began."""

    now: Instant
    random: Random
    since: Instant | None = None
    """Start of the period in which the fault is active; None if the period has no start."""


class Fault:
    """A fault of the catalogue.

    The docstring of a subclass is its section in the manual: the fault, its causes, and the behaviour of a good reader.
    """

    name: ClassVar[str]
    default: ClassVar[str] = ""
    """Value of the fault if the command line gives none."""
    when: ClassVar[str] = ""
    """Period in which the fault is active if the command line gives none, in the syntax of `@WHEN`."""
    moves: ClassVar[bool] = False
    """True if the fault redirects to other addresses, at which the feed is served."""

    def __init__(self, value: str = "") -> None:
        """Store and check the value. Raises UsageError if it is invalid."""
        self.value = value or self.default
        self.check()

    def check(self) -> None:
        """Check the value. Raises UsageError if it is invalid."""
        if self.value and not self.default:
            raise UsageError(f"--fault {self.name}={self.value}: expected no value")

    def change_representation(
        self, representation: Representation, incoming: ReplayRequest, context: FaultContext
    ) -> Representation:
        """Return the representation as the fault changes it. The conditions of the request are evaluated against the
        result."""
        return representation

    def change_response(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        """Return the response as the fault changes it."""
        return reply

    def parse_number(self, least: float | None = None) -> float:
        """Return the value as a number. Raises UsageError if it is not a number, or below `least`."""
        try:
            number = float(self.value)
        except ValueError:
            number = math.nan
        if not abs(number) <= NUMBER_MAX or (least is not None and number < least):
            raise UsageError(f"--fault {self.name}={self.value}: expected a number")
        return number


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault with the schedule of its activity."""

    fault: Fault
    when: FaultSchedule
    seed: str

    def context(self, incoming: ReplayRequest) -> FaultContext | None:
        """Return the circumstances of a request, or None if the fault is not active for it."""
        # Each request has its own seed, so that other requests do not change its response.
        random = Random(f"{self.seed}/{incoming.target}/{incoming.number}")  # noqa: S311 -- a simulation, no secret
        if not self.when.holds(incoming.at, incoming.number, random):
            return None
        return FaultContext(incoming.at, random, self.when.begin)


def parse_fault(text: str, kinds: dict[str, type[Fault]], start: Instant, seed: str) -> PlannedFault:
    """Parse `NAME[=VALUE][@WHEN]` and return the fault.

    Raises UsageError; for an unknown name, the message suggests the most similar name.
    """
    import difflib  # noqa: PLC0415 -- only for unknown names

    specification, _, when = text.partition("@")
    name, _, value = specification.partition("=")
    if name not in kinds:
        similar = difflib.get_close_matches(name, kinds, 1)
        hint = f" (did you mean {similar[0]}?)" if similar else ""
        raise UsageError(f"--fault {name}: unknown fault{hint}; see --list-faults")
    kind = kinds[name]
    try:
        at = parse_when(when or kind.when, start)
    except UsageError as error:
        raise UsageError(f"--fault {text}: {error}") from error
    return PlannedFault(kind(value), at, f"{seed}/{name}")
