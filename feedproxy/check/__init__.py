"""Lint for publishers: checks that turn observations of a feed into Notes.

`probe.py` sends the requests and returns `FeedObservations` (`observations.py`). `checked_document.py` parses the feed.
Each other module checks one subject. `run_checks.py` calls all checks. Checks send no requests.
"""
