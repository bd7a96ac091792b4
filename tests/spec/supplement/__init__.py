"""Promises about feeds that the public tests for HTTP caches have no words for, as rows of a table.

A row says what stands where (situation), what a reader asks (act), and what holds then (expectation). The rows are
played in test_supplement.py; docs/reference/conformance-feeds.md is made of them.
"""
