"""Promises about feeds that the public tests for HTTP caches cannot express, as rows of a table. A row has a situation
(settings, and the steps before), an act (a client's request) and an expectation (the response). test_supplement.py
executes the rows, and docs/reference/conformance-feeds.md is generated from them.
"""
