"""Feed formats: detection, channel, schedule, self link, redirect documents, and conversion.

This package does not depend on the cache.
"""
