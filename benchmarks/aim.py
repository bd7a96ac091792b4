"""A figure that is no ratio to a peer: what was measured, and what is to be reached."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Aim:
    """`sense` is ≤ or ≥; without a target the figure is there to compare with; None: it could not be measured."""

    what: str
    value: float | None
    unit: str
    sense: str = "≤"
    target: float | None = None
