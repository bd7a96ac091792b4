"""The catalogue of what origins do wrong, each with what a good reader does about it."""

from feedproxy.lab.faults import content, moves, refusals, validators, wire
from feedproxy.lab.faults.base import Fault

GROUPS: tuple[tuple[str, tuple[type[Fault], ...]], ...] = (
    ("Validators and clocks", validators.FAULTS),
    ("Refusals, errors and endings", refusals.FAULTS),
    ("Redirects", moves.FAULTS),
    ("The wire", wire.FAULTS),
    ("The document", content.FAULTS),
)

CATALOGUE: dict[str, type[Fault]] = {each.name: each for _, group in GROUPS for each in group}
"""Every fault by its name on the command line."""
