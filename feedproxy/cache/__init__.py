"""The decisions of RFC 9111 for a shared cache, as pure functions. Each module covers one section.

They do not depend on feed formats.
"""
