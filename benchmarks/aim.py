"""A figure of the third table of results: a measured value with its unit and target."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Aim:
    """A measured figure with its target. `sense` is `≤` or `≥`: the relation that the value should have to the target.

    A figure without a target is for comparison only. A value of None means that the measurement failed.
    """

    what: str
    value: float | None
    unit: str
    sense: str = "≤"
    target: float | None = None
