"""Catalogue of faults of origins, each with the expected behaviour of a feed reader."""

from feedproxy.lab.replay.faults import broken_validators, content, error_responses, redirects, transport
from feedproxy.lab.replay.faults.base import Fault

GROUPS: tuple[tuple[str, tuple[type[Fault], ...]], ...] = (
    ("Validators and clocks", broken_validators.FAULTS),
    ("Refusals, errors and endings", error_responses.FAULTS),
    ("Redirects", redirects.FAULTS),
    ("The wire", transport.FAULTS),
    ("The document", content.FAULTS),
)

CATALOGUE: dict[str, type[Fault]] = {fault.name: fault for _, group in GROUPS for fault in group}
"""Every fault by its name on the command line."""
