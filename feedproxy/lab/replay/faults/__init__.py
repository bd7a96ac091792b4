"""Catalogue of an origin's faults. Each fault describes how a good feed reader behaves."""

from feedproxy.lab.replay.faults import broken_validators, content, error_responses, redirect_faults, transport
from feedproxy.lab.replay.faults.base import Fault

GROUPS: tuple[tuple[str, tuple[type[Fault], ...]], ...] = (
    ("Validators and clocks", broken_validators.FAULTS),
    ("Refusals, errors and endings", error_responses.FAULTS),
    ("Redirects", redirect_faults.FAULTS),
    ("Transmission", transport.FAULTS),
    ("The document", content.FAULTS),
)

CATALOGUE: dict[str, type[Fault]] = {fault.name: fault for _, group in GROUPS for fault in group}
"""Every fault, keyed by its name on the command line."""
