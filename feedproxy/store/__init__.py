"""Stores of responses: memory over disk."""
