"""Modules that the commands use: client of the admin listener, feed discovery, and desktop integration."""
