"""Time limits of tests that wait for an event.

A limit costs nothing if the event occurs. It must be longer than any delay on a busy machine, where a start of half a
second may take twenty seconds, and shorter than pytest's own timeout. Tests assert nothing about durations. To show
that an operation is quick, they compare it with one that would take longer than this limit.
"""

PATIENCE = 90.0
"""Seconds that a test waits for an event."""

NEVER = 3_600
"""Seconds of a delay that no test waits for."""
