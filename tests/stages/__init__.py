"""Where scenarios are played: on the service alone, on the addons without sockets, and on the whole proxy, without and
with its fast path.

A scenario speaks to `origin`, `proxy` and `clock`; which stage it stands on it does not know.
"""
