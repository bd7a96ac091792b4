"""How long a test waits for what has to come.

A deadline costs nothing where it comes. It only has to be beyond anything that a busy machine makes of it (a proxy
that starts in half a second starts in twenty where eight others want the same processor), and within pytest's own.
Nothing is asserted of how long something took: what is promised to be quick is set against something that would take
longer than this.
"""

PATIENCE = 90.0
"""Seconds."""

NEVER = 3_600
"""Seconds that nothing waits out: for what must not be waited for."""
