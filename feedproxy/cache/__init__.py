"""The decisions of RFC 9111 and its extensions for a shared cache, as pure functions. Each module names the sections
that it implements.

The package does not depend on feed formats.
"""
