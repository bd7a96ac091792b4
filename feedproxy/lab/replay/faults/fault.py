"""Base class and schedule of faults. A fault changes the representation or the response."""

import math
from collections.abc import Sequence
from random import Random
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.clock import Instant
from feedproxy.errors import UsageError
from feedproxy.http.message import Fields
from feedproxy.lab.replay.replay_response import ReplayRequest, ReplayResponse, reason_phrase
from feedproxy.lab.replay.time_arguments import FaultSchedule, parse_when
from feedproxy.lab.replay.timeline import Version

NUMBER_MAX = 10**10
"""A number in a fault's value may be at most this large, positive or negative: in seconds, three centuries. Dates then
stay valid in HTTP."""


class FaultContext(Struct, frozen=True):
    """The circumstances of a faulty response: the request, reproducible random numbers, and the beginning of the
    fault."""

    incoming: ReplayRequest
    random: Random
    since: Instant | None = None
    """Start of the period in which the fault is active, or None if the period has no start."""


class Fault:
    """A fault of the catalogue.

    The docstring of a subclass is its section in the manual: the fault, its causes, and the behaviour of a good reader.
    """

    name: ClassVar[str]
    default: ClassVar[str] = ""
    """Value of the fault if the command line states no value."""
    when: ClassVar[str] = ""
    moves: ClassVar[bool] = False
    """True if the fault redirects to other addresses, at which the replay serves the feed."""

    def __init__(self, value: str = "") -> None:
        """Store the fault's value. Raises UsageError if it is invalid."""
        self.value = value or self.default
        self.check()

    def check(self) -> None:
        if self.value and not self.default:
            raise UsageError(f"--fault {self.name}={self.value}: expected no value")

    def change_representation(self, representation: Version, context: FaultContext) -> Version:
        """Return the representation with the changes of the fault. The request's conditions are evaluated afterwards,
        against the result."""
        return representation

    def change_response(self, reply: ReplayResponse, context: FaultContext) -> ReplayResponse:
        """Return the response with the changes of the fault."""
        return reply


class NumberFault(Fault):
    """A fault with a number as its value. `number` is this number, which must be at least `least`."""

    least: ClassVar[float] = -NUMBER_MAX

    def check(self) -> None:
        try:
            self.number = float(self.value)
        except ValueError:
            self.number = math.nan
        if not self.least <= self.number <= NUMBER_MAX:
            raise UsageError(f"--fault {self.name}={self.value}: expected a number")


def replace_reply(reply: ReplayResponse, status: int, lines: Sequence[tuple[str, str]], body: bytes) -> ReplayResponse:
    """Return another response. Its Date, its delays, and the way in which the connection ends are those of `reply`."""
    date = [("Date", value)] if (value := reply.fields.get("date")) else []
    return replace(reply, status=status, fields=Fields([*date, *lines]), body=body, reason=reason_phrase(status))


class PlannedFault(Struct, frozen=True):
    """A fault with the schedule of its activity."""

    fault: Fault
    when: FaultSchedule
    seed: str

    def context(self, incoming: ReplayRequest) -> FaultContext | None:
        # Each request has its own seed, so that other requests do not change its response.
        random = Random(f"{self.seed}/{incoming.target}/{incoming.number}")  # noqa: S311 -- a simulation, no secret
        if not self.when.holds(incoming.at, incoming.number, random):
            return None
        return FaultContext(incoming, random, self.when.begin)


def parse_fault(text: str, kinds: dict[str, type[Fault]], start: Instant, seed: str) -> PlannedFault:
    """Return the fault that a text names in the form `NAME[=VALUE][@WHEN]`.

    `kinds` contains the known faults by name. Durations in WHEN count from the instant `start`. Equal texts with the
    same `seed` cause the same faulty responses. Raises UsageError if the text is invalid. For an unknown name, the
    message of this error suggests a similar name.
    """
    import difflib  # noqa: PLC0415 -- only for unknown names

    specification, _, when = text.partition("@")
    name, _, value = specification.partition("=")
    if name not in kinds:
        similar = difflib.get_close_matches(name, kinds, 1)
        hint = f" (did you mean {similar[0]}?)" if similar else ""
        raise UsageError(f"--fault {name}: unknown fault{hint}; see feedproxy replay --list-faults")
    kind = kinds[name]
    try:
        at = parse_when(when or kind.when, start)
    except UsageError as error:
        raise UsageError(f"--fault {text}: {error}") from error
    return PlannedFault(kind(value), at, f"{seed}/{name}")
