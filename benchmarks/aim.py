"""A figure that is not a ratio to a peer: a measured value and its target."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Aim:
    """A figure. Its value should be ≤ or ≥ its target, as `sense` says.

    A figure without a target is for comparison only. A value of None could not be measured.
    """

    what: str
    value: float | None
    unit: str
    sense: str = "≤"
    target: float | None = None
