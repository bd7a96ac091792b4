"""A publisher's lint: what was gathered about a feed goes in, Notes come out, and nothing here asks anybody anything.

`observations.py` is what goes in, `document.py` the feed read for its faults; each of the others judges one side of it,
with its Notes below the code that gives them. `run_checks.py` is the whole. (Who asks is check/probe.py.)
"""
