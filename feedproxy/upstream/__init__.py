"""Connections to other hosts: the policy for addresses, and the pooled HTTP client."""
