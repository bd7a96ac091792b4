"""Where scenarios are played: on the service alone, and on the whole proxy with real sockets.

A scenario speaks to `origin`, `proxy` and `clock`; which stage it stands on it does not know.
"""
