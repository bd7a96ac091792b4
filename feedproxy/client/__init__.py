"""Helpers of the commands: client of the admin listener, feed discovery, and desktop integration."""
