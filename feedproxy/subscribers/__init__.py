"""Subscriber counts of feeds: claimed subscribers and directly observed readers."""
