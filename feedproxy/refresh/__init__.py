"""Refreshes of stored resources: coordination, fetching, ingestion, and policies."""
