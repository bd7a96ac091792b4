"""Stands for the specifications that speak of telling and hearing."""

from tests.stages.notify import stand, stand_at

__all__ = ["stand", "stand_at"]
