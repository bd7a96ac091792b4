"""Checks of a feed for its publisher. They turn observations of the feed into Notes.

`probe.py` sends the requests and returns `FeedObservations` (`observations.py`). `checked_document.py` parses the feed.
`run_checks.py` calls all checks, and `check_report.py` writes the report. All other modules contain checks, one subject
each, and send no requests.
"""
