"""Modules that several commands use: a client of the admin listener, feed discovery, and desktop integration."""
