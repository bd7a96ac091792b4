"""Benchmarks: the cost of feedproxy compared with other caches. Run `make bench`; benchmarks/README.md describes the
method."""
