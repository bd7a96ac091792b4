"""Fixture that opens applications without a network and closes them at the end."""

from tests.stages.notify import stand, stand_at

__all__ = ["stand", "stand_at"]
