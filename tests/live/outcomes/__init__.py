"""The expected outcome of each hostile case."""

import re

from tests.live.outcomes import content, endings, messages, times
from tests.live.outcomes.common import Outcome

OUTCOMES = (*content.OUTCOMES, *endings.OUTCOMES, *messages.OUTCOMES, *times.OUTCOMES)
"""Patterns of ids, and outcomes."""


def outcome_of(name: str) -> Outcome | None:
    """Return the expected outcome of the case with this id, or None if it has not been examined."""
    return next((outcome for pattern, outcome in OUTCOMES if re.fullmatch(pattern, name)), None)
