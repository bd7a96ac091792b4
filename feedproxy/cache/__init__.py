"""Decisions of RFC 9111 and its extensions for a shared cache, as pure functions.

The package does not depend on feed formats.
"""
