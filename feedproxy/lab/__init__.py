"""Tests of feed readers: recorded traffic, virtual time, and origins with injected faults."""
