"""Lint for publishers: checks of a feed that turn observations into Notes.

`probe.py` sends the requests and returns the `observations.py`; `document.py` reads the feed. Each other module checks
one subject and defines its Notes. `run_checks.py` runs all of them; checks send no requests.
"""
