"""Reaching other hosts: what may be reached, and the pooled client that does it."""
