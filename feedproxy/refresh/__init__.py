"""Refreshes of feeds: request collapsing, limits, ingestion, and the guard of the good copy."""
