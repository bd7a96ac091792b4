"""Coordination of the processes that use one store."""
