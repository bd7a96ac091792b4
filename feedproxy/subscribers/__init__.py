"""Subscriber counts: claimed and observed readers of feeds."""
