"""Lint for publishers: checks that turn observations of a feed into Notes.

`probe.py` sends the requests and returns `FeedObservations` (`observations.py`). `document.py` parses the feed. Each
other module checks one subject and defines the Notes for it; `run_checks.py` calls them all. Checks send no requests.
"""
