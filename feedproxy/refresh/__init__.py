"""Refreshes of stored resources: coordination, fetching, ingestion, and the policies that decide about them."""
