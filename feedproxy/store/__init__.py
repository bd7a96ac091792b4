"""Stores of responses: memory in front of a disk."""
