"""Catalogue of an origin's faults. Each fault describes how a good feed reader behaves."""

from feedproxy.lab.replay.faults import (
    connection_faults,
    document_faults,
    error_response_faults,
    redirect_faults,
    validator_faults,
)
from feedproxy.lab.replay.faults.fault import Fault

GROUPS: tuple[tuple[str, tuple[type[Fault], ...]], ...] = (
    ("Validators and clocks", validator_faults.FAULTS),
    ("Refusals, errors and endings", error_response_faults.FAULTS),
    ("Redirects", redirect_faults.FAULTS),
    ("Transmission", connection_faults.FAULTS),
    ("The document", document_faults.FAULTS),
)

CATALOGUE: dict[str, type[Fault]] = {fault.name: fault for _, group in GROUPS for fault in group}
"""Every fault, keyed by its name on the command line."""
