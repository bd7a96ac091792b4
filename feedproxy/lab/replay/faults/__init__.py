"""The catalogue of what origins do wrong, each with what a good reader does about it."""

from feedproxy.lab.replay.faults import broken_validators, content, error_responses, redirects, transport
from feedproxy.lab.replay.faults.base import Fault

GROUPS: tuple[tuple[str, tuple[type[Fault], ...]], ...] = (
    ("Validators and clocks", broken_validators.FAULTS),
    ("Refusals, errors and endings", error_responses.FAULTS),
    ("Redirects", redirects.FAULTS),
    ("The wire", transport.FAULTS),
    ("The document", content.FAULTS),
)

CATALOGUE: dict[str, type[Fault]] = {each.name: each for _, group in GROUPS for each in group}
"""Every fault by its name on the command line."""
