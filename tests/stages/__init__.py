"""Environments for scenarios: the service alone, the addons without sockets, and the whole proxy without and with its
fast path.

A scenario uses `origin`, `proxy` and `clock`, and does not know its stage.
"""
