"""Stands: runtimes with no network, each closed at the end."""

from tests.stages.notify import stand, stand_at

__all__ = ["stand", "stand_at"]
