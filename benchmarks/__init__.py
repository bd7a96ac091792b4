"""What feedproxy costs, beside other caches: `make bench`; benchmarks/README.md has the method."""
