"""Subscription by a click in a browser: the Universal Subscription Mechanism (USM)."""
