"""What each hostile case is expected to come to."""

import re

from tests.live.outcomes import content, endings, messages, times
from tests.live.outcomes.common import Outcome

OUTCOMES = (*content.OUTCOMES, *endings.OUTCOMES, *messages.OUTCOMES, *times.OUTCOMES)
"""Patterns of ids, and outcomes."""


def outcome_of(name: str) -> Outcome | None:
    """What is expected of the case with this id; None for a case that nobody has looked at yet."""
    return next((outcome for pattern, outcome in OUTCOMES if re.fullmatch(pattern, name)), None)
