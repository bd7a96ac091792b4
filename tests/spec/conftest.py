"""Fixtures for the specifications of notifications."""

from tests.stages.notify import stand, stand_at

__all__ = ["stand", "stand_at"]
